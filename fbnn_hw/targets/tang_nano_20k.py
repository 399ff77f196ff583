"""The Tang Nano 20K as a platform class: amaranth-boards has none.

Ref: https://wiki.sipeed.com/hardware/en/tang/tang-nano-20k/nano-20k.html; pins as in litex_boards/platforms/sipeed_tang_nano_20k.py.
"""

import subprocess

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import LEDResources, SPIFlashResources, UARTResource

IO = Attrs(IO_TYPE="LVCMOS33")


class TangNano20kPlatform(GowinPlatform):
    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    default_clk = "clk27"
    resources = [
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), IO),
        *LEDResources(pins="15 16 17 18 19 20", invert=True, attrs=IO),
        UARTResource(0, rx="70", tx="69", attrs=IO),
        *SPIFlashResources(0, cs_n="60", clk="59", copi="61", cipo="62", attrs=IO),
    ]
    connectors: list = []

    def toolchain_program(self, products, name):
        with products.extract(f"{name}.fs") as bitstream:
            subprocess.check_call(["openFPGALoader", "-b", "tangnano20k", "-f", bitstream])
