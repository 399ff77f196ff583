"""The chip of a bitstream among the parts of a device: answers by LEDs, lessons by buttons, what the flash keeps."""

import pytest

import fbnn_hw
from fbnn_hw.board.proved_device import SIGNS, Prover, prove_device
from fbnn_hw.fpga import pads
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.rtl.board_top import keep_room
from fbnn_hw.rtl.device_top import DeviceTop
from fbnn_hw.rtl.qspi_flash import FlashChip
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import virtual
from fbnn_hw.simulate.device.chip import ChipDevice, lit
from tests import strategies

CLOCK_HZ = 20_000_000
CHIP = """module chip (
    input wire pll_a, input wire pll_b, input wire locked, input wire rx, output wire ready, output wire fault,
    output wire flash_select, output wire flash_clock, input wire [3:0] flash_in, output wire [3:0] flash_out,
    output wire [3:0] flash_enable,
    input wire camera_pclk, input wire camera_href, input wire camera_vsync, input wire camera_siod, input wire camera_data0,
    input wire camera_data1, input wire camera_data2, input wire camera_data3, input wire camera_data4, input wire camera_data5,
    input wire camera_data6, input wire camera_data7, input wire panel_teach, input wire panel_choose, input wire panel_forget,
    input wire panel_undo, output wire camera_xclk, output wire camera_sioc_low, output wire camera_siod_low,
    output wire panel_number0, output wire panel_number1, output wire panel_number2, output wire panel_number3, output wire panel_flag);
    reg [BITS:0] settled = 0;  // as in fpga/pads.py
    always @(posedge pll_a) if (locked && !settled[BITS]) settled <= settled + 1;
    wire pulse;
    assign flash_clock = pulse & ~pll_a;
    inner inner (
        .clk(pll_a), .rst(!settled[BITS]), .ready(ready), .fault(fault), .flash_select_n(flash_select), .flash_pulse(pulse),
        .flash_input(flash_in), .flash_output(flash_out), .flash_enable(flash_enable), .pclk(camera_pclk), .href(camera_href),
        .vsync(camera_vsync), .xclk(camera_xclk), .sioc_low(camera_sioc_low), .siod_low(camera_siod_low), .flag(panel_flag),
        .data({camera_data7, camera_data6, camera_data5, camera_data4, camera_data3, camera_data2, camera_data1, camera_data0}),
        .pressed({panel_undo, panel_forget, panel_choose, panel_teach}),
        .number({panel_number3, panel_number2, panel_number1, panel_number0}));
endmodule
"""


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    network = strategies.fill(vgg("narrow", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    return fbnn_hw.generate(network, "ice40", out=tmp_path_factory.mktemp("device"), pixels=4, lanes=16, outputs=4, weights="flash",
                            learn="nearest-mean", max_classes=2, unknown=True, forget=True, keep=True, camera="hm01b0")


def chip(design):
    """A design's Verilog in place of a bitstream's."""
    top = DeviceTop(design.config, clock_hz=CLOCK_HZ, chip=FlashChip(), offset=virtual.OFFSET,
                    keep_base=keep_room(design.config, virtual.OFFSET)[0])
    return "\n".join([CHIP.replace("BITS", str(pads.SETTLE_BITS)), convert(top, "inner"), design.read("accelerator.v").decode()])


def test_lessons_by_buttons_are_the_reference_s(design):
    """And LEDs that show another picture's answer are found."""
    pictures = strategies.images(3, 2, 32)
    with ChipDevice(design, chip(design), CLOCK_HZ, virtual.OFFSET) as device:
        proof = prove_device(device, design, pictures)
        assert not proof.differences
        assert proof.answers == [None, 1, 0] and proof.lesson == 2 and proof.learned >= 2 and proof.snapshot
        prover = Prover(device, design, pictures)
        prover.possible[0].restore(prover._kept())
        prover.leds = lit(SIGNS["class"], 0)
        prover.answer(1, "another picture")
        assert prover.proof.differences == ["another picture: LEDs fault, ready, flag, number 0100000, expected 0100001"]
