"""Programs, weight images and layouts of random networks, executed by a machine that knows nothing of the compiler
(machine/interpreter.py) and compared with the reference, every layer."""

import dataclasses
import re

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError, InputError
from fbnn_hw.compile import late
from fbnn_hw.compile.plan import plan
from fbnn_hw.design import output, weights
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.machine import interpreter
from fbnn_hw.simulate.expected import expected_layers
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.quick import quick

GENERIC = TARGETS["generic"]
SIZES = {4: (4, 8, 12, 16), 8: (8, 12, 16), 16: (16,)}
SHAPES = [(q, l, p) for q in (4, 8, 16) for l in (16, 32, 64, 128) for p in (4, 8, 16, 32, 64, 128) if q <= p <= l]


def layer_bits(banks, entry, across):
    """Bits (C, H, W) of a layer, by its entry in layout.json; lanes without a channel must be 0."""
    channels, height, width = entry["shape"]
    bank, address = interpreter.place(height, width, across, entry["base"][0], entry["columns"] * entry["pitch"], entry["pitch"])
    stride = entry.get("word_stride", 1)
    stored = np.full((channels, height, width), 2, np.uint8)
    for number, word in enumerate(entry["lanes"]):
        bits = banks[bank, address + number * stride]
        for lane, channel in enumerate(word):
            if channel >= 0:
                stored[channel] = bits[..., lane]
            else:
                assert not bits[..., lane].any(), f"lane {lane} of word {number} holds no channel, but 1"
    return stored


def stream(bank_words=4096, ring_words=512):
    return dataclasses.replace(GENERIC, weights=("stream",), bank_words=bank_words, ring_words=ring_words)


