"""The block diagram: well-formed, true to the configuration, the same for equal inputs, nothing outside or on top of something else."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import Network, Topology
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.report import diagram as module
from fbnn_hw.report.diagram import WIDTH
from fbnn_hw.targets import target

SVG = "{http://www.w3.org/2000/svg}"


def tiny():
    """A network without global pooling and without a latent, with a name longer than its place."""
    layers = (
        op.Thermometer("input", (), "trgb", 8, 20), op.Conv("a_name_that_is_far_too_long_to_show", ("input",), 24),
        op.MaxPool("pool", ("a_name_that_is_far_too_long_to_show",)), op.Conv("second", ("pool",), 16),
        op.MaxPool("pool2", ("second",)), op.Conv("third", ("pool2",), 16), op.MaxPool("pool3", ("third",)),
        op.Dense("logits", ("pool3",), 2, logits=True))
    return Topology("tiny", layers, ("a", "b"))


def planned(topology, name, shape=(), **choices):
    rng = np.random.default_rng(0)
    weights = {layer: rng.integers(0, 2, size, dtype=np.uint8) for layer, size in topology.weight_shapes().items()}
    return plan(Network(topology, weights, {}), target(name), *shape, **choices)


CASES = {
    "3mb on ice40": lambda: planned(build("3mb"), "ice40"),
    "0.5mb on ice40, 100 classes": lambda: planned(build("0.5mb", 100), "ice40", (4, 16, 4)),
    "0.5mb on generic": lambda: planned(build("0.5mb"), "generic"),
    "1mb on generic, 16 pixels": lambda: planned(build("1mb"), "generic", (16, 128, 128)),
    "tiny on generic": lambda: planned(tiny(), "generic", (4, 16, 8)),
    "tiny on ice40": lambda: planned(tiny(), "ice40"),
    "0.5mb on ice40 that learns": lambda: planned(build("0.5mb"), "ice40", learn=(Head.of(build("0.5mb")), LearnConfig(16, 212))),
    "0.5mb on generic that learns": lambda: planned(build("0.5mb"), "generic", learn=(Head.of(build("0.5mb")), LearnConfig(11, 0))),
}


def diagram(design):
    return module.diagram(design.config, design.frame, design.program.used)


@pytest.fixture(scope="module", params=CASES, ids=str)
def drawn(request):
    design = CASES[request.param]()
    return design, diagram(design)


def texts(svg):
    return [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_it_shows_the_numbers_of_the_configuration(drawn):
    design, svg = drawn
    c, shown = design.config, texts(svg)
    q, l, p = c.pixels, c.lanes, c.outputs
    assert f"{q} pixels x {l} lanes x {p} outputs = {q * l * p:,} products a cycle; {design.frame.total:,} cycles a frame" in shown
    assert f"{design.frame.total:,} cycles a frame" in shown
    assert f"{q} feature banks" in shown and f"{c.feature_words:,} words x {l} bits each" in shown
    assert f"features: {design.program.used:,} words" in shown
    assert f"{c.weight_words:,} words x {p * l:,} bits" in shown
    assert f"{q * p:,} popcounts of {l} bits" in shown and f"{q * p:,} x {c.accumulator_bits} bits" in shown
    assert f"{len(c.program)} steps" in shown and f"{len(c.program_words())} program words" in shown
    assert f"{c.result_classes} logits of {c.accumulator_bits + 1} bits" in shown
    assert ("weight stream" in shown) == (c.weights == "stream")
    assert (("Argmax" in shown), ("Learner" in shown)) == (not c.learning, bool(c.learning))
    if c.learning:
        assert f"classes: {c.learning.class_rows:,} rows" in shown
        assert (f"replay buffer: {c.learning.slots * c.learning.slot_rows:,} rows" in shown) == bool(c.learning.slots)
    assert ("Global pooling" in shown) == any(s.kind == "lgap" for s in c.program)
    assert any(text.endswith("on request") for text in shown) == (c.latent_words > 0)
    if c.resident_rows:
        assert f"weights: {c.resident_rows:,} rows" in shown and f"resident: {c.resident_rows * q * l:,} bits" in shown


def test_3mb_on_ice40_by_hand():
    design = CASES["3mb on ice40"]()
    shown = texts(diagram(design))
    for text in ("32 + 16 + 16 bits", "32 x 32 pixels", "4 words a pixel", "4 cycles a pixel", "4 feature banks",
                 "16,384 words x 16 bits each", "features: 3,072 words", "2 x 2 pixels, moved", "average and learned",
                 "64 words of 16 bits, on request", "10 logits of 13 bits", "4 bits"):
        assert text in shown, text


def test_widths_are_those_of_the_design():
    """Of levels in place of bytes, of weights from an SDRAM, and of bytes that are not summed up."""
    design = planned(build("0.5mb"), "ice40", (4, 16, 4))
    levels = module.diagram(replace(design.config, encoder_bits=None), design.frame, design.program.used)
    assert {" + ".join(map(str, design.config.level_bits)) + " bits", "Levels to bits"} < set(texts(levels))
    sdram = planned(build("3mb"), "gowin", weights="sdram")
    assert f"{sdram.config.beat_bits} bits" in texts(diagram(sdram)) and sdram.config.beat_bits == 32
    layers = (op.Bits8("input", (), 4), op.Conv("conv", ("input",), 16), op.MaxPool("pool", ("conv",)), op.Conv("conv2", ("pool",), 16),
              op.MaxPool("pool2", ("conv2",)), op.Dense("logits", ("pool2",), 2, logits=True))
    wide = planned(Topology("bytes", layers, ("a", "b")), "ice40")
    shown = texts(diagram(wide))
    assert f"2 logits of {wide.config.score_bits} bits" in shown
    assert f"{max(4, len(wide.config.pieces))} cycles a pixel" in shown


def test_the_picture_in_the_docs_is_the_one_that_generate_draws():
    picture = Path(__file__).parents[2] / "docs/img/gallery/3mb.svg"
    assert picture.read_text() == diagram(CASES["3mb on ice40"]()), "fbnn-hw generate --model 3mb.pt --target ice40; copy its diagram.svg"


def test_no_name_is_markup():
    plan = CASES["tiny on generic"]()
    frame = replace(plan.frame, layers={f'<a b="{i}">&': layer for i, layer in enumerate(plan.frame.layers.values())})
    svg = module.diagram(plan.config, frame, plan.program.used)
    assert {f'<a b="{i}">&' for i in range(len(frame.layers))} < set(texts(svg)) and "<a b" not in svg


def test_what_lies_in_a_bank_lies_inside_and_apart(drawn):
    design, svg = drawn
    rects = [r for r in ElementTree.fromstring(svg).iter(f"{SVG}rect") if r.get("rx") is None]
    held = (module.FEATURES, module.TABLES, module.SLOTS, module.WEIGHTS)
    lowest = min(float(r.get("x")) for r in rects if r.get("fill") == module.FEATURES)
    spans = sorted((float(r.get("y")), float(r.get("height"))) for r in rects
                   if r.get("fill") in held and float(r.get("x")) == lowest)
    frame, = (r for r in rects if r.get("fill") == "none" and float(r.get("x")) == lowest)
    top, height = float(frame.get("y")), float(frame.get("height"))
    assert top - 0.02 <= spans[0][0] and abs(sum(spans[-1]) - top - height) < 0.02  # the features are the lowest
    assert all(sum(one) <= other[0] + 0.02 for one, other in zip(spans, spans[1:]))
    learning = design.config.learning
    rows = design.program.used + design.config.resident_rows + (learning.rows if learning else 0)
    assert abs(sum(span for _, span in spans) - height * rows / design.config.feature_words) < 0.03


def test_the_bars_are_to_scale_and_the_cycles_add_up(drawn):
    design, svg = drawn
    shown = texts(svg)
    start = shown.index("image in, result out")
    rows = [shown[i:i + 3] for i in range(start, len(shown), 3)]
    names = ["image in, result out", *design.frame.layers]
    assert [r[0] for r in rows] == [n if len(n) <= 20 else n[:17] + "..." for n in names]
    cycles = [int(r[1].replace(",", "")) for r in rows]
    assert sum(cycles) == design.frame.total
    scale = (module.CHART_RIGHT - module.CHART_LEFT) / design.frame.total
    colours = [colour for _, colour, _ in module.CYCLES]
    drawn_width = {colour: 0.0 for colour in colours}
    for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        if rect.get("fill") in colours and rect.get("rx") is None:
            assert module.CHART_LEFT - 0.01 <= float(rect.get("x")) <= module.CHART_RIGHT + 0.01
            drawn_width[rect.get("fill")] += float(rect.get("width"))
    for key, colour, _ in module.CYCLES:
        if key != "other":
            expected = sum(getattr(layer, key) for layer in design.frame.layers.values())
            assert abs(drawn_width[colour] - expected * scale) <= 0.51 * len(names)


def test_texts_stay_inside_and_apart(drawn):
    """With a wide font (0.62 of the size a letter, which DejaVu Sans hardly reaches)."""
    _, svg = drawn
    root = ElementTree.fromstring(svg)
    places = []
    for t in root.iter(f"{SVG}text"):
        size, x, y = float(t.get("font-size")), float(t.get("x")), float(t.get("y"))
        width = 0.62 * size * len(t.text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[t.get("text-anchor")]
        assert 0 <= left and left + width <= WIDTH and y < float(root.get("height")) - 4, t.text
        places.append((left, left + width, y - 0.75 * size, y + 0.2 * size, t.text))
    for i, a in enumerate(places):
        for b in places[i + 1:]:
            assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (a, b)


def test_equal_inputs_give_equal_bytes_and_nothing_active(drawn):
    design, svg = drawn
    again = type(design.config).from_json(design.config.to_json())
    assert module.diagram(again, design.frame, design.program.used) == svg
    assert not re.search(r"<script|<style|\son\w+=|href|@import|url\((?!#arrow\))", svg)
    assert svg.isascii()
