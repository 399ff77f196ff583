"""A checkpoint with room, from which a chip of `--weights ram` is generated: the thresholds and the classes that a later network may have.

    python docs/benchmarks/room.py 0.5mb.pt --like 0.5mb-t.pt --classes 16 --out roomy.pt        # with pip install '.[train]'

Each layer that has thresholds in the file of `--like`, of the same layers, gets thresholds of 0 where it has none.  Spare classes are
copies of class 0: ties go to the lowest class, so they are never the answer.  Logits and classes of images stay.
"""

import argparse
from dataclasses import replace

import numpy as np

import fbnn_hw
from fbnn_hw.base.errors import UsageError


def roomy(network, like, classes):
    """The network with the thresholds that `like` has, at 0 where it has none, and with so many classes."""
    topology, (*ops, last) = network.topology, network.topology.ops
    spare = classes - last.out_channels
    if like.topology.ops[:-1] != topology.ops[:-1] or spare < 0:
        raise UsageError(f"room: found other layers, or more than {classes} classes, expected those of --like, and at most --classes")
    zeros = {name: np.zeros_like(values) for name, values in like.thresholds.items()}
    rows = network.weights[last.name]
    weights = network.weights | {last.name: np.concatenate([rows, rows[:1].repeat(spare, 0)])}
    more = replace(topology, ops=(*ops, replace(last, out_channels=classes)),
                   classes=topology.classes + tuple(f"spare {number}" for number in range(spare)))
    return replace(network, topology=more, weights=weights, thresholds=zeros | network.thresholds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--like", required=True)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    from fbnn_hw.nn.checkpoint import save

    save(args.out, roomy(fbnn_hw.load(args.model), fbnn_hw.load(args.like), args.classes))


if __name__ == "__main__":
    main()
