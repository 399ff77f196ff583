import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from fbnn_hw.ir import ops as op
from fbnn_hw.ir import shipped
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import checkpoint
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

FILES = {"accelerator.core", "accelerator.sdc", "accelerator.v", "accelerator.vlt", "bench.cpp", "bench.py", "ci.yml",
         "config.json", "diagram.svg", "estimate.json", "expected.hex", "golden.hex", "sim.v",
         "golden.npz", "instance.v", "layout.json", "manifest.json", "network.json", "parameters.vh", "simulator.py",
         "test_accelerator.py", "testbench.v", "weights.hex"}
SHIPPED = shipped.FOLDER
SMALL = ("--model", "0.5mb.pt", "--target", "generic", "--lanes", "16", "--outputs", "4")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same design, made twice."""
    from fbnn_hw.cli import main

    folders = []
    for number in range(2):
        root = tmp_path_factory.mktemp(f"out{number}")
        assert main(["generate", *SMALL, "--out", str(root)]) == 0
        (folder,) = root.iterdir()
        folders.append(folder)
    return folders


def test_writes_what_the_page_lists(folders):
    assert {path.name for path in folders[0].iterdir()} == FILES
    assert folders[0].name.startswith("0.5mb-10c-generic-")
    table = (Path(__file__).parents[2] / "docs" / "commands.md").read_text().split("## What comes out")[1].split("\n\n")[2]
    for_some = {"weights.bin", "SB_SPRAM256KA.v", "accelerator_axis.v", "accelerator_wb.v", "accelerator_axil.v", "registers.md",
                "registers.h", "registers.json", "fbnn.h", "fbnn.c"}
    assert set(re.findall(r"`([\w.]+\.\w+)`", table)) == FILES | for_some


@pytest.mark.parametrize("step", range(4))
def test_an_interrupt_loses_nothing_a_board_learned(step, folders, tmp_path, cli, monkeypatch):
    """Of the steps that take the place of a folder, one after the other is the one at which Ctrl-C comes."""
    root = tmp_path / "out"
    folder = root / folders[0].name
    shutil.copytree(folders[0], folder)
    (folder / "learned-board.snapshot").write_bytes(b"cat")
    (folder / "build-icebreaker").mkdir()
    (folder / "build-icebreaker" / "build.json").write_text("{}")
    left = [step]

    def stopped(function):
        def call(*args, **settings):
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt
            return function(*args, **settings)
        return call

    monkeypatch.setattr(Path, "rename", stopped(Path.rename))
    monkeypatch.setattr(shutil, "rmtree", stopped(shutil.rmtree))
    assert cli("generate", *SMALL, "--out", root)[0] == (130 if step < 3 else 0)
    assert (folder / "learned-board.snapshot").read_bytes() == b"cat"
    assert {path.name for path in folder.iterdir()} == FILES | {"learned-board.snapshot", "build-icebreaker"}
    assert (folder / "build-icebreaker" / "build.json").read_text() == "{}"


@pytest.mark.parametrize("step", ["shutil.rmtree", "fbnn_hw.design.output.Design", "fbnn_hw.cli.generate._learner"])
def test_an_interrupt_when_the_folder_is_there_says_so(step, tmp_path, cli, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(step, interrupted)
    checkpoint.save(tmp_path / "smallest.pt", strategies.smallest())
    code, _, err = cli("generate", "--model", tmp_path / "smallest.pt", "--target", "ice40", "--out", tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    assert (code, err.splitlines()[-1]) == (130, f"fbnn-hw generate: interrupted; {folder} is written")


def test_a_full_disk(tmp_path, cli, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, err = cli("generate", *SMALL, "--out", tmp_path / "out")
    assert (code, err.splitlines()[-1]) == (
        3, f"fbnn-hw generate: --out {tmp_path / 'out'}: No space left on device, expected a folder that can be written, on a disk "
        "with room")
    assert not list((tmp_path / "out").iterdir())


def test_equal_inputs_give_equal_bytes(folders):
    assert folders[0].name == folders[1].name
    for name in FILES:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_the_manifest_names_every_file(folders):
    from hashlib import sha256

    manifest = json.loads((folders[0] / "manifest.json").read_text())
    assert manifest["files"] == {name: sha256((folders[0] / name).read_bytes()).hexdigest() for name in FILES - {"manifest.json"}}
    assert {metric["kind"] for metric in manifest["metrics"].values()} == {"estimated"}


@pytest.mark.parametrize("flags, code, text", [
    (("--target", "foo"), 2, "--target foo: no such target"),
    (("--target", "ice40", "--outputs", "3"), 2, "--outputs 3: expected a power of two from --pixels (4) to --lanes (16)"),
    (("--target", "ice40", "--pixels", "8"), 2,
     "--pixels 8 --lanes 16: iCE40UP5K-SG48 has 4 feature banks of 16 bits, expected --pixels 4 --lanes 16"),
    (("--target", "ice40", "--counter-bits", "4"), 2,
     "--max-classes, --exemplars, --counter-bits, --forget, --keep, --start: only with --learn"),
    (("--target", "ice40", "--learn", "--counter-bits", "9"), 2, "--counter-bits: found '9', expected a whole number from 1 to 8"),
    (("--target", "ice40", "--learn", "--max-classes", "2000"), 2, "--max-classes: found '2000', expected a whole number from 1 to 1,024"),
    (("--target", "ice40", "--learn", "--exemplars", "0"), 2, "--exemplars: found '0', expected a whole number from 1"),
    (("--target", "ice40", "--learn", "--exemplars", "533"), 4, "--exemplars 533: 532 fit beside the features and 16 classes"),
    (("--target", "ice40", "--learn", "--max-classes", "9"), 2, "--max-classes 9: the model knows 10 classes, expected at least as many"),
    (("--target", "ice40", "--outputs", "16"), 4, "4 pixels x 16 lanes x 16 outputs need 35 block RAMs"),
    (("--target", "ice40", "--outputs", "16"), 4, "has 30; use 4 x 16 x 8, which is chosen without --pixels, --lanes and --outputs"),
    (("--target", "xilinx7-35t", "--pixels", "16"), 4, "XC7A35T gives 17,600 to it; use 4 x 64 x 16, which is chosen without"),
    (("--target", "ice40", "--learn", "means", "--counter-bits", "2"), 2, "--counter-bits 2: expected at least 3 with --learn means"),
    (("--target", "generic", "--duty-cycle"), 2,
     "--duty-cycle: --target generic has no memory with a standby, expected --target ice40"),
])
def test_refuses_in_one_line(cli, tmp_path, flags, code, text):
    exit_code, out, err = cli("generate", "--model", "0.5mb.pt", *flags, "--out", tmp_path / "none")
    lines = [line for line in err.splitlines() if "shipped checkpoint" not in line]
    assert exit_code == code and not out and len(lines) == 1 and text in lines[0]
    assert not (tmp_path / "none").exists()


LYING_NOWHERE = pytest.mark.parametrize("latent", [[(op.Gap, {"name": LATENT})], [
    GAP, (op.Depthwise, {"name": "b", "inputs": ("maxpool1",)}), (op.Concat, {"name": LATENT, "inputs": ("gap", "b")})]])


def lying_nowhere(cli, tmp_path, latent, *flags):
    """The folder of a network whose latent is a view of other maps."""
    checkpoint.save(tmp_path / "small.pt", strategies.fill(topology(8, 2, conv(16), POOL, *latent), 5))
    assert cli("generate", "--model", tmp_path / "small.pt", "--target", "ice40", "--out", tmp_path / "out", *flags)[0] == 0
    (folder,) = (tmp_path / "out").iterdir()
    return folder


@pytest.mark.parametrize("rule", [("--learn",), ("--learn", "nearest-mean"), ("--learn", "--start", "empty")])
def test_a_network_without_a_latent_does_not_learn(cli, tmp_path, rule):
    checkpoint.save(tmp_path / "small.pt", strategies.fill(topology(8, 2, conv(16), POOL, GAP), 5))
    code, out, err = cli("generate", "--model", tmp_path / "small.pt", "--target", "ice40", "--out", tmp_path / "out", *rule)
    assert code == 3 and err.endswith("has no layer named latent, expected a feature extractor that ends in one\n") and not out


@LYING_NOWHERE
def test_a_latent_that_lies_nowhere_is_not_handed_out(cli, tmp_path, latent):
    code, out, err = cli("simulate", lying_nowhere(cli, tmp_path, latent), "--latent")
    assert code == 2 and "has no layer named latent whose bits lie in memory as a vector" in err and not out


@LYING_NOWHERE
@pytest.mark.slow
def test_a_latent_that_lies_nowhere_is_stored_for_a_learner(cli, tmp_path, latent):
    """sim/test_learning_frames.py has one without its folder."""
    assert cli("simulate", lying_nowhere(cli, tmp_path, latent, "--learn", "--max-classes", 3), "--images", "2")[0] == 0


def test_a_design_that_learns_says_what_its_exemplars_cost(cli, tmp_path):
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    checkpoint.save(tmp_path / "small.pt", network)
    code, out, _ = cli("generate", "--model", tmp_path / "small.pt", "--target", "ice40", "--learn", "--max-classes", 4,
                       "--out", tmp_path / "out")
    lines = out.splitlines()
    estimate = json.loads(next((tmp_path / "out").glob("*/estimate.json")).read_text())
    assert code == 0 and lines[2].startswith("        not 4 x 16 x 8: the engine needs about ")
    learning = estimate["learning"]
    plain = f"the same array without a learner takes {learning['plain_cycles']:,} (estimated)"
    assert f"        the exemplars cost 0 cycles a frame; {plain}" in lines
    assert learning["exemplar_cycles"] == 0 and learning["exemplars"] >= 40
    assert sum(learning["rows"].values()) == estimate["feature_words"]


def test_what_learning_would_give_is_said_at_the_end(answer, cli, tmp_path):
    """The room is that of the design that the printed command makes; a network without latent says why not."""
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    tmp_path = tmp_path / "my networks"
    checkpoint.save(tmp_path / "small.pt", network)
    flags = "--model", tmp_path / "small.pt", "--target", "ice40", "--out", tmp_path / "out"
    offered = answer("generate", *flags)["learner"]
    text = cli("generate", *flags)[1]
    assert f"learn   new classes on the chip: fbnn-hw generate --model '{tmp_path / 'small.pt'}' --target ice40 --learn\n" in text
    assert f"next: fbnn-hw simulate '{tmp_path / 'out'}/" in text
    assert f"room for {offered['max_classes']} classes" in text
    made = answer("generate", *flags, "--learn")
    learning = made["estimate"]["learning"]
    assert made["learner"] is None and learning["max_classes"] == offered["max_classes"]
    assert shlex.split(offered["command"]) == ["fbnn-hw", "generate", *map(str, flags[:4]), "--learn"]
    checkpoint.save(tmp_path / "plain.pt", strategies.smallest())
    refused = answer("generate", "--model", tmp_path / "plain.pt", "--target", "ice40", "--out", tmp_path / "out")["learner"]
    assert set(refused) == {"refused"} and LATENT in refused["refused"]


def test_weights_from_an_sdram(tmp_path, answer, refused, capsys):
    """The text names it; a board's flash takes the same image; a target without one says what it has."""
    made = answer("generate", "--model", "0.5mb.pt", "--target", "gowin", "--lanes", "16", "--outputs", "8", "--weights", "sdram",
                  "--out", tmp_path)
    assert made["estimate"]["sdram_bits_per_cycle"] == 32 * 8 / 9 and made["estimate"]["flash_bits_per_cycle"] is None
    assert made["estimate"]["clock_hz"] == 60e6 and "weights.bin" in made["files"]
    config = json.loads(Path(made["files"]["config.json"]).read_text())
    assert (config["weights"], config["beat_bits"], config["burst"]) == ("stream", 32, 8)
    parameters = Path(made["files"]["parameters.vh"]).read_text()
    assert "`define BEAT_BYTES 4\n" in parameters and "`define BURST 8\n" in parameters
    assert refused("generate", "--model", SHIPPED / "0.5mb.pt", "--target", "ice40", "--weights", "sdram", "--out", tmp_path) == (
        2, "fbnn-hw generate: --weights sdram: ice40 has no way to it, expected flash or flash-2x")


