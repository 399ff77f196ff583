"""Writes docs/teach.html, the page with the gates of a design in it, its size in docs/studio.md, and the page's module of the
protocol's numbers.

    python docs/benchmarks/teach_page.py

Which network it teaches is chosen here alone.
"""

import argparse
import base64
import gzip
import re
import sys
import tempfile
from pathlib import Path

from fbnn_hw import design
from fbnn_hw.base import files
from fbnn_hw.ir import shipped
from fbnn_hw.simulate import wasm
from fbnn_hw.studio import page

MODEL = "teach.pt"
FILE = Path(__file__).parents[1] / "teach.html"
GUIDE = FILE.with_name("studio.md")
ENGINE = {"pixels": 8, "lanes": 32, "outputs": 32}
"""The shape of the array in the gates; docs/studio.md has its figures."""
LEARNER = {"learn": "nearest-mean", "max_classes": 16, "unknown": True, "forget": True}
"""Those of `generate --target ice40 --learn nearest-mean --unknown --forget`, so that snapshots of both are of one configuration."""


def made(folder, network=None, **engine) -> design.Design:
    """The design of the page, generated under a folder.  network: another one than `MODEL`'s.  engine: other sizes than `ENGINE`'s."""
    return design.generate(network or shipped.load(MODEL), "generic", out=folder, **LEARNER, **ENGINE | engine)


def sized(guide, text):
    """The text of `GUIDE` with the sizes of the page, whose text that is."""
    gates = base64.b64decode(re.search(r'"gates":\{"module":"([^"]*)"', text)[1])
    guide = re.sub(r"(?m)^\| size \| [\d,]+ bytes", f"| size | {len(text.encode()):,} bytes", guide)
    return re.sub(r"(?m)^\| gates, compressed \| [\d,]+ of [\d,]+ bytes",
                  f"| gates, compressed | {len(gates):,} of {len(gzip.decompress(gates)):,} bytes", guide)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    (page.WEB / "numbers.mjs").write_text(page.protocol_module())
    with tempfile.TemporaryDirectory() as folder:
        of = made(folder)
        text = page.write(of, wasm.build(of, note=lambda line: print(line, file=sys.stderr)))
    files.write(FILE, text.encode())
    files.write(GUIDE, sized(GUIDE.read_text(encoding="utf-8"), text).encode())
    print(f"{FILE.name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
