"""The link in Verilator, behind the serial line of the virtual board, against its twin in sim/link_board.py."""

import os
import random
import subprocess

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import SYNC, Fault, Opcode, encode
from fbnn_hw.rtl import uart
from fbnn_hw.rtl.host_link import HostLink
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import virtual
from sim.link_board import CLASSES, IMAGE, MARK, MODEL, SIZE, WORDS, LinkBoard, Twin, answer

CLOCKS = 4
FRAMES = int(os.environ.get("FBNN_FUZZ_FRAMES", 10_000 if os.environ.get("FBNN_SLOW") else 2_000))
"""Random frames."""
LEVEL = "-O1" if FRAMES > 2_000 else None
"""Options of the C++ compiler: many frames run for longer than it takes to compile them well."""
LIMIT = 100_000


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Sends texts, lists of (byte, damaged[, cycles before it]); the board rests after each: [bytes that came back]."""
    return board(tmp_path_factory)


@pytest.fixture(scope="module")
def run_learning(tmp_path_factory):
    """The same for a design that learns."""
    return board(tmp_path_factory, learns=True)


@pytest.fixture(scope="module")
def run_ahead(tmp_path_factory):
    """The same for a link that hears the next request while it works."""
    return board(tmp_path_factory, ahead=True)


def board(tmp_path_factory, learns=False, ahead=False):
    folder = tmp_path_factory.mktemp("link")
    (folder / "board.v").write_text(convert(LinkBoard(CLOCKS, learns, ahead), "board"))
    program = virtual.verilate([folder / "board.v"], folder / "build", level=LEVEL)

    def send(texts):
        script = bytearray()
        for text in texts:
            for byte, damaged, *gap in text:
                script += (gap[0] if gap else 0).to_bytes(2, "little") + bytes([byte, damaged])
            script += bytes([0, 0, 0, 2])
        (folder / "script").write_bytes(script)
        done = subprocess.run([program, str(CLOCKS), "20000", folder / "script", str(LIMIT)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = [bytes.fromhex(line) for line in done.stdout.split("\n")[:-1]]
        assert len(lines) == len(texts) + 1 and lines[-1] == b""
        return lines[:-1]

    return send


def plain(data):
    return [(byte, False) for byte in data]


def image(seed, first=None):
    data = bytearray(random.Random(seed).randbytes(IMAGE))
    data[0] = data[0] % 0xE0 if first is None else first
    return bytes(data)


def test_every_request(run):
    images = [image(n) for n in range(4)]
    requests = [encode(Opcode.IDENTIFY), *(encode(Opcode.CLASSIFY | n, images[n]) for n in range(4)), encode(Opcode.STATUS)]
    found = run([plain(request) for request in requests])
    twin = Twin()
    assert found[0] == twin.reply(plain(encode(Opcode.IDENTIFY)))
    assert found[1:5] == [encode(0x90 | n, answer(images[n], n)) for n in range(4)]
    [(opcode, _, payload)] = protocol.Decoder().feed(found[5])
    status = protocol.Status.unpack(payload)
    assert opcode == 0x82 and (status.ready, status.wrong_flash, status.frames, status.errors) == (True, False, 4, 0)
    assert not status.frozen
    # Two bytes of the check sum, 64 cycles of the toy, and some states.
    assert 20 * CLOCKS <= status.cycles <= 20 * CLOCKS + 64 + 10


@pytest.mark.parametrize("text, reason", [
    (encode(Opcode.STATUS)[:-1] + b"\0", Fault.CRC),
    (encode(Opcode.CLASSIFY, image(1))[:-1] + b"\0", Fault.CRC),
    (encode(3), Fault.OPCODE), (encode(0x14, image(1)), Fault.OPCODE), (encode(0x81), Fault.OPCODE), (encode(0xFF), Fault.OPCODE),
    (encode(Opcode.STATUS, b"x"), Fault.LENGTH), (encode(Opcode.CLASSIFY), Fault.LENGTH),
    (encode(Opcode.CLASSIFY, bytes(256 + IMAGE)), Fault.LENGTH),
    *((encode(op, b""), Fault.OPCODE) for op in (0x20, 0x21, 0x27, 0x30, 0x38, 0x40)),
    *((encode(Opcode.CLASSIFY, image(2))[:n], Fault.TIMEOUT) for n in (1, 2, 3, 4, 5, IMAGE + 3, IMAGE + 4, IMAGE + 5, IMAGE + 6)),
    (encode(Opcode.IDENTIFY)[:5], Fault.TIMEOUT),
    (encode(Opcode.CLASSIFY, image(3, 0xEF)), Fault.BUSY), (encode(Opcode.CLASSIFY, image(3, 0xEE)), Fault.RESULT)])
def test_faults_are_answered_and_forgotten(run, text, reason):
    good = encode(Opcode.CLASSIFY | 3, image(9))
    assert run([plain(text), plain(good), plain(encode(Opcode.IDENTIFY))])[:2] == [
        encode(protocol.ERROR, bytes([reason])), encode(0x93, answer(image(9), 3))]


def test_a_reply_that_cannot_be_ended_is_dropped(run):
    good = encode(Opcode.CLASSIFY | 3, image(9))
    found = run([plain(encode(Opcode.CLASSIFY | 1, image(3, 0xED))), plain(good)])
    whole = encode(0x91, answer(image(3, 0xED), 1))
    assert found[0] == whole[:7] and found[1] == encode(0x93, answer(image(9), 3))


def test_damaged_bytes(run):
    frame = encode(Opcode.CLASSIFY, image(4))
    texts = [[(byte, n == at) for n, byte in enumerate(frame)] for at in range(len(frame))]
    found = run(texts)
    error = encode(protocol.ERROR, bytes([Fault.LINE]))
    assert found == [b"", *[error] * (len(frame) - 1)]  # without its first byte it is no frame


def test_a_pause_ends_a_frame(run):
    frame = encode(Opcode.CLASSIFY, image(4))
    for gap, reply in ((400, encode(0x90, answer(image(4), 0))), (700, encode(protocol.ERROR, bytes([Fault.TIMEOUT])))):
        text = plain(frame)
        text[9] = (*text[9], gap)
        [found, after] = run([text, plain(encode(Opcode.IDENTIFY))])
        assert found[:len(reply)] == reply and after[:5] == b"\xfb\x81\0\x13\0"


def random_text(source, requests=protocol.REQUESTS, sequences=(0, 1, 2, 255)):
    """One frame, or something like one."""
    kind = source.random()
    opcode = source.choice(requests)
    payload = b""
    if opcode & 0x20:
        count = source.choice([0, 1, 1, 2, 3, 7, 125, 128]) if opcode >= Opcode.PEEK else source.randrange(256)
        number = source.choice([source.randrange(8), source.randrange(8), source.randrange(1 << 24)])
        payload = protocol.operand(number, count) + source.randbytes(2 * count * (opcode >= Opcode.POKE))
        payload = payload[:255] if source.random() < 0.8 else payload[:255] + b"\x11"
    elif opcode & 0x10:
        payload = bytearray(source.randbytes(IMAGE))
        payload[0] = source.choice([source.randrange(0xE0)] * 20 + [0xEE, 0xEF])
    frame = bytearray(encode(opcode, payload, source.choice(sequences)))
    if kind < 0.3:
        pass
    elif kind < 0.45:
        frame = bytearray(source.randbytes(source.randrange(1, 40)))
    elif kind < 0.55:
        frame = frame[:source.randrange(len(frame))]
    elif kind < 0.7:
        for _ in range(source.randrange(1, 4)):
            frame[source.randrange(len(frame))] ^= 1 << source.randrange(8)
    elif kind < 0.8:
        frame = bytearray(encode(source.randrange(256), source.randbytes(source.randrange(30))))
    elif kind < 0.9:
        frame = bytearray(b for b in source.randbytes(source.randrange(9)) if b != SYNC) + frame
    else:
        frame += source.randbytes(source.randrange(1, 30))
    damage = source.random() < 0.1
    return [(byte, damage and source.random() < 0.1, source.choice((0, 0, 0, 1, 7, 100))) for byte in frame]


def test_fuzz(run):
    """Random frames: every answer is the twin's, nothing hangs, and after whatever came a good frame is answered."""
    fuzz(run, Twin(), FRAMES)


