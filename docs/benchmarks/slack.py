"""Prints which parts of a built design bind its clock: the latest arrivals in each part, from nextpnr's own report.

    fbnn-hw build DIR --board icebreaker --seed 1 && python docs/benchmarks/slack.py DIR --board icebreaker --seed 1

An arrival is the time from a clock's edge to the end of a path in the part, in ns: clock to output, LUTs, wires and set-up.  `into` is
the register at which that path ends, by its kind of input; at a clock enable nextpnr counts 0.8 ns of
set-up more here than in its critical path.
"""

import argparse
import json
import sys
from pathlib import Path

from fbnn_hw.fpga.placement import component
from fbnn_hw.fpga.seeds import seed_folder

INPUTS = {"CEN": "clock enable", "SR": "reset"}
"""What nextpnr calls these pins of a logic cell; all others take data."""


def arrivals(report):
    """{part: (ns, cell, kind of input)} of the latest arrival in each part, latest first."""
    latest = {}
    for net in report["detailed_net_timings"]:
        for end in net["endpoints"]:
            part, found = component(end["cell"]), (max(end["delay"]), end["cell"], INPUTS.get(end.get("port"), "data"))
            latest[part] = max(latest.get(part, found), found)
    return dict(sorted(latest.items(), key=lambda item: item[1], reverse=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a generated design")
    parser.add_argument("--board", default="icebreaker")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    path = args.folder / f"build-{args.board}" / seed_folder(args.seed) / "report.json"
    try:
        report = json.loads(path.read_text())
    except OSError:
        raise SystemExit(f"{path}: no such report; run fbnn-hw build {args.folder} --board {args.board} --seed {args.seed}") from None
    if "detailed_net_timings" not in report:
        raise SystemExit(f"{path}: has no timing of single nets; build again with --rebuild")
    print("| part | latest arrival, ns | into |\n|---|---|---|")
    for part, (ns, cell, kind) in arrivals(report).items():
        print(f"| {part} | {ns:.1f} | {kind} of `{cell.split('_SB_')[0]}` |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
