"""What a board learns is in its flash, and loaded after power-up: a whole design with link and keeper on a virtual board."""

import time
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design as designs
from fbnn_hw.base.errors import UsageError
from fbnn_hw.board import Board
from fbnn_hw.cli import main
from fbnn_hw.design import Design
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link import transport
from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine import protocol
from fbnn_hw.machine.kept import SlotMemory, SlotPlan, newest
from fbnn_hw.rtl import board_top
from fbnn_hw.rtl.qspi_flash import FlashChip
from fbnn_hw.simulate import virtual
from fbnn_hw.simulate.device.device import SOURCES
from tests import strategies
from tests.rtl.test_accelerator import DEPTHWISE, POOL, conv, dense, topology

HERE = Path(__file__).parent


class KeptBoard(virtual.VirtualBoard):
    """A virtual board with a keeper and a flash that can be written, build_dir/flash.bin."""

    def __init__(self, design, build_dir):
        folder, config = design.folder, design.config
        self.folder, self.port, self._process, self.build_dir = folder, None, None, Path(build_dir).absolute()
        self.clocks = virtual.fewest_clocks(config)
        sources = virtual.board_sources(folder, self.build_dir, self.clocks)
        top = self.build_dir / "kept_top.v"
        self.base, end = board_top.keep_room(config, virtual.OFFSET)
        top.write_text(virtual.top_verilog(
            config, bytes(4), clock_hz=virtual.CLOCK_HZ, clocks=self.clocks, chip=FlashChip(), offset=virtual.OFFSET, timeout_bits=20,
            keep_base=self.base))
        flash = [HERE / "kept_flash.v", HERE / "kept_flash.cpp"]
        sources = [source for source in sources if source.name not in ("board_top.v", "spi_flash.v")] + [top, *flash]
        self.program = virtual.verilate(sources, self.build_dir, [self.build_dir], options=[
            "-CFLAGS", f"-I{SOURCES.absolute()}"])
        image = b"\xff" * virtual.OFFSET + virtual.flash_image(folder)
        self.flash = self.build_dir / "flash.bin"
        self.flash.write_bytes(image + b"\xff" * (end - len(image)))

    def slots(self, slot):
        content = self.flash.read_bytes()
        return [content[place:place + slot.bytes] for place in slot.places(self.base)]


@pytest.fixture(scope="module")
def network():
    layers = conv(16), POOL, DEPTHWISE, dense(32, name=LATENT), dense(16, name="hidden")
    return strategies.on_engine(strategies.fill(topology(8, 2, *layers), 7))


@pytest.mark.parametrize("options", [
    {"learn": "nearest-mean", "unknown": True, "forget": True, "max_classes": 4},
    pytest.param({"learn": True, "start": "empty", "max_classes": 4, "exemplars": 8}, marks=pytest.mark.slow)], ids=["means", "replay"])
