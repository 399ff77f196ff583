"""Vectors for a testbench of yours: pictures as the bytes of `pixels`, the logits of the reference, and a lesson of a design that learns.

    python docs/benchmarks/vectors.py rtl_out/NAME pictures/ --images 20 --out mine      # pictures/cat/1.jpg, pictures/dog/1.jpg, ...

Writes to the folder of --out, in the forms of golden.hex and expected.hex of the design's folder:

    images.hex      a byte a line, image after image
    expected.hex    32 bits a line, two's complement: the logits of each image after reset, class after class, and a last line of 0

Of a design that learns the lesson is: each image in turn is sent, then learned as its class.  The folder of a picture chooses the number of
the class: that of its name where the design ships one, else the next free number.  It needs three files more:

    lesson.txt      a line a command, in the bits of the port `command`, hexadecimal, behind the number of its image, from 0
    learned.hex     as expected.hex: the logits of each image after the whole lesson
    learned.snap    the state after the lesson, as docs/learner.md#snapshots says

For sim.v copy images.hex and expected.hex into the design's folder, and set GOLDEN_IMAGES, GOLDEN_LOGITS and MAX_IMAGES of parameters.vh.
"""

import argparse
from pathlib import Path

import numpy as np

from fbnn_hw import Design
from fbnn_hw.base import bits
from fbnn_hw.data import folder
from fbnn_hw.design.output import logits_hex
from fbnn_hw.machine.protocol import Command
from fbnn_hw.reference import inference

LABEL = 3  # the lowest bit of the label in the port `command`


def lesson(design, images, labels, names, out):
    """Write the files of a lesson; {class: number} of it."""
    learner = design.learner()
    latents = inference.latents(design.network, images)
    numbers = {name: number for number, name in enumerate(design.classes)}
    lines = []
    for place, label in enumerate(labels):
        latent = latents[place:place + 1]
        number = numbers.setdefault(names[label], len(numbers))
        learner.learn(latent, [number])
        lines.append(f"{place} {int(Command.LEARN) | number << LABEL:x}\n")
    (out / "lesson.txt").write_text("".join(lines))
    (out / "learned.hex").write_text(logits_hex(learner.logits(latents).ravel().tolist()))
    (out / "learned.snap").write_bytes(learner.snapshot())
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("design", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("vectors"))
    args = parser.parse_args()
    design = Design(args.design)
    data = folder.load(args.pictures, "test", design.config.size, resize=True)
    turns = [(data.labels[:place] == label).sum() for place, label in enumerate(data.labels)]
    order = np.argsort(turns, kind="stable")[:args.images]  # a picture of each class, then the next of each
    images, labels = data.images[order], data.labels[order]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "images.hex").write_text(bits.bytes_hex(b"".join(bytes(image) for image in design.pixels(images))))
    if design.config.learning:
        logits = design.learner().logits(inference.latents(design.network, images))
        print(lesson(design, images, labels, data.classes, args.out))
    else:
        logits = inference.logits(design.network, images)
    (args.out / "expected.hex").write_text(logits_hex(logits.ravel().tolist()))
    print(f"{args.out}: {len(images)} images, {logits.size} logits after reset")


if __name__ == "__main__":
    main()
