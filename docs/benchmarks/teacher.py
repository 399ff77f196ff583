"""What a teacher needs of a training state, in a file small enough to ship: the weights of the best epoch, in float16.

    python docs/benchmarks/teacher.py teacher.state fbnn_hw/checkpoints/airbench.state

`fbnn-hw train --teacher` takes the file; no run can be resumed from it.
"""

import argparse

import torch

KEPT = ("format", "version", "config", "data", "architecture", "best_epoch", "best_score")


def slim(state):
    """The part of a training state that `train.teacher.Teacher` reads."""
    best = {name: values.half() if values.is_floating_point() else values for name, values in state["best"].items()}
    return {**{key: state[key] for key in KEPT}, "best": best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state")
    parser.add_argument("out")
    args = parser.parse_args()
    torch.save(slim(torch.load(args.state, weights_only=True, map_location="cpu")), args.out)


if __name__ == "__main__":
    main()