def test_a_board_keeps_what_it_learns(network, tmp_path, monkeypatch, options):
    monkeypatch.setattr(board_top, "QUIET_BITS", 14)
    design = designs.generate(network, "ice40", out=tmp_path, weights="flash", keep=True, outputs=4, **options)
    board, slot, images = KeptBoard(design, tmp_path / "board"), SlotPlan(design.config.learning), strategies.images(3, 8, 8)
    marks = protocol.config_mark(design.config.id), protocol.model_mark((design.folder / "network.json").read_bytes())

    def kept(snapshot):
        """Wait until the newest slot is this snapshot."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            slots = board.slots(slot)
            best = newest(slot, slots, *marks)
            if best is not None:
                memory, _ = SlotMemory.unpack(slot, slots[best], *marks)
                if ChipState(design.config.learning, design.learner(), memory.peek, memory.poke).snapshot() == snapshot:
                    return
            time.sleep(0.2)
        raise AssertionError("nothing was kept")
    with board, transport.Serial(board.port, 1_000_000) as line:
        client = Board.started(line, design)
        assert client.names == []
        client.learn(images[:3], "one", **({} if client.twin.config.adds else {"passes": 1}))
        kept(client.chip.snapshot())
        client.learn(images[3:6], "two", **({} if client.twin.config.adds else {"passes": 1}))
        snapshot, answers = client.chip.snapshot(), client.classify(images).classes
        kept(snapshot)
        assert client.classify(images).classes == answers
    board.port = None  # of the board that has lost its power
    with board, transport.Serial(board.port, 1_000_000) as line:
        client = Board.started(line, design)
        assert client.chip.snapshot() == snapshot and client.classify(images).classes == answers
    assert "flash:" not in (board.build_dir / "board.log").read_text()


def test_snapshots_and_slots(network, tmp_path):
    """A snapshot becomes a slot and the slot the snapshot, whatever the learner knows."""
    for options in ({"learn": "nearest-mean", "unknown": True, "forget": True}, {"learn": True, "start": "empty", "exemplars": 8}):
        design = designs.generate(network, "ice40", out=tmp_path, weights="flash", keep=True, outputs=4, max_classes=4, **options)
        learner, slot = design.learner(), SlotPlan(design.config.learning)
        latents = np.random.default_rng(5).integers(0, 2, (6, learner.head.latent), np.uint8)
        learner.learn(latents, [learner.known] * 3 + [0] * 3)
        memory = SlotMemory(slot)
        ChipState(design.config.learning, design.learner(), memory.peek, memory.poke).restore(learner.snapshot())
        text = memory.pack(b"abcd", b"efgh", 3)
        again, sequence = SlotMemory.unpack(slot, text, b"abcd", b"efgh")
        assert sequence == 3 and ChipState(
            design.config.learning, design.learner(), again.peek, again.poke).snapshot() == learner.snapshot()


def test_flash_slots_go_to_another_board_and_back(network, tmp_path, capsys):
    """What one board knows becomes the slots of a flash; another one is restored from them, from a slot alone, or after an older one."""
    options = {"learn": "nearest-mean", "unknown": True, "forget": True, "max_classes": 4, "outputs": 4}
    folders = [designs.generate(network, "ice40", out=tmp_path / name, weights="flash", keep=True, **options).folder for name in "abc"]
    learn = ["learn", "--board", "interpreted", "--design"]
    images, file, slot = strategies.images(3, 8, 8), tmp_path / "slots", SlotPlan(Design(folders[0]).config.learning)
    with Board.interpreted(folders[0]) as board:
        board.learn(images[:3], "one")
        before = board.chip.snapshot()
        board.flash_slots(file)
        old = file.read_bytes()
        board.learn(images[3:6], "two")
        board.flash_slots(file)
        snapshot, answers = board.chip.snapshot(), board.classify(images).classes
    data = file.read_bytes()
    assert len(data) == len(old) == 3 * slot.room and data[slot.bytes:].count(0xFF) == len(data) - slot.bytes
    second = SlotMemory.unpack(slot, data, data[248:252], data[252:256])[0].pack(data[248:252], data[252:256], 1)
    both = old[:slot.room] + second.ljust(2 * slot.room, b"\xff")
    for folder, content, expected in ((folders[1], data, snapshot), (folders[1], old[:slot.bytes], before), (folders[2], both, snapshot)):
        file.write_bytes(content)
        assert main([*learn, str(folder), "--restore", str(file), "--flash-slots", str(tmp_path / "again")]) == 0
        out = capsys.readouterr().out
        assert f"restored {file}" in out and f"written {tmp_path / 'again'}" in out
        with Board.interpreted(folder) as board:
            assert board.chip.snapshot() == expected
            assert expected != snapshot or board.classify(images).classes == answers
    assert (tmp_path / "again").read_bytes() == data
    other = designs.generate(network, "ice40", out=tmp_path / "other", **options).folder
    for folder, content, message in (
            (folders[0], b"\xff" * len(data), "no state, expected one that a board has kept"),
            (folders[0], data[:slot.bytes - 1], f"{slot.bytes - 1} bytes, expected at least {slot.bytes}"),
            (folders[0], data[:300] + bytes([data[300] ^ 1]) + data[301:], "damaged, its checksum does not fit"),
            (other, data, "damaged or another file, expected what fbnn-hw learn --snapshot wrote")):
        file.write_bytes(content)
        assert main([*learn, str(folder), "--restore", str(file)]) == 3
        assert f"{file}: {message}" in capsys.readouterr().err
    assert main([*learn, str(other), "--flash-slots", str(file)]) == 2
    assert "keeps nothing in a flash, expected a design made with generate --keep" in capsys.readouterr().err


def test_refusals(network):
    for options, message in (({}, "--keep, --start: only with --learn"),
                             ({"learn": "means", "wrapper": "axi-stream"}, "--keep: expected without --wrapper and --duty-cycle"),
                             ({"learn": "means", "weights": "chip"}, "--keep: the weights of this design come from chip, expected")):
        with pytest.raises(UsageError, match=message):
            designs.plan(network, "ecp5", keep=True, **options)
