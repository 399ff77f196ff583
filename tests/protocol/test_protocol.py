import random
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.machine import protocol
from fbnn_hw.machine.line import end_to_end_rate, pass_bytes
from fbnn_hw.machine.protocol import LATENT, LOGITS, REPLY, Decoder, Identity, Opcode, Result, Status, crc, encode

CLASSIFY = Opcode.CLASSIFY
IDENTITY = Identity(version=3, config=b"abcd", classes=10, size=32, latent_bytes=128, frames=1, max_classes=16, word_bytes=2, model=b"wxyz")


def test_crc_is_the_published_one():
    assert crc(b"123456789") == 0x6F91  # CRC-16/MCRF4XX, check value of the catalogue
    assert crc(b"") == 0xFFFF


def test_messages_as_documented():
    assert encode(Opcode.STATUS, sequence=7).hex() == "fb02070000" + crc(b"\x02\x07\0\0").to_bytes(2, "little").hex()
    body = b"\x11\xfe\x03\x00abc"
    assert encode(CLASSIFY | LOGITS, b"abc", 254) == b"\xfb" + body + crc(body).to_bytes(2, "little")
    assert crc(encode(CLASSIFY | LOGITS, b"abc")[1:]) == 0
    poke = encode(Opcode.POKE | 5, protocol.operand(0x1234, 2) + protocol.words_bytes((1, 0xABCD), 2))
    assert poke[1:-2].hex() == "3d000800341200020100cdab"
    assert protocol.words_from(b"\1\0\xcd\xab", 2) == [1, 0xABCD]


@pytest.mark.parametrize("seed", range(20))
def test_decoder_finds_every_message_in_garbage(seed):
    source = random.Random(seed)
    messages = [(source.randrange(256), source.randrange(256), source.randbytes(source.randrange(30))) for _ in range(20)]
    text = b""
    for opcode, sequence, payload in messages:
        text += bytes(source.choice([b for b in range(256) if b != protocol.SYNC]) for _ in range(source.randrange(5)))
        text += encode(opcode, payload, sequence)
    decoder, decoded = Decoder(30), []
    while text:
        cut = source.randrange(1, 9)
        decoded += decoder.feed(text[:cut])
        text = text[cut:]
    assert decoded == messages


def test_decoder_goes_on_after_damage():
    good = encode(1, b"xy")
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        decoded = Decoder(8).feed(bytes(bad) + good + good + b"\0" * 20)
        assert decoded[-2:] == [(1, 0, b"xy")] * 2 and not {(0xEB, 0, b"xy"), (1, 0x10, b"xy")} & set(decoded), at


def test_a_believed_length_is_limited():
    assert Decoder(4).feed(b"\xfb\x01\0\xff\xff" + encode(2)) == [(2, 0, b"")]


def slow_messages(text, limit):
    """Every place of a text where a message stands, [(start, end)]: by the definition alone."""
    places = []
    for start in range(len(text) - protocol.HEADER_BYTES - protocol.CRC_BYTES + 1):
        end = start + protocol.HEADER_BYTES + int.from_bytes(text[start + 3:start + 5], "little") + protocol.CRC_BYTES
        if text[start] == protocol.SYNC and end <= len(text) and end - start <= limit + 7 and not crc(text[start + 1:end]):
            places.append((start, end))
    return places


@pytest.mark.parametrize("seed", range(30))
def test_decoder_against_the_definition(seed):
    """Garbage rich in SYNC, headers that promise much, messages cut short: every one that lies in no other is reported."""
    source = random.Random(seed)
    text = b""
    for _ in range(60):
        piece = encode(source.randrange(256), source.randbytes(source.randrange(40)), source.randrange(256))
        text += source.choice((piece, piece, piece[:source.randrange(len(piece))], b"\xfb" * source.randrange(4),
                               b"\xfb\x81\x01" + source.randrange(300).to_bytes(2, "little"), source.randbytes(source.randrange(9))))
    outer = []
    for start, end in slow_messages(text, 200):
        if not outer or start >= outer[-1][1]:
            outer.append((start, end))
    expected = [(text[start + 1], text[start + 2], text[start + 5:end - 2]) for start, end in outer]
    assert len(expected) > 10 and Decoder(200).feed(text) == expected
    decoder, decoded = Decoder(200), []
    for byte in text:
        decoded += decoder.feed(bytes([byte]))
    assert decoded == expected


def test_an_answer_behind_stray_bytes_is_not_lost():
    answer = encode(Opcode.IDENTIFY | REPLY, b"x" * 19, 1)
    for stray in (b"\xfb", b"\xfb\xfb\xfb", b"\xfb\x81\x01\xff\xff", b"\xfb\xff"):
        assert Decoder().feed(stray + answer) == [(Opcode.IDENTIFY | REPLY, 1, b"x" * 19)]
        decoder = Decoder()
        assert decoder.feed(stray) == [] and decoder.feed(answer[:9]) == []
        assert decoder.feed(answer[9:]) == [(Opcode.IDENTIFY | REPLY, 1, b"x" * 19)]


