"""The pico-ice as a platform class: amaranth-boards has none.

Ref: https://github.com/tinyvision-ai-inc/pico-ice, Board/Rev3/pico-ice.pdf; pins as in pico-ice-sdk, rtl/pico_ice.pcf.
"""

import subprocess

from amaranth.build import Attrs, Clock, Connector, Pins, Resource
from amaranth.vendor import LatticeICE40Platform
from amaranth_boards.resources import SPIFlashResources, UARTResource

IO = Attrs(IO_STANDARD="SB_LVCMOS")


class PicoIcePlatform(LatticeICE40Platform):
    device = "iCE40UP5K"
    package = "SG48"
    default_clk = "clk12"
    resources = [
        Resource("clk12", 0, Pins("35", dir="i"), Clock(12e6), Attrs(GLOBAL=True), IO),  # the RP2040 makes it
        UARTResource(0, rx="27", tx="25", attrs=IO),
        *SPIFlashResources(0, cs_n="16", clk="15", copi="14", cipo="17", wp_n="12", hold_n="13", attrs=IO),
    ]
    connectors = [
        Connector("pmod", 0, "4 2 47 45 - - 3 48 46 44 - -"),
        Connector("pmod", 1, "43 38 34 31 - - 42 36 32 28 - -"),
    ]

    def toolchain_program(self, products, name):
        with products.extract(f"{name}.bin") as bitstream:
            subprocess.check_call(["dfu-util", "-d", "1209:b1c0", "-a", "0", "-D", bitstream])
