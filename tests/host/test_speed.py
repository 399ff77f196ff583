"""The speed of a board that nobody says: a line that is nonsense at any speed but one."""

import json
import os

import pytest

from fbnn_hw import design
from fbnn_hw.link import speed, transport
from fbnn_hw.link.transport import Port
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import ERROR, REPLY, Opcode
from tests import strategies

SPEEDS = [3_000_000, 2_000_000, 1_000_000]


class Line:
    """A serial port of a board that speaks at `right` and gives `answer`, (opcode, payload), to its request number `to`."""

    def __init__(self, right, answer=(Opcode.IDENTIFY | REPLY, b"any"), to=0, path="COM7"):
        self.path = path
        self.right, self.answer, self.to, self.opened, self.open = right, answer, to, [], False

    def __call__(self, path, baud):
        assert path == self.path and not self.open
        self.baud, self.inbox, self.asked = baud, b"", 0
        self.opened.append(baud)
        return self

    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, *error):
        self.open = False

    def write(self, data, timeout):
        (opcode, sequence, _), = protocol.Decoder(64).feed(data)
        assert opcode == Opcode.IDENTIFY and timeout == speed.WAIT_S
        told, payload = self.answer
        answer = protocol.encode(told, payload, sequence)
        if self.asked >= self.to:
            self.inbox += answer if self.baud == self.right else bytes(byte ^ 0x5A for byte in answer)
        self.asked += 1

    def read(self, timeout):
        data, self.inbox = self.inbox, b""
        return data

    def discard(self):
        self.inbox = b""


@pytest.fixture
def usb(monkeypatch):
    monkeypatch.setattr(transport, "ports", lambda: [Port("COM3"), Port("COM7", "0403:6010", "F1", "iCEBreaker")])
    monkeypatch.setattr(speed, "WAIT_S", 0.02)


@pytest.mark.parametrize("answer", [(Opcode.IDENTIFY | REPLY, b"of another version"), (ERROR, b"\1")])
@pytest.mark.parametrize("to", [0, 1])
def test_the_speed_at_which_a_board_answers_at_all(usb, answer, to):
    """What it says is looked at later, so that a board of another version is no board of another speed."""
    line = Line(2_000_000, answer, to)
    assert speed.answered("COM7", SPEEDS, line) == 2_000_000
    assert line.opened == SPEEDS[:2] and not line.open


def test_a_link_to_a_port_is_that_port(monkeypatch, tmp_path):
    (tmp_path / "ttyUSB0").touch()
    (tmp_path / "by-id").symlink_to(tmp_path / "ttyUSB0")
    monkeypatch.setattr(transport, "ports", lambda: [Port(os.path.realpath(tmp_path / "ttyUSB0"), "0403:6010")])
    monkeypatch.setattr(speed, "WAIT_S", 0.02)
    line = Line(2_000_000, path=str(tmp_path / "by-id"))
    assert speed.answered(str(tmp_path / "by-id"), SPEEDS, line) == 2_000_000


def test_where_none_answers_the_likeliest_is_taken(usb):
    line = Line(9600)
    assert speed.answered("COM7", SPEEDS, line) == SPEEDS[0] and line.opened == SPEEDS


def test_no_speed_is_tried_where_there_is_one_or_no_usb_device(usb):
    line = Line(9600)
    assert speed.answered("COM7", SPEEDS[2:], line) == 1_000_000
    assert speed.answered("/dev/pts/3", SPEEDS, line) == 3_000_000 and speed.answered("COM3", SPEEDS, line) == 3_000_000
    assert line.opened == []


def test_a_speed_that_the_port_lacks_is_left_out(usb):
    def opened(path, baud):
        if baud > 2_000_000:
            raise transport.SpeedError("no such speed")
        return line(path, baud)

    line = Line(1_000_000)
    assert speed.answered("COM7", SPEEDS, opened) == 1_000_000 and line.opened == SPEEDS[1:]


def test_speeds_of_a_design(tmp_path, monkeypatch):
    """The youngest build first, then the defaults of boards with its part; a damaged record counts for nothing."""
    one = design.generate(strategies.smallest(), "ice40", out=tmp_path)
    assert design.link_speeds(one) == [12_000_000, 1_000_000, 4_000_000, 3_000_000]
    assert set(design.link_speeds()) >= {1_000_000, 3_000_000, 8_000_000, 12_000_000}  # an iCEBreaker's without and with a learner
    for age, (board, record) in enumerate((("a", {"baud": 115_200}), ("b", {"baud": 2_500_000}), ("c", {"baud": "x"}), ("d", []))):
        path = one.folder / f"build-{board}" / "build.json"
        path.parent.mkdir()
        path.write_text(json.dumps(record))
        os.utime(path, (1e9 - age, 1e9 - age))
    assert design.link_speeds(one) == [115_200, 2_500_000, 12_000_000, 1_000_000, 4_000_000, 3_000_000]
    monkeypatch.setattr("fbnn_hw.design.find.OUT", tmp_path)
    assert design.link_speeds()[:2] == [115_200, 2_500_000]


def test_a_bridge_that_runs_the_line_at_a_quarter_of_what_it_is_told(usb, tmp_path):
    """The Tang Nano 20K's, with some firmware: four times each speed is tried after all of them."""
    one = design.generate(strategies.smallest(), "gowin", out=tmp_path)
    path = one.folder / "build-tangnano20k" / "build.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"baud": 115_200}))
    speeds = design.link_speeds(one)
    assert speeds == [115_200, 1_000_000, 3_000_000, 460_800, 4_000_000]
    assert speed.answered("COM7", speeds, Line(4 * 115_200)) == 460_800 and 4_000_000 in design.link_speeds()
