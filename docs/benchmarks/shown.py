"""Writes the output that README.md and pages of docs/ show below their commands.

    python docs/benchmarks/shown.py            types the commands in empty folders, and rewrites the pages; minutes
    python docs/benchmarks/shown.py --check    exit code 1 if it is out of date

Between `<!-- shown: TEXT | TEXT -->` and `<!-- end -->` stands what the commands of the block above print on stdout: the lines that begin
with one of the texts, and "..." in the place of others.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from marked import END

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "README.md", ROOT / "docs/cil-paper.md"
BLOCK = re.compile(rf"((?:^    .*\n)+)\n(<!-- shown: (.*) -->\n)(?:.*\n)*?(?={END})", re.M)


def kept(lines, texts):
    """The lines of a list that begin with one of the texts, and "..." for each run of others."""
    chosen = [line if line.startswith(texts) else "..." for line in lines]
    return [line for line, before in zip(chosen, ["", *chosen]) if line != "..." or before != "..."]


def shell(command, folder):
    """What a command prints on stdout, run with the Python of this program; raises where it fails."""
    program = f"fbnn-hw() {{ '{sys.executable}' -m fbnn_hw \"$@\"; }}; "
    return subprocess.run(["bash", "-c", program + command], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def updated(text, typed):
    """A page's text with the output of today; typed(command) -> what a command of it prints."""
    def block(match):
        commands, head, texts = match[1], match[2], tuple(match[3].split(" | "))
        lines = kept([line for command in commands.splitlines() for line in typed(command.split("  #")[0].strip()).splitlines()], texts)
        return f"{commands}\n{head}\n" + "".join(f"    {line}\n" for line in lines) + "\n"

    return BLOCK.sub(block, text)


def today(page):
    """The text of a page with the output of today."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "docs").symlink_to(ROOT / "docs")
        return updated(page.read_text(encoding="utf-8"), lambda command: shell(command, folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old = 0
    for page in PAGES:
        text, new = page.read_text(encoding="utf-8"), today(page)
        old += new != text
        if not check:
            page.write_text(new, encoding="utf-8")
    return int(check and old > 0)


if __name__ == "__main__":
    sys.exit(main())
