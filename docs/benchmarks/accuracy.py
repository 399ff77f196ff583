"""Accuracy on CIFAR-10 against frames/s on an iCE40UP5K, weight bits and MACs: a picture, and the first table of results/training.md.

    python docs/benchmarks/accuracy.py            writes docs/img/accuracy.svg and the table
    python docs/benchmarks/accuracy.py --check    exit code 1 if one is out of date

Ours are the shipped checkpoints of ten classes, with the accuracy that their record states, and the frames/s of the fastest build in
boards/ that is of today's Verilog, does not learn and takes one frame a pass.  Peers are in peers.json, each with its source; `speed` is in
frames/s on `device`, and `frames_per_second`, in the picture, on an iCE40UP5K.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import marked

from fbnn_hw.ir import shipped
from fbnn_hw.report.svg import Canvas

HERE = Path(__file__).parent
PICTURE = HERE.parent / "img" / "accuracy.svg"
PAGE = HERE.parent / "results" / "training.md"
BEGIN = "<!-- accuracy: docs/benchmarks/accuracy.py -->"
PUBLISHED = "<!-- peers: docs/benchmarks/accuracy.py -->"
NETWORKS = ("3mb-t", "3mb", "1mb-t", "1mb", "0.5mb-t", "0.5mb", "fast", "tiny")
PANELS = (("frames_per_second", "frames/s on an iCE40UP5K", "{:g}".format), ("weight_bits", "weight bits", lambda v: f"{v / 1e6:g} M"),
          ("macs", "MACs an image", lambda v: f"{v / 1e6:g} M"))
OURS, THEIRS, INK, FAINT, PAPER = "#0072b2", "#d55e00", "#333333", "#dddddd", "#ffffff"
LEFT, TOP, SIDE, GAP, LOW, HIGH = 56, 40, 260, 34, 0.68, 0.92
SIZE = 11


def ours():
    """{name: what the picture and the table show of it} of the shipped networks; the last three are None without a build."""
    builds = fastest()
    points = {}
    for name in NETWORKS:
        network, build = shipped.load(shipped.FOLDER / f"{name}.pt"), builds.get(name, {})
        points[name] = {"accuracy": network.training["test_accuracy"], "weight_bits": network.topology.weight_bits(),
                        "macs": network.topology.macs(), "cycles": build.get("cycles"),
                        "frames_per_second": build.get("frames_per_second"), "cells": build.get("used", {}).get("ICESTORM_LC")}
    return points


def fastest():
    """{network: record of its fastest build that takes RGB, of those of today's hardware if there are any}."""
    builds = {}
    for path in sorted((HERE / "boards").glob("*-icebreaker-*.json")):
        record = json.loads(path.read_text())
        if record.get("learning") or not record["met"] or "--input levels" in record["command"]:
            continue
        builds[record["network"]] = max(record, builds.get(record["network"], record),
                                        key=lambda build: (not build.get("superseded"), build["frames_per_second"]))
    return builds


def table():
    """Lines of the table, the most accurate network first."""
    lines = ["| file | right, % | weight bits | cycles a frame | frames/s | logic cells |", f"|{'---|' * 6}"]
    for name, point in sorted(ours().items(), key=lambda item: -item[1]["accuracy"]):
        numbers = [point[key] for key in ("weight_bits", "cycles", "frames_per_second", "cells")]
        cells = ["-" if number is None else f"{number:,.0f}" for number in numbers]
        lines.append(f"| `{name}.pt` | {100 * point['accuracy']:.2f} | {' | '.join(cells)} |")
    return lines


def peers():
    points = {}
    for peer in json.loads((HERE / "peers.json").read_text()):
        if "up5k" in peer:
            peer["frames_per_second"] = json.loads((HERE / "finn.json").read_text())["ours"]["ice40"]["frames_per_second"]
        points[peer["name"]] = peer
    return points


def published():
    """Lines of the table of peers, the most accurate first."""
    lines = ["| network | right, % | weight bits | frames/s | on | |", f"|{'---|' * 6}"]
    for peer in sorted(peers().values(), key=lambda peer: -peer["accuracy"]):
        name = f"[{peer['name']}]({peer['link']})" if "link" in peer else peer["name"]
        speed = peer.get("speed", 0)
        cells = [name, f"{100 * peer['accuracy']:.2f}", f"{peer['weight_bits']:,}" if "weight_bits" in peer else "",
                 f"{speed:,.0f}" if speed >= 1000 else f"{speed:.4g}" if speed else "", peer.get("device", ""), peer.get("note", "")]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return lines


class Panel:
    """One plot: accuracy over a value whose axis is logarithmic, from `x` on."""

    def __init__(self, canvas, x, values, label, form):
        self.canvas, self.x, self.form = canvas, x, form
        self.low, self.high = math.log10(min(values)) - 0.2, math.log10(max(values)) + 0.2
        self.taken = []
        canvas.rect(x, TOP, SIDE, SIDE, fill="none", stroke=INK)
        for tick in self._ticks():
            place = self.at(tick, LOW)[0]
            canvas.line([(place, TOP), (place, TOP + SIDE)], stroke=FAINT)
            canvas.text(place, TOP + SIDE + 16, form(tick), SIZE, "middle", fill=INK)
        canvas.text(x + SIDE / 2, TOP + SIDE + 36, label, SIZE + 1, "middle", fill=INK)
        for percent in range(70, 95, 5):
            y = self.at(10 ** self.low, percent / 100)[1]
            canvas.line([(x, y), (x + SIDE, y)], stroke=FAINT)

    def _ticks(self):
        every = [factor * 10.0 ** power for power in range(math.floor(self.low), math.ceil(self.high)) for factor in (1, 2, 5)]
        inside = [value for value in every if self.low <= math.log10(value) <= self.high]
        return inside if len(inside) < 7 else [value for value in inside if f"{value:e}"[0] == "1"]

    def at(self, value, accuracy):
        return (self.x + (math.log10(value) - self.low) / (self.high - self.low) * SIDE,
                TOP + (HIGH - accuracy) / (HIGH - LOW) * SIDE)

    def point(self, name, value, accuracy, colour, hollow=False):
        x, y = self.at(value, accuracy)
        self.canvas.circle(x, y, 4.5, fill=PAPER if hollow else colour, stroke=colour, stroke_width=2,
                           hint=f"{name}: {accuracy:.2%}, {value:,.6g}")
        width = 0.6 * SIZE * len(name)
        near = ((x + 9, y + 4, "start"), (x - 9, y + 4, "end"), (x, y - 10, "middle"), (x, y + 19, "middle"), (x + 9, y + 16, "start"),
                (x - 9, y + 16, "end"), (x - 9, y - 8, "end"), (x + 9, y - 8, "start"))
        spots = (*near, *((x + 2 * (left - x), y + 2 * (base - y), anchor) for left, base, anchor in near))
        for left, base, anchor in spots:
            start = left - {"start": 0, "middle": width / 2, "end": width}[anchor]
            box = (start, base - SIZE, start + width, base + 3)
            free = all(box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1] for other in self.taken)
            if free and self.x + 2 <= box[0] and box[2] <= self.x + SIDE - 2:
                break
        else:  # beside the others' names rather than nowhere
            left, base, anchor = spots[0]
        self.taken.append(box)
        self.canvas.text(left, base, name, SIZE, anchor, fill=colour)

    def keep_free(self, value, accuracy):
        x, y = self.at(value, accuracy)
        self.taken.append((x - 6, y - 6, x + 6, y + 6))


