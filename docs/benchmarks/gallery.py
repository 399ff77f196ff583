"""Writes gallery.md: designs beside each other, with the picture that `generate` draws of each, in img/gallery/.

    python docs/benchmarks/gallery.py            makes the designs, the pictures and the page
    python docs/benchmarks/gallery.py --check    exit code 1 where the page or a picture is out of date
"""

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path

from ready import fbnn_hw

from fbnn_hw.base import files

DOCS = Path(__file__).parents[1]
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "img" / "gallery"
SHOWN = {
    "tiny": ("--model tiny.pt --target ice40", "The smallest: all weights stay on the chip."),
    "fast": ("--model fast.pt --target ice40", "Some weights come from the flash for every image."),
    "3mb": ("--model 3mb.pt --target ice40", "The paper's network of 3 Mbit; most of the weights come from the flash."),
    "teach": ("--model teach.pt --target ice40 --learn nearest-mean --max-classes 16 --unknown --forget",
              'The chip of the page that teaches: it begins empty, says "unknown", and forgets one class.'),
    "0.5mb-learns": ("--model 0.5mb.pt --target ice40 --learn --max-classes 16",
                     "Ten classes, and room for six more; stored samples are replayed."),
    "3mb-ecp5": ("--model 3mb.pt --target ecp5", "The same 3 Mbit on a larger part, which holds them."),
    "fast-ecp5": ("--model fast.pt --target ecp5", "All weights on the chip, and the next image comes while one is computed."),
    "res3mb-ecp5": ("--model res3mb.pt --target ecp5", "The paper's residual network, for images of 128 x 128."),
}
"""{name: (flags of `generate`, what is special)}."""
HEAD = """# Gallery of designs

This page shows what `fbnn-hw generate` makes of networks that ship: the command, the size, and the
picture that the command draws of each design, `diagram.svg`. Cycles are those of a simulation. LUT4
are those of the accelerator, without the link. Frames/s are at the clock for which the target is
planned; `build` may reach another one. All figures are **estimated**;
[benchmarks.md](benchmarks.md#placed-and-routed) has the designs that were placed and routed, with
the clocks that they reached.
"""


def made(name, folder):
    """(estimate of the design, its picture)."""
    flags, _ = SHOWN[name]
    of = Path(fbnn_hw("generate", *flags.split(), "--out", folder)["folder"])
    return json.loads((of / "estimate.json").read_text()), (of / "diagram.svg").read_bytes()


def page(estimates):
    """The page's text.  estimates: {name: estimate.json}."""
    rows = ["| design | part | cycles a frame | frames/s | LUT4 |", "|---|---|---|---|---|"]
    parts = []
    for name, (flags, what) in SHOWN.items():
        of = estimates[name]
        rows.append(f"| [{name}](#{name.replace('.', '')}) | {of['part']} | {of['cycles']:,} | {of['frames_per_second']:,.0f} | "
                    f"{of['lut4']:,} |")
        parts += [f"## {name}", "", what, "", f"    {shlex.join(['fbnn-hw', 'generate', *flags.split()])}", "",
                  f'<img src="img/gallery/{name}.svg" alt="Diagram of the design {name}">', ""]
    return "\n".join([HEAD, *rows, "", *parts, "The page is made by a program:", "", "    python docs/benchmarks/gallery.py", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        designs = {name: made(name, folder) for name in SHOWN}
    contents = {PICTURES / f"{name}.svg": picture for name, (_, picture) in designs.items()}
    contents[PAGE] = page({name: estimate for name, (estimate, _) in designs.items()}).encode()
    late = [path for path, content in contents.items() if not path.exists() or path.read_bytes() != content]
    if not check:
        files.make_folder(PICTURES)
        for path, content in contents.items():
            files.write(path, content)
    print("\n".join(f"{path.name}: {'out of date' if check else 'written'}" for path in late), end="\n" if late else "")
    return int(check and bool(late))


if __name__ == "__main__":
    sys.exit(main())