def run(network, target, shape, seed):
    """Compile, execute one pass, compare every layer with the reference; returns the plan."""
    planned = plan(network, target, *shape)
    config = planned.config
    if config.weights == "memory":
        words = interpreter.memory_words(weights.memory(network, planned.program), config.outputs, config.lanes)
    else:
        words = interpreter.streamed_words(*weights.split(network, planned.program, config), config)
    used = sum(t.words for t in config.transfers if not t.after)
    assert len(words) == used or config.weights == "memory" and len(words) == config.weight_words
    images = strategies.images(seed, 1, config.size)
    places = output.layout(planned)
    expected = {name: values[0] for name, values in expected_layers(network, images, places["layers"]).items()}
    banks: list[np.ndarray] = []
    logits = interpreter.Machine(config, words, seed).run(images[0], lambda after: banks.append(after.copy()))
    assert places["layers"], "nothing to compare"
    assert logits == expected["logits"].tolist()
    for name, place in places["layers"].items():
        [step] = place["steps"]
        assert np.array_equal(layer_bits(banks[step], place, config.pixels // 2), expected[name]), name
    if places["latent_bits"]:
        stored = banks[-1][0, config.latent_base:config.latent_base + config.latent_words].reshape(-1)[places["latent_bits"]]
        assert np.array_equal(stored, expected["latent"].ravel())
    return planned


@pytest.mark.parametrize("seed", quick(range(60), *range(20)))
def test_random_networks_give_the_reference_s_bits_or_a_fit_error(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    target = GENERIC if seed % 2 else stream(2 ** int(rng.integers(9, 14)), 2 ** int(rng.integers(6, 11)))
    for attempt in range(20):  # to a network that this shape supports
        network = strategies.engine_network(100 * seed + attempt, SIZES[shape[0]], channels=int(rng.choice([24, 40, 70, 140])))
        try:
            run(network, target, shape, seed)
            return
        except FitError as error:
            name = re.match(r"layer (\w+): .", str(error))
            assert name and name[1] in network.topology and "\n" not in str(error), error
    pytest.fail("20 networks refused")


@pytest.mark.parametrize("seed", range(40))
def test_what_the_engine_does_not_have_is_refused_by_name(seed):
    network = strategies.network(seed)
    try:
        run(network, GENERIC, (4, 16, 4), seed)
    except FitError as error:
        names = re.match(r"layers? (\w+(?:, \w+)*)(?: and \d+ more)?: .", str(error))
        assert names and all(name in network.topology for name in names[1].split(", ")) and "\n" not in str(error), error


@pytest.mark.parametrize("shape, size, encoder, classes, width", [
    ((4, 16, 8), 16, "tycc", 2, 1 / 8), ((4, 32, 16), 16, "trgb", 10, 3 / 8), ((4, 64, 64), 16, "tycc", 37, 1 / 16),
    ((8, 64, 32), 32, "tycc", 100, 1 / 16), ((8, 16, 8), 32, "trgb", 37, 1 / 16), ((16, 32, 32), 64, "tycc", 2, 1 / 32),
    ((4, 128, 4), 64, "trgb", 100, 1 / 32)])
def test_the_paper_s_structure(shape, size, encoder, classes, width):
    network = strategies.vgg_network(size, classes=classes, thresholds=0.5, width=width, size=size, encoder=encoder, latent=72, hidden=10)
    run(strategies.on_engine(network), GENERIC if classes % 2 else stream(1 << 14), shape, classes)


def test_weights_half_resident():
    """The mix of resident and streamed words that a small memory forces, and its reassembly."""
    network = strategies.vgg_network(3, width=1 / 4, size=16)
    shares = set()
    for spare in (0, 50, 250, 1000, 4000):
        program = plan(network, GENERIC, 4, 16, 8).program
        planned = run(network, stream(program.used + spare), (4, 16, 8), spare)
        shares |= {t.resident for t in planned.config.transfers}
        config = planned.config
        assert config.resident_rows <= spare and config.resident_base == (planned.program.used if config.resident_rows else 0)
    assert {0, 16} < shares


@pytest.mark.parametrize("spare, padding", [(0, "same"), (30, "same"), (0, 0)])
def test_weights_in_the_rows_of_maps_that_are_read_no_more(spare, padding, monkeypatch):
    """Loops, and lists.  The machine writes each late row as early as the design may, and asks at the end whether it stands there."""
    layers = [
        op.Thermometer("input", (), "tycc", 32, 4), op.Conv("c1", ("input",), 32), op.Conv("c2", ("c1",), 16, padding=padding),
        op.MaxPool("p1", ("c2",)), op.Conv("c3", ("p1",), 24), op.Conv("c4", ("c3",), 32), op.MaxPool("p2", ("c4",)),
        op.Gap("gap", ("p2",)), op.Depthwise("depthwise", ("p2",)), op.Concat("both", ("gap", "depthwise")),
        op.Dense(LATENT, ("both",), 512), op.Dense("logits", (LATENT,), 5, 1, True)]
    network = strategies.fill(Topology("late", tuple(layers), tuple("abcde")), spare)
    program = plan(network, stream(1 << 13), 4, 16, 4).program
    target = stream(program.used + spare, 64)
    planned = run(network, target, (4, 16, 4), spare)
    assert planned.config.late_rows and planned.config.lists == (padding == 0)
    monkeypatch.setattr(late, "improved", lambda config, program, residents, passes: (config, passes))
    assert planned.frame.total < plan(network, target, 4, 16, 4).frame.total


@pytest.mark.parametrize("fields, words, told", [
    ({"target": "source"}, 0, "a step writes over what it reads"),
    ({}, -1, "weight words are missing"), ({}, 1, "weight words are left over"),
    ({"words": 1}, 0, "a tile has more or fewer weight words than reads"), ({"source": 65535}, 0, "it reads behind the banks"),
    ({"target": 65535}, 0, "it writes behind the banks")])
def test_a_program_that_the_engine_cannot_carry_out_is_refused(fields, words, told):
    network = strategies.on_engine(strategies.vgg_network(1, width=1 / 16, size=16))
    planned = plan(network, GENERIC, 4, 16, 4)
    config, first = planned.config, planned.config.program[0]
    values = {name: getattr(first, value) if isinstance(value, str) else value for name, value in fields.items()}
    step = dataclasses.replace(first, **values)
    bits = interpreter.memory_words(weights.memory(network, planned.program), config.outputs, config.lanes)
    bits = bits[:words] if words < 0 else np.concatenate([bits, bits[:words]])
    with pytest.raises(InputError, match=told):
        interpreter.Machine(dataclasses.replace(config, program=(step, *config.program[1:])), bits)
