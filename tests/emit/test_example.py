"""rtl_out/example, the design that is in git, is what `generate` writes today.

    python -m tests.emit.test_example        writes it anew, after a change of what is generated
"""

import json
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.ir import file as ir_file
from tests import strategies

EXAMPLE = Path(__file__).parents[2] / "rtl_out" / design.EXAMPLE
SHAPE = {"target": "generic", "pixels": 4, "lanes": 16, "outputs": 4}


def write(network, root):
    """The folder of the example, below `root`."""
    return design.generate(network, out=root, **SHAPE).folder


def content(path):
    """What a file says: of golden.npz its arrays, since versions of Python write other archives of the same arrays."""
    if path.name == "golden.npz":
        with np.load(path) as arrays:
            return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
    if path.name == "manifest.json":
        manifest = json.loads(path.read_text())
        del manifest["files"]["golden.npz"]
        return json.dumps(manifest)
    return path.read_bytes()


def test_it_is_what_generate_writes(tmp_path):
    tools = json.loads((EXAMPLE / "manifest.json").read_text())["tools"]
    if tools != {name: version(name) for name in tools}:
        pytest.skip("other versions of Amaranth and its yosys write other Verilog")
    made = write(ir_file.loads((EXAMPLE / "network.json").read_text(), "network.json"), tmp_path)
    names = {path.name for path in EXAMPLE.iterdir() if path.is_file()}
    assert names == {path.name for path in made.iterdir()}
    different = [name for name in sorted(names) if content(EXAMPLE / name) != content(made / name)]
    assert not different, f"{', '.join(different)}: python -m tests.emit.test_example writes them anew"


def test_it_is_whole_and_small():
    one = design.Design(EXAMPLE)
    assert one.network.topology.name == "smallest" and sum(path.stat().st_size for path in EXAMPLE.iterdir() if path.is_file()) < 300_000


def test_a_design_of_one_s_own_comes_first(tmp_path):
    """Where none is named, the example is taken only if there is no other."""
    for age, name in ((100, "mine"), (0, design.EXAMPLE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
        os.utime(tmp_path / name / "manifest.json", (1e9 - age, 1e9 - age))
    assert design.newest(tmp_path).name == "mine"
    shutil.rmtree(tmp_path / "mine")
    assert design.newest(tmp_path).name == design.EXAMPLE


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        made = write(strategies.smallest(), root)
        shutil.rmtree(EXAMPLE, ignore_errors=True)
        shutil.copytree(made, EXAMPLE)
    sys.stdout.write(f"{EXAMPLE}\n")
