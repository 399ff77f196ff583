"""The Tang Nano 20K as a platform class: amaranth-boards has none.

Ref: https://wiki.sipeed.com/hardware/en/tang/tang-nano-20k/nano-20k.html; pins as in litex_boards/platforms/sipeed_tang_nano_20k.py.
The SDRAM is inside the package: its lines are pads of the die that have no pin.  Which is which: the table `sip_cst` in apycula's data of
the GW2A-18C.
"""

import subprocess

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import LEDResources, SDRAMResource, SPIFlashResources, UARTResource

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
        SDRAMResource(
            0, clk="IOR11B", cke="IOL13A", cs_n="IOL14B", we_n="IOL12B", ras_n="IOL13B", cas_n="IOL14A", ba="IOR13A IOR12A",
            a="IOR14A IOR13B IOR14B IOR15A IOL16B IOL17B IOL16A IOL17A IOL15B IOL15A IOR12B",
            dq="IOL3A IOL3B IOL8A IOL8B IOL9A IOL9B IOL11A IOL11B IOR9B IOR9A IOR5B IOR6A IOR5A IOR4B IOR3B IOR3A "
               "IOL39B IOL39A IOL35B IOL35A IOL30B IOL30A IOL20A IOL18B IOR17A IOR16A IOR16B IOR17B IOR18A IOR18B IOR44A IOR44B",
            dqm="IOL12A IOR11A IOL18A IOR15B", attrs=IO),
    ]
    connectors: list = []

    def toolchain_program(self, products, name):
        with products.extract(f"{name}.fs") as bitstream:
            subprocess.check_call(["openFPGALoader", "-b", "tangnano20k", "-f", bitstream])
