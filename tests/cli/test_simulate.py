"""`simulate` on one small design: what agrees, what does not, what is damaged; and the generated folder without this package."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.cli import main
from fbnn_hw.design import generate, ready
from fbnn_hw.fpga import unpacked
from fbnn_hw.machine import timing
from fbnn_hw.simulate import simulator
from tests import strategies
from tests.quick import quick

EARLIER = Path(__file__).parents[1] / "fixtures" / "design-0.1.0.zip"


@pytest.fixture(scope="module")
def design(model, tmp_path_factory):
    root = tmp_path_factory.mktemp("out")
    assert main(["generate", "--model", str(model[0]), "--target", "generic", "--pixels", "4", "--lanes", "16", "--outputs", "4",
                 "--out", str(root)]) == 0
    (folder,) = root.iterdir()
    assert main(["simulate", str(folder), "--images", "1"]) == 0
    return folder


@pytest.fixture
def damaged(design):
    """The design, to damage; afterwards its files are as they were, so that what was compiled is still good."""
    before = {path: path.read_bytes() for path in design.iterdir() if path.is_file()}
    yield design
    for path, content in before.items():
        path.write_bytes(content)


def test_agrees_with_the_reference(design, answer, model):
    found = answer("simulate", design, "--images", "3", "--latent")
    reference = answer("classify", "--model", model[0], "--backend", "reference", *_pngs(design.parent, 3))
    assert found["logits"] == [image["logits"] for image in reference["images"]]
    assert found["classes"] == np.argmax(found["logits"], axis=1).tolist() and not found["differences"]
    known, words = (json.loads((design / name).read_text()) for name in ("estimate.json", "config.json"))
    more = words["latent_words"] * (timing.read(words.get("memory_registers", 0)) + 3)  # as docs/timing.md says
    assert found["cycles_first"] == [known["first_cycles"] + more] and set(found["cycles"]) == {known["cycles"] + more}
    assert found["layers_compared"] == [
        "input", "conv1", "pool1", "conv3", "pool2", "conv5", "pool3", "gap", "depthwise", "latent", "hidden", "logits"]


def test_cycles_are_the_estimate(design, answer):
    known = json.loads((design / "estimate.json").read_text())
    found = answer("simulate", design, "--images", "2")
    assert found["cycles_first"] == [known["first_cycles"]] and found["cycles"] == [known["cycles"]] == [found["estimated_cycles"]]
    stalled = answer("simulate", design, "--images", "2", "--stall")
    assert stalled["cycles"][0] > known["cycles"] and stalled["logits"] == found["logits"]


@pytest.mark.parametrize("flags", quick(["--latent", "", "--stall"], "--latent"))
def test_late_moves_of_resident_rows(flags, answer, tmp_path):
    """The port is asked for words of the latent, or for the next image, while a resident row is still on its way."""
    assert main(["generate", "--model", "0.5mb", "--target", "ice40", "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    found = answer("simulate", folder, "--images", "2", *flags.split())
    right = answer("classify", "--data", "fixture", "--images", "2", "--model", "0.5mb", "--backend", "reference")
    assert found["logits"] == [image["logits"] for image in right["images"]]
    assert not found["differences"]


def test_one_simulation_at_a_time(design, answer, refused):
    """Two would write over each other's images and dumps, and report differences that there are not."""
    words = [sys.executable, "-m", "fbnn_hw.cli", "simulate", str(design), "--images", "1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as first:
        lock = f":{(design / 'sim_build' / '.lock').stat().st_ino} "
        while lock not in Path("/proc/locks").read_text() and first.poll() is None:
            time.sleep(0.02)
        first.send_signal(signal.SIGSTOP)
        second = refused("simulate", design, "--images", "1")
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate()
        assert first.returncode == 0, err
    assert second == (3, (
        f"fbnn-hw simulate: {design}: is being simulated by another program in sim_build; wait for that one, or generate the design "
        "once more with another --out"))
    answer("simulate", design, "--images", "1")


def test_another_weight_is_found_and_named(damaged, cli, rewrite):
    """All signs of the first weight word inverted: the first tile of the first layer differs."""
    first, *rest = (damaged / "weights.hex").read_text().split()
    inverted = f"{int(first, 16) ^ (1 << 4 * len(first)) - 1:0{len(first)}x}"
    rewrite(damaged / "weights.hex", "\n".join([inverted, *rest]) + "\n")
    code, out, err = cli("simulate", damaged, "--images", "1", "--json")
    found = json.loads(out)  # one object: what was found, and the error
    assert code == found["exit_code"] == 6 and len(found["differences"]) > 1 and found["error"] in err
    code, out, err = cli("simulate", damaged, "--images", "1")
    assert code == 6 and not out
    message = err.splitlines()[-1].rsplit("\r")[-1]
    assert re.fullmatch(rf"fbnn-hw simulate: {re.escape(str(damaged))}: [2-9]\d* differences; the first: image 0: layer conv1, "
                        r"pixel \(\d+, \d+\), channel [0-3]: expected [+-]1, got [+-]1; \d+ of \d+ bits differ", message)


def test_other_cycles_are_found(damaged, refused, rewrite):
    estimate = json.loads((damaged / "estimate.json").read_text())
    known = estimate["first_cycles"]
    rewrite(damaged / "estimate.json", json.dumps(estimate | {"pass_cycles": [known + 1, *estimate["pass_cycles"][1:]]}))
    code, message = refused("simulate", damaged, "--images", "1")
    assert code == 6 and message == (
        f"fbnn-hw simulate: {damaged}: 1 difference; the first: frame 1 of a run takes {known:,} cycles, estimate.json says {known + 1:,}")


@pytest.mark.parametrize("name, edit, message", [
    ("manifest.json", None, "not found, expected a folder that `fbnn-hw generate` wrote"),
    ("manifest.json", lambda text: text[:-9], "damaged, expected what `fbnn-hw generate` wrote; generate the folder again"),
    ("manifest.json", lambda text: "[]", "damaged, expected what `fbnn-hw generate` wrote; generate the folder again"),
    ("network.json", None, "not found, expected because manifest.json names it; generate the folder again"),
    ("config.json", lambda text: text[:-9], "differs from what was generated, by its hash in manifest.json; generate the folder again"),
    ("weights.hex", lambda text: text[:-9], "differs from what was generated, by its hash in manifest.json; generate the folder again"),
])
def test_damaged_folders(damaged, refused, name, edit, message):
    text = (damaged / name).read_text()
    (damaged / name).unlink()
    if edit:
        (damaged / name).write_text(edit(text))
    assert refused("simulate", damaged) == (3, f"fbnn-hw simulate: {damaged / name}: {message}")


def test_images_that_do_not_fit(design, answer, refused, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((40, 50, 3), np.uint8))
    assert refused("simulate", design, "--images", tmp_path / "x.npy") == (
        3, f"fbnn-hw simulate: {tmp_path}/x.npy: found 50x40 pixels, not square, expected 32x32; --resize scales the centre square")
    assert answer("simulate", design, "--images", tmp_path / "x.npy", "--resize")["images"] == 1
    for number in ("0", "1000000", "9" * 5000):
        assert refused("simulate", design, "--images", number) == (2, f"fbnn-hw simulate: --images {number[:30]}: expected 1 to 999,999")
    assert refused("simulate", design, "--images", "\u00b2")[0] == 3
    assert refused("simulate", design, "--images", 1, "--resize") == (2, "fbnn-hw simulate: --resize: expected together with an image file")


def test_netlists_of_parts_without_models(design, refused):
    assert refused("simulate", design, "--netlist") == (
        2, "fbnn-hw simulate: --netlist: yosys has no complete cell models for --target generic, expected a design for ice40 or ecp5")


def test_waves(design, answer, refused, tmp_path, monkeypatch):
    from fbnn_hw.simulate import simulation

    small = generate(strategies.smallest(), "ice40", outputs=4, out=tmp_path).folder
    found = answer("simulate", small, "--images", "1", "--waves")
    assert (small / found["waves"]).stat().st_size > 10_000 and (small / found["waves_view"]).name == "dump.gtkw"
    monkeypatch.setattr(simulation, "VCD_CYCLES", 100)
    monkeypatch.setattr(simulator, "wave_format", lambda: ("vcd", ""))
    assert refused("simulate", design, "--waves")[1].endswith(
        "cycles take gigabytes as VCD; record one layer by --waves LAYER, or install liblz4 for FST "
        "(Debian: apt install liblz4-dev; macOS: brew install lz4)")


def test_waves_of_one_layer(design, answer, monkeypatch):
    """The waveform holds the layer's cycles and no more; the save files name signals that are in it, and steps and classes."""
    monkeypatch.setattr(simulator, "wave_format", lambda: ("vcd", ""))  # text, to be read here
    estimate = json.loads((design / "estimate.json").read_text())
    (layer,) = (layer for layer in estimate["layers"] if layer["layer"] == "conv4+pool2")
    found = answer("simulate", design, "--images", "3", "--waves", "pool2")
    assert found["layers_compared"] == ["input", "conv1", "pool1", "conv3", "pool2"] and found["images"] == 1 and not found["differences"]
    first, last = found["window"]["cycles"]
    assert last - first == layer["cycles"] and last < estimate["first_cycles"]
    header, changes = (design / found["waves"]).read_text().split("$enddefinitions", 1)
    times = [int(time) for time in re.findall(r"^#(\d+)$", changes, re.MULTILINE)]
    clock_ps = 10_000
    assert 0 <= times[-1] - times[0] - layer["cycles"] * clock_ps <= 3 * clock_ps

    scopes, signals = [], set()
    for line in header.splitlines():
        match line.split():
            case ["$scope", _, name, _]:
                scopes.append(name)
            case ["$upscope", _]:
                scopes.pop()
            case ["$var", _, _, _, name, *bits, "$end"]:
                signals.add(".".join([*scopes, name]) + "".join(bits))
    view = design / found["waves_view"]
    lines = view.read_text().splitlines()
    shown = [line for line in lines if line.startswith("testbench.")]
    assert set(shown) < signals and lines[0] == f'[dumpfile] "{design / found["waves"]}"'
    streams = ("pixels", "logits", "result", "latent")
    assert {f"-{name}" for name in ("time", *streams)} < set(lines)
    assert {f"testbench.dut.{name}__{part}" for name in streams for part in ("valid", "ready")} < set(shown)
    numbers = dict(line.split(" ", 1) for line in view.with_suffix(".steps").read_text().splitlines())
    assert numbers["0"] == "0: input" and "6: conv4+pool2" in numbers.values()
    assert view.with_suffix(".classes").read_text().startswith("0 0: ")
    added = re.findall("variable_add (.*)", view.with_suffix(".sucl").read_text())
    assert added == [name.split("[")[0] for name in shown]


def test_waves_of_no_layer(design, refused):
    code, message = refused("simulate", design, "--waves", "conv9")
    assert code == 2 and re.fullmatch(
        "fbnn-hw simulate: --waves conv9: not a layer of this design, expected one of input, conv1.*, logits; "
        "the folder stands before --waves", message)


def test_waves_of_one_layer_of_an_earlier_design(refused, tmp_path):
    """Its own bench records all or nothing."""
    zipfile.ZipFile(EARLIER).extractall(tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert refused("simulate", folder, "--waves", "input") == (
        3, f"fbnn-hw simulate: {folder}/testbench.v: of fbnn-hw 0.1.0, records no single layer; generate the folder again, "
        "or give --waves alone")


def test_the_folder_needs_no_package(damaged):
    """Its test runs where fbnn_hw cannot be imported."""
    code = ("import sys; sys.modules['fbnn_hw'] = None; import test_accelerator as t\n"
            "t.test_bits_and_cycles(); t.test_bits_under_random_stalls()")
    done = subprocess.run([sys.executable, "-c", code], cwd=damaged, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    golden = dict(np.load(damaged / "golden.npz"))
    golden["expect_logits"] = golden["expect_logits"] + 1
    np.savez(damaged / "golden.npz", **golden)
    done = subprocess.run([sys.executable, "-c", code], cwd=damaged, capture_output=True, text=True)
    assert done.returncode and "AssertionError: image 0: layer logits, pixel (0, 0), channel 0: expected" in done.stderr


def test_yosys_keeps_every_weight(design, tmp_path):
    """accelerator.v has no error for yosys, and the memories it infers hold the weights and the program."""
    kept = _inits(design, "accelerator.v", "accelerator", tmp_path)
    weights = "".join(f"{int(word, 16):0{4 * len(word)}b}" for word in reversed((design / "weights.hex").read_text().split()))
    assert weights in kept and len(kept) >= 2


def test_yosys_reads_wide_weights_without_warnings(tmp_path):
    """Words wider than the module's default: yosys reads the module on its own too, and must not load the file into that."""
    from fbnn_hw.rtl.verilog import MEMORIES

    words = np.random.default_rng(0).integers(0, 2, (8, 192))
    (tmp_path / "weights.hex").write_text("".join(f"{int(''.join(map(str, word)), 2):048x}\n" for word in words))
    (tmp_path / "top.v").write_text(MEMORIES.read_text() + """
        module top(input clk, input [2:0] address, output [191:0] data);
            fbnn_weight_memory #(.WIDTH(192), .DEPTH(8), .ADDRESS(3), .IMAGE("weights.hex")) memory (clk, address, data);
        endmodule""")
    assert _inits(tmp_path, "top.v", "top", tmp_path) == ["".join(map(str, words[::-1].ravel()))]


def _inits(folder, verilog, top, work):
    """What the memories that yosys infers hold, in bits; yosys must have nothing to complain of."""
    script = work / "script.ys"
    script.write_text(f"read_verilog {verilog}\nhierarchy -check -top {top}\nproc\ncheck -assert\nmemory_collect\n"
                      f"write_rtlil {work / 'design.il'}\n")
    code = "import sys; from pyosys import libyosys as ys; ys.run_pass('script ' + sys.argv[1], ys.Design())"
    done = subprocess.run([sys.executable, "-c", code, script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "Warning" not in done.stdout + done.stderr, done.stdout[-2000:] + done.stderr
    return re.findall(r"parameter \\INIT \d+'([01]+)\n", (work / "design.il").read_text())


def _pngs(root, count):
    from PIL import Image

    from fbnn_hw.data import datasets

    images = datasets.load("fixture").images[:count]
    for number, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(root / f"{number}.png")
    return [root / f"{number}.png" for number in range(count)]


def test_what_lies_compiled_in_a_folder_is_run_and_the_page_says_so(design, cli, tmp_path, monkeypatch):
    """A stamp is no signature, so docs/reliability.md names what runs the program of a stranger's folder."""
    page = " ".join((Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8").split())
    said = re.search(r"- \*\*A design's folder from a stranger is a program\.\*\* (.*?) - \*\*", page)[1]
    folder = shutil.copytree(design, tmp_path / "design", ignore=shutil.ignore_patterns("sim_build*"))
    ran = tmp_path / "ran"

    def compiled_elsewhere(command, build_dir, program, *_):
        (build_dir / program).write_text(f"#!/bin/sh\necho x >{ran}\nexit 1\n")
        (build_dir / program).chmod(0o755)

    for words, name in ((("simulate", folder), "`simulate`"), (("classify", "--data", "fixture", "--board", "virtual", "--design", folder),
                                                              "`--board virtual`")):
        with monkeypatch.context() as stranger:
            stranger.setattr(simulator, "compile_model", compiled_elsewhere)
            cli(*words, "--images", "1")
        ran.unlink()
        with monkeypatch.context() as here:
            here.setattr(simulator, "compile_model", lambda *_: pytest.fail("compiled again"))
            code, _, _ = cli(*words, "--images", "1")
        assert code and ran.exists() and name in said


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_folder_of_any_name(design, tmp_path, cli):
    """What makefiles and shells take for signs, and bytes that are no UTF-8."""
    folder = tmp_path / os.fsdecode(b"a#b:c;\"d$e\nf\xff 'g(h)%i")
    shutil.copytree(design, folder, ignore=shutil.ignore_patterns("sim_build*"))
    code, out, err = cli("simulate", folder, "--images", "1")
    assert code == 0 and "every layer equal" in out, err
    code, out, err = cli("report", folder)
    assert code == 0 and not err and "\N{REPLACEMENT CHARACTER}" in (folder / "report.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not unpacked.icebox(), reason="icebox is not installed")
def test_the_bitstream_of_a_device(tmp_path, answer):
    """The ready image, minutes of simulation: its LEDs, and what a lesson by the buttons leaves in its flash."""
    folder = shutil.copytree(ready.find("icebreaker", "device").folder, tmp_path / "device")
    found = answer("simulate", folder, "--bitstream", "icebreaker")
    assert not found["differences"] and found["lesson"] == 2 and found["answers"] == [None, 1, 0] and found["snapshot_bytes"] > 1000
