"""MLPerf Tiny's image classification on a board: its 200 pictures, by the serial commands of a device under test.

    python docs/benchmarks/mlperf.py FOLDER [--design DIR] [--board virtual|interpreted | --port PORT] [--clock MHZ] [--seconds S]
    python docs/benchmarks/mlperf.py --serve [--design DIR] [--board virtual|interpreted | --port PORT] [--clock MHZ]

FOLDER: pictures of 3,072 bytes, RGB, a row of pixels after the other, and y_labels.csv with a line "file,10,class" for each, as
github.com/eembc/energyrunner has them in datasets/ic01 (commit 00bc683).  The first command answers as a device on a pseudo terminal, and
runs the two modes of the benchmark at its other end: performance, five pictures for S seconds each (10 by the rules; 0, a picture once,
for a simulated board), and accuracy, all pictures.  The second command prints the name of the terminal and waits for another runner.

The image is in the device before the time of an inference begins, as the rules have it.  The time is that of the accelerator, from the
last byte of the image to the first logit: the clocks that the board counts, at --clock MHz.  The time of the line is not in it.

Ref: api/internally_implemented.cpp of github.com/mlcommons/tiny (commands and answers), benchmark/runner (modes).
"""

import argparse
import csv
import os
import re
import statistics
import threading
import tty
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fbnn_hw.base.errors import FbnnError
from fbnn_hw.board import Board
from fbnn_hw.design import Design
from fbnn_hw.design.find import newest

SIDE, CLASSES, PICTURE = 32, 10, 3 * 32 * 32
END = b"%"
MOST = 26
"""Bytes of a picture in a command, whose buffer a device may bound to 80 characters."""
PERFORMANCE, WARMUPS = 5, 10
FIRMWARE, MODEL = "ULPMark for tinyML Firmware V0.0.1", "ic01"


class Device:
    """The commands of a device under test, answered by a board.  clock_hz: of its accelerator."""

    def __init__(self, board, clock_hz):
        self.board, self.clock_hz = board, clock_hz
        self.size, self.data, self.cycles, self.logits = 0, b"", 0, []

    def answers(self, command):
        """The lines that a command gets."""
        words = command.split()
        match words:
            case ["name"]:
                yield f"m-name-dut-[{self.board.client.name}]"
            case ["timestamp"]:
                yield self._time()
            case ["profile"]:
                yield from (f"m-profile-[{FIRMWARE}]", f"m-model-[{MODEL}]")
            case ["help"]:
                yield from (FIRMWARE, "name, timestamp, profile, db load N, db HH[HH]*, db print, infer N [W], results")
            case ["db", *rest]:
                yield from self._db(rest)
            case ["infer", *rest]:
                yield from self._infer(rest)
            case ["results"]:
                yield self._results()
            case _:
                yield f"e-[Unknown command: {command}]"
        yield "m-ready"

    def _time(self):
        return f"m-lap-us-{round(self.cycles / self.clock_hz * 1e6)}"

    def _results(self):
        return f"m-results-[{','.join(f'{logit:.3f}' for logit in self.logits)}]"

    def _db(self, words):
        match words:
            case ["load", count] if count.isdecimal() and int(count) == PICTURE:
                self.size, self.data = PICTURE, b""
                yield f"m-[Expecting {count} bytes]"
            case ["load", *_]:
                yield f"e-[Command 'db load' takes {PICTURE} bytes]"
            case ["print"]:
                yield from (f"m-buffer-{'-'.join(f'{byte:02x}' for byte in self.data[i:i + 8])}" for i in range(0, len(self.data), 8))
            case [digits] if re.fullmatch("([0-9a-fA-F]{2})+", digits):
                self.data = (self.data + bytes.fromhex(digits))[:self.size]
                if self.data and len(self.data) == self.size:
                    yield "m-load-done"
            case _:
                yield "e-[Command 'db' takes load N, print, or pairs of hex digits]"

    def _infer(self, words):
        counts = [int(word) if word.isdecimal() else -1 for word in words] or [1]
        count, warmups = (*counts, WARMUPS)[:2]
        if len(counts) > 2 or count < 1 or warmups < 0:
            yield "e-[Command 'infer' takes iterations from 1 and warm-ups from 0]"
        elif len(self.data) < PICTURE:
            yield f"e-[Command 'infer' needs a picture of {PICTURE} bytes]"
        else:
            yield f"m-warmup-start-{warmups}"
            self._classify(warmups)
            yield from ("m-warmup-done", f"m-infer-start-{count}", self._time())
            self._classify(count)
            yield from (self._time(), "m-infer-done", self._results())

    def _classify(self, count):
        image = np.frombuffer(self.data, np.uint8).reshape(1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)
        for _ in range(count):
            answer = self.board.classify(image)
            self.cycles += answer.cycles[0]
            self.logits = answer.logits[0].tolist()


