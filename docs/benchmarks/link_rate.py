"""Images/s at the end of a board's line, simulated: the link, its line and the accelerator in Verilator, and a host that needs no time.

    python docs/benchmarks/link_rate.py DIR --clock MHZ [--baud N] [--ahead] [--images N]

DIR: what `fbnn-hw generate` wrote.  A bit on the line takes as many clocks as in a build for an iCEBreaker.  The host sends an image when
the answer to the one before has come; with --ahead, to the one before that.  Every class is compared with the reference.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from fbnn_hw.design import Design
from fbnn_hw.machine import protocol
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.line import pass_bytes
from fbnn_hw.reference import inference
from fbnn_hw.rtl.uart import divider
from fbnn_hw.simulate import virtual
from fbnn_hw.targets.boards import board as find_board

BOARD = "icebreaker"
LIMIT = 100_000_000
"""Cycles within which the board must come to rest."""


def script(images, flags, answer_bytes, most):
    """Records for board.cpp: the images, of which at most `most` have no answer."""
    records = bytearray([0, 0, 0, 6])
    for number, image in enumerate(images):
        if number >= most:
            records += (answer_bytes * (number - most + 1)).to_bytes(2, "little") + bytes([0, 8])
        for byte in protocol.encode(protocol.Opcode.CLASSIFY | flags, image, number & 0xFF):
            records += bytes([0, 0, byte, 0])
    return bytes(records)


def measure(folder, images, clocks, ahead, work):
    """(classes, cycles of the end of each answer from the start of the first image) of images as the design takes them."""
    config = AcceleratorConfig.from_json((folder / "config.json").read_text())
    sources = virtual.board_sources(folder, work, clocks, ahead=ahead)
    program = virtual.verilate(sources, work, [work])
    size = pass_bytes(config.size, config.classes)[1]
    (work / "script").write_bytes(script(images, protocol.LOGITS, size, 2 if ahead else 1))
    done = subprocess.run([program, str(clocks), "20800", "script", str(LIMIT)], cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the virtual board ended with {done.returncode}: {done.stderr}")
    replies = protocol.Decoder(protocol.LONGEST_PAYLOAD).feed(bytes.fromhex(done.stdout.split("\n")[1]))
    times = [int(word) for line in done.stderr.splitlines() if line.startswith("times") for word in line.split()[1:]]
    assert len(replies) == len(images) and len(times) == size * len(images), done.stderr
    return [int.from_bytes(payload[-2:], "little") for _, _, payload in replies], times[size - 1::size]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clock", type=float, required=True)
    parser.add_argument("--baud", type=int)
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--images", type=int, default=4)
    args = parser.parse_args()
    design, clock_hz = Design(args.folder), args.clock * 1e6
    clocks = divider(clock_hz, args.baud or find_board(BOARD).baud(clock_hz))
    pictures = np.random.default_rng(1).integers(0, 256, (args.images, 3, design.config.size, design.config.size), np.uint8)
    work = args.folder.absolute() / f"sim_build_line_{clocks}{'_ahead' * args.ahead}"
    classes, ends = measure(args.folder, design.pixels(pictures), clocks, args.ahead, work)
    expected = inference.classify(inference.logits(design.network, pictures)).tolist()
    if classes != expected:
        raise SystemExit(f"classes {classes}, expected {expected}")
    steady = (ends[-1] - ends[0]) / (len(ends) - 1)
    print(f"{clocks} clocks a bit, {clock_hz / clocks:,.0f} baud; {len(ends)} images in {ends[-1]:,} cycles, each class right; "
          f"{steady:,.0f} cycles from answer to answer: {clock_hz / steady:.1f} images/s at {args.clock:g} MHz (simulated)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
