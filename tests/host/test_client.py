"""The client over pseudo-terminals, against a board written in Python: what goes wrong on the line, and what is said then."""

import os
import pty
import random
import select
import threading
import time
import tty
from dataclasses import dataclass, replace

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import LATENT, LOGITS, REPLY, Fault, Identity, Opcode, Status, encode

CLASSIFY = Opcode.CLASSIFY
IDENTITY = Identity(version=3, config=b"abcd", classes=3, size=2, latent_bytes=4, frames=1, max_classes=0, word_bytes=0, model=b"wxyz")
IMAGE = bytes(range(12))
RESULT = b"".join(n.to_bytes(2, "little", signed=True) for n in (-5, 7, 6))
ANSWER = encode(CLASSIFY | LOGITS | REPLY, RESULT + b"\1\0")
LOST, AS_EVER = object(), object()
LATEST = encode(Opcode.STATUS | REPLY, bytes(8))
ERROR = {fault: encode(protocol.ERROR, bytes([fault])) for fault in Fault}


def numbered(data, sequence):
    """A whole message with another sequence; anything else as it is."""
    messages = protocol.Decoder().feed(data)
    if len(messages) == 1 and encode(messages[0][0], messages[0][2]) == data:
        return encode(messages[0][0], messages[0][2], sequence)
    return data


@dataclass(frozen=True)
class Busy:
    """A request that takes `seconds`, in which nothing else is heard."""

    seconds: float


class Board:
    """Answers requests on a pseudo-terminal.  tricks: for the next requests, bytes to send instead of the answer (a
    whole message gets the request's sequence); None ends it, `AS_EVER` is the answer, `LOST` is one that does not arrive, `Busy` one
    that takes time."""

    def __init__(self):
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.slave, self.port = slave, os.ttyname(slave)
        self.tricks, self.asked = [], []
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
                if answer is AS_EVER:
                    answer = self.answer(opcode, payload)
                if answer is LOST:
                    self.answer(opcode, payload)
                    answer = b""
                if isinstance(answer, Busy):
                    time.sleep(answer.seconds)
                    while select.select([self.master], [], [], 0)[0]:
                        os.read(self.master, 4096)
                    answer = self.answer(opcode, payload)
                answer = answer and numbered(answer, sequence)
                if answer is None:
                    return
                try:
                    os.write(self.master, answer)
                except OSError:
                    return

    def answer(self, opcode, payload):
        if opcode == Opcode.IDENTIFY:
            learner = {"max_classes": self.max_classes, "word_bytes": 2} if self.max_classes else {}
            return encode(Opcode.IDENTIFY | REPLY, replace(IDENTITY, **learner).pack())
        if opcode == Opcode.STATUS:
            return encode(Opcode.STATUS | REPLY, self.status.pack())
        if opcode in protocol.LEARNING_REQUESTS:
            number, count, words = int.from_bytes(payload[:3], "little"), payload[3], protocol.words_from(payload[4:], 2)
            if Opcode.PEEK <= opcode < Opcode.POKE:
                return encode(opcode | REPLY, protocol.words_bytes([self.memory[number ^ i] for i in range(count)], 2))
            if self.sequences[-1] != self.last:  # the rule of the board
                self.done.append((opcode, number, count))
                for i, word in enumerate(words):
                    self.memory[number ^ i] = word
            self.last = self.sequences[-1]
            return encode(opcode | REPLY)
        assert payload == (b"" if opcode & Opcode.SEE == Opcode.SEE else IMAGE)
        result = RESULT * bool(opcode & LOGITS) + b"\x01\x02\x03\x04" * bool(opcode & LATENT) + b"\1\0"
        return encode(opcode | REPLY, result)


@pytest.fixture
def board():
    board = Board()
    yield board
    os.close(board.slave)
    board.thread.join(10)  # else it would read what becomes of the number of its file
    os.close(board.master)