def test_a_message_inside_another_one():
    outer = encode(1, b"a" + encode(2) + b"b")
    assert Decoder().feed(outer) == [(1, 0, b"a" + encode(2) + b"b")]
    decoder = Decoder()  # the inner one may be the answer, and the outer one noise
    assert decoder.feed(outer[:-2]) == [(2, 0, b"")] and decoder.feed(outer[-2:]) == [(1, 0, b"a" + encode(2) + b"b")]


def test_a_line_that_sends_sync_without_end_costs_little():
    decoder, start = Decoder(), time.perf_counter()
    for _ in range(64):
        assert decoder.feed(b"\xfb" * 4096) == []
    assert time.perf_counter() - start < 20  # it would be an hour with a check sum of each
    assert decoder.feed(encode(2)) == [(2, 0, b"")]
    assert len(decoder._bytes) < 4 * 0x10000 and sys.getsizeof(decoder._begun) < 16 * 0x10000
    decoder = Decoder(100)
    for _ in range(100):
        decoder.feed(b"\xfb\0" * 5000)
        assert len(decoder._bytes) < 20_000
    decoder.feed(b"\0" * 10_000)
    assert not decoder._begun and len(decoder._bytes) < 300


def test_identity_status_result():
    identity = IDENTITY
    assert Identity.unpack(identity.pack()) == identity and len(identity.pack()) == protocol.IDENTITY_BYTES
    assert identity.poke_words == 125 and identity.reply_limit == 255 * 2
    of_levels = replace(identity, version=protocol.LEVELS_VERSION, pixel_bits=13)
    assert Identity.unpack(of_levels.pack()) == of_levels and of_levels.pack()[-5:] == b"\x0d" + identity.pack()[-4:]
    assert (identity.image_bytes, of_levels.image_bytes, replace(of_levels, size=7).image_bytes) == (3072, 1664, 80)
    plain = replace(identity, max_classes=0, word_bytes=0)
    assert Identity.unpack(plain.pack()) == plain and plain.reply_limit == 20 + 128 + 2
    status = Status(ready=True, wrong_flash=False, frames=0x1234, errors=7, cycles=998_799, frozen=True)
    assert Status.unpack(status.pack()) == status and len(status.pack()) == protocol.STATUS_BYTES
    data = (5).to_bytes(2, "little") + (-3).to_bytes(2, "little", signed=True) + b"\x0f\xf0" + b"\0\0"
    assert Result.unpack(data, LOGITS | LATENT, 2, 2) == Result(0, (5, -3), b"\x0f\xf0")
    assert Result.unpack(data, LOGITS | LATENT, None, 2) == Result(0, (5, -3), b"\x0f\xf0")
    assert Result.unpack(b"\1\0", 0, 2, 2) == Result(1, None, None)


@pytest.mark.parametrize("change, message", [
    (dict(frames=0), "images of a pass: 0, expected 1; the design of another number is of version 0.2"),
    (dict(frames=2, max_classes=0, word_bytes=0), "images of a pass: 2, expected 1; the design of another number is of version 0.2"),
    (dict(classes=0, max_classes=0, word_bytes=0), "classes: 0, expected 1 or more"),
    (dict(size=0), "pixels a side: 0, expected an image of at most 65535 bytes"),
    (dict(version=4, pixel_bits=13, size=201), "pixels a side: 201, expected an image of at most 65535 bytes"),
    (dict(version=4, pixel_bits=0), "bits of a pixel: 0, expected 1 to 24"),
    (dict(version=4, pixel_bits=25), "bits of a pixel: 25, expected 1 to 24"),
    (dict(size=65535), "pixels a side: 65535, expected an image of at most 65535 bytes"),
    (dict(word_bytes=0), "bytes of a word: 0, expected a power of two from 2 to 128"),
    (dict(word_bytes=255), "bytes of a word: 255, expected a power of two from 2 to 128"),
    (dict(max_classes=0), "bytes of a word: 2, expected 0 of a design that does not learn"),
    (dict(max_classes=9), "most classes: 9, expected 0 or at least its 10 classes"),
    (dict(max_classes=65535), "bytes of a result: 131200, expected at most 65535"),
    (dict(latent_bytes=65535), "bytes of a result: 65569, expected at most 65535")])
def test_an_identity_that_no_board_has(change, message):
    with pytest.raises(InputError) as error:
        Identity.unpack(replace(IDENTITY, **change).pack())
    assert str(error.value) == f"the board's identity is damaged or a lie: {message}"


