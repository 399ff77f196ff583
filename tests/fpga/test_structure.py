import json
import random
import sys
from copy import deepcopy
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "benchmarks"))

from structure import structure  # noqa: E402


def netlist(cells, ports, inner=None):
    modules = {"top": {"attributes": {"top": "1"}, "ports": ports, "cells": cells},
               "SB_LUT4": {"attributes": {"whitebox": "1"}, "ports": {}, "cells": {"x": {}}}}
    return {"modules": modules | (inner or {})}


def lut(inputs, output, init="1000"):
    return {"type": "SB_LUT4", "parameters": {"LUT_INIT": init}, "attributes": {"src": "a.v:1"},
            "connections": {**{f"I{i}": [bit] for i, bit in enumerate(inputs)}, "O": [output]}}


@pytest.fixture
def chain():
    """Forty LUTs in a row between two ports; all but one alike."""
    cells = {f"lut{i}": lut([i + 2, "0"], i + 3, "0110" if i == 20 else "1000") for i in range(40)}
    return netlist(cells, {"a": {"direction": "input", "bits": [2]}, "z": {"direction": "output", "bits": [42]}})


def of(value, tmp_path):
    (tmp_path / "n.json").write_text(json.dumps(value))
    return structure(tmp_path / "n.json")


def test_names_attributes_and_order_do_not_count(chain, tmp_path):
    before, cells = of(chain, tmp_path), chain["modules"]["top"]["cells"]
    numbers = list(range(100, 200))
    random.Random(0).shuffle(numbers)

    def renamed(bits):
        return [bit if isinstance(bit, str) else numbers[bit] for bit in bits]
    names = list(cells)
    random.Random(1).shuffle(names)
    chain["modules"]["top"]["cells"] = {
        f"x{i}": cells[name] | {"attributes": {}, "connections": {port: renamed(bits) for port, bits in cells[name]["connections"].items()}}
        for i, name in enumerate(names)}
    for port in chain["modules"]["top"]["ports"].values():
        port["bits"] = renamed(port["bits"])
    chain["modules"]["SB_LUT4"]["cells"]["y"] = {}
    assert of(chain, tmp_path) == before


def test_every_change_counts(chain, tmp_path):
    found = {of(chain, tmp_path)}
    for change in (
            lambda top: top["cells"]["lut20"]["parameters"].update(LUT_INIT="0111"),
            lambda top: top["cells"]["lut20"].update(type="SB_CARRY"),
            lambda top: top["cells"]["lut20"]["connections"].update(I1=["1"]),
            lambda top: top["cells"]["lut20"]["connections"].update(I1=[5]),
            lambda top: top["cells"].update(more=lut([42, "0"], 43)),
            lambda top: (top["cells"]["lut20"]["parameters"].update(LUT_INIT="1000"),
                         top["cells"]["lut21"]["parameters"].update(LUT_INIT="0110")),
            lambda top: top["ports"]["z"].update(bits=[41]),
            lambda top: top["ports"].update(y=top["ports"].pop("z"))):
        other = deepcopy(chain)
        change(other["modules"]["top"])
        found.add(of(other, tmp_path))
    assert len(found) == 9


def test_inner_modules_count_by_their_contents(tmp_path):
    def nested(name, init):
        inner = {name: {"attributes": {}, "ports": {"i": {"direction": "input", "bits": [2]}, "o": {"direction": "output", "bits": [3]}},
                        "cells": {"c": lut([2], 3, init)}}}
        cells = {"u": {"type": name, "parameters": {}, "connections": {"i": [2], "o": [3]}}}
        return netlist(cells, {"a": {"direction": "input", "bits": [2]}}, inner)
    assert of(nested("one", "10"), tmp_path) == of(nested("two", "10"), tmp_path) != of(nested("one", "01"), tmp_path)
