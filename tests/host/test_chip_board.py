"""The virtual board of a bitstream, at any pace of host and board.  The chip here is a design's Verilog in place of a bitstream's."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fbnn_hw
from fbnn_hw.base.errors import InputError, MismatchError
from fbnn_hw.board.proved import prove
from fbnn_hw.fpga import pads
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.rtl.qspi_flash import FlashChip
from fbnn_hw.simulate import virtual
from fbnn_hw.simulate.chip import ChipBoard
from tests import strategies

CLOCKS, CLOCK_HZ = 4, 48e6
CHIP = """module chip (
    input wire pll_a, input wire pll_b, input wire locked, input wire rx, output wire tx, output wire ready, output wire fault,
    output wire flash_select, output wire flash_clock, input wire [3:0] flash_in, output wire [3:0] flash_out,
    output wire [3:0] flash_enable);
    reg [BITS:0] settled = 0;  // as in fpga/pads.py
    always @(posedge pll_a) if (locked && !settled[BITS]) settled <= settled + 1;
    BODY
endmodule
"""
LINKED = "board_top top (.clk(pll_a), .rst(!settled[BITS]), .rx(rx), .tx(tx), .ready(ready), .fault(fault), .active());"


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    return fbnn_hw.generate(strategies.smallest(), "generic", out=tmp_path_factory.mktemp("chip"), pixels=4, lanes=16, outputs=4)


def board(design, body):
    """The `ChipBoard` of a chip with such a body."""
    sources = virtual.board_sources(design.folder, design.folder / "sim_build_bitstream", CLOCKS)
    chip = CHIP.replace("BODY", body).replace("BITS", str(pads.SETTLE_BITS))
    text = "\n".join([chip, *(path.read_text() for path in sources if path.name in ("board_top.v", "accelerator.v"))])
    return ChipBoard(design.folder, text, CLOCK_HZ, CLOCKS, pads.SETTLES, FlashChip(), 0)


def test_its_answers(design):
    running = board(design, LINKED)
    with running, Serial(running.port) as line:
        assert not prove(line, design, strategies.images(1, 2, design.config.size)).differences


@pytest.mark.skipif(sys.platform != "linux", reason="looks the pseudo-terminal up in /proc")
def test_a_request_before_its_first_clock(design):
    """A host that is quicker than the board, as where others have the processor: its request is there before the reset ends."""
    running = board(design, LINKED)
    out, into = os.pipe()
    os.set_blocking(into, False)
    full = 0
    try:
        while True:
            full += os.write(into, b"\n")
    except BlockingIOError:
        os.set_blocking(into, True)
    process = subprocess.Popen([running.program, str(CLOCKS), str(round(1e12 / CLOCK_HZ))], cwd=running.build_dir, stdin=subprocess.PIPE,
                               stdout=into)
    os.close(into)
    try:  # it waits, with its name on its lips
        with Serial(_terminal(process.pid)) as line:
            line.write(protocol.encode(protocol.Opcode.IDENTIFY, sequence=1), 1)
            while full:
                full -= len(os.read(out, full))
            heard, decoder = [], protocol.Decoder(0xFF)
            while not heard:
                heard = list(decoder.feed(line.read(30) or pytest.fail("no answer")))
        assert heard[0][:2] == (protocol.Opcode.IDENTIFY | protocol.REPLY, 1)
    finally:
        process.stdin.close()
        os.close(out)
        process.wait(30)


def _terminal(pid):
    """The pseudo-terminal that a process has opened, once it waits for the reader of its output."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        links = {os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
        waits = "pipe" in Path(f"/proc/{pid}/wchan").read_text()
        if waits and (names := [name for name in links if name.startswith("/dev/pts/")]):
            return names[0]
        time.sleep(0.01)
    pytest.fail("the board has no pseudo-terminal")


def test_a_chip_that_never_answers(design):
    """Its own clock says so, and the host need not know how long a simulation takes."""
    running = board(design, "assign tx = 1, ready = 1, fault = 0;")
    with pytest.raises(MismatchError, match="the bitstream gives no answer"), running, Serial(running.port) as line:
        with pytest.raises(InputError):
            Client(line, 600, 600).identify()
        raise InputError("as the client says")
