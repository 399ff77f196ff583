"""The virtual board of a bitstream: its Verilog, as `fpga.disassembled` makes it, behind a serial line, with the flash of a board."""

from pathlib import Path

from ..base import bits
from ..base.errors import MismatchError
from ..machine.config import AcceleratorConfig
from ..rtl.qspi_flash import READ_COMMANDS
from . import netlist, simulator
from .virtual import BOARD, VirtualBoard, flash_image, verilate

RANDOM = ("+spram-random",)
"""Arguments with which a memory that no bitstream fills starts at random, and shows anything after a write."""
SILENT = 5
"""Exit code of a board whose chip gives no answer for 20,000,000 of its clocks."""


class ChipBoard(VirtualBoard):
    """A `VirtualBoard` that runs a bitstream.

    folder: the design.  verilog: of its bitstream.  clock_hz: of the design, which the chip's PLL makes.  clocks: of a bit on the line.
    settles: clocks from the lock of its PLL until its link hears.  chip: `FlashChip`.  offset: of the weights in the flash.  note: called
    with a line before it compiles.
    """

    arguments = RANDOM

    def __init__(self, folder, verilog, clock_hz, clocks, settles, chip, offset, note=None):
        simulator.check_tools("the virtual board")
        self.folder, self.port, self._process = Path(folder), None, None
        self.build_dir = (self.folder / "sim_build_bitstream").absolute()
        self.clocks, self.clock_hz = clocks, clock_hz
        config = AcceleratorConfig.from_json((self.folder / "config.json").read_text())
        macros = {"SETTLES": settles} | ({"DOUBLE": 1} if config.way == "double" else {})
        sources = [BOARD / "chip.v", simulator.write(self.build_dir / "bitstream.v", verilog), netlist.BENCH / "SB_SPRAM256KA.v",
                   netlist.cell_models("ice40")]
        if config.weights == "stream":
            image = flash_image(self.folder)
            simulator.write(self.build_dir / "flash.hex", bits.bytes_hex(image))
            macros |= {"FLASH": 1, "WIDTH": chip.width, "READ": READ_COMMANDS[chip.width], "DUMMY": chip.dummy, "BASE": offset,
                       "BYTES": len(image)}
            sources.append(BOARD / "spi_flash.v")
        simulator.write(self.build_dir / "board.vh", "".join(f"`define {name} {value}\n" for name, value in macros.items()))
        self.program = verilate(sources, self.build_dir, [self.build_dir], note=note, options=netlist.OPTIONS)

    def _ended(self, code):
        return MismatchError(f"{self.folder}: the bitstream gives no answer") if code == SILENT else super()._ended(code)