@pytest.fixture
def client(board):
    with Serial(board.port) as port:
        yield Client(port, wait_s=0.3, ready_s=0.2)


def test_a_board_with_a_camera(board, client):
    """It says so in its status, and gives the result of an image that no host has sent."""
    with pytest.raises(InputError, match="has no camera, expected a bitstream of fbnn-hw build --link"):
        client.see()
    board.status = replace(board.status, camera=True)
    assert client.see(latent=True) == protocol.Result(1, (-5, 7, 6), b"\1\2\3\4")
    assert board.asked[-1] == Opcode.SEE | LOGITS | LATENT


def test_every_request(board, client):
    assert client.identify() == IDENTITY and client.wait_ready() == board.status
    assert client.classify(IMAGE) == protocol.Result(1, (-5, 7, 6), None)
    assert client.classify(IMAGE, logits=False, latent=True) == protocol.Result(1, None, b"\1\2\3\4")
    assert client.repeated == 0 and board.asked == [
        Opcode.IDENTIFY, Opcode.STATUS, CLASSIFY | LOGITS, CLASSIFY | LATENT]


@pytest.mark.parametrize("trick", [
    b"", ERROR[Fault.CRC], ERROR[Fault.TIMEOUT], ANSWER[:1], ANSWER[:7], ANSWER[:-1], ANSWER[:-1] + b"\0",
    b"\0garbage\xfb", LATEST, b"\xfb\x91\xff\xff" + bytes(9)])
def test_lost_and_damaged_answers_are_asked_for_again(board, client, trick):
    client.identify()
    board.tricks = [trick, trick]
    assert client.classify(IMAGE).index == 1 and client.repeated == 2


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
    assert client.classify(IMAGE).logits == (-5, 7, 6) and client.repeated == 0


def test_a_late_answer_is_not_taken_for_the_next(board, client):
    """Answers of earlier requests, of another kind and of the same, come before the right one."""
    client.identify()
    sequence = client.sequence + 1
    wrong = encode(CLASSIFY | LOGITS | REPLY, (3).to_bytes(6, "little") + b"\2\0", sequence - 1)
    board.tricks = [encode(Opcode.STATUS | REPLY, board.status.pack(), sequence) + wrong
                    + encode(protocol.ERROR, bytes([Fault.BUSY]), sequence - 1) + numbered(ANSWER, sequence)]
    assert client.classify(IMAGE).index == 1 and client.repeated == 0
    os.write(board.master, encode(CLASSIFY | LOGITS | REPLY, b"\0" * 8))  # has come in before the request
    time.sleep(0.05)
    assert client.classify(IMAGE).index == 1


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
    assert str(error.value) == f"{board.port}: what came back was no message of the protocol; is the speed right (--baud), 4 times"
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
        client.classify(IMAGE)
    assert str(error.value).startswith(f"{board.port}: the connection broke (") and str(error.value).endswith("; plug the board in again")
    board.master, board.slave = (os.open(os.devnull, os.O_RDONLY) for _ in range(2))


def test_garbage_before_an_answer_is_skipped(board, client):
    client.identify()
    board.tricks = [b"\xfb\xfb\x01" + numbered(ANSWER, client.sequence + 1)]
    assert client.classify(IMAGE).index == 1 and client.repeated == 0


@pytest.mark.parametrize("trick, message", [
    (b"", "no answer; is this the board's serial port, and was the bitstream loaded, 4 times"),
    (b"hello", "what came back was no message of the protocol; is the speed right (--baud), 4 times"),
    (ERROR[Fault.LINE], "a byte had no stop bit, the speed may differ, 4 times"),
    (ERROR[Fault.RESULT], "no result came in time, 4 times"),
    (encode(protocol.ERROR, b"\x63"), "the board reported error 99, 4 times")])
def test_after_four_times_it_says_why(board, client, trick, message):
    board.tricks = [trick] * 4
    with pytest.raises(InputError) as error:
        client.identify()
    assert str(error.value) == f"{board.port}: {message}"


