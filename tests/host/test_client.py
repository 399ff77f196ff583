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

IDENTITY = Identity(3, b"abcd", 3, 2, 4, 1, 0, 0, b"wxyz")
IMAGE = bytes(range(12))
RESULT = b"".join(n.to_bytes(2, "little", signed=True) for n in (-5, 7, 6))
ANSWER = encode(0x91, RESULT + b"\1\0")
LOST = object()
ERROR = {fault: encode(protocol.ERROR, bytes([fault])) for fault in Fault}


def numbered(data, sequence):
    """A whole frame with another sequence; anything else as it is."""
    found = protocol.Decoder().feed(data)
    if len(found) == 1 and encode(found[0][0], found[0][2]) == data:
        return encode(found[0][0], found[0][2], sequence)
    return data


class Board:
    """Answers requests on a pseudo-terminal.  tricks: for the next requests, bytes to send instead of the answer (a
    whole frame gets the request's sequence); None ends it, `LOST` is an answer that does not arrive."""

    def __init__(self):
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.slave, self.port = slave, os.ttyname(slave)
        self.tricks, self.asked, self.frames, self.waiting = [], [], 1, 0
        self.status, self.max_classes, self.memory, self.done = Status(True, False, 0, 0, 0), 0, [0] * 600, []
        self.sequences, self.last = [], None
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
            for opcode, sequence, payload in decoder.feed(data):
                self.asked.append(opcode)
                self.sequences.append(sequence)
                answer = self.tricks.pop(0) if self.tricks else self.answer(opcode, payload)
                if answer is LOST:
                    self.answer(opcode, payload)
                    answer = b""
                answer = answer and numbered(answer, sequence)
                if answer is None:
                    return
                try:
                    os.write(self.master, answer)
                except OSError:
                    return

    def answer(self, opcode, payload):
        if opcode == Opcode.IDENTIFY:
            self.waiting = 0
            learner = {"max_classes": self.max_classes, "word_bytes": 2} if self.max_classes else {}
            return encode(0x81, replace(IDENTITY, frames=self.frames, **learner).pack())
        if opcode == Opcode.STATUS:
            return encode(0x82, self.status.pack())
        if opcode & 0x20:
            number, count, words = int.from_bytes(payload[:3], "little"), payload[3], protocol.words_from(payload[4:], 2)
            if Opcode.PEEK <= opcode < Opcode.POKE:
                return encode(opcode | 0x80, protocol.words_bytes([self.memory[number ^ i] for i in range(count)], 2))
            if self.sequences[-1] != self.last:  # the rule of the board
                self.done.append((opcode, number, count))
                for i, word in enumerate(words):
                    self.memory[number ^ i] = word
            self.last = self.sequences[-1]
            return encode(opcode | 0x80)
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
    """Answers of earlier requests, of another kind and of the same, come before the right one."""
    client.identify()
    sequence = client.sequence + 1
    wrong = encode(0x91, (3).to_bytes(6, "little") + b"\2\0", sequence - 1)
    board.tricks = [encode(0x82, board.status.pack(), sequence) + wrong + encode(protocol.ERROR, bytes([Fault.BUSY]), sequence - 1)
                    + encode(0x91, RESULT + b"\1\0", sequence)]
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
    with pytest.raises(InputError) as error:
        client.identify()
    assert str(error.value) == f"{board.port}: what came back was no frame of the protocol; is the speed right (--baud), 4 times"
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
            start = time.monotonic()
            with pytest.raises(InputError) as error:
                port.write(bytes(1 << 20), 0.2)
            assert time.monotonic() - start < 3
            assert str(error.value) == f"{port.path}: takes no more bytes; is another program using the port?"
            with pytest.raises(InputError) as error:
                Serial(os.ttyname(slave))
            assert str(error.value) == f"{port.path}: another program has it open; close that one"
        Serial(os.ttyname(slave)).close()
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
    board.tricks = [b"\xfb\xfb\x01" + encode(0x91, RESULT + b"\1\0", client.sequence + 1)]
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
    (Status(False, True, 0, 0, 0),
     "the flash holds no weights of this design; run fbnn-hw flash with the folder that was built"),
    (Status(False, False, 0, 0, 0),
     "the board has not loaded its weights after 0.2 s; is the flash written?")])
def test_a_board_without_weights(board, client, status, message):
    board.status = status
    with pytest.raises(InputError) as error:
        client.wait_ready()
    assert str(error.value) == f"{board.port}: {message}"


@pytest.mark.parametrize("trick", [LOST, ERROR[Fault.CRC], ERROR[Fault.BUSY]])
def test_a_learner_is_asked_once(board, client, trick):
    """Whatever is lost, each request is done once: its repetition has its sequence."""
    board.max_classes = 300
    client.identify()
    words = list(range(1000, 1300))
    for ask, opcodes, done in (
            (lambda: client.learn(257), [0x21], [(0x21, 257, 0)]), (lambda: client.store(1), [0x22], [(0x22, 1, 0)]),
            (lambda: client.rehearse(150), [0x23] * 3, [(0x23, 0, 64), (0x23, 0, 64), (0x23, 0, 22)]),
            (client.freeze, [0x24], [(0x24, 0, 1)]), (lambda: client.freeze(False), [0x24], [(0x24, 0, 0)]),
            (client.reset, [0x27, 2], [(0x27, 0, 0)]), (lambda: client.poke(2, 7, words), [0x3A] * 8, [
                (0x3A, first, count) for first, count in (
                    (7, 1), (8, 8), (16, 16), (32, 32), (64, 64), (128, 64), (192, 64), (256, 51))])):
        board.asked, board.done, board.tricks, repeated = [], [], [trick], client.repeated
        ask()
        assert board.done == done and client.repeated == repeated + 1
        assert [opcode for opcode in board.asked if opcode != 2] == [opcodes[0], *(o for o in opcodes if o != 2)]
    board.tricks = [trick, trick]
    assert client.peek(2, 7, 300) == words and client.peek(0, 0, 0) == []


@pytest.mark.parametrize("fault, message", [
    (Fault.LABEL, "the label is neither a class known nor the next free one"), (Fault.FROZEN, "the learner is frozen"),
    (Fault.SAMPLE, "no image was classified before")])
def test_refusals_of_a_learner_are_not_repeated(board, client, fault, message):
    board.max_classes = 4
    client.identify()
    board.asked, board.tricks = [], [ERROR[fault]]
    with pytest.raises(InputError) as error:
        client.learn(3)
    assert str(error.value) == f"{board.port}: {message}" and board.asked == [0x21] and client.repeated == 0


def test_a_board_without_a_learner(board, client):
    for ask in (lambda: client.learn(0), lambda: client.peek(0, 0, 1), lambda: client.poke(0, 0, [1]), client.reset):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value) == f"{board.port}: this design does not learn; expected one made with fbnn-hw generate --learn"
    board.max_classes = 4
    client.identify()
    board.tricks = [encode(0xB0, b"\1")]
    with pytest.raises(InputError) as error:
        client.peek(0, 0, 1)
    assert str(error.value) == f"{board.port}: the board sent 1 bytes of 1 words, expected 2"


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