def test_an_identity_is_compared_with_a_configuration():
    design = SimpleNamespace(id="61626364", classes=10, size=32, lanes=16, latent_words=64, pixel_bits=24, takes_levels=False,
                             learning=SimpleNamespace(max_classes=16, host_bits=16))
    IDENTITY.compare(design)
    plain = SimpleNamespace(**{**vars(design), "learning": None})
    replace(IDENTITY, max_classes=0, word_bytes=0).compare(plain)
    for change, line in (
            (dict(config=b"abce"), "says configuration 61626365, the design has 61626364"),
            (dict(classes=9), "says classes 9, the design has 10"),
            (dict(size=34), "says pixels a side 34, the design has 32"),
            (dict(version=4, pixel_bits=13), "says bits of a pixel 13, the design has 24"),
            (dict(latent_bytes=0), "says bytes of the latent 0, the design has 128"),
            (dict(max_classes=12), "says most classes 12, the design has 16"),
            (dict(word_bytes=4), "says bytes of a word 4, the design has 2")):
        with pytest.raises(InputError) as error:
            replace(IDENTITY, **change).compare(design, "/dev/ttyUSB1")
        assert str(error.value) == f"/dev/ttyUSB1: {line}; build and flash that design, or name the board's"


@pytest.mark.parametrize("call, message", [
    (lambda: Identity.unpack(b"\1" + bytes(14)),
     "the board speaks version 1 of the protocol, expected 3 or 4; use the fbnn-hw that built its bitstream"),
    (lambda: Identity.unpack(b"\3" + bytes(9)), "the board's identity has 10 bytes, expected 19"),
    (lambda: Identity.unpack(b"\4" + bytes(18)), "the board's identity has 19 bytes, expected 20"),
    (lambda: Status.unpack(b""), "the board's status has 0 bytes, expected 8"),
    (lambda: Status.unpack(b"\x20" + bytes(7)), "the board's status has the flags 0x20, expected at most 0x1f"),
    (lambda: Result.unpack(b"\2\0", 0, 2, 2), "the board found class 2, expected one below 2"),
    (lambda: Result.unpack(b"\5\0\xfd\xff\x09\0\1\0\0\0", LOGITS, 4, 0),
     "the board found class 0, expected 2, whose logit is the largest"),
    (lambda: Result.unpack(b"\5\0\5\0\1\0", LOGITS, 2, 0), "the board found class 1, expected 0, whose logit is the largest"),
    (lambda: Result.unpack(bytes(12), LOGITS, None, 0, most=4), "the board sent 5 logits, expected at most 4"),
    (lambda: Result.unpack(b"\4\0", 0, None, 0, most=4), "the board found class 4, expected one below 4"),
    (lambda: Result.unpack(b"\2\0", LOGITS, None, 0), "the board found class 2, expected one below 0"),
    (lambda: Result.unpack(b"", LOGITS, None, 0), "the board's result has 0 bytes, expected 2"),
    (lambda: Result.unpack(b"\2\0\0", 0, 2, 2), "the board's result has 3 bytes, expected 2")])
def test_nonsense_is_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_the_rate_at_the_end_of_the_line():
    """By hand: 3,079 bytes there and 29 back at 1 Mbaud take 31.08 ms, 992,861 cycles at 36 MHz take 27.58 ms."""
    assert pass_bytes(32, 10) == (3079, 29)
    assert end_to_end_rate(996_958, 4097, 36e6, 1e6, 32, 10) == pytest.approx(1 / (0.03108 + 992_861 / 36e6))
    ahead = [end_to_end_rate(cycles + 4097, 4097, 48e6, 12e6, 32, 10, ahead=True) for cycles in (92_677, 1000)]
    assert ahead == [pytest.approx(48e6 / (29 * 40 + 3079 * 12 + 92_677)), pytest.approx(48e6 / (3079 * 40))]  # the line binds the second
    both = protocol.LOGITS | protocol.LATENT
    sent, back = len(encode(Opcode.CLASSIFY, bytes(3 * 4 ** 2))), len(encode(0x91, bytes(protocol.classify_bytes(both, 5, 8))))
    assert pass_bytes(4, 5, both, 8) == (sent, back)
    assert pass_bytes(32, 10, pixel_bits=13) == (1671, 29)
    assert end_to_end_rate(996_958, 4097, 36e6, 1e6, 32, 10, pixel_bits=13) == pytest.approx(1 / (0.017 + 992_861 / 36e6))
    assert end_to_end_rate(1000, 100, 1e6, 1e6, 4, 5, both, 8) == pytest.approx(1 / ((sent + back) * 1e-5 + 900e-6))
