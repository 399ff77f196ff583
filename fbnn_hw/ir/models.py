"""The topologies that have names, from the paper and scaled from it.  No torch here: a topology is plain data.

True sizes with 10 classes, in Mbit (10^6 bits): 0.5mb 0.53, 1mb 1.09, 3mb 2.76, 9mb 8.31, 24mb 28.3; res3mb, for 128x128, 2.86
(the paper's names say 3, 9 and 24; `fbnn-hw inspect` prints the exact number of a file).  fast (1.27), tiny (0.82) and res-small
(0.73, for 64x64) are ours, laid out by the planner's cycles on an ice40 UP5K: few channels where maps are large, bits where they are
small.
"""

import inspect
import math
from itertools import count
from typing import NamedTuple

from ..base.errors import InputError, UsageError, show, whole
from . import ops as op
from .network import LATENT, Topology

SMALLEST_UNPADDED = 4
"""Pixels a side of the smallest map that `blockwise` convolves without padding, so that 2 are left for the pool."""
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def vgg(name, classes, width=1.0, encoder="tycc", size=32, latent=1024, hidden=128, pooling="lgap", depth=1):
    """The paper's VGG-like FBNN (Fig. `baseline`): 3 blocks of 2 grouped convolutions, LGAP, dense latent, DenseSkip.

    width scales the filters of the convolutions (128, 256, 512); the latent keeps `latent` bits.  pooling, depth: as of `blockwise`.
    """
    blocks = tuple(((round(filters * width), groups),) * 2 for filters, groups in ((128, 1), (256, 2), (512, 4)))
    return blockwise(name, classes, blocks, encoder, size, latent, hidden, pooling, depth)


class Convolution(NamedTuple):
    """A 3x3 convolution of `blockwise`; shuffle: groups of a channel shuffle before it, 1 for none."""

    filters: int
    groups: int = 1
    stride: int = 1
    padding: str | int = "same"
    shuffle: int = 1


def blockwise(name, classes, blocks, encoder="tycc", size=32, latent=1024, hidden=128, pooling="lgap", depth=1, levels=None):
    """Blocks of 3x3 convolutions, each block with a pool at its end, then the classifier of `vgg`.

    blocks: for each block, each `Convolution` or a tuple of its first fields.  A map of 2 or 3 pixels a side is always padded.  pooling:
    what makes a vector of the last map, "lgap", "gap", "depthwise" or "flatten".  depth: DenseSkip blocks behind the latent.  levels: of
    the encoder, the paper's if None; "tycc" has twice as many of luma.
    """
    levels = levels or (op.TRGB_LEVELS if encoder == "trgb" else op.TYCC_LEVELS)
    layers = [op.Thermometer("input", (), encoder, size, levels)]

    def add(cls, *args, name, inputs=None, **kwargs):
        layers.append(cls(name, inputs or (layers[-1].name,), *args, **kwargs))

    numbers = count(1)
    side = size
    for number, convolutions in enumerate(blocks, start=1):
        for conv in (Convolution(*fields) for fields in convolutions):
            at = next(numbers)
            if conv.shuffle > 1:
                add(op.Shuffle, conv.shuffle, name=f"shuffle{at}")
            padding = "same" if side < SMALLEST_UNPADDED else conv.padding
            add(op.Conv, conv.filters, name=f"conv{at}", stride=conv.stride, groups=conv.groups, padding=padding)
            side = (side - (1 if padding == "same" else 3)) // conv.stride + 1
        add(op.MaxPool, name=f"pool{number}")
        side //= 2
    last = layers[-1].name
    if pooling == "lgap":
        add(op.Gap, name="gap", inputs=(last,))
        add(op.Depthwise, name="depthwise", inputs=(last,))
        add(op.Concat, name="lgap", inputs=("gap", "depthwise"))
    else:
        add({"gap": op.Gap, "depthwise": op.Depthwise, "flatten": op.Flatten}[pooling], name=pooling)
    return _classified(name, layers, classes, latent, hidden, depth)


def _classified(name, layers, classes, latent, hidden, depth=1):
    """The topology of layers that end in a vector, with the paper's classifier after them: a dense latent, then `depth` times DenseSkip.

    With depth 0 the logits read the latent, twice as DenseSkip does.
    """
    classifier, last = [op.Dense(LATENT, (layers[-1].name,), latent)], LATENT
    for number in ("", *range(2, depth + 1))[:depth]:
        classifier += [op.Duplicate(f"{last}_twice", (last,)), op.Dense(f"hidden{number}", (f"{last}_twice",), hidden, 2),
                       op.Concat(f"skip{number}", (last, f"hidden{number}"))]
        last = f"skip{number}"
    classifier += [op.Duplicate(f"{last}_twice", (last,)), op.Dense("logits", (f"{last}_twice",), len(classes), logits=True)]
    return Topology(name, (*layers, *classifier), tuple(classes))