def test_weights_from_a_flash_at_twice_the_clock(tmp_path, answer, refused, cli):
    """Twice the bits a cycle and fewer cycles; the text names it; a target without one says what it has."""
    made = {way: answer("generate", "--model", "1mb.pt", "--target", "ice40", "--outputs", 8, "--weights", way, "--out", tmp_path)
            for way in ("flash", "flash-2x")}
    once, twice = (made[way]["estimate"] for way in made)
    assert (once["flash_bits_per_cycle"], twice["flash_bits_per_cycle"]) == (4, 8) and once["cycles"] > twice["cycles"]
    assert twice["clock_hz"] == TARGETS["ice40"].double_hz and "sdram_bits_per_cycle" not in twice
    configs = [json.loads(Path(one["files"]["config.json"]).read_text()) for one in made.values()]
    assert "beat_bits" not in configs[0] and configs[1]["beat_bits"] == 16 and "burst" not in configs[1]
    assert "flash   at twice the clock of the design, 8.0 bits of weights a cycle" in cli(
        "generate", "--model", "0.5mb.pt", "--target", "ice40", "--outputs", 8, "--weights", "flash-2x", "--out", tmp_path)[1]
    assert refused("generate", "--model", SHIPPED / "0.5mb.pt", "--target", "ecp5-25f", "--weights", "flash-2x", "--out", tmp_path) == (
        2, "fbnn-hw generate: --weights flash-2x: ecp5-25f has no way to it, expected chip or flash or sdram")