def test_a_board_that_is_busy_is_waited_for(board, client):
    client.identify()
    board.tricks = [ERROR[Fault.BUSY], encode(Opcode.STATUS | REPLY, Status(False, False, 0, 0, 0).pack())]
    assert client.classify(IMAGE).index == 1 and board.asked == [
        Opcode.IDENTIFY, CLASSIFY | LOGITS, Opcode.STATUS, Opcode.STATUS, CLASSIFY | LOGITS]


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
            (lambda: client.learn(257), [Opcode.LEARN], [(Opcode.LEARN, 257, 0)]),
            (lambda: client.store(1), [Opcode.STORE], [(Opcode.STORE, 1, 0)]),
            (lambda: client.rehearse(150), [Opcode.REHEARSE] * 3, [(Opcode.REHEARSE, 0, count) for count in (64, 64, 22)]),
            (client.freeze, [Opcode.FREEZE], [(Opcode.FREEZE, 0, 1)]),
            (lambda: client.freeze(False), [Opcode.FREEZE], [(Opcode.FREEZE, 0, 0)]),
            (client.reset, [Opcode.RESET, Opcode.STATUS], [(Opcode.RESET, 0, 0)]),
            (lambda: client.poke(2, 7, words), [Opcode.POKE | 2] * 8, [
                (Opcode.POKE | 2, first, count) for first, count in (
                    (7, 1), (8, 8), (16, 16), (32, 32), (64, 64), (128, 64), (192, 64), (256, 51))])):
        board.asked, board.done, board.tricks, repeated = [], [], [trick], client.repeated
        ask()
        assert board.done == done and client.repeated == repeated + 1
        assert [opcode for opcode in board.asked if opcode != Opcode.STATUS] == [
            opcodes[0], *(opcode for opcode in opcodes if opcode != Opcode.STATUS)]
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
    assert str(error.value) == f"{board.port}: {message}" and board.asked == [Opcode.LEARN] and client.repeated == 0


def test_a_board_without_a_learner(board, client):
    for ask in (lambda: client.learn(0), lambda: client.peek(0, 0, 1), lambda: client.poke(0, 0, [1]), client.reset):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value) == f"{board.port}: this design does not learn; expected one made with fbnn-hw generate --learn"
    board.max_classes = 4
    client.identify()
    board.tricks = [encode(Opcode.PEEK | REPLY, b"\1")]
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
        client.classify(bytes(11))
    assert str(error.value) == f"{client.name}: the image has 11 bytes, expected 12 (2 x 2 pixels, RGB)"


# Interrupts.  The board works on a request and hears nothing meanwhile.


