"""Small files that ask for much work: they are refused, or done, within the processor time and the memory of `runner`.

    FBNN_ADVERSARY_SEED=7 pytest -m adversary tests/adversary/test_bounds.py     random ones of another seed
"""

import os
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.compile import plan
from fbnn_hw.ir import ops as op
from fbnn_hw.ir import shipped
from fbnn_hw.ir.network import Network, Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.targets import TARGETS, page
from tests import strategies
from tests.foreign.test_qonnx import model
from tests.quick import slow

from . import budget, networks, runner

ROOT = Path(__file__).parents[2]
MOST_BYTES = 200_000


def judged(forge, path, words):
    """The outcome of a command on a small file, which is judged."""
    assert path.is_symlink() or path.stat().st_size < MOST_BYTES, path.stat().st_size
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


def net(*layers, size=8, classes=2):
    """A topology of an input of six channels, layers, which read the one before where they name none, a pooling and logits."""
    made = [op.Thermometer("input", (), "trgb", size, 2)]
    for number, layer in enumerate((*layers, op.Gap, lambda *given: op.Dense(*given, classes, logits=True))):
        made.append(layer(f"l{number}", (made[-1].name,)))
    return Topology("odd", tuple(made), tuple(f"c{number}" for number in range(classes)))


def conv(channels, kernel=3, groups=1):
    return lambda *given: op.Conv(*given, channels, kernel, 1, groups)


def dense(channels, groups=1):
    return lambda *given: op.Dense(*given, channels, groups)


def times(count):
    return [lambda *given: op.Duplicate(*given, 8)] * count


def copies(count):
    """A concatenation of one layer so many times."""
    return lambda name, given: op.Concat(name, given * count)


def readers(count, channels):
    """A wide layer that many others read."""
    made = [op.Thermometer("input", (), "trgb", 8, 2), op.Conv("wide", ("input",), channels, 1)]
    made += [op.Conv(f"r{n}", ("wide",), 1, 3) for n in range(count)]
    made += [op.Concat("all", tuple(f"r{n}" for n in range(count))), op.Gap("pooled", ("all",))]
    return Topology("odd", (*made, op.Dense("logits", ("pooled",), 2, logits=True)), ("a", "b"))


def shuffle(*given):
    return op.Shuffle(*given, 3)


KINDS = {
    "copies before a 5x5": net(*times(3), conv(4, 5), size=32),
    "more copies before a 5x5": net(*times(4), conv(2, 5), size=32),
    "copies before a 1x1": net(*times(4), conv(4, 1), size=32),
    "copies of a vector": net(op.Gap, *times(4), dense(5)),
    "a concatenation of one vector": net(conv(1), op.Gap, copies(60000), dense(16)),
    "a concatenation of one map": net(conv(1), copies(10000), conv(8)),
    "groups of one": net(conv(21000, 1), conv(21000, 3, 21000)),
    "as many groups of one as are planned": net(conv(2400, 1), conv(2400, 3, 2400), conv(2400, 1, 2400)),
    "groups of one in a vector": net(op.Gap, dense(21000), dense(21000, 21000)),
    "groups of two in a vector": net(op.Gap, dense(4900), dense(4900, 4900)),
    "a pooling of many channels": net(conv(8000, 1), size=2),
    "a learned pooling of many pixels": net(conv(20, 1), op.Depthwise, size=256),
    "a pooling of copies": net(conv(12000, 1), lambda *given: op.Slice(*given, 0, 11999), op.MaxPool),
    "a wide layer": net(op.Gap, dense(60000)),
    "many classes": net(conv(8, 1), classes=5000),
    "shuffles": net(conv(3000, 1), *[shuffle] * 80, conv(8)),
    "a vector of many pixels": net(conv(2), op.Flatten, dense(2), size=128),
    "a vector of fewer pixels": net(conv(2), op.Flatten, dense(2), size=64),
    "many readers": readers(100, 400),
    "many readers of few": readers(300, 20)}


@pytest.mark.parametrize("name", slow(list(KINDS), "as many groups of one as are planned", "many readers of few"))  # half a minute each
def test_a_checkpoint(name, forge, tmp_path):
    """For one of the targets, or for each of them with FBNN_SLOW=1."""
    seed = drawn()
    targets = [("ice40", "ecp5", "generic")[np.random.default_rng([seed, len(name)]).integers(3)]]
    for target in ("ice40", "ecp5", "generic") if os.environ.get("FBNN_SLOW") else targets:
        print(target)
        tried(KINDS[name], target, forge, tmp_path)


def drawn():
    """A seed of this test's own, printed."""
    seed = budget.SEED or int(np.random.default_rng().integers(10 ** 9))
    print(f"FBNN_ADVERSARY_SEED={seed}")
    return seed


