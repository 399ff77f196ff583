"""The client over pseudo-terminals, against a board written in Python: what goes wrong on the line, and what is said then."""

import os
import pty
import threading
import time
import tty
from dataclasses import replace

import pytest

from fbnn_hw import protocol
from fbnn_hw.errors import InputError
from fbnn_hw.host.client import Client
from fbnn_hw.host.transport import Serial
from fbnn_hw.protocol import Fault, Identity, Opcode, Status, encode

IDENTITY = Identity(2, b"abcd", 3, 2, 4, 1, b"wxyz")
IMAGE = bytes(range(12))
RESULT = b"".join(n.to_bytes(2, "little", signed=True) for n in (-5, 7, 6))
ANSWER = encode(0x91, RESULT + b"\1\0")
ERROR = {fault: encode(protocol.ERROR, bytes([fault])) for fault in Fault}


class Board:
    """Answers requests on a pseudo-terminal.  tricks: for the next requests, bytes to send instead of the answer; None ends it."""

    def __init__(self):
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.slave, self.port = slave, os.ttyname(slave)
        self.tricks, self.asked, self.frames, self.waiting = [], [], 1, 0
        self.status = Status(True, False, 0, 0, 0)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        decoder = protocol.Decoder()
        while True:
            try:
                data = os.read(self.master, 4096)
            except OSError:
                return
            if not data:
                return
            for opcode, payload in decoder.feed(data):
                self.asked.append(opcode)
                answer = self.tricks.pop(0) if self.tricks else self.answer(opcode, payload)
                if answer is None:
                    return
                try:
                    os.write(self.master, answer)
                except OSError:
                    return

    def answer(self, opcode, payload):
        if opcode == Opcode.IDENTIFY:
            self.waiting = 0
            return encode(0x81, replace(IDENTITY, frames=self.frames).pack())
        if opcode == Opcode.STATUS:
            return encode(0x82, self.status.pack())
        assert payload == IMAGE
        self.waiting = (self.waiting + 1) % self.frames
        result = RESULT * (opcode & 1) + b"\x01\x02\x03\x04" * (opcode >> 1 & 1) + b"\1\0"
        return encode(opcode | 0x80, b"" if self.waiting else result * self.frames)


@pytest.fixture
def board():
    made = Board()
    yield made
    os.close(made.slave)
    made.thread.join(10)  # else it would read what becomes of the number of its file
    os.close(made.master)


@pytest.fixture
def client(board):
    with Serial(board.port) as port:
        yield Client(port, wait_s=0.3, ready_s=0.2)


def test_every_request(board, client):
    assert client.identify() == IDENTITY and client.wait_ready() == board.status
    assert client.classify([IMAGE]) == [protocol.Result(1, (-5, 7, 6), None)]
    assert client.classify([IMAGE], logits=False, latent=True) == [protocol.Result(1, None, b"\1\2\3\4")]
    assert client.repeated == 0 and board.asked == [1, 2, 0x11, 0x12]


@pytest.mark.parametrize("trick", [
    b"", ERROR[Fault.CRC], ERROR[Fault.TIMEOUT], ANSWER[:1], ANSWER[:7], ANSWER[:-1], ANSWER[:-1] + b"\0",
    b"\0garbage\xfb", encode(0x82, bytes(8)), b"\xfb\x91\xff\xff" + bytes(9)])
def test_lost_and_damaged_answers_are_asked_for_again(board, client, trick):
    client.identify()
    board.tricks = [trick, trick]
    assert client.classify([IMAGE])[0].index == 1 and client.repeated == 2


def test_an_answer_in_pieces_is_one(board, client, monkeypatch):
    client.identify()
    write = os.write
    board.tricks = [ANSWER]

    def pieces(file, data):
        if file == board.master:
            for i in range(0, len(data), 3):
                time.sleep(0.01)
                write(file, data[i:i + 3])
            return len(data)
        return write(file, data)
    monkeypatch.setattr(os, "write", pieces)
    assert client.classify([IMAGE])[0].logits == (-5, 7, 6) and client.repeated == 0


def test_a_late_answer_is_not_taken_for_the_next(board, client):
    """The answer of an earlier request, other than what is asked for now, comes before the right one."""
    client.identify()
    board.tricks = [encode(0x82, board.status.pack()) + encode(0x81, IDENTITY.pack()) + ANSWER]
    assert client.classify([IMAGE])[0].index == 1 and client.repeated == 0
    os.write(board.master, encode(0x91, b"\0" * 8))  # has come in before the request
    time.sleep(0.05)
    assert client.classify([IMAGE])[0].index == 1


def test_a_line_that_never_falls_silent_ends(board, client, monkeypatch):
    """Another device that talks without a pause: nothing hangs, and the cause is said."""
    stop = threading.Event()

    def babble():
        while not stop.is_set():
            try:
                os.write(board.master, b"$GPGGA,,,,0*66\r\n" * 200)
            except OSError:
                return
    board.tricks = [b""] * 4
    thread = threading.Thread(target=babble, daemon=True)
    thread.start()
    began = time.monotonic()
    with pytest.raises(InputError) as error:
        client.identify()
    assert str(error.value) == f"{board.port}: what came back was no frame of the protocol; is the speed right (--baud), 4 times"
    assert time.monotonic() - began < 60
    stop.set()
    client.transport.discard()
    thread.join(10)
    monkeypatch.setattr(client.transport, "read", lambda timeout: b"faster than it is read")
    client.transport.discard()


