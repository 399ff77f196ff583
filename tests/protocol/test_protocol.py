import random

import pytest

from fbnn_hw import protocol
from fbnn_hw.errors import InputError
from fbnn_hw.protocol import Decoder, Identity, Opcode, Result, Status, crc, encode


def test_crc_is_the_published_one():
    assert crc(b"123456789") == 0x6F91  # CRC-16/MCRF4XX, check value of the catalogue
    assert crc(b"") == 0xFFFF


def test_frames_as_documented():
    assert encode(Opcode.STATUS, sequence=7).hex() == "fb02070000" + crc(b"\x02\x07\0\0").to_bytes(2, "little").hex()
    body = b"\x11\xfe\x03\x00abc"
    assert encode(0x11, b"abc", 254) == b"\xfb" + body + crc(body).to_bytes(2, "little")
    assert crc(encode(0x11, b"abc")[1:]) == 0
    poke = encode(Opcode.POKE | 5, protocol.operand(0x1234, 2) + protocol.words_bytes((1, 0xABCD), 2))
    assert poke[1:-2].hex() == "3d000800341200020100cdab"
    assert protocol.words_from(b"\1\0\xcd\xab", 2) == [1, 0xABCD]


@pytest.mark.parametrize("seed", range(20))
def test_decoder_finds_every_frame_in_garbage(seed):
    source = random.Random(seed)
    frames = [(source.randrange(256), source.randrange(256), source.randbytes(source.randrange(30))) for _ in range(20)]
    text = b""
    for opcode, sequence, payload in frames:
        text += bytes(source.choice([b for b in range(256) if b != protocol.SYNC]) for _ in range(source.randrange(5)))
        text += encode(opcode, payload, sequence)
    decoder, found = Decoder(30), []
    while text:
        cut = source.randrange(1, 9)
        found += decoder.feed(text[:cut])
        text = text[cut:]
    assert found == frames


def test_decoder_goes_on_after_damage():
    good = encode(1, b"xy")
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        found = Decoder(8).feed(bytes(bad) + good + good + b"\0" * 20)
        assert found[-1:] == [(1, 0, b"xy")] and not {(0xEB, 0, b"xy"), (1, 0x10, b"xy")} & set(found), at


def test_a_believed_length_is_limited():
    assert Decoder(4).feed(b"\xfb\x01\0\xff\xff" + encode(2)) == [(2, 0, b"")]


def test_identity_status_result():
    identity = Identity(3, b"abcd", 10, 32, 128, 4, 16, 2, b"wxyz")
    assert Identity.unpack(identity.pack()) == identity and len(identity.pack()) == protocol.IDENTITY_BYTES
    assert identity.poke_words == 125 and identity.reply_limit == 4 * (32 + 128 + 2)
    status = Status(True, False, 0x1234, 7, 998_799, True)
    assert Status.unpack(status.pack()) == status and len(status.pack()) == protocol.STATUS_BYTES
    data = (5).to_bytes(2, "little") + (-3).to_bytes(2, "little", signed=True) + b"\x0f\xf0" + b"\0\0"
    assert Result.unpack(data, protocol.LOGITS | protocol.LATENT, 2, 2) == [Result(0, (5, -3), b"\x0f\xf0")]
    assert Result.unpack(data, protocol.LOGITS | protocol.LATENT, None, 2) == [Result(0, (5, -3), b"\x0f\xf0")]
    assert Result.unpack(b"\1\0\0\0", 0, 2, 2, 2) == [Result(1, None, None), Result(0, None, None)]


@pytest.mark.parametrize("call, message", [
    (lambda: Identity.unpack(b"\1" + bytes(14)),
     "the board speaks version 1 of the protocol, expected 3; use the fbnn-hw that built its bitstream"),
    (lambda: Identity.unpack(b"\3" + bytes(9)), "the board's identity has 10 bytes, expected 19"),
    (lambda: Status.unpack(b""), "the board's status has 0 bytes, expected 8"),
    (lambda: Result.unpack(b"\2\0", 0, 2, 2), "the board found class 2, expected one below 2"),
    (lambda: Result.unpack(b"\2\0", 1, None, 0), "the board found class 2, expected one below 0"),
    (lambda: Result.unpack(b"", 1, None, 0), "the board's result has 0 bytes, expected 2"),
    (lambda: Result.unpack(b"\2\0\0", 0, 2, 2), "the board's result has 3 bytes, expected 2")])
def test_nonsense_is_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_the_rate_at_the_end_of_the_line():
    """By hand: 3,079 bytes there and 29 back at 1 Mbaud take 31.08 ms, 992,861 cycles at 36 MHz take 27.58 ms."""
    assert protocol.pass_bytes(32, 10) == (3079, 29)
    assert protocol.end_to_end_rate(996_958, 4097, 36e6, 1e6, 32, 10) == pytest.approx(1 / (0.03108 + 992_861 / 36e6))
    both = protocol.LOGITS | protocol.LATENT
    sent = sum(len(encode(Opcode.CLASSIFY, bytes(3 * 4 ** 2), i)) for i in range(3))
    back = sum(len(encode(0x91, payload)) for payload in (b"", b"", bytes(3 * protocol.classify_bytes(both, 5, 8))))
    assert protocol.pass_bytes(4, 5, 3, both, 8) == (sent, back)
    assert protocol.end_to_end_rate(1000, 100, 1e6, 1e6, 4, 5, 3, both, 8) == pytest.approx(3 / ((sent + back) * 1e-5 + 900e-6))
