"""`fbnn-hw asic`, with a small Liberty file of the tests' own."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fbnn_hw
from fbnn_hw.machine.cycles import learn_cycles
from fbnn_hw.reference.learning import Learner
from fbnn_hw.targets import asic, asic_energy
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
    """No net drives more than `FANOUT` inputs, and each input still has its value."""
    count = 300
    cells = {f"g{n}": {"type": "INV", "connections": {"A": [2], "Y": [10 + n]}} for n in range(count)}
    cells |= {f"f{n}": {"type": "DFF", "connections": {"CK": [3], "D": [10 + n], "Q": [1000 + n]}} for n in range(count)}
    netlist = {"modules": {"accelerator": {"ports": {"clk": {"bits": [3]}}, "cells": cells}}}
    added = asic.buffered(netlist, asic.Library(library))
    made = netlist["modules"]["accelerator"]["cells"]
    assert added == (19 + 2, 19 + 2) and sum(added) == len(made) - 2 * count
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


POWER = """  power_lut_template (t) {
    variable_1 : total_output_net_capacitance;
    variable_2 : input_transition_time;
  }
  power_lut_template (p) { variable_1 : input_transition_time; }
"""
TABLE = '{name} (t) {{ index_1 ("0, 10"); index_2 ("0.1, 0.2, 0.3"); values ("{a}, {b}, 9", \\\n "{c}, {d}, 9"); }}'


def power(related, up, down, when=""):
    """Tables of fJ at a load of 0 and of 10 fF, and at two slews, of which the second counts."""
    tables = [TABLE.format(name=name, a=9, b=at[0], c=9, d=at[1]) for name, at in (("rise_power", up), ("fall_power", down))]
    return f'internal_power () {{ related_pin : "{related}"; {when} {" ".join(tables)} }}'


@pytest.fixture
def powered(tmp_path):
    """Gates in fF and fJ: a buffer, an inverter without tables, a flip-flop whose clock pin has tables with conditions, and a macro."""
    path = tmp_path / "powered.lib"
    clocked = "".join(f'internal_power () {{ when : "{when}"; rise_power (p) {{ index_1 ("1, 2"); values ("9, {value}"); }} }}'
                      for when, value in (("D", 3), ("!D", 5)))
    path.write_text(
        HEAD + '  capacitive_load_unit (1, ff);\n  voltage_unit : "1V";\n  leakage_power_unit : "1nW";\n' + POWER
        + f"  cell (INV) {{\n area : 1;\n cell_leakage_power : 2;\n{pin('A', 'direction : input;', 'capacitance : 2;')}{output('!A')} }}\n"
        + "  cell (BUF) {\n area : 1;\n leakage_power () { value : 1; } leakage_power () { value : 3; }\n"
        + pin("A", "direction : input;", "capacitance : 4;")
        + pin("Y", "direction : output;", 'function : "A";', power("A", (10, 30), (20, 40))) + "  }\n"
        + '  cell (DFF) {\n area : 1;\n ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }\n'
        + pin("CK", "direction : input;", "clock : true;", "capacitance : 1;", clocked) + pin("D", "direction : input;", "capacitance : 3;")
        + pin("Q", "direction : output;", 'function : "IQ";', power("CK", (100, 100), (100, 100))) + "  }\n}\n")
    return asic.Library(path)


def test_the_energy_of_gates(powered, tmp_path):
    """Computed by hand: Q of a flip-flop drives an inverter and a buffer, which drives the flip-flop's D."""
    cells = {"f": {"type": "DFF", "connections": {"CK": [3], "D": [5], "Q": [4]}},
             "i": {"type": "INV", "connections": {"A": [4], "Y": [6]}},
             "b": {"type": "BUF", "connections": {"A": [4], "Y": [5]}},
             "m": {"type": "fbnn_bank", "connections": {"clk": [3], "read_data": [7]}}}
    netlist = {"modules": {"accelerator": {"ports": {"clk": {"bits": [3]}}, "cells": cells}}}
    text = macro(4, 8, 100).replace("library (m) {", "library (m) { capacitive_load_unit (1,pf);")
    states = "".join(f'internal_power () {{ when : "{when}"; rise_power (scalar) {{ values ({value}); }} '
                     "fall_power (scalar) { values (0); } }" for when, value in (("idle", 0.1), ("read", 20), ("write", 30)))
    (tmp_path / "m.lib").write_text(text.replace("direction : input;", f"direction : input; clock : true; {states}"))
    array = asic.macros(tmp_path, (1.2, 25))[0]
    memory = asic.Memory("m", "fbnn_bank", 32, 16, array.name, 2, 2, 400)
    found = asic_energy.energy(netlist, powered, [(memory, array)], 10, {4: 6, 5: 4, 6: 6}, {"m": 3}, 1e-8)
    half = 1.2 ** 2 / 2
    assert found.loads == pytest.approx(1e-15 * half * (6 * (2 + 4) + 4 * 3))
    assert found.cells == pytest.approx(1e-15 * (6 * 100 + 4 * (15 + (35 - 15) * 0.3)) + 1e-15 * 4 * 0)
    assert found.clock == pytest.approx(1e-15 * 20 * (half * 1 + 4))
    assert found.leakage == pytest.approx((2 + 2) * 1e-9 * 10 * 1e-8)
    assert found.memories == pytest.approx(1e-12 * 2 * (20 * 7 + 30 * 3))
    assert found.wire == pytest.approx(half * (6 * 2 + 4 + 20)) and found.missing == ["INV"]
    assert found.total == pytest.approx(found.loads + found.cells + found.clock + found.leakage + found.memories)


