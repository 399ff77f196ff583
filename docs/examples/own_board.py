"""A board of one's own: a page for a board that amaranth-boards knows, the pins that come of it, and what a network does there.

`fbnn-hw build --board up5k-b-evn.toml` then makes the bitstream, in minutes.
"""

from pathlib import Path

import fbnn_hw
from fbnn_hw.targets.boards import board

PAGE = """\
title = "iCE40UP5K-B-EVN"
platform = "amaranth_boards.ice40_up5k_b_evn:ICE40UP5KBEVNPlatform"
usb = "0403:6010"                                    # vendor:product of the programmer, see lsusb
console = "an adapter at the pins 7 (RX) and 9 (TX) of header B"
link = { connector = ["j", 1], rx = "7", tx = "9" }
ready = ["led_g", 0]
fault = ["led_r", 0]

[flash]
bytes = 0x400000
offset = 0x100000                                    # where the weights begin, behind the bitstream

[program]
weights = ["iceprog", "-o", "{offset}", "{weights}"]
"""

Path("up5k-b-evn.toml").write_text(PAGE)
mine = board("up5k-b-evn.toml")
print(f"{mine.title}: {mine.part.part}, {mine.clock_hz / 1e6:g} MHz, a flash of {mine.flash['bytes'] >> 20} MiB")
print("pins:", ", ".join(f"{name} {pin}" for name, pin in mine.pins.items()))
for name in ("tiny.pt", "0.5mb.pt"):
    design = fbnn_hw.generate(fbnn_hw.load(name), target=mine.target)
    known = design.estimate
    print(f"{name}: {known['cycles']:,} cycles, {known['frames_per_second']:.0f} frames/s at {known['clock_hz'] / 1e6:g} MHz (estimated)")