def test_a_port_that_takes_nothing():
    master, slave = pty.openpty()
    tty.setraw(slave)
    try:
        with Serial(os.ttyname(slave)) as port:
            with pytest.raises(InputError) as error:
                port.write(bytes(1 << 20), 0.2)
            assert str(error.value) == f"{port.path}: takes no more bytes; is another program using the port?"
    finally:
        os.close(slave)
        os.close(master)


def test_a_disconnect_inside_an_answer(board, client):
    client.identify()
    os.close(board.slave)

    def answer(opcode, payload):
        os.write(board.master, ANSWER[:5])
        threading.Timer(0.1, lambda: os.close(board.master)).start()
    board.answer = answer
    with pytest.raises(InputError) as error:
        client.classify([IMAGE])
    assert str(error.value).startswith(f"{board.port}: the connection broke (") and str(error.value).endswith("; plug the board in again")
    board.master, board.slave = (os.open(os.devnull, os.O_RDONLY) for _ in range(2))


def test_a_pass_of_several_images(board, client):
    board.frames = 3
    client.identify()
    result = protocol.Result(1, (-5, 7, 6), None)
    assert client.classify([IMAGE] * 3) == [result] * 3 and board.asked == [1, 0x11, 0x11, 0x11]
    assert client.classify([IMAGE] * 2) == [result] * 3 and client.repeated == 0  # filled up
    for lost in range(3):
        board.asked, board.tricks = [], [encode(0x91, b"")] * lost + [b"", ERROR[Fault.CRC]]
        board.waiting = lost  # the answer was lost, the image was not; the next request is damaged, the pass given up
        assert client.classify([IMAGE] * 3) == [result] * 3
        assert board.asked == [0x11] * (lost + 1) + [1, 1, 2] + [0x11] * 3


def test_garbage_before_an_answer_is_skipped(board, client):
    client.identify()
    board.tricks = [b"\xfb\xfb\x01" + encode(0x91, RESULT + b"\1\0")]
    assert client.classify([IMAGE])[0].index == 1 and client.repeated == 0


@pytest.mark.parametrize("trick, message", [
    (b"", "no answer; is this the board's serial port, and was the bitstream loaded, 4 times"),
    (b"hello", "what came back was no frame of the protocol; is the speed right (--baud), 4 times"),
    (ERROR[Fault.LINE], "a byte had no stop bit, the speed may differ, 4 times"),
    (ERROR[Fault.RESULT], "no result came in time, 4 times"),
    (encode(0xFF, b"\x63"), "the board reported error 99, 4 times")])
def test_after_four_times_it_says_why(board, client, trick, message):
    board.tricks = [trick] * 4
    with pytest.raises(InputError) as error:
        client.identify()
    assert str(error.value) == f"{board.port}: {message}"


def test_a_board_that_is_busy_is_waited_for(board, client):
    client.identify()
    board.tricks = [ERROR[Fault.BUSY], encode(0x82, Status(False, False, 0, 0, 0).pack())]
    assert client.classify([IMAGE])[0].index == 1 and board.asked == [1, 0x11, 2, 2, 0x11]


@pytest.mark.parametrize("status, message", [
    (Status(False, True, 0, 0, 0), "the flash holds no weights of this design; run fbnn-hw flash with the folder that was built"),
    (Status(False, False, 0, 0, 0), "the board has not loaded its weights after 0.2 s; is the flash written?")])
def test_a_board_without_weights(board, client, status, message):
    board.status = status
    with pytest.raises(InputError) as error:
        client.wait_ready()
    assert str(error.value) == f"{board.port}: {message}"


def test_a_disconnect_is_said(board, client):
    client.identify()
    os.close(board.master)
    with pytest.raises(InputError) as error:
        client.identify()
    assert str(error.value).startswith(f"{board.port}: ")
    board.master = os.open(os.devnull, os.O_RDONLY)


def test_wrong_images(client):
    with pytest.raises(InputError) as error:
        client.classify([bytes(11)])
    assert str(error.value) == f"{client.name}: the image has 11 bytes, expected 12 (2 x 2 pixels, RGB)"
    for images in ([], [IMAGE] * 2):
        with pytest.raises(InputError) as error:
            client.classify(images)
        assert str(error.value) == f"{client.name}: {len(images)} images in a pass, expected 1 to 1"


def test_ports_that_are_none(tmp_path):
    for path, baud, message in (
            (tmp_path / "none", 115200, f"{tmp_path}/none: no such port; plug the board in, and look for it with "
                                        "ls /dev/ttyUSB* /dev/ttyACM* /dev/cu.*"),
            (tmp_path / "file", 115200, f"{tmp_path}/file: not a serial port (Inappropriate ioctl for device)"),
            (tmp_path / "file", 1234, "--baud 1234: this system has no such speed, expected one such as 115200, 1000000 or 3000000")):
        (tmp_path / "file").touch()
        with pytest.raises(InputError) as error:
            Serial(path, baud)
        assert str(error.value) == message
