"""Ready images: what the package has, `flash --model`, and boards that hold one; the images of the package, and small ones made here."""

import json
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base import files
from fbnn_hw.board.interpreted import InterpretedBoard
from fbnn_hw.cli import flash
from fbnn_hw.data import datasets
from fbnn_hw.design import Design, find, generate, ready
from fbnn_hw.link import transport
from fbnn_hw.machine import protocol
from fbnn_hw.targets.boards import board
from tests import strategies

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))
BITS = b"\xff\x00\x00\xff\x7e\xaa\x99\x7e" + bytes(2000)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of a small design with builds that no tool made, for two boards."""
    folder = generate(strategies.smallest(), "ice40", out=tmp_path_factory.mktemp("ready")).folder
    for name in ("icebreaker", "pico-ice"):
        (where := folder / f"build-{name}").mkdir()
        record = {"board": name, "bitstream": "bitstream.bin", "weights": "flash.bin", "baud": 1_000_000, "fmax_mhz": 50.0}
        (where / "build.json").write_text(json.dumps(record))
        (where / "bitstream.bin").write_bytes(BITS)
        (where / "netlist.json").write_text("large, and left out")
    return Design(folder)


@pytest.fixture
def images(made, cache, tmp_path, monkeypatch):
    """The folder of the ready images: one design, `small`."""
    folder = tmp_path / "images"
    folder.mkdir()
    ready.pack(made.folder, folder / "small.tar.xz")
    entry = {"model": "small", "config_id": made.config_id, "model_mark": made.model_mark, "learns": False, "folder": made.folder.name,
             "file": "small.tar.xz", "sha256": sha256((folder / "small.tar.xz").read_bytes()).hexdigest(),
             "boards": {"icebreaker": {}, "pico-ice": {}}}
    (folder / "index.json").write_text(json.dumps({"designs": [entry]}))
    monkeypatch.setattr(ready, "IMAGES", folder)
    ready.index.cache_clear()
    yield folder
    ready.index.cache_clear()


def test_flash_of_a_ready_image_makes_nothing(images, made, answer, cli, monkeypatch):
    """Neither generator nor tools are called; the files are those of the build, in the cache; the image of the flash is the design's.

    Nor is `extractall`, which needs a filter to be quiet from Python 3.12 on, and has none before 3.11.4."""
    for name in ("fbnn_hw.rtl.verilog.convert", "fbnn_hw.targets.synthesis.run", "fbnn_hw.simulate.virtual.verilate",
                 "tarfile.TarFile.extractall"):
        monkeypatch.setattr(name, None)
    commands = answer("flash", "--board", "icebreaker", "--model", "small", "--dry-run")["commands"]
    where = files.cache_folder() / "ready" / sha256((images / "small.tar.xz").read_bytes()).hexdigest()[:16] / made.folder.name
    where /= "build-icebreaker"
    assert [command.split()[-1] for command in commands] == [str(where / "flash.bin"), str(where / "bitstream.bin")]
    assert (where / "bitstream.bin").read_bytes() == BITS
    marks = protocol.config_mark(made.config_id) + protocol.model_mark(made.read("network.json"))
    assert (where / "flash.bin").read_bytes() == marks + made.read("weights.bin")
    assert not list(where.glob("netlist*")) and not Path("rtl_out").exists()
    assert cli("flash", "--board", "icebreaker", "--model", "small.pt", "--dry-run")[0] == 0


def test_a_file_for_the_drive(images, answer, refused, tmp_path):
    [command] = answer("flash", "--board", "pico-ice", "--model", "small", "--dry-run")["commands"]
    both = Path(command.split()[-1]).read_bytes()
    assert both.startswith(BITS) and both[0x20000:].endswith(ready.find("pico-ice", "small").read("weights.bin"))
    made = answer("flash", "--board", "pico-ice", "--model", "small", "--drag", "x.uf2")
    assert made["file"] == "x.uf2" and not made["done"] and (tmp_path / "x.uf2").read_bytes()[:4] == b"UF2\n"
    assert refused("flash", "--board", "icebreaker", "--model", "small", "--drag", "y.uf2") == (
        2, "fbnn-hw flash: --drag: iCEBreaker shows no drive that a design could be dragged onto; fbnn-hw flash --board icebreaker")
    assert not (tmp_path / "y.uf2").exists()


def test_what_comes_next(made):
    """A design with a camera has no link, so no verb talks to its board."""
    assert flash._next(made.config, board("icebreaker")).startswith("next: fbnn-hw classify IMAGE")
    config = replace(made.config, camera="ov7670")
    assert flash._next(config, board("icebreaker")) == "next: wire the ov7670 and the buttons, docs/device.md"


def test_what_is_not_ready(images, refused):
    assert refused("flash", "--board", "icebreaker", "--model", "smal") == (
        2, "fbnn-hw flash: --model smal: no ready image for icebreaker, expected one of small; or run fbnn-hw generate and fbnn-hw build, "
        "and leave --model out; did you mean small?")
    assert refused("flash", "--board", "icesugar", "--model", "small") == (
        2, "fbnn-hw flash: --board icesugar: no ready image, expected one of icebreaker, pico-ice; or run fbnn-hw generate and fbnn-hw "
        "build, and leave --model out")
    assert refused("flash", "x", "--board", "icebreaker", "--model", "small") == (
        2, "fbnn-hw flash: found both DIR and --model, expected one of them")


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes()[:-9]), Path.unlink])
def test_a_damaged_image(images, refused, damage):
    damage(images / "small.tar.xz")
    assert refused("flash", "--board", "icebreaker", "--model", "small", "--dry-run") == (
        3, f"fbnn-hw flash: {images / 'small.tar.xz'}: missing or damaged, by its hash in index.json; install fbnn-hw again")
    assert not [path for path in files.cache_folder().rglob("*") if path.is_file()]


def test_what_an_interrupt_has_left(images, made):
    """A folder without a manifest, which is the last of its files, is unpacked anew."""
    design = ready.find("icebreaker", "small")
    (design.folder / "manifest.json").unlink()
    (design.folder / "half").touch()
    again = ready.find("icebreaker", "small")
    assert again.config_id == made.config_id and not (again.folder / "half").exists()
    assert [path.name for path in again.folder.parent.iterdir()] == [again.folder.name]


def test_equal_folders_give_equal_archives(made, tmp_path):
    (made.folder / "manifest.json").touch()
    for name in ("a", "b"):
        ready.pack(made.folder, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@contextmanager
def plugged_in(design, monkeypatch):
    """A port of an iCEBreaker at which a board answers that holds a design."""
    with InterpretedBoard(design) as held, socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                with line:
                    line.settimeout(0.02)
                    while True:
                        try:
                            if not (data := line.recv(4096)):
                                break
                            held.write(data, 10)
                        except TimeoutError:
                            pass
                        except OSError:
                            break
                        if answer := held.read(0):
                            line.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        port = transport.Port(f"socket://127.0.0.1:{server.getsockname()[1]}", board("icebreaker").usb)
        monkeypatch.setattr(transport, "ports", lambda: [port])
        yield port.path


def test_the_design_that_a_board_holds_is_found(images, made, answer, monkeypatch):
    """`selftest` and `classify` with --port auto find it from a folder without designs."""
    size = made.config.size
    np.save("x.npy", np.arange(3 * size * size, dtype=np.uint8).reshape(3, size, size))
    with plugged_in(made, monkeypatch):
        assert answer("selftest", "--port", "auto", "--out", "s.json")["design"] == made.folder.name
        answered = answer("classify", "x.npy", "--port", "auto")
    assert Path(answered["design"]).is_relative_to(files.cache_folder()) and answered["classes"] == made.classes


def test_a_design_of_one_s_own_goes_before(images, made, tmp_path):
    assert find.holding(made.config_id, made.model_mark, tmp_path).folder.is_relative_to(files.cache_folder())
    assert find.holding(made.config_id, made.model_mark, made.folder.parent).folder == made.folder
    assert find.holding(made.config_id, "00000000", tmp_path) is None
    assert find.holding(made.config_id, "00000000", made.folder.parent).folder == made.folder


# The images of the package.

READY = [(entry["model"], name) for entry in ready.index() for name in entry["boards"]]


@pytest.mark.slow
def test_all_images_are_there():
    import ready as program  # docs/benchmarks/ready.py

    assert {(model, name) for model, names in program.BOARDS.items() for name in names} == set(READY), "python docs/benchmarks/ready.py"


@pytest.mark.skipif(not READY, reason="no image is built: python docs/benchmarks/ready.py")
def test_the_images_are_small():
    assert sum(path.stat().st_size for path in ready.IMAGES.iterdir()) <= 3 << 20
    assert {path.name for path in ready.IMAGES.iterdir()} == {ready.INDEX, *(entry["file"] for entry in ready.index())}


@pytest.mark.parametrize("model, name", READY)
def test_an_image_of_the_package(cache, model, name):
    """The design is of the shipped checkpoint, met its clock, and its bitstream has the hash that the index states."""
    entry = next(entry for entry in ready.index() if entry["model"] == model)
    build, design = entry["boards"][name], ready.find(name, model)
    record = json.loads((design.folder / f"build-{name}" / "build.json").read_text())
    bitstream = (design.folder / f"build-{name}" / record["bitstream"]).read_bytes()
    assert sha256(bitstream).hexdigest() == build["bitstream_sha256"]
    assert record["met"] and record["fmax_mhz"] >= build["clock_mhz"] and record["board"] == name
    assert (design.config_id, design.model_mark) == (entry["config_id"], entry["model_mark"])
    assert record["baud"] == build["baud"]
    assert design.config.camera or record["pins"]["rx"] == board(name).pins["rx"]
    shipped = ROOT / "fbnn_hw" / "checkpoints" / design.manifest["checkpoint"]["file"]
    assert design.manifest["checkpoint"]["sha256"] == sha256(shipped.read_bytes()).hexdigest(), "python docs/benchmarks/ready.py"


@pytest.mark.parametrize("model", ready.models()[:1])
def test_a_board_with_an_image_of_the_package(cache, answer, monkeypatch, model):
    design = ready.find("icebreaker", model)
    with plugged_in(design, monkeypatch):
        images = answer("classify", "--data", "fixture", "--images", 3, "--port", "auto")["images"]
    from fbnn_hw.reference import inference

    logits = inference.logits(design.network, datasets.load("fixture").images[:3])
    assert [image["logits"] for image in images] == logits.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model", [model for model in ready.models() if model == "tiny"])
def test_the_same_tools_give_the_same_bytes(model):
    import ready as program  # docs/benchmarks/ready.py

    assert not program.check([model])