def picture():
    """The text of the SVG file."""
    canvas = Canvas(xmlns="http://www.w3.org/2000/svg", font_family="sans-serif", role="img",
                    aria_label="Accuracy on CIFAR-10 of our networks and of published ones")
    width, height = LEFT + len(PANELS) * (SIDE + GAP), TOP + SIDE + 52
    canvas.rect(0, 0, width, height, fill=PAPER)
    canvas.text(LEFT, 22, "CIFAR-10 test images right, %", SIZE + 1, fill=INK)
    canvas.text(width - GAP, 22, "filled: fbnn-hw; hollow: published by others", SIZE + 1, "end", fill=INK)
    sets = ((ours(), OURS, False), (peers(), THEIRS, True))
    for number, (key, label, form) in enumerate(PANELS):
        shown = [(name, point[key], point["accuracy"], colour, hollow) for points, colour, hollow in sets
                 for name, point in points.items() if point.get(key)]
        panel = Panel(canvas, LEFT + number * (SIDE + GAP), [value for _, value, *_ in shown], label, form)
        for _, value, accuracy, *_ in shown:
            panel.keep_free(value, accuracy)
        for point in sorted(shown, key=lambda point: -point[2]):
            panel.point(*point)
        if not number:
            for percent in range(70, 95, 5):
                canvas.text(LEFT - 8, panel.at(1, percent / 100)[1] + 4, str(percent), SIZE, "end", fill=INK)
    return canvas.svg(width, height)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where the picture or the table is another")
    args = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    written = {PICTURE: picture(), PAGE: marked.replaced(marked.replaced(page, BEGIN, table()), PUBLISHED, published())}
    if args.check:
        sys.exit(any(path.read_text(encoding="utf-8") != text for path, text in written.items()))
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