def residual(name, classes, encoder="tycc", size=128, latent=1024, hidden=128, stem=64, stages=((128, 5), (256, 5), (512, 4)), groups=8,
             depth=1):
    """Topology of 3Mb-Res-BNN, for larger images (paper, section `core50bnn`).

    A stem of stride 2 is followed by three stages of C = 128, 256 and 512 channels, then by LGAP and
    the classifier of `vgg`.  The paper leaves widths and groups open; with the ones here it has
    2,955,264 bits with 50 classes.

    stem: channels of the stem.  stages: C and the number of residual blocks of each stage.  groups: of
    the 3x3 convolutions after the stem.  depth: as of `blockwise`.

    - A stage is a down block and 5, 5 or 4 residual blocks.
    - A down block has two branches, which give C / 2 channels each: 1x1, 3x3 of stride 2, 1x1; and
      3x3 of stride 2, 1x1.
    - A residual block sends half of the channels through 1x1, 3x3, 1x1, and leaves the others as they
      are.
    - Both kinds of block end in a concat and a shuffle of 2.
    """
    levels = op.TRGB_LEVELS if encoder == "trgb" else op.TYCC_LEVELS
    layers = [op.Thermometer("input", (), encoder, size, levels), op.Conv("stem", ("input",), stem, 3, 2)]

    def add(cls, name, source, *args, **kwargs):
        layers.append(cls(name, source if isinstance(source, tuple) else (source,), *args, **kwargs))
        return name

    x = "stem"
    for stage, (channels, blocks) in enumerate(stages, start=1):
        half = channels // 2
        for block in range(blocks + 1):
            at = f"s{stage}b{block}"
            stride = 1 if block else 2
            main, rest = x, x
            if block:
                main, rest = add(op.Slice, f"{at}_half", x, 0, half), add(op.Slice, f"{at}_rest", x, half, channels)
            y = add(op.Conv, f"{at}_in", main, half, 1)
            y = add(op.Conv, f"{at}_mid", y, half, 3, stride, groups)
            y = add(op.Conv, f"{at}_out", y, half, 1)
            if not block:
                rest = add(op.Conv, f"{at}_side", x, half, 3, 2, groups)
                rest = add(op.Conv, f"{at}_side_out", rest, half, 1)
            y = add(op.Concat, f"{at}_join", (y, rest))
            x = add(op.Shuffle, f"{at}_shuffle", y, 2)
    add(op.Gap, "gap", x)
    add(op.Depthwise, "depthwise", x)
    add(op.Concat, "lgap", ("gap", "depthwise"))
    return _classified(name, layers, classes, latent, hidden, depth)


MODELS = {
    "0.5mb": dict(width=1 / 4),
    "1mb": dict(width=1 / 2),
    "3mb": dict(width=1.0),
    "9mb": dict(width=2.0),
    "24mb": dict(width=4.0),
    "res3mb": dict(family=residual, size=128),
    "res-small": dict(family=residual, size=64, stem=32, stages=((64, 1), (128, 1), (256, 1)), groups=2, latent=512, hidden=64),
    "fast": dict(family=blockwise, latent=512, hidden=32, pooling="flatten",
                 blocks=((Convolution(96, stride=2), Convolution(128)), (Convolution(192),), (Convolution(384, padding=0),))),
    "tiny": dict(family=blockwise, latent=256, hidden=32, pooling="flatten",
                 blocks=((Convolution(48, stride=2), Convolution(64)), (Convolution(160),), (Convolution(384, padding=0),))),
}
FLOATING = {f"fpnn_{kind}{size and f'-{size}'}": (kind, size or "3mb") for size in ("", "0.5mb", "1mb", "9mb", "24mb") for kind in "bp"}
"""Names of the floating-point baselines: b as many bits as the binary model, p as many weights; 0.5mb and 1mb are ours, for teachers."""
AIRBENCH = "airbench"
"""Name of a float network that is made to teach, `nn.floating.Airbench`."""


CHOICES = {"encoder": ("tycc", "trgb", "grey"), "pooling": ("lgap", "gap", "depthwise", "flatten")}
"""Words that an option of `build` may be."""


def build(name, classes=CIFAR10, **options):
    """Topology of the model `name` for the class names `classes` (or a number of classes).

    options: override those of `vgg`, `blockwise` or `residual`.  Raises UsageError for a name, a class or an option that will not do.
    """
    if not isinstance(name, str) or name not in MODELS:
        raise UsageError(f"--model {name}: no such model, expected one of {', '.join(MODELS)}")
    if whole(classes, 1):
        classes = tuple(f"class{i}" for i in range(classes))
    if not isinstance(classes, list | tuple) or not all(isinstance(label, str) for label in classes):
        raise UsageError(f"classes: found {show(classes)}, expected a list of names or their number")
    for option, value in options.items():
        if option in ("size", "latent", "hidden") and not whole(value, 1):
            raise UsageError(f"{option}: found {show(value)}, expected a whole number from 1")
        if option == "depth" and not whole(value, 0):
            raise UsageError(f"depth: found {show(value)}, expected a whole number from 0")
        if option in CHOICES and value not in CHOICES[option]:
            raise UsageError(f"{option}: found {show(value)}, expected one of {', '.join(CHOICES[option])}")
        if option == "width" and not (isinstance(value, float | int) and 0 < value < math.inf):
            raise UsageError(f"width: found {show(value)}, expected a number above 0")
    family = MODELS[name].get("family", vgg)
    if unknown := options.keys() - inspect.signature(family).parameters.keys():
        raise UsageError(f"--model {name}: has no {', '.join(sorted(unknown))} to choose, expected none")
    topology = family(name, classes, **{key: value for key, value in (MODELS[name] | options).items() if key != "family"})
    try:
        topology.verify()
    except InputError as error:
        size = topology.ops[0].size
        raise UsageError(f"--model {name} for images of {size} x {size} pixels: {error}") from error
    return topology
