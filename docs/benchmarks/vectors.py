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

The folder lesson in that of --out has this lesson ready to run, with the design's own testbench.v; each logit after it against learned.hex:

    cd mine/lesson && iverilog -g2012 -s lesson -o lesson.vvp *.v && vvp lesson.vvp

For sim.v copy images.hex and expected.hex into the design's folder, and set GOLDEN_IMAGES, GOLDEN_LOGITS and MAX_IMAGES of parameters.vh.
"""

import argparse
import re
import shutil
from pathlib import Path

import numpy as np

from fbnn_hw import Design
from fbnn_hw.base import bits
from fbnn_hw.data import folder
from fbnn_hw.design.output import logits_hex
from fbnn_hw.machine.protocol import Command
from fbnn_hw.reference import inference
from fbnn_hw.simulate.simulation import SOURCES

LABEL = 3  # the lowest bit of the label in the port `command`
BENCH = """// A lesson through testbench.v: each image, then its command; then all images once more, each logit against learned.hex.
`include "parameters.vh"
`timescale 1ns / 1ps

module lesson;
    localparam IMAGES = {images}, LOGITS = {logits};
    reg clk = 0, rst = 1;
    always #5 clk = !clk;
    initial #40 rst = 0;

    reg [31:0] commands [0:IMAGES - 1];
    initial $readmemh("commands.hex", commands);
    reg [31:0] images = 1, learned = 0;
    wire [31:0] frames;
    wire answered, refused;
    wire asks = frames == learned + 1 && learned < IMAGES;
    testbench bench (.clk(clk), .rst(rst), .images(images), .stall(1'b0), .want_latent(1'b0), .ask({{1'b0, asks}}),
                     .request({{32'b0, commands[learned % IMAGES]}}), .answered(answered), .refused(refused), .frames(frames));
    wire [31:0] seen, wrong;
    logits_compared #(.COUNT(LOGITS), .FILE("learned.hex")) check (
        .clk(clk), .taken(!rst && learned == IMAGES && bench.logit_valid && bench.logit_ready), .logit(bench.score),
        .seen(seen), .wrong(wrong));
    always @(posedge clk) if (!rst) begin
        if (asks && answered) begin
            learned <= learned + 1;
            images <= learned + 1 == IMAGES ? 2 * IMAGES : images + 1;
        end
        if (frames == 2 * IMAGES) begin
            if (refused || wrong != 0 || seen != LOGITS) $fatal(1, "%0d logits of %0d, %0d wrong", seen, LOGITS, wrong);
            $display("all %0d logits after the lesson are the reference's", seen);
            $finish;
        end
    end
endmodule
"""
COPIED = "sim.v", "weights.hex", *SOURCES
"""Files of a design that the lesson needs, where there are such; `logits_compared` of sim.v."""


def lesson(design, latents, labels, names, out):
    """Write the files of a lesson of images with these latents; {class: number} of it."""
    learner, commands = design.learner(), []
    numbers = {name: number for number, name in enumerate(design.classes)}
    for latent, label in zip(latents, labels):
        number = numbers.setdefault(names[label], len(numbers))
        learner.learn(latent[None], [number])
        commands.append(f"{Command.LEARN | number << LABEL:x}\n")
    logits = learner.logits(latents)
    (out / "lesson.txt").write_text("".join(f"{place} {command}" for place, command in enumerate(commands)))
    (out / "learned.hex").write_text(logits_hex(logits.ravel().tolist()))
    (out / "learned.snap").write_bytes(learner.snapshot())
    bench = out / "lesson"
    bench.mkdir(exist_ok=True)
    for name in COPIED:
        if (design.folder / name).exists():
            shutil.copy(design.folder / name, bench)
    shutil.copy(out / "learned.hex", bench)
    parameters = re.sub(r"(?m)^(`define DUMP\(STEPS\)|`define MAX_IMAGES).*$",
                        lambda line: line[1] + f" {2 * len(latents)}" * ("MAX" in line[1]), design.read("parameters.vh").decode())
    (bench / "parameters.vh").write_text(parameters)
    (bench / "lesson.v").write_text(BENCH.format(images=len(latents), logits=logits.size))
    (bench / "commands.hex").write_text("".join(commands))
    (bench / "images.hex").write_text(2 * (out / "images.hex").read_text())
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
        latents = inference.latents(design.network, images)
        logits = design.learner().logits(latents)
        print(lesson(design, latents, labels, data.classes, args.out))
    else:
        logits = inference.logits(design.network, images)
    (args.out / "expected.hex").write_text(logits_hex(logits.ravel().tolist()))
    print(f"{args.out}: {len(images)} images, {logits.size} logits after reset")


if __name__ == "__main__":
    main()