def fuzz(run, twin, frames):
    source = random.Random(2026)
    texts, expected = [], []
    good = image(7)
    after = plain(encode(Opcode.CLASSIFY | 1, good))
    for _ in range(frames):
        text = random_text(source)
        texts.append(text)
        expected.append(twin.reply([item[:2] for item in text]))
        twin.reply(after)
    found = run([t for text in texts for t in (text, after)])
    loose = 0
    for number, (text, reply) in enumerate(zip(texts, expected)):
        assert found[2 * number + 1] == encode(0x91, answer(good, 1)), f"after frame {number}: {text}"
        if reply is None:
            loose += 1
        else:
            assert found[2 * number] == reply, f"frame {number}: {text}"
    assert loose < frames * 0.3


def test_requests_ahead(run_ahead):
    """Random requests that come while those before are carried out are answered in their order, also behind one that gets no result."""
    source, twin = random.Random(8), Twin(ahead=True)
    texts, expected = [], []
    for _ in range(FRAMES // 50):
        requests = [encode(source.choice((Opcode.IDENTIFY, *(Opcode.CLASSIFY | flags for flags in range(4)))), b"", source.randrange(256))
                    for _ in range(source.randrange(2, 12))]
        requests = [request if request[1] == Opcode.IDENTIFY else encode(request[1], image(source.random()), request[2])
                    for request in requests]
        texts.append(plain(b"".join(requests)))
        expected.append(b"".join(twin.reply(plain(request)) for request in requests))
    assert run_ahead(texts) == expected
    cut, good = encode(Opcode.CLASSIFY | 1, image(3, 0xED)), encode(Opcode.CLASSIFY | 3, image(9))
    assert run_ahead([plain(cut + good)]) == [encode(0x91, answer(image(3, 0xED), 1))[:7] + encode(0x93, answer(image(9), 3))]


def test_a_link_that_hears_ahead_says_so(run, run_ahead):
    text = [plain(encode(Opcode.STATUS))]
    assert [protocol.Status.unpack(one(text)[0][5:-2]).ahead for one in (run, run_ahead)] == [False, True]


def test_more_than_finds_room(run_ahead):
    """What is lost becomes a fault behind the requests that were whole; then the link is as before."""
    good = encode(Opcode.CLASSIFY | 1, image(7))
    reply = encode(Opcode.IDENTIFY | protocol.REPLY, protocol.Identity(3, MARK, CLASSES, SIZE, 2 * WORDS, 1, 0, 0, MODEL).pack())
    many, after = run_ahead([plain(300 * encode(Opcode.IDENTIFY)), plain(good)])
    whole = many[:-8].count(reply)
    assert 512 // 7 < whole < 300 and many == whole * reply + encode(protocol.ERROR, bytes([Fault.LINE]))
    assert after == encode(0x91, answer(image(7), 1))


def test_fuzz_of_a_link_that_hears_ahead(run_ahead):
    """Random frames, as in `test_fuzz`; an image too fast does not exist, for its bytes wait."""
    fuzz(run_ahead, Twin(ahead=True), FRAMES // 5)


def test_requests_to_a_learner(run_learning):
    """Every request and every refusal; what is repeated is done once, what is not good is not done."""
    twin, number, texts = Twin(learns=True), 0, []

    def ask(opcode, payload=b"", again=0, fresh=True):
        nonlocal number
        number += fresh
        texts.extend([encode(opcode, payload, number)] * (1 + again))

    def learner(opcode, number=0, count=0, words=(), **options):
        ask(opcode, protocol.operand(number, count or len(words)) + protocol.words_bytes(words, 2), **options)

    ask(Opcode.IDENTIFY)
    for opcode in (Opcode.LEARN, Opcode.STORE):
        learner(opcode, 0, again=1)  # no image yet
    ask(Opcode.CLASSIFY | 1, image(1))
    for label in (3, 4, 5, 8, 1 << 20, 0):  # two new ones; no row; more than a label's bits
        learner(Opcode.LEARN, label, again=2)
        ask(Opcode.CLASSIFY | 3, image(label % 9))
    learner(Opcode.STORE, 4, again=1)
    learner(Opcode.STORE, 5)
    learner(Opcode.REHEARSE, count=3, again=1)
    learner(Opcode.FREEZE, count=1, again=1)
    for opcode in (Opcode.LEARN, Opcode.STORE, Opcode.REHEARSE):
        learner(opcode, count=1, again=1)
    learner(Opcode.FREEZE)
    learner(Opcode.POKE | 1, 29, words=(0xFFEE, 0x1234, 0x0102), again=1)
    learner(Opcode.POKE | 7, words=range(500, 625))
    learner(Opcode.PEEK | 7, count=125, again=1)
    learner(Opcode.PEEK | 1, 28, 4)
    learner(Opcode.POKE | 1, 30, words=(1,), fresh=False)  # the sequence of the peek before: taken for its repetition
    learner(Opcode.PEEK, 0, 255)
    ask(Opcode.IDENTIFY)  # forgets the sequence
    learner(Opcode.LEARN, 1, fresh=False)
    learner(Opcode.RESET, again=1)
    learner(Opcode.LEARN, 1)  # the sample is gone
    ask(Opcode.CLASSIFY | 1, image(5))
    for opcode, length in ((Opcode.LEARN, 3), (Opcode.PEEK, 5), (Opcode.PEEK, 4), (Opcode.POKE, 4), (Opcode.POKE, 254)):
        ask(opcode, bytes([0, 0, 0, 128][:min(4, length)]).ljust(length, b"\0") if length > 100 else bytes(length))
    expected = [twin.reply(plain(text)) for text in texts]
    for n, (text, found, reply) in enumerate(zip(texts, run_learning([plain(text) for text in texts]), expected)):
        assert found == reply, (n, text.hex(), found.hex(), reply.hex())
    faults = {reply[5] for reply in expected if reply[1] == protocol.ERROR}
    assert faults == {Fault.LENGTH, Fault.LABEL, Fault.FROZEN, Fault.SAMPLE}


def test_a_bad_image_loses_nothing_learned(run_learning):
    """What came of an image is filled up and its result dropped; the classes learned stay, the sample does not."""
    learn, good = protocol.operand(3), encode(Opcode.CLASSIFY | 1, image(9), 7)
    frame = encode(Opcode.CLASSIFY, image(2), 5)
    bad = [plain(frame[:n]) for n in range(5, len(frame))] + [plain(frame[:-1] + bytes([frame[-1] ^ 1]))]
    bad += [[(byte, n == at) for n, byte in enumerate(frame)] for at in range(6, len(frame))]
    texts = [plain(encode(Opcode.CLASSIFY, image(1))), plain(encode(Opcode.LEARN, learn, 1))]
    for item in bad:
        texts += [plain(good), item, plain(encode(Opcode.STORE, protocol.operand(), 8)), plain(good)]
    twin = Twin(learns=True)
    expected = [twin.reply(text) for text in texts]
    assert run_learning(texts) == expected and twin.known == 4 and twin.used >= 1
    assert sum(reply[1:2] == b"\xff" and reply[5] == Fault.SAMPLE for reply in expected) == len(bad) - 1


def test_no_result_resets_a_learner(run_learning):
    for first in (0xEE, 0xEF):
        learn = protocol.operand(3)
        texts = [encode(Opcode.CLASSIFY, image(1)), encode(Opcode.LEARN, learn, 1), encode(Opcode.CLASSIFY, image(3, first), 2),
                 encode(Opcode.CLASSIFY | 1, image(9), 3), encode(Opcode.LEARN, learn, 4)]
        twin = Twin(learns=True)
        expected = [twin.reply(plain(text)) for text in texts]
        assert run_learning([plain(text) for text in texts]) == expected and len(expected[3]) == 15


def test_fuzz_of_a_learner(run_learning):
    """Random frames of every kind, repeated or not; after each of them a good image, with the logits of the classes known."""
    fuzz_of_a_learner(run_learning, Twin(learns=True), FRAMES // 5)


def test_fuzz_of_a_learner_that_hears_ahead(tmp_path_factory):
    fuzz_of_a_learner(board(tmp_path_factory, True, True), Twin(learns=True, ahead=True), FRAMES // 20)


def fuzz_of_a_learner(run_learning, twin, frames):
    source = random.Random(2027)
    requests = (*protocol.REQUESTS, *protocol.COMMANDS, *protocol.LEARNING_REQUESTS)
    texts, replies = [], []
    good = image(7)
    for _ in range(frames):
        text = random_text(source, requests)
        for item in [text] * source.choice((1, 1, 1, 2)):
            texts.append(item)
            replies.append(twin.reply([byte[:2] for byte in item]))
        texts.append(plain(encode(Opcode.CLASSIFY | 1, good, source.choice((0, 3)))))
        replies.append(twin.reply(texts[-1]))
        assert replies[-1][5:-2] == answer(good, 1, twin.known)
    for space in range(8):
        texts.append(plain(encode(Opcode.PEEK | space, protocol.operand(0, 32), 9)))
        replies.append(twin.reply(texts[-1]))
    for number, (found, reply) in enumerate(zip(run_learning(texts), replies)):
        assert reply is None or found == reply, f"frame {number}: {texts[number]}: {found} {reply}"
    assert sum(reply is None for reply in replies) < len(replies) * 0.3


def test_counters(run):
    source, twin = random.Random(5), Twin()
    texts = [random_text(source) for _ in range(300)]
    texts = [text for text in texts if twin.reply([item[:2] for item in text]) is not None]
    twin = Twin()
    for text in texts:
        twin.reply([item[:2] for item in text])
    status = protocol.Status.unpack(run([*texts, plain(encode(Opcode.STATUS))])[-1][5:-2])
    assert (status.frames, status.errors) == (twin.frames, twin.errors) and twin.frames > 30 and twin.errors > 100


@pytest.mark.parametrize("change, message", [
    ({"score_bits": 17},
     "host link: logits of 17 bits, expected at most 16; use fewer inputs to a class"),
    ({"lanes": 12}, "host link: lanes 12, mark b'abcd', model None: expected a multiple of 8, and 4 bytes each"),
    ({"size": 148}, "host link: image of 148 pixels a side, expected at most 147, so that a frame holds it"),
    ({"result_bits": 8}, "host link: result_bits 8, expected from timeout_bits, 21, to 24")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        HostLink(**{"classes": CLASSES, "size": SIZE, "lanes": 16, "latent_words": WORDS, "score_bits": 14, "mark": b"abcd",
                    "clocks": 4} | change)
    assert str(error.value) == message


def test_divider():
    assert uart.divider(12e6, 1_000_000) == 12 and uart.divider(48e6, 115200) == 417
    for arguments, message in (((12e6, 4_000_000), "--baud 4000000: a clock of 12 MHz allows at most 3428571; expected a "
                                "lower --baud or a higher --clock"),
                               ((36e6, 3), "--baud 3: a clock of 36 MHz needs at least 275")):
        with pytest.raises(UsageError) as error:
            uart.divider(*arguments)
        assert str(error.value) == message