def tried(topology, target, forge, folder):
    """A checkpoint of a topology, planned for a target within the bounds."""
    weights = {name: np.zeros(shape, np.uint8) for name, shape in topology.weight_shapes().items()}
    checkpoint.save(folder / "x.pt", Network(topology, weights))
    if (folder / "x.pt").stat().st_size < MOST_BYTES:
        judged(forge, folder / "x.pt", [f"{__name__}:planned", "x.pt", target])


def planned(path, target):
    """What `generate` does before it writes Verilog."""
    plan.plan(shipped.load(path), TARGETS[target])


@pytest.mark.parametrize("number", range(12))
def test_a_random_checkpoint(number, forge, tmp_path):
    rng = np.random.default_rng([drawn(), number])
    while True:
        topology = networks._drawn(rng)
        try:
            topology.verify()
        except InputError:
            continue
        if topology.weight_bits() < 8 * MOST_BYTES:
            break
    tried(topology, str(rng.choice(["ice40", "ecp5", "generic"])), forge, tmp_path)


def shared(depth, value):
    """A list of eight parts, each a list of eight, and so on, of one value."""
    for _ in range(depth):
        value = [value] * 8
    return value


def cyclic(loop):
    loop += [loop, {"x": loop}]
    return loop


def nested(depth):
    """As many tuples, each in the next one."""
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


def archives():
    """{name: what is laid over the content of a sound file}."""
    import torch

    byte, number, text = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.int32), "e" * 90_000
    wide, large = number.expand(2 ** 16), byte.expand(2 ** 40)
    layer = {"op": "conv", "name": "a", "inputs": ["input"], "channels": 8}
    return {
        "one text many times": {"training": {"x": [text] * 40_000}},
        "one text in lists of lists": {"training": {"x": shared(5, "\u2400" * 30_000)}},
        "one text as a key of many": {"training": {"x": [{text: n} for n in range(3000)]}},
        "a list of itself": {"training": {"x": cyclic([])}},
        "layers of themselves": {"architecture": cyclic([])},
        "tuples in tuples": {"classes": nested(90)},
        "many thresholds of one number": {"thresholds": {f"t{n}": wide for n in range(9000)}},
        "thresholds without an end": {"thresholds": {"x": number.expand(2 ** 60)}},
        "weights of one byte": {"weights": {f"w{n}": large for n in range(9000)}},
        "strides that go back": {"weights": {"conv1": torch.arange(64, dtype=torch.uint8).as_strided((2 ** 20, 2), (0, 1))}},
        "numbers that are none": {"training": {"loss": [float("nan"), float("inf"), -0.0] * 1000}},
        "sizes below 0": {"architecture": [layer | {"channels": -(2 ** 62)}, layer | {"kernel": -1}]},
        "a layer many times": {"architecture": [layer] * 60_000},
        "classes of one name": {"classes": [text] * 40_000},
        "an integer of many digits": {"training": {"x": 10 ** 600}},
        "a shape of many numbers": {"training": {"x": byte.reshape((1,) * 60)}}}


@pytest.mark.parametrize("verb", slow(["generate --target ice40 --model", "inspect --json"], "generate --target ice40 --model"))
@pytest.mark.parametrize("name", archives())
def test_an_archive(name, verb, forge, tmp_path):
    """Of a sound network's file with another part: parts that are shared, without end, or of another kind."""
    import torch

    checkpoint.save(tmp_path / "x.pt", strategies.smallest())
    values = torch.load(tmp_path / "x.pt", weights_only=True)
    torch.save(values | archives()[name], tmp_path / "x.pt")
    outcome = judged(forge, tmp_path / "x.pt", [*verb.split(), "x.pt"])
    assert outcome.code == 3, outcome


def odd_pages(folder):
    """{name: words of the refusal} of things in place of a board's page."""
    os.mkfifo(folder / "pipe.toml")
    (folder / "zero.toml").symlink_to("/dev/zero")
    (folder / "dots.toml").write_text(".".join("a" * 45_000) + " = 1\n")
    (folder / "fewer.toml").write_text("\n".join(".".join(f"a{n}" for _ in range(2000)) + " = 1" for n in range(2)))
    (folder / "deep.toml").write_text("a = " + "[" * 8000 + "]" * 8000)
    return {"pipe": "is a pipe", "zero": "is a device", "dots": "longer than", "fewer": "key 'a0', expected", "deep": "no page of a board"}


def test_the_page_of_a_board(forge, tmp_path):
    for name, words in odd_pages(tmp_path).items():
        outcome = judged(forge, tmp_path / f"{name}.toml", ["build", "--board", f"{name}.toml"])
        assert outcome.code == 2 and words in outcome.err, outcome
    text = (ROOT / "boards" / "icebreaker.toml").read_bytes()
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf" + text)
    assert page.read(tmp_path / "mine.toml") == page.read(ROOT / "boards" / "icebreaker.toml")