def interrupt(client, call, at, ask):
    """Ctrl-C in the call number `at` of the transport's method `call`, while `ask` runs; whether it came to that."""
    method, calls = getattr(client.transport, call), []

    def interrupted(*words):
        calls.append(words)
        if len(calls) == at:
            if call == "write":
                method(words[0][:len(words[0]) // 2], 1)
            raise KeyboardInterrupt
        return method(*words)
    setattr(client.transport, call, interrupted)
    try:
        ask()
    except KeyboardInterrupt:
        return True
    finally:
        setattr(client.transport, call, method)
    return False


def test_a_request_after_an_interrupt_is_heard(board, client):
    """Once it went unheard, and was waited for as long as an answer may take: 300 s with a virtual board."""
    board.max_classes = 4
    board.memory[:3] = 3, 2, 0
    client.identify()
    client.wait_s = 60
    board.tricks = [Busy(1)]
    assert interrupt(client, "read", 2, lambda: client.learn(1)) and client.unsettled
    start = time.monotonic()
    assert client.learned() == (3, 2, False) and not client.unsettled and client.repeated == 0
    assert time.monotonic() - start < 10
    assert board.done == [(Opcode.LEARN, 1, 0)]
    client.settle(0)  # nothing is missing


@pytest.mark.parametrize("call", ["discard", "write", "read"])
def test_an_interrupt_anywhere(board, client, call):
    """Half a request on the line, or a whole one whose answer is not read: the next lesson is as if it had not been."""
    board.max_classes, client.wait_s = 4, 5
    client.identify()
    result, unsettled = client.classify(IMAGE), 0
    for at in range(1, 9):
        client.classify(IMAGE)
        before = len(board.done)

        def lesson():
            client.classify(IMAGE)
            client.learn(2)
        if not interrupt(client, call, at, lesson):
            break
        unsettled += client.unsettled
        assert client.classify(IMAGE) == result and not client.unsettled
        assert board.done[before:] in ([], [(Opcode.LEARN, 2, 0)])
    assert at > 2 and client.repeated == 0 and unsettled == {"discard": 0, "write": 2, "read": 2}[call]


def test_an_interrupt_of_an_interrupt(board, client):
    client.identify()
    client.wait_s = 60
    board.tricks = [Busy(1.5)]
    assert interrupt(client, "read", 2, client.status) and interrupt(client, "read", 2, client.status) and client.unsettled
    assert client.status() == board.status and not client.unsettled


def test_waits_end_when_they_are_told_to(board, client):
    client.identify()
    client.wait_s = client.ready_s = 300
    board.tricks = [b""] * 99
    for ask in (client.status, lambda: client.classify(IMAGE), client.wait_ready):
        start = time.monotonic()
        with pytest.raises(InputError) as error, client.within(0.4):
            ask()
        assert time.monotonic() - start < 3 and client.unsettled
        assert str(error.value).startswith(f"{board.port}: no answer in the time that there was")
    start = time.monotonic()
    with pytest.raises(InputError) as error:
        client.settle(1)
    assert str(error.value) == f"{board.port}: no answer in the time that there was, 1 s after a request that was interrupted"
    assert time.monotonic() - start < 4 and client.unsettled
    board.tricks, board.status = [], Status(ready=False, wrong_flash=False, frames=0, errors=0, cycles=0)
    start = time.monotonic()
    with pytest.raises(InputError), client.within(300), client.within(1.5), client.within(300):
        client.wait_ready()
    assert time.monotonic() - start < 5
    board.status = Status(ready=True, wrong_flash=False, frames=0, errors=0, cycles=0)
    assert client.wait_ready().ready and not client.unsettled  # the time of the block is over


# Boards that lie.


def lie(client, ask):
    """The one line that is said of it."""
    with pytest.raises(InputError) as error:
        ask()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_board_that_is_always_busy(board, client):
    """Once this was a RecursionError."""
    client.identify()
    board.answer = lambda opcode, payload: ERROR[Fault.BUSY]
    for ask in (client.identify, client.status, client.wait_ready, lambda: client.classify(IMAGE)):
        assert lie(client, ask) == f"{board.port}: its weights were not loaded, or an image came too fast, 4 times"


@pytest.mark.parametrize("change, words", [
    (dict(frames=0), "images of a pass: 0"),
    (dict(frames=2), "images of a pass: 2, expected 1; the design of another number is of version 0.2"),
    (dict(size=65535), "pixels a side: 65535"), (dict(max_classes=8), "bytes of a word: 0"),
    (dict(max_classes=8, word_bytes=255), "bytes of a word: 255"), (dict(classes=65535), "bytes of a result: ")])
def test_an_identity_that_lies(board, client, change, words):
    board.tricks = [encode(Opcode.IDENTIFY | REPLY, replace(IDENTITY, **change).pack())]
    assert lie(client, client.identify).startswith(f"the board's identity is damaged or a lie: {words}")


def test_answers_that_lie(board, client):
    client.identify()
    board.tricks = [encode(Opcode.STATUS | REPLY, Status(True, False, 0, 0, 0, frozen=True).pack())]
    assert lie(client, client.status) == f"{board.port}: says that its learner is frozen, but its design does not learn"
    board.tricks = [encode(CLASSIFY | LOGITS | REPLY, RESULT + b"\0\0")]
    assert lie(client, lambda: client.classify(IMAGE)) == "the board found class 0, expected 1, whose logit is the largest"
    board.max_classes = 4
    client.identify()
    for classes, used, frozen in ((5, 0, 0), (0xFFFF, 0, 0), (4, 0, 2)):
        board.memory[:3] = classes, used, frozen
        assert lie(client, client.learned) == (f"{board.port}: knows {classes} classes and {used} exemplars, frozen {frozen}, "
                                               "expected at most 4, 65536 and 1")
    board.tricks = [encode(CLASSIFY | LOGITS | REPLY, bytes(12))]
    assert lie(client, lambda: client.classify(IMAGE)) == "the board sent 5 logits, expected at most 4"


@pytest.mark.parametrize("seed", range(6))
def test_random_answers_give_a_value_or_one_line(board, client, seed):
    """Right check sums, right sequences, any payload."""
    source = random.Random(seed)
    board.max_classes = source.choice((0, 4))
    client.identify()
    client.wait_s, client.ready_s, client.retries = 0.05, 0.05, 1
    truth = board.answer

    def answer(opcode, payload):
        right = truth(opcode, payload)
        damaged = bytearray(protocol.Decoder().feed(right)[0][2])
        for _ in range(source.randrange(4)):
            if damaged:
                damaged[source.randrange(len(damaged))] = source.choice((0, 1, 255, source.randrange(256)))
        return encode(*source.choice((
            (opcode | REPLY, bytes(damaged)), (opcode | REPLY, bytes(damaged)), (opcode | REPLY, source.randbytes(source.randrange(30))),
            (protocol.ERROR, source.randbytes(source.randrange(3))), (protocol.ERROR, bytes([Fault.BUSY])))))
    board.answer = answer
    lies = 0
    for _ in range(60):
        ask = source.choice((client.identify, client.status, client.wait_ready, client.learned, lambda: client.classify(IMAGE),
                             lambda: client.classify(IMAGE, latent=True), lambda: client.peek(0, 3, 20), lambda: client.learn(1),
                             lambda: client.poke(0, 0, [1, 2, 3]), client.reset))
        try:
            ask()
        except InputError as error:
            lies += 1
            assert "\n" not in str(error)
    assert lies > 10


@pytest.mark.parametrize("trick", [None, LOST, ERROR[Fault.LINE], b"\0" * 40])
@pytest.mark.parametrize("at", [0, 3])
def test_images_ahead(board, monkeypatch, trick, at):
    """Every image is answered once, in its order, whatever becomes of one reply; without trouble two are on their way."""
    monkeypatch.setattr("fbnn_hw.link.client.LISTEN_S", 0.05)
    board.status = Status(True, False, 0, 0, 77, ahead=True)
    with Serial(board.port) as line:
        client = Client(line, wait_s=0.4)
        client.identify()
        written = []
        monkeypatch.setattr(line, "write", lambda data, timeout, write=line.write: (written.append(data), write(data, timeout)))
        if trick:
            board.tricks = [AS_EVER] * (at + 1) + [trick]
        answers = list(client.classify_all([IMAGE] * 5))
    assert len(answers) == 5
    assert all(result.logits == (-5, 7, 6) and status.cycles == 77 for result, status in answers)
    assert client.repeated == bool(trick)
    kinds = [data[1] for data in written]
    if not trick:
        assert kinds[:4] == [Opcode.STATUS, CLASSIFY | LOGITS, Opcode.STATUS, CLASSIFY | LOGITS] and len(kinds) == 11


def test_a_board_that_does_not_hear_ahead_gets_one_image_at_a_time(board):
    with Serial(board.port) as line:
        assert len(list(Client(line).classify_all([IMAGE] * 3))) == 3
    assert board.asked[2:] == [CLASSIFY | LOGITS, Opcode.STATUS] * 3
