"""Well-formed checkpoints of networks that nobody trains: maps that double with each layer, groups of one channel, channels read in any
order, images of 2 or 512 pixels, hundreds of layers.  They are sound, so `generate` takes the time that they ask for."""

import numpy as np

from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from tests import strategies

from . import mutators
from .runner import Case

SIZES = (2, 3, 8, 9, 32, 64, 512)
MOST_WEIGHTS = 2 ** 22
MOST_MACS = 2 ** 27
"""More than that is work that a network asks for, and takes its time."""


def case(rng, world, folder):
    network = strategies.fill(topology(rng), int(rng.integers(1000)), float(rng.random() < 0.3))
    checkpoint.save(folder / "x.pt", network)
    np.save(folder / "x.npy", np.zeros((1, 3, network.topology.image_size, network.topology.image_size), np.uint8))
    words = mutators.some(rng, (
        ("inspect", "x.pt"), ("classify", "x.npy", "--model", "x.pt", "--backend", "reference"),
        ("classify", "x.npy", "--model", "x.pt", "--backend", "torch")))
    return Case(list(words), folder)


def topology(rng):
    """A legal one, drawn again until its work is small."""
    while True:
        drawn = _drawn(rng)
        try:
            drawn.verify()
        except InputError:  # too many channels
            continue
        macs = sum(layer.macs(*drawn.input_shapes(layer)) for layer in drawn.ops)
        if drawn.weight_bits() <= MOST_WEIGHTS and macs <= MOST_MACS:
            return drawn


def _drawn(rng):
    layers = [op.Thermometer("input", (), "trgb", int(mutators.some(rng, SIZES)), int(mutators.some(rng, (2, 4, 8, 128))))]
    shapes = {"input": layers[0].output_shape()}
    for number in range(int(mutators.some(rng, (1, 3, 8, 12, 12, 40, 300)))):
        layer = _layer(rng, f"l{number}", list(shapes))
        try:
            shapes[layer.name] = layer.output_shape(*(shapes[name] for name in layer.inputs))
        except InputError:
            continue
        layers.append(layer)
    layers.append(op.Gap("pooled", (layers[-1].name,)))
    if rng.random() < 0.5:
        layers.append(op.Dense("latent", ("pooled",), int(mutators.some(rng, (1, 16, 33, 1024)))))
    classes = int(mutators.some(rng, (1, 2, 10, 1000)))
    layers.append(op.Dense("logits", (layers[-1].name,), classes, logits=True))
    return Topology("odd", tuple(layers), tuple(f"c{number}" for number in range(classes)))


def _layer(rng, name, names):
    """A layer behind the others, which may be illegal there."""
    before = names[-1]
    match int(rng.integers(8)):
        case 0 | 1:
            return op.Concat(name, (before, mutators.some(rng, names) if rng.random() < 0.3 else before))
        case 2:
            return op.Duplicate(name, (before,), int(mutators.some(rng, (1, 2, 3, 8))))
        case 3:
            return op.Slice(name, (before,), int(mutators.some(rng, (0, 1, 5))), int(mutators.some(rng, (6, 7, 12, 64))))
        case 4:
            return op.Shuffle(name, (before,), int(mutators.some(rng, (1, 2, 3))))
        case 5:
            return op.MaxPool(name, (before,))
        case _:
            return op.Conv(name, (before,), int(mutators.some(rng, (1, 6, 12, 24, 63, 64))), int(mutators.some(rng, (1, 3, 5))),
                           int(mutators.some(rng, (1, 1, 2))), int(mutators.some(rng, (1, 1, 2, 6))))
