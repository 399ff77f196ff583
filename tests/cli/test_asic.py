"""`fbnn-hw asic`, with a small Liberty file of the tests' own."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fbnn_hw
from fbnn_hw.targets import asic
from tests import strategies

GATES = {"INV": (2, "!A"), "NAND2": (4, "!(A&B)"), "NOR2": (4.5, "!(A|B)"), "BUF": (3, "A"), "BUF4": (6, "A"), "BUF8": (9, "A")}
HEAD = "library (small) {\n  nom_voltage : 1.2;\n  nom_temperature : 25;\n  /* cell (NONE) { area : 1; } */\n"


def pin(name, *lines):
    return f"    pin ({name}) {{ {' '.join(lines)} }}\n"


def output(function):
    return pin("Y", "direction : output;", f'function : "{function}";')


def liberty():
    """A Liberty file of a few gates, a flip-flop and ties."""
    text = HEAD
    for name, (area, function) in GATES.items():
        inputs = "".join(pin(one, "direction : input;", "capacitance : 1;") for one in "AB" if one in function)
        text += f"  cell ({name}) {{\n    area : {area};\n{inputs}{output(function)}  }}\n"
    for name, value in (("TIE1", 1), ("TIE0", 0)):
        text += f"  cell ({name}) {{\n    area : 2;\n{output(value)}  }}\n"
    return text + ('  cell (DFF) {\n    area : 12;\n    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }\n'
                   + pin("CK", "direction : input;", "clock : true;") + pin("D", "direction : input;")
                   + pin("Q", "direction : output;", 'function : "IQ";') + "  }\n}\n")


def macro(words, bits, area, volts=1.2):
    name = f"RAM{2 ** words}x{bits}"
    return (f"library (m) {{\n  nom_voltage : {volts};\n  nom_temperature : 25;\n  cell ({name}) {{\n    memory() {{\n"
            f"      type : ram;\n      address_width : {words};\n      word_width : {bits};\n    }}\n    area : {area};\n"
            f"{pin('CLK', 'direction : input;')}  }}\n}}\n")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "small.lib"
    path.write_text(liberty())
    return path


@pytest.fixture
def macros(tmp_path):
    folder = tmp_path / "macros"
    folder.mkdir()
    for name, text in {"a": macro(4, 8, 100), "slow": macro(4, 8, 900, 1.0), "wide": macro(4, 16, 150), "deep": macro(8, 8, 700)}.items():
        (folder / f"{name}.lib").write_text(text)
    return folder


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    return fbnn_hw.generate(strategies.smallest(), "generic", out=tmp_path_factory.mktemp("generic"), pixels=4, lanes=16, outputs=4)


def test_what_is_read_of_a_library(library):
    found = asic.Library(library)
    assert found.corner == (1.2, 25) and found.cells.keys() == {*GATES, "TIE1", "TIE0", "DFF"}
    assert found.smallest("!A*B", "!A&B").name == "NAND2" and found.tie("1") == ("TIE1", "Y") and found.tie("0") == ("TIE0", "Y")
    assert found.cells["DFF"].area == 12 and found.cells["DFF"].inputs == 2 and found.cells["DFF"].pins == {"Q": "IQ"}


def test_the_macros_of_least_area(macros):
    """Those of the library's corner count; a memory with two ports gets none."""
    choices = asic.macros(macros, (1.2, 25))
    assert {cell.name: cell.area for cell in choices} == {"RAM16x8": 100, "RAM16x16": 150, "RAM256x8": 700}

    def cell(kind, words, bits):
        return {"type": kind, "parameters": {"DEPTH": f"{words:032b}", "WIDTH": f"{bits:032b}"}}
    cells = {"one": cell("fbnn_bank", 17, 9), "two": cell("fbnn_bank", 200, 8), "ring": cell("fbnn_ring", 16, 8), "gate": {"type": "INV"}}
    found = asic.memories({"modules": {"accelerator": {"cells": cells}}}, choices)
    assert [(one.instance, one.macro, one.rows, one.columns, one.area) for one in found] == [
        ("one", "RAM16x16", 2, 1, 300), ("two", "RAM256x8", 1, 1, 700), ("ring", None, 0, 0, 0)]


