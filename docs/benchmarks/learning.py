"""The tables of docs/results/learner.md: runs of `fbnn-hw chip-cil`, kept as JSON, then printed.

    python docs/benchmarks/learning.py MODEL.pt FOLDER [--data-dir DIR]      runs what FOLDER lacks, prints the tables
    python docs/benchmarks/learning.py - FOLDER                             prints the tables alone

One thread.  MODEL.pt: an extractor trained on airplane, automobile, bird and cat of CIFAR-10.
"""

import json
import subprocess
import sys
from pathlib import Path

ALL = "--samples 1000 --seeds 5"
ONE = f"{ALL} --against none --replays 4 --thinning 0"  # for comparisons with one another
CHOSEN = f"{ALL} --against"
THINNED = {7: 1, 6: 2, 5: 3, 4: 4, 3: 5, 2: 6}
VALIDATE = f"{ALL} --validate --against"
TABLES = {
    "Validation of replays and thinning": {
        f"r = {r}, m = {m}": f"{VALIDATE} none --replays {r} --thinning {m}"
        for r, m in ((4, 0), (4, 1), (9, 0), (9, 1), (9, 2), (14, 1), (14, 2))},
    "Validation of Adam's rate": {f"lr {lr}": f"{VALIDATE} adam --lr {lr} --replays 0" for lr in ("3e-4", "1e-3", "3e-3", "1e-2")},
    "Against the others": {"": ALL},
    "Rate of Adam": {f"lr {lr}": f"{CHOSEN} adam --lr {lr}" for lr in ("3e-4", "3e-3", "1e-2")},
    "Replays for each sample": {
        **{f"r = {r}": f"{ONE} --replays {r}" for r in (0, 1, 2, 4, 9)},
        **{f"r = {r}, m = {m}": f"{ONE} --replays {r} --thinning {m}" for r, m in ((4, 1), (9, 1), (9, 2), (14, 1))},
        **{f"r = 9, m = 1, temperature {t}": f"{ONE} --replays 9 --thinning 1 --temperature {t}" for t in (96, 192)}},
    "Rehearsal": {"5000 replays after each task": f"{ONE} --rehearse 5000"},
    "Rules": {"metaplastic": f"{ONE} --rule metaplastic",
              "margin 0": f"{ONE} --rule margin", "margin 64": f"{ONE} --rule margin --margin 64",
              "flip, 6 bits": f"{ONE} --rule flip --counter-bits 6", "flip, 5 bits": f"{ONE} --rule flip --counter-bits 5"},
    "Buffer": {f"{n} exemplars": f"{CHOSEN} adam --slots {n}" for n in (100, 300, 3000, 4800)},
    "Counter bits": {f"{b} bits, m = {m}": f"{ONE} --counter-bits {b} --thinning {m}" for b, m in THINNED.items()},
    "Choice of the replay": {"class": f"{ONE} --pick class", "class, weighted": f"{ONE} --pick class --weighted",
                             "least, weighted": f"{ONE} --weighted", "slot": f"{ONE} --pick slot"},
    "Heads": {"dense2": f"{ONE} --head dense2 --temperature 181", "skip, hidden frozen": f"{ONE} --head skip --temperature 192",
              "skip, hidden 4 bits": f"{ONE} --head skip --temperature 192 --hidden-counter-bits 4 --hidden-thinning 5"},
    "Temperature": {f"{t}": f"{ONE} --temperature {t}" for t in (64, 96, 192)},
    "Start of a class": {f"prototype {p}": f"{ONE} --prototype {p}" for p in (16, 64)},
}


def path(folder, title, name):
    return folder / ("".join(c if c.isalnum() else "-" for c in f"{title} {name}".strip()) + ".json")


def cell(pair, scale=100, digits=1):
    return f"{pair[0] * scale:.{digits}f}" + ("" if pair[1] is None else f" +- {pair[1] * scale:.{digits}f}")


def rows(found, name):
    for learner, s in found["summary"].items():
        line = [f"{name} {learner}".strip(), cell(s["a_final"]), cell(s["d_final"], 1, 2), f"{s['memory_bits'] / 1e6:.2f}"]
        chip = [r["learners"]["chip"] for r in found["runs"]]
        mean = [sum(c[key] for c in chip) / len(chip) for key in ("updates_per_sample", "flips_per_sample")]
        yield line + ([f"{m:.1f}" for m in mean] if learner == "chip" else ["", ""])


def run():
    model, folder, *options = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for title, lines in TABLES.items():
        for name, flags in lines.items():
            out = path(folder, title, name)
            if model != "-" and not out.exists():
                command = [sys.executable, "-m", "fbnn_hw", "chip-cil", "--scenario", "cifar10-4+3x2", "--model", model, "--threads", "1",
                           "--out", str(out)]
                subprocess.run([*command, *flags.split(), *options], check=True)
    for title, lines in TABLES.items():
        print(f"\n### {title}\n\n| | a_final % | d_final | memory Mb | updates a sample | flips a sample |\n|---|---|---|---|---|---|")
        for name in lines:
            out = path(folder, title, name)
            if out.exists():
                for row in rows(json.loads(out.read_text()), name):
                    print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    run()
