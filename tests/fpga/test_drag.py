"""Files for a board's drive, read back by readers that share no code with what wrote them."""

import random
import struct

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.cli import main
from fbnn_hw.design import ready
from fbnn_hw.fpga import drag
from fbnn_hw.targets.boards import board


def read_uf2(data):
    """({address: bytes of a block}, family) of a UF2, by the rules of its specification."""
    assert len(data) % 512 == 0 and data
    count, memory, families = len(data) // 512, {}, set()
    for i in range(count):
        block = data[512 * i:512 * (i + 1)]
        assert block[:8] == b"UF2\n" + bytes((0x57, 0x51, 0x5D, 0x9E)) and block[508:] == bytes((0x30, 0x6F, 0xB1, 0x0A))
        flags, address, size, number, total, family = struct.unpack("<6I", block[8:32])
        assert (number, total) == (i, count) and size <= 476 and flags == 0x2000  # of the flash, and the family is given
        assert address % 256 == 0 and size == 256 and address not in memory
        memory[address] = block[32:32 + size]
        families.add(family)
    assert len(families) == 1
    return memory, families.pop()


class Drive:
    """The drive of a pico-ice: a flash of 4 MB whose blocks of 64 KiB are erased at the first write to each, pages programmed."""

    def __init__(self):
        self.flash, self.erased = bytearray(random.Random(1).randbytes(4 << 20)), set()

    def take(self, data):
        memory, family = read_uf2(data)
        assert family == 0x792E7263
        for address, page in memory.items():
            if address >> 16 not in self.erased:
                self.erased.add(address >> 16)
                begin = address & ~0xFFFF
                self.flash[begin:begin + (1 << 16)] = b"\xff" * (1 << 16)
            self.flash[address:address + 256] = bytes(old & new for old, new in zip(self.flash[address:address + 256], page))


def crc(data, value=0xFFFF):
    """CRC-16-CCITT, bit by bit."""
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ 0x1021 * (value >> 15)) & 0xFFFF
    return value


def read_ice40(data):
    """The memories {"cram", "bram": {bank: bytes}} of an iCE40's bitstream; it ends by a right CRC and a wake-up.

    Ref: Project IceStorm, "Bitstream file format": a command byte has its code in the high bits and the length of its payload below.
    """
    at = data.index(bytes((0x7E, 0xAA, 0x99, 0x7E))) + 4
    begin, found, bank, width, height = at, {"cram": {}, "bram": {}}, 0, 0, 0
    checked = woken = False
    while not woken:
        code, length = data[at] >> 4, data[at] & 15
        payload = int.from_bytes(data[at + 1:at + 1 + length], "big")
        at += 1 + length
        if code == 0 and payload in (1, 3):
            size = width * height // 8
            found["cram" if payload == 1 else "bram"][bank] = found["cram" if payload == 1 else "bram"].get(bank, b"") + data[at:at + size]
            at += size + 2
            assert data[at - 2:at] == b"\0\0"
        elif code == 0 and payload == 5:
            begin = None  # the CRC is set anew
        elif code == 0 and payload == 6:
            woken = True
        elif code == 1:
            bank = payload
        elif code == 2:
            assert not crc(data[begin:at]), "the CRC of the bitstream"
            checked = True
        elif code == 6:
            width = payload + 1
        elif code == 7:
            height = payload
        if begin is None:
            begin = at
    assert checked
    return found


READY = [(name, entry["model"]) for entry in ready.index() for name in entry["boards"]]


def files(name, model):
    where = ready.find(name, model).folder / f"build-{name}"
    return (where / "bitstream.bin").read_bytes(), (where / "flash.bin").read_bytes()


@pytest.mark.parametrize("name, model", READY)
def test_a_ready_bitstream_is_whole(name, model):
    found = read_ice40(files(name, model)[0])
    assert len(found["cram"]) == len(found["bram"]) == 4 and any(any(part) for part in found["cram"].values())


@pytest.mark.parametrize("name, model", READY[:1])
def test_the_reader_sees_a_changed_bit(name, model):
    data = bytearray(files(name, model)[0])
    data[len(data) // 2] ^= 4
    with pytest.raises(AssertionError, match="the CRC of the bitstream"):
        read_ice40(bytes(data))


@pytest.mark.parametrize("model", ready.models("pico-ice"))
def test_a_drive_that_took_the_file_holds_the_design(model, tmp_path):
    """What the FPGA finds in the flash is the bitstream at 0 and the weights where the design reads them; the rest stays or is erased."""
    path = tmp_path / "x.uf2"
    assert main(["flash", "--board", "pico-ice", "--model", model, "--drag", str(path)]) == 0
    bitstream, weights = files("pico-ice", model)
    drive = Drive()
    before = bytes(drive.flash)
    drive.take(path.read_bytes())
    assert drive.flash[:len(bitstream)] == bitstream and drive.flash[0x20000:0x20000 + len(weights)] == weights
    last = -(-(0x20000 + len(weights)) // 65536) * 65536
    assert set(drive.flash[len(bitstream):0x20000] + drive.flash[0x20000 + len(weights):last]) == {255}
    assert drive.flash[last:] == before[last:]


def test_parts_of_any_length():
    parts = {0x40000: bytes(range(256)) * 3 + b"end", 0: b"x"}
    memory, family = read_uf2(drag.uf2(parts, 7))
    assert family == 7 and sorted(memory) == [0, 0x40000, 0x40100, 0x40200, 0x40300]
    assert memory[0] == b"x" + b"\xff" * 255 and memory[0x40300] == b"end" + b"\xff" * 253


def test_what_a_drive_does_not_take():
    with pytest.raises(UsageError, match="^--drag: iCEBreaker shows no drive that a design could be dragged onto; fbnn-hw flash --board "):
        drag.check(board("icebreaker"), True)
    with pytest.raises(UsageError, match="^--drag: the drive of iCESugar v1.5 takes a plain bitstream, and the weights .* in the flash "):
        drag.check(board("icesugar"), True)
    drag.check(board("icesugar-pro"), False)
    assert drag.contents(board("icesugar-pro"), b"bits") == b"bits" and drag.name(board("icesugar-pro"), "bitstream.bit") == "bitstream.bit"