def test_functions_of_other_writers(tmp_path):
    """AND as a space, as in OSU's libraries, and a buffer whose input is not A."""
    text = HEAD + "".join(f"  cell ({name}) {{ area : 1;\n{''.join(pin(one, 'direction : input;') for one in inputs)}"
                          f"{output(function)} }}\n" for name, inputs, function in (("N", "AB", "(!(A B))"), ("B", "I", "I")))
    (tmp_path / "other.lib").write_text(text + "}\n")
    found = asic.Library(tmp_path / "other.lib")
    assert found.smallest("!A*B", "!A&B").name == "N"
    cells = {f"g{n}": {"type": "B", "connections": {"I": [2], "Y": [10 + n]}} for n in range(17)}
    assert asic.buffered({"modules": {"accelerator": {"ports": {"clk": {"bits": [3]}}, "cells": cells}}}, found) == (0, 2)


def test_the_gates_give_the_bits(design, library, macros, answer, cli, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "sta" else "/usr/bin/" + name)
    made = answer("asic", design.folder, "--liberty", library, "--sram", macros, "--images", 2)
    assert made["kind"] == "synthesised, no layout" and made["path_ns"] is None and made["cells"].keys() <= {*GATES, "TIE1", "TIE0", "DFF"}
    areas = {name: area for name, (area, _) in GATES.items()} | {"TIE1": 2, "TIE0": 2, "DFF": 12}
    assert made["logic_um2"] == pytest.approx(sum(areas[name] * count for name, count in made["cells"].items()))
    assert made["kge"] == pytest.approx(made["logic_um2"] / 4000) and made["cells"]["DFF"] > 500
    assert made["cycles_first"] == [design.estimate["first_cycles"]]
    frame = made["frame"]
    assert frame["cycles"] == design.estimate["cycles"] and frame["gates_uj"] > 0 < frame["clock_uj"] and frame["leakage_uj"] == 0
    assert frame["missing"] and frame["memories_uj"] == 0 and made["lesson"] is None  # a library, and macros, without tables
    assert frame["uj"] == pytest.approx(frame["gates_uj"] + frame["clock_uj"]) and frame["tops_w"] > 0
    assert frame["mw"] == pytest.approx(1e3 * frame["uj"] / (frame["cycles"] / 100))
    assert {one["kind"] for one in made["memories"]} == {"fbnn_bank", "fbnn_weight_memory"}
    wrong = json.loads((design.folder / "asic" / "netlist.json").read_text())
    nands = [cell for cell in wrong["modules"]["accelerator"]["cells"].values() if cell["type"] == "NAND2"]
    for cell in nands[:200]:
        cell["type"] = "NOR2"
    assert nands

    def synthesise(*arguments, **_):
        return {"cells": {}, "area": 0, "netlist": wrong}
    monkeypatch.setattr(asic, "synthesise", synthesise)
    code, _, err = cli("asic", design.folder, "--liberty", library, "--images", 1)
    assert code in (3, 6) and str(design.folder) in err  # 3: so wrong that the bench has nothing to compare


def test_a_lesson_through_the_gates(library, cli, answer, tmp_path, monkeypatch):
    """Per sample: what the last of a few lessons takes in a cycle, for the cycles of a full buffer."""
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "sta" else "/usr/bin/" + name)
    synthesise, netlists = asic.synthesise, []

    def once(*arguments):
        netlists[:] = netlists or [synthesise(*arguments)]
        return copy.deepcopy(netlists[0])
    monkeypatch.setattr(asic, "synthesise", once)
    design = fbnn_hw.generate(strategies.smallest_learner(), "generic", out=tmp_path, learn=True, max_classes=4, exemplars=3,
                              pixels=4, lanes=16, outputs=4)
    made = answer("asic", design.folder, "--liberty", library)
    lesson = made["lesson"]
    assert lesson["cycles"] == learn_cycles(design.config) and lesson["simulated"] > 0 < lesson["uj"] and lesson["memories_uj"] is None
    assert lesson["compared"] == 5
    learn = Learner.learn
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "learn", lambda learner, latents, labels: learn(learner, latents[:1], labels[:1]))
        code, _, err = cli("asic", design.folder, "--liberty", library)
        assert code == 6 and "after 5 lessons the gates differ from the reference learner: " in err
    code, text, _ = cli("asic", design.folder, "--liberty", library, "--images", 1)
    assert code == 0 and "energy: of the second image, expected --images 2 or more" in text


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
