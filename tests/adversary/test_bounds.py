"""Small files that ask for much work: they are refused, or done, within the processor time and the memory of `runner`.

    FBNN_ADVERSARY_SEED=7 pytest -m adversary tests/adversary/test_bounds.py     random ones of another seed
"""

import numpy as np
import pytest

from tests.foreign.test_qonnx import model

from . import runner

MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def forge():
    process = runner.Forge()
    process.wait()
    yield process
    process.close()


def judged(forge, path, words):
    """The outcome of a command on a small file, which is judged."""
    assert path.stat().st_size < MOST_BYTES, path.stat().st_size
    case = runner.Case(words, path.parent, may_write=True)
    before = runner.inventory(path.parent)
    outcome = forge.run(case)
    fault = runner.judge(case, outcome, before)
    assert not fault, f"{fault}: {outcome}"
    return outcome


def _wide(functions):
    """A layer of 2^16 channels with many functions after each."""
    nodes = [("Reshape", ["one", "wide"], "w", {}), ("Conv", ["x", "w"], "f0", {})]
    return nodes + [("Tanh", [f"f{i}"], f"f{i + 1}", {}) for i in range(functions)] + [("Sign", [f"f{functions}"], "y", {})]


def _broadcast(pairs):
    nodes = [("Add", ["column", "row"], "c0", {})]
    for i in range(pairs):
        nodes += [("Transpose", [f"c{i}"], f"t{i}", {"perm": [1, 0]}), ("Reshape", [f"t{i}", "sizes"], f"c{i + 1}", {})]
    return [*nodes, ("Flatten", ["x"], "flat", {}), ("MatMul", ["flat", f"c{pairs}"], "y", {})]


def _layers(count):
    """Layers that read the same weights, which a broadcast makes."""
    nodes, before = [("Add", ["column", "row"], "w2", {}), ("Reshape", ["w2", "kernel"], "w", {}), ("Sign", ["x0"], "b0", {})], "b0"
    nodes.insert(0, ("Conv", ["x", "first"], "x0", {}))
    for i in range(count):
        nodes += [("Conv", [before, "w"], f"a{i}", {}), ("Sign", [f"a{i}"], f"s{i}", {})]
        before = f"s{i}"
    return [*nodes, ("Flatten", [before], "y", {})]


def _doubled(count, op):
    """A map whose channels double, and what is done with it."""
    nodes = [("Conv", ["x", "first"], "a", {}), ("BipolarQuant", ["a", "unit"], "d0", {})]
    nodes += [("Concat", [f"d{i}", f"d{i}"], f"d{i + 1}", {"axis": 1}) for i in range(8)]
    nodes += [(op, [f"d{i}", "unit"], f"d{i + 1}", {}) for i in range(8, count)]
    return [*nodes, ("Flatten", [f"d{count}"], "y", {})]


TABLE = {"column": np.ones((2 ** 10, 1)), "row": np.zeros((1, 2 ** 11)), "sizes": [2 ** 10, 2 ** 11], "kernel": [1024, 2048, 1, 1]}
FIRST = {"first": np.ones((256, 3, 1, 1)), "unit": [1.0]}
ONNX = {
    "pairs of Transpose and Reshape of a broadcast": (_broadcast(60), TABLE | {"row": np.zeros((1, 2 ** 12)), "sizes": [2 ** 10, 2 ** 12]}),
    "a broadcast of 2^25": (_broadcast(1), TABLE | {"row": np.zeros((1, 2 ** 15))}),
    "a concatenation of one constant": ([("Concat", ["column"] * 8000, "c0", {"axis": 1}), ("MatMul", ["x", "c0"], "y", {})], TABLE),
    "layers that share their weights": (_layers(900), TABLE | {
        "row": np.ones((1, 2 ** 10)), "kernel": [2 ** 10, 2 ** 10, 1, 1], "first": np.ones((2 ** 10, 3, 1, 1))}),
    "channels that double": (_doubled(3000, "Mul"), FIRST),
    "shuffles of many channels": (_doubled(3000, "Concat"), FIRST),
    "functions of many channels": (_wide(64), {"one": np.ones(9000), "wide": [3000, 3, 1, 1]}),
    "a million thresholds": ([("Add", ["column", "row"], "t0", {}), ("Reshape", ["t0", "flat"], "t", {}), ("Conv", ["x", "first"], "a", {}),
                              ("MultiThreshold", ["a", "t"], "y", {})], TABLE | FIRST | {"flat": [1, 2 ** 21]}),
    "a million thresholds of the image": ([("Add", ["column", "row"], "t0", {}), ("Reshape", ["t0", "flat"], "t", {}),
                                           ("MultiThreshold", ["x", "t"], "y", {})], TABLE | {"flat": [1, 2 ** 21]})}


@pytest.mark.parametrize("name", ONNX)
def test_an_onnx_file(name, forge, tmp_path):
    path = model(tmp_path / "n.onnx", *ONNX[name])
    assert judged(forge, path, ["import", "n.onnx", "--out", "x.pt"]).code == 3
