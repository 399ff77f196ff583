"""The simulated device of a bitstream: its Verilog, as `fpga.disassembled` makes it, among the models of its parts."""

from ...machine import device
from ...rtl.board_top import keep_room
from ...rtl.device_top import frames_per_second
from .. import netlist, simulator
from ..chip import RANDOM
from .device import SOURCES, Seen, SimulatedDevice


class ChipDevice(SimulatedDevice):
    """A `SimulatedDevice` that runs a bitstream.  It shows its LEDs alone: `images` stays empty, and the value of a `Seen` is `lit`.

    design: with a camera.  verilog: of the bitstream.  clock_hz: of the design, which the chip's PLL makes.  offset: of the weights in the
    flash.  seed, note: as of `SimulatedDevice`.  Attribute frame_s: seconds of a frame of the sensor.
    """

    def __init__(self, design, verilog, clock_hz, offset, seed=1, note=None):
        self._open(design, seed, note, design.folder / "sim_build_bitstream")
        self.clock_hz, self.offset, self.arguments, self.options = clock_hz, offset, RANDOM, netlist.OPTIONS
        self.frame_s = 1 / frames_per_second(self.config.camera, round(clock_hz), 0)
        self.keep_base = keep_room(self.config, offset)[0] if self.config.keeps else None
        self.buttons = device.buttons(device.has(self.config.learning, self.config.keeps))
        macros = {"PANEL": " ".join(f".panel_{button}(pressed[{i}])," for i, button in enumerate(self.buttons))}
        macros |= {"BUTTONS": len(self.buttons)} if self.buttons else {}
        macros |= {"FLASH": 1} if self.config.weights == "stream" else {}
        macros |= {"DISPLAY": 1} if self.config.display else {}
        simulator.write(self.build_dir / "board.vh", "".join(f"`define {name} {value}\n" for name, value in macros.items()))
        self._sources = [SOURCES / "chip.v", simulator.write(self.build_dir / "bitstream.v", verilog),
                         netlist.BENCH / "SB_SPRAM256KA.v", netlist.cell_models("ice40")]

    def _seen(self, ps, sign, answer, choice, number, flag, ready, fault):
        if sign != "?":
            return super()._seen(ps, sign, answer, choice, number, flag, ready, fault)
        levels = {"number": number, "flag": flag, "ready": ready, "fault": fault}
        return Seen(ps, "LEDs", number | flag << 4 | ready << 5 | fault << 6, levels)


def lit(sign, number=0):
    """The value of a `Seen` while LEDs show a `machine.device.Sign` that does not blink.  number: that it shows."""
    on = [getattr(sign, name) == device.ON for name in ("flag", "ready", "fault")]
    return number % 2 ** device.NUMBER_LEDS * (sign.number == device.ON) | on[0] << 4 | on[1] << 5 | on[2] << 6


