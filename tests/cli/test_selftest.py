"""`fbnn-hw selftest` against boards that err.  A whole virtual board passes it in tests/host/test_virtual.py."""

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.base.progress import silent
from fbnn_hw.board import Board, selftest
from fbnn_hw.board.taught import Taught
from fbnn_hw.cli import _board
from fbnn_hw.compile.plan import plan
from fbnn_hw.data.datasets import test_images as shipped_images
from fbnn_hw.machine import protocol
from fbnn_hw.machine.line import DEFAULT_BAUD
from fbnn_hw.reference import inference
from fbnn_hw.targets import TARGETS
from tests import strategies

NETWORK = strategies.smallest()
SIZE = NETWORK.topology.image_size
PLANNED = plan(NETWORK, TARGETS["ice40"])
SPAN = selftest.spans(PLANNED.config, selftest.SLOW)[-1]
DESIGN = SimpleNamespace(network=NETWORK, config=PLANNED.config, folder=Path("net"), estimate={
    "load_cycles": PLANNED.frame.load, "clock_hz": 48e6, "target": "ice40", "part": "a part"})


class FakeBoard:
    """Answers as the reference, but for what the keywords spoil."""

    learns = simulated = False

    def __init__(self, wrong=None, cycles=SPAN + 8, errors=0, repeated=0, dead=False, refuses=None,
                 stopped=(protocol.ERROR, bytes([protocol.Fault.TIMEOUT]))):
        self.wrong, self.cycles, self.dead, self.refuses = wrong, cycles, dead, refuses
        self.stopped = stopped  # the message that it sends where a request has stopped
        self.identity = SimpleNamespace(config=b"abcd", model=b"efgh")
        self.sent = []
        self.client = SimpleNamespace(
            name="<board>", sequence=3, wait_s=0.02, repeated=repeated, identify=self.identify,
            status=lambda: self.identify() and SimpleNamespace(errors=errors),
            transport=SimpleNamespace(baud=DEFAULT_BAUD, write=lambda data, timeout: self.sent.append(data), read=self.read))

    def read(self, timeout):
        return protocol.encode(*self.stopped) if self.stopped and len(self.sent[-1]) < 7 else b""

    def identify(self):
        if self.dead:
            raise InputError("no answer")
        return self.identity

    def held_design(self):
        return DESIGN

    def erased(self):
        return nullcontext()

    def classify(self, images, progress=silent):
        if self.refuses or self.dead:
            raise InputError(self.refuses or "no answer")
        logits = inference.logits(NETWORK, images)
        if self.wrong is not None:
            logits[self.wrong, 0] += 2
        return SimpleNamespace(logits=logits, cycles=[9999] + [self.cycles] * (len(images) - 1))


@pytest.fixture
def board(monkeypatch):
    def use(fake):
        @contextmanager
        def opened(args, out, of, learns=False):
            yield fake
        monkeypatch.setattr(_board, "opened", opened)
        return fake
    return use


@pytest.mark.parametrize("spoilt, failed", [
    ({}, []), ({"wrong": 2}, ["logits"]), ({"cycles": SPAN + PLANNED.frame.load + 100}, ["cycles"]), ({"cycles": SPAN - 1}, ["cycles"]),
    ({"errors": 1}, ["link"]),
    ({"repeated": 1}, ["link"]), ({"refuses": "sent class 3 with logits [1, 2]"}, ["logits"]),
    ({"dead": True}, ["logits", "link", "time-out"]),
    ({"wrong": 0, "stopped": None}, ["logits", "time-out"]),
    ({"stopped": None}, ["time-out"]), ({"stopped": (protocol.ERROR, bytes([protocol.Fault.CRC]))}, ["time-out"])])
def test_what_a_board_does_wrong_is_named(board, tmp_path, capsys, spoilt, failed):
    from fbnn_hw.cli import main

    fake = board(FakeBoard(**spoilt))
    code = main(["selftest", "--port", "P", "--images", "4", "--out", str(tmp_path / "t"), "--power", "12.5"])
    report = json.loads((tmp_path / "t.json").read_text())
    assert code == (6 if failed else 0) and report["passed"] == (not failed)
    assert [check["check"] for check in report["checks"] if not check["passed"]] == failed
    assert report["measured_mw"] == 12.5 and report["config_id"] == b"abcd".hex()
    page = (tmp_path / "t.html").read_text()
    assert "&lt;board&gt;" in page and "<board>" not in page
    captured = capsys.readouterr()
    assert ("failed " + ", ".join(failed) if failed else "") in captured.err
    if "refuses" in spoilt:
        assert spoilt["refuses"] in captured.out and spoilt["refuses"] in page
    if "wrong" in spoilt:
        assert f"the first is image {spoilt['wrong']}" in captured.out
    for sent in fake.sent:
        assert not list(protocol.Decoder(64).feed(sent)), "a request that the board must not understand"


class Forgetful(FakeBoard):
    """A board that learns, but for the requests in `mute`, which it does not answer."""

    learns = True

    def __init__(self, mute=()):
        super().__init__()
        self.mute, self.state, self.restored = mute, b"as shipped", []
        self.identity.max_classes = 4
        self.chip = SimpleNamespace(snapshot=self.snapshot, restore=self.restore, untaught=lambda: self.state == b"as shipped")
        self.client.reset = lambda: self.ask("reset")
        self.client.learn = lambda index: self.ask("learn")

    def ask(self, request):
        if request in self.mute:
            raise InputError(f"no answer to {request}")
        self.state = b"as shipped" if request == "reset" else self.state + b"!"

    def answer(self, image):
        return 0

    def snapshot(self):
        if "snapshot" in self.mute:
            raise InputError("no answer to snapshot")
        return self.state

    def restore(self, snapshot, where):
        if "restore" in self.mute:
            raise InputError("no answer to restore")
        self.state = snapshot
        self.restored.append(snapshot)


