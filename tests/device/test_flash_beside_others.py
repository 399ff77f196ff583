"""The model of a flash beside that of cocotbext-qspi, and beside the vendor's where somebody has it, on the same wires."""

import importlib.util
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.device.parts import Flash
from tests.device.wires import NS, US, Spi

BENCH = Path(__file__).parent / "flash_bench.v"


def play(tmp_path, events, sources):
    """The four lines before each event but the first, and at the end, of another model: a text of 0, 1, x and z each."""
    if not shutil.which("iverilog"):
        pytest.skip("no iverilog (Debian: apt-get install iverilog)")
    since = [b[0] - a[0] for a, b in zip([events[0], *events], events)]
    (tmp_path / "events").write_text("".join(
        f"{ps} {select} {clk} {io} {enable}\n" for ps, (_, select, clk, io, enable, *_) in zip(since, events)))
    subprocess.run(["iverilog", "-g2012", "-o", "bench", BENCH, *sources], cwd=tmp_path, check=True)
    subprocess.run(["vvp", "bench"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    return (tmp_path / "answers").read_text().split()[1:]


def scene(spi, seed, erase, program):
    """Random commands as both models know them -> (how often the status was busy, bytes).  erase, program: the times of these."""
    rng = random.Random(seed)
    assert spi.command(0x9F, read=3) == [0xEF, 0x40, 0x18]
    states, found, places = [], [], []
    for _ in range(12):
        address = rng.randrange(4) * 4096 + rng.randrange(16) * 256
        match rng.randrange(5):
            case 0:
                spi.erase(address + rng.randrange(4096 - address % 4096))
                states.append(spi.status())
                spi.wait(erase + 20 * US)
            case 1 | 2:
                start = rng.randrange(128)
                places.append(address + start)
                spi.program(address + start, rng.randbytes(128))
                states.append(spi.status())
                spi.wait(program + 20 * US)
            case 3:
                spi.command(rng.choice([0x06, 0x04]))
                states.append(spi.status())
                spi.command(0x04)
            case 4:  # without write enable nothing happens
                spi.place(0x20, address)
                states.append(spi.status())
        found += spi.place(0x03, address, read=rng.randint(1, 300))
    for address in [0, *places]:
        found += spi.place(0x03, address, read=128)
    return states.count(3), found


def compared(events, answers):
    """([(number of the event, bit of this model, of the other)] of what was read and is not the same, bits that were read).

    A bit is that on IO1 before a rising clock, while this model drives it.
    """
    data = [(n, event[5] >> 1 & 1, answers[n - 1][2]) for n, event in enumerate(events)
            if n and event[2] and not events[n - 1][2] and event[6] & 2]
    return [(n, mine, other) for n, mine, other in data if str(mine) != other], len(data)


@pytest.mark.parametrize("seed", range(3))
def test_beside_cocotbext_qspi(tmp_path, seed):
    if not importlib.util.find_spec("cocotbext.qspi"):
        pytest.skip("no cocotbext-qspi (pip install cocotbext-qspi)")
    source = Path(importlib.util.find_spec("cocotbext.qspi").origin).parent / "verilog" / "qspi_flash.v"
    spi = Spi(Flash(seed, scale=1000))
    busy, found = scene(spi, seed, 45 * US, 700 * NS)
    wrong, count = compared(spi.events, play(tmp_path, spi.events, [source]))
    # It clears WEL when a write begins; the data sheet has that cleared when the write is done.
    assert len(wrong) == busy > 0 and all((mine, other) == (1, "0") for _, mine, other in wrong), wrong
    assert count > 8_000 and not set(spi.flash.faults) - {"written without write enable"} and len(set(found)) > 50


VENDORS = """
`timescale 1ps / 1ps
module qspi_flash #(parameter PROGRAM_NS = 0, ERASE_NS = 0) (input wire clk, input wire csb, inout wire [3:0] io);
    // It programs a first byte in tBP1, and each other one in 1/256 of tPP: here 128 of them in PROGRAM_NS.
    W25Q128JVxIQ #(.tSE(ERASE_NS), .tBP1(PROGRAM_NS - 127 * 5), .tPP(256 * 5)) flash (
        .CLK(clk), .CSn(csb), .DIO(io[0]), .DO(io[1]), .WPn(io[2]), .HOLDn(io[3]));
endmodule
"""


@pytest.mark.parametrize("seed", range(3))
def test_beside_the_vendors(tmp_path, seed):
    """All bits are equal once its times are ours.  FBNN_W25Q: the folder of Winbond's W25Q128JVxIQ.v and of what it reads."""
    folder = os.environ.get("FBNN_W25Q")
    if not folder:
        pytest.skip("no FBNN_W25Q, the folder of Winbond's W25Q128JVxIQ.v (version 1.0)")
    text = (Path(folder) / "W25Q128JVxIQ.v").read_text()
    for name in ("MEM", "SECSI", "SFDP", "SREG"):
        text = re.sub(rf"(`define {name}_FILENAME +).*", rf'\1"{name}.TXT"', text)
        content = "@0 " + "FF " * 65536 if name == "MEM" else (Path(folder) / f"{name}.TXT").read_text()
        (tmp_path / f"{name}.TXT").write_text(content)
    (tmp_path / "W25Q128JVxIQ_inc.v").write_text((Path(folder) / "W25Q128JVxIQ_inc.v").read_text())
    (tmp_path / "flash.v").write_text(VENDORS + text.replace('import "DPI-C" function string getenv(input string env_name);', ""))
    spi = Spi(Flash(seed, scale=1000))
    busy, found = scene(spi, seed, 45 * US, 700 * NS)
    wrong, count = compared(spi.events, play(tmp_path, spi.events, [tmp_path / "flash.v"]))
    assert not wrong and busy and count > 8_000 and len(set(found)) > 50
