"""A checkpoint of other widths that begins with the bits of a trained one, for `fbnn-hw train --init`.

    python docs/benchmarks/grown.py fast.pt fast OUT.pt

The second argument names a model; its layers have the names of the checkpoint's.  A weight that both have stays, with the threshold of
its output.  A weight of a channel or neuron that the checkpoint lacks is drawn (--seed).  Where the model has fewer levels in its
thermometer code, each of its levels takes the place of several: the sign of the sum of their weights, and the first one's in a draw.
"""

import argparse
import sys

import numpy as np

from fbnn_hw.base import bits
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import Network
from fbnn_hw.ir.shipped import load
from fbnn_hw.nn.checkpoint import save


def fewer_levels(weights, old, new):
    """Signs of the first layer, (out, channels, k, k), for the planes of levels `new` in place of `old`."""
    parts, start = [], 0
    for had, has in zip(old, new):
        plane = weights[:, start:start + had].reshape(len(weights), has, had // has, *weights.shape[2:])
        total = plane.sum(2)
        parts.append(np.where(total, np.sign(total), plane[:, :, 0]))
        start += had
    return np.concatenate(parts, 1)


def grown(network, topology, source):
    """`Network` of `topology` with what `network` has of its weights and thresholds, and signs drawn from `source`."""
    before, after = network.topology.ops[0].planes, topology.ops[0].planes
    ratio = sum(before) // sum(after)  # of levels, in the layers that read the code
    readers = {op.name for op in topology.ops if topology.ops[0].name in op.inputs}
    weights, thresholds = {}, {}
    for name, shape in topology.weight_shapes().items():
        old = bits.from_bits(network.weights[name])
        if name in readers and ratio > 1:
            old = fewer_levels(old, before, after)
        new = source.choice(np.array([-1, 1], np.int8), shape)
        common = tuple(slice(min(pair)) for pair in zip(old.shape, shape))
        new[common] = old[common]
        weights[name] = bits.to_bits(new)
    for name, old in network.thresholds.items():
        new = np.zeros(topology.threshold_shape(name), np.int32)
        kept = old[:len(new)]
        new[:len(kept)] = kept // ratio if name in readers else kept
        thresholds[name] = new
    return Network(topology, weights, thresholds, network.training)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="FILE.pt")
    parser.add_argument("model", help="name of a model")
    parser.add_argument("out", metavar="OUT.pt")
    parser.add_argument("--seed", type=int, default=0, help="of the weights that are drawn (default: 0)")
    arguments = parser.parse_args()
    network = load(arguments.checkpoint)
    made = grown(network, build(arguments.model, network.topology.classes), np.random.default_rng(arguments.seed))
    save(arguments.out, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