class Twin:
    """The reference of `Forgetful`."""

    known = 2

    def restore(self, snapshot):
        self.state = snapshot

    def learn(self, latents, labels):
        self.state += b"!"

    def snapshot(self):
        return self.state


@pytest.mark.parametrize("mute, failed", [
    ((), []), (("learn",), ["lesson"]), (("restore",), ["lesson", "state"]), (("reset",), ["state", "lesson"]),
    (("snapshot",), ["state", "lesson"])])
def test_a_board_that_stops_answering_is_reported_to_the_end(mute, failed, monkeypatch):
    monkeypatch.setattr(selftest.inference, "latents", lambda network, images: np.zeros((1, 8), np.uint8))
    design, board = SimpleNamespace(**vars(DESIGN), learner=Twin), Forgetful(mute)
    board.state = b"taught"
    checks = selftest.checks(board, design, 3)
    assert [check["check"] for check in checks if not check["passed"]] == failed
    assert {"logits", "cycles", "link", "time-out"} <= {check["check"] for check in checks}
    assert all(any(request in check["found"] for request in mute) for check in checks if not check["passed"])
    assert board.restored[-1:] == ([] if {"restore", "snapshot"} & set(mute) else [b"taught"])


def test_a_slow_line_is_no_stall():
    """The counter goes on until the request's check sum has come."""
    board = FakeBoard()
    low, high = selftest.cycle_bounds(board, DESIGN, 4)
    board.client.transport.baud = 9600
    assert selftest.cycle_bounds(board, DESIGN, 4)[0] == low and selftest.cycle_bounds(board, DESIGN, 4)[1] > 2 * 10 * 48e6 / 9600 > high


def test_images_are_those_that_ship():
    assert np.array_equal(selftest._images(SIZE, 3), shipped_images(SIZE, 3))


@pytest.mark.parametrize("flags, text", [
    ([], "missing --port or --board"), (["--port", "P", "--board", "virtual"], "found both --port and --board"),
    (["--port", "P", "--power", "-3"], "--power -3.0: expected milliwatts above 0")])
def test_flags_without_meaning(capsys, flags, text):
    from fbnn_hw.cli import main

    assert main(["selftest", *flags]) == 2 and text in capsys.readouterr().err


@pytest.mark.parametrize("name, text", [
    ("{0}/page", "{0}/page.html: is a directory, expected a file name"), ("{0}/", "--out {0}/: expected the beginning of two file names"),
    ("", "--out: found '', expected a value"), ("/dev/null/x", "/dev/null/x.json: /dev/null is not a folder that can be written")])
def test_files_that_cannot_be_written_are_refused_before_the_test(refused, tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(_board, "opened", lambda *arguments, **options: pytest.fail("the board was opened"))
    (tmp_path / "page.html").mkdir()
    code, line = refused("selftest", "--port", "P", "--out", name.format(tmp_path))
    assert code == 2 and line.startswith(f"fbnn-hw selftest: {text.format(tmp_path)}") and len(list(tmp_path.iterdir())) == 1


def test_files_of_the_design_that_a_board_holds_stay(refused, board, tmp_path, monkeypatch):
    """Also where the board says which design it is."""
    monkeypatch.chdir(tmp_path)
    board(FakeBoard())
    record = tmp_path / "net" / "build-icebreaker" / "build.json"
    record.parent.mkdir(parents=True)
    record.write_text("kept")
    code, line = refused("selftest", "--port", "P", "--out", record.with_suffix(""))
    assert code == 2 and f"{record}: is a file of the design in net, expected another name" in line and record.read_text() == "kept"


@pytest.mark.parametrize("simulated, error, kept", [(True, None, []), (False, None, []), (False, InputError("no answer"), ["1.snapshot"])])
def test_an_interrupt_leaves_what_a_board_was_taught(simulated, error, kept, tmp_path, monkeypatch):
    """A board on a desk gets it back within the time of an interrupt, or a file has it; a simulated board ends with it."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    def restore(snapshot, where):
        restored.append(snapshot)
        if error:
            raise error

    board, restored, told = object.__new__(Board), [], []
    board.client = SimpleNamespace(name="<board>", transport=None, within=lambda seconds: nullcontext(), reset=lambda: None)
    board.identity, board.simulated, board.design = SimpleNamespace(max_classes=4), simulated, None
    monkeypatch.setattr(Board, "chip", SimpleNamespace(snapshot=lambda: b"taught", restore=restore))
    monkeypatch.setattr(Board, "file", tmp_path / "learned-board.snapshot")
    monkeypatch.setattr(selftest, "inference_checks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        selftest.checks(board, DESIGN, 1, kept=told.append)
    assert restored == ([] if simulated else [b"taught"])
    assert [path.name for path in tmp_path.iterdir()] == [f"learned-board-{name}" for name in kept] and told == list(tmp_path.iterdir())
    for path in told:
        assert Taught.read(path).snapshot == b"taught"