def test_trees_of_buffers(library):
    """No net drives more than `FANOUT` inputs but the clock, and each input still has its value."""
    count = 300
    cells = {f"g{n}": {"type": "INV", "connections": {"A": [2], "Y": [10 + n]}} for n in range(count)}
    cells |= {f"f{n}": {"type": "DFF", "connections": {"CK": [3], "D": [10 + n], "Q": [1000 + n]}} for n in range(count)}
    netlist = {"modules": {"accelerator": {"ports": {"clk": {"bits": [3]}}, "cells": cells}}}
    added = asic.buffered(netlist, asic.Library(library))
    made = netlist["modules"]["accelerator"]["cells"]
    assert added == len(made) - 2 * count == 19 + 2
    assert all(cell["connections"]["CK"] == [3] for cell in made.values() if cell["type"] == "DFF")
    loads = {}
    for cell in made.values():
        for name, bits in cell["connections"].items():
            if name in "AD":
                loads[bits[0]] = loads.get(bits[0], 0) + 1
    assert max(loads.values()) == asic.FANOUT
    behind = {cell["connections"]["Y"][0]: cell["connections"]["A"][0] for cell in made.values() if cell["type"] == "BUF4"}
    for n in range(count):
        net = made[f"g{n}"]["connections"]["A"][0]
        while net in behind:
            net = behind[net]
        assert net == 2


def test_the_gates_give_the_bits(design, library, macros, answer, cli, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "sta" else "/usr/bin/" + name)
    made = answer("asic", design.folder, "--liberty", library, "--sram", macros, "--images", 1)
    assert made["kind"] == "synthesised, no layout" and made["path_ns"] is None and made["cells"].keys() <= {*GATES, "TIE1", "TIE0", "DFF"}
    areas = {name: area for name, (area, _) in GATES.items()} | {"TIE1": 2, "TIE0": 2, "DFF": 12}
    assert made["logic_um2"] == pytest.approx(sum(areas[name] * count for name, count in made["cells"].items()))
    assert made["kge"] == pytest.approx(made["logic_um2"] / 4000) and made["cells"]["DFF"] > 500
    assert made["cycles_first"] == [design.estimate["first_cycles"]]
    assert {one["kind"] for one in made["memories"]} == {"fbnn_bank", "fbnn_weight_memory"}
    gates = (design.folder / "asic" / "netlist.v").read_text()
    wrong = gates.replace("NAND2 ", "NOR2 ", 200)
    assert wrong != gates

    def synthesise(*arguments, **_):
        (design.folder / "asic" / "netlist.v").write_text(wrong)
        return {"cells": {}, "area": 0, "netlist": json.loads((design.folder / "asic" / "netlist.json").read_text())}
    monkeypatch.setattr(asic, "synthesise", synthesise)
    code, _, err = cli("asic", design.folder, "--liberty", library, "--images", 1)
    assert code in (3, 6) and str(design.folder) in err  # 3: so wrong that the bench has nothing to compare


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog")
def test_the_netlist_in_icarus(design, library, cli, monkeypatch):
    """The lines of docs/asic.md: every flip-flop and every bank begins at X."""
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "sta" else "/usr/bin/" + name)
    assert cli("asic", design.folder, "--liberty", library, "--images", 1)[0] == 0
    page = (Path(__file__).parents[2] / "docs/asic.md").read_text()
    lines = re.search("    mkdir mine.*vvp sim.vvp\n", page, re.DOTALL)[0]
    done = subprocess.run(["bash", "-ec", lines], cwd=design.folder, capture_output=True, text=True)
    assert done.returncode == 0 and "all 4 logits are the reference's" in done.stdout, done.stdout + done.stderr
    assert not re.search(r"\binitial\b", (design.folder / "mine/netlist.v").read_text() + (design.folder / "mine/cells.v").read_text())


def test_what_it_refuses(design, library, refused, tmp_path, model):
    code, line = refused("asic", design.folder, "--liberty", tmp_path / "none.lib")
    assert code == 3 and line.endswith("none.lib: No such file or directory, expected a Liberty file of a cell library")
    (tmp_path / "empty.lib").write_text("library (x) { }")
    assert "has no cells, expected a Liberty file" in refused("asic", design.folder, "--liberty", tmp_path / "empty.lib")[1]
    assert "has no Liberty file of a memory" in refused("asic", design.folder, "--liberty", library, "--sram", tmp_path)[1]
    other = fbnn_hw.generate(model[1], "ice40", out=tmp_path / "out").folder
    code, line = refused("asic", other, "--liberty", library)
    assert code == 2 and "is for ice40, expected a design of fbnn-hw generate --target generic" in line
