import json
import textwrap

import pytest

from tests.fpga.nextpnr import report

NEXTPNR = """
while [ $# -gt 0 ]; do
  case "$1" in
    --asc) echo placed > "$2";;
    --write) printf '%8s"core.link.x": {\\n%12s"NEXTPNR_BEL": "X3/Y5/lc1",\\n' '' '' > "$2";;
    --report) report="$2";;
    --seed) seed="$2";;
  esac
  shift
done
echo "Info: Routing 100 arcs."
"""
"""What the real one is asked for, and the start of its words; `behaviour` ends it, with $report and $seed set."""


@pytest.fixture
def native(tmp_path, monkeypatch):
    """A folder, on PATH, of native tools that write what the real ones would; a test may change them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "yosys": 'echo \'{"design": {"num_cells_by_type": {"SB_LUT4": 7}}}\' > cells.json; echo {} > netlist.json',
        "nextpnr-ice40": f"{NEXTPNR}\ncat > $report <<'E'\n{json.dumps(report())}\nE",
        "icepack": 'cat "$1" > "$2"; echo bits > "$2"'}
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo {name} 1.2; exit; fi\n{textwrap.dedent(text)}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    return folder


@pytest.fixture
def nextpnr(native):
    """Sets how nextpnr ends: lines of a shell with $report and $seed; REPORT(mhz) becomes the command that writes a report."""
    def behave(text):
        for mhz in (20, 30, 40, 50):
            text = text.replace(f"REPORT({mhz})", f"cat > $report <<'E'\n{json.dumps(report(mhz))}\nE\n")
        (native / "nextpnr-ice40").write_text(f"#!/bin/sh\n{NEXTPNR}\n{text}\n")
        return str(native / "nextpnr-ice40")
    return behave