def serve(device, line):
    """Answer the commands that come over a file descriptor, until it ends."""
    def say(*lines):
        os.write(line, "".join(f"{each}\r\n" for each in lines).encode())
    say("m-init-done", "m-ready")
    waiting = b""
    while True:
        try:
            data = os.read(line, 4096)
        except OSError:  # the other end has closed
            return
        *commands, waiting = (waiting + data).split(END)
        for command in commands:
            try:
                for answer in device.answers(command.decode("ascii", "replace").strip()):
                    say(answer)
            except FbnnError as error:
                say(f"e-[{error}]", "m-ready")


class Runner:
    """The other end of the line, a binary file: sends commands and reads what they get."""

    def __init__(self, line):
        self.line = line
        self._until_ready()
        if f"m-model-[{MODEL}]" not in self.ask("profile"):
            raise SystemExit(f"the device runs another model, expected {MODEL}")

    def _until_ready(self):
        lines = iter(lambda: self.line.readline().decode().rstrip("\r\n"), "m-ready")
        found = list(lines)
        if errors := [line for line in found if line.startswith("e-")]:
            raise SystemExit(f"the device answers {errors[0]}")
        return found

    def ask(self, command):
        """The lines that a command gets."""
        self.line.write(command.encode() + END)
        self.line.flush()
        return self._until_ready()

    def infer(self, picture, count, warmups):
        """(logits, seconds of an inference) of a picture's bytes."""
        self.ask(f"db load {len(picture)}")
        loaded = [self.ask(f"db {picture[i:i + MOST].hex()}") for i in range(0, len(picture), MOST)]
        assert loaded[-1] == ["m-load-done"] and not any(loaded[:-1])
        answers = "\n".join(self.ask(f"infer {count} {warmups}"))
        first, last = (int(lap) for lap in re.findall(r"^m-lap-us-(\d+)$", answers, re.MULTILINE))
        [results] = re.findall(r"^m-results-\[(.*)\]$", answers, re.MULTILINE)
        return [float(result) for result in results.split(",")], (last - first) / count / 1e6


def pictures(folder):
    """[(bytes, class)] of the folder's pictures."""
    with open(folder / "y_labels.csv", newline="") as labels:
        found = [((folder / name).read_bytes(), int(label)) for name, _, label in csv.reader(labels)]
    if wrong := [len(data) for data, _ in found if len(data) != PICTURE]:
        raise SystemExit(f"{folder}: a picture of {wrong[0]} bytes, expected {PICTURE}")
    return found


def run(runner, found, seconds):
    """(share of right answers, inferences a second) of pictures, as `pictures` gives them."""
    rates = []
    for picture, _ in found[:PERFORMANCE]:
        _, once = runner.infer(picture, 1, 0)
        _, time = runner.infer(picture, max(1, round(seconds / once)), WARMUPS if seconds else 0)
        rates.append(1 / time)
    right = sum(np.argmax(runner.infer(picture, 1, 0)[0]) == label for picture, label in tqdm(found, "pictures", disable=None))
    return right / len(found), statistics.median(rates)


def opened(args, design):
    """The context manager of the board."""
    if args.port:
        return Board.open(args.port, design)
    return {"virtual": Board.virtual, "interpreted": Board.interpreted}[args.board](design)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--design", type=Path)
    parser.add_argument("--board", choices=("virtual", "interpreted"), default="virtual")
    parser.add_argument("--port")
    parser.add_argument("--clock", type=float, default=33, metavar="MHZ")
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    if args.serve == bool(args.folder):
        parser.error("expected a folder of pictures, or --serve")
    found = [] if args.serve else pictures(args.folder)
    with ExitStack() as stack:
        design = Design(args.design or newest())
        device = Device(stack.enter_context(opened(args, design)), args.clock * 1e6)
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        if args.serve:
            print(os.ttyname(theirs), flush=True)
            return serve(device, ours)
        threading.Thread(target=serve, args=(device, ours), daemon=True).start()
        right, rate = run(Runner(stack.enter_context(open(theirs, "r+b", buffering=0))), found, args.seconds)
    print(f"Top-1: {100 * right:.1f}%\nMedian throughput is {rate:.3f} inf./sec.  ({1e3 / rate:.3f} ms)")


if __name__ == "__main__":
    main()
