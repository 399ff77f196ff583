"""The top module of a bitstream: oscillator, PLL, reset and the cells at the pins, around `rtl.board_top.BoardTop`."""

import re
from dataclasses import replace

from amaranth import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Mux, Signal
from amaranth.hdl import IOPort

from ..base.errors import UsageError
from ..machine.device import BUTTONS
from ..rtl import duty_cycle
from ..rtl.board_top import BoardTop, keep_room
from ..rtl.device_top import DeviceTop
from ..rtl.keeper_program import program_size
from ..rtl.qspi_flash import FlashChip
from ..rtl.sdram import CHIPS
from ..rtl.uart import divider
from ..rtl.verilog import convert
from ..targets.platforms import CONFIGURATION_CLOCK
from . import plls
from .plls import TOLERANCE

FLASH_LATENCY = 2
"""Cycles from FlashReader.pulse to its data.  A register at the pin takes one on the way out and one on the way in."""
PINS = ("clock", "rx", "tx", "ready", "fault")
LINK = "rx", "tx"
PULLED = "camera_sioc", "camera_siod"
PULLS = {"ecp5": 'IOBUF PORT "{name}" PULLMODE=UP;\n', "gowin": 'IO_PORT "{name}" PULL_MODE=UP;\n',
         "xilinx7": "set_property PULLUP true [get_ports {name}]\n"}
"""The constraint that lets a wire go up; on an iCE40 a parameter of its cell does."""
COLUMNS = 56
"""Of the die of Gowin's GW2A-18 and GW2AR-18."""
FLASH_RATIOS = 1, 2, 4
"""Cycles of a design with an SDRAM to one of its flash, from which the SDRAM is filled: the fewest that the flash can keep up with.

Its clock is high for half a cycle of the design, 4.3 ns at 115 MHz.
"""
QUEUE = 4096
"""Bytes of the link's queue, at most."""
SETTLE_BITS = 10
"""The reset lasts 2^n cycles after the PLL has locked, since the iCE40's block RAM cannot be read in the first microseconds."""
SETTLES = (1 << SETTLE_BITS) + 16
"""Clocks after which the reset has ended for sure, and the link hears."""


class Pads(Elaboratable):
    """The top module of a bitstream.

    ports: {name: IOPort}; `constraints` places them.  clock: a plls.Pll.  ahead: as `HostLink` has it.  link: whether a design with a
    camera has a link, too.

    The LED fault is lit until the PLL has locked.  It needs no clock, and a PLL that never locks has none that the link could run at.
    """

    def __init__(self, config, board, clock, baud, model, ahead=False, link=False):
        self.board, self.clock, self.family = board, clock, board.part.family
        streams = config.weights == "stream"
        flash_hz = board.part.flash_hz
        if streams and not config.sdram and "stream" not in board.part.weights:
            raise UsageError(f"--board {board.name}: has no flash reader, expected a design with its weights on the chip")
        sdram = self._sdram(config) if config.sdram else {}
        double = config.way == "double"
        if double and not board.flash.get("double"):
            raise UsageError(f"--board {board.name}: its flash is not read at twice the clock of the design, expected a design with "
                             "--weights flash")
        if streams and not sdram and flash_hz and clock.hz > flash_hz * (1 + TOLERANCE):
            raise UsageError(f"--clock {clock.hz / 1e6:g}: the flash of {board.title} has the design's clock, expected at most "
                             f"{flash_hz / 1e6:g}")
        # An SDRAM leaves no time to a clock beyond the last ratio.
        ratio = next((ratio for ratio in FLASH_RATIOS if not flash_hz or clock.hz <= ratio * flash_hz), FLASH_RATIOS[-1])
        chip = FlashChip(width=board.flash["lines"])
        if "quad_enable" in board.flash:
            chip = replace(chip, quad_enable=tuple(map(tuple, board.flash["quad_enable"])))
        self.flash_clock = plls.flash(clock, chip, board.clock_hz) if double else None
        reads = {"clock_hz": clock.hz, "chip": chip, "offset": board.flash["offset"], "latency": FLASH_LATENCY,
                 **({"sdram": sdram["chip"], "sdram_latency": self.sdram_clock[1], "flash_ratio": ratio} if sdram else {})}
        if config.keeps:
            reads |= {"keep_base": self._keep_base(config, board), "keep_blocks": self._keep_blocks(config, board.part, ahead, link)}
        linked = link or not config.camera
        clocks = divider(clock.hz, baud) if linked else None
        if config.camera:
            self.core = DeviceTop(config, model=model, clocks=clocks, ahead=ahead, **reads)
        else:
            self.core = duty_cycle.board(BoardTop(
                config, model=model, clocks=clocks, ahead=ahead, **reads), clocks)
        self.around = self._around(config)
        self.driven = {f"drive{i}": pin for i, pin in enumerate(board.drive)}
        names = [*(name for name in PINS if name in board.pins and (linked or name not in LINK)), *self.around, *self.driven]
        if streams:
            names += ["flash_select", *["flash_clock"] * (board.flash["clock"] != CONFIGURATION_CLOCK)]
            names += [f"flash_io{i}" for i in range(board.flash["lines"])]
        self.sdram = {f"sdram_{name}": pin for name, pin in sdram.get("pins", {}).items()}
        names += self.sdram
        self.ports = {name: IOPort(1, name=name) for name in names}
        self.streams = streams

    @staticmethod
    def _keep_base(config, board):
        """Address of what is kept, behind the flash image; UsageError where the flash is too small."""
        base, end = keep_room(config, board.flash["offset"])
        if end > board.flash["bytes"]:
            raise UsageError(f"--board {board.name}: its flash has {board.flash['bytes']:,} bytes, expected {end:,} for the image and what "
                             "is learned; use a design without --keep")
        return base

    @staticmethod
    def _keep_blocks(config, part, ahead, link):
        """Whether the part has block RAMs for the keeper's program beside all others."""
        if part.blocks is None:
            return True
        # Sums and registers of the camera, letters of the display; words and the queue of the link.
        beside = (2 + bool(config.display)) * bool(config.camera)
        if link or not config.camera:
            beside += 1 + ahead * part.block_count(QUEUE, 8)
        used = sum(part.blocks_of(config).values()) + beside
        return used + part.block_count(*program_size(config.learning.host_bits)) <= part.blocks

    def _around(self, config):
        """{port: pin} of camera, buttons and LEDs; UsageError where the board has no place for them."""
        if not config.camera:
            return {}
        board = self.board
        if not board.camera:
            raise UsageError(f"--board {board.name}: has no place for a camera, expected a board whose page has the table camera")
        if missing := [button for button in self.core.buttons if button not in board.panel]:
            raise UsageError(f"--board {board.name}: has no button {' and no button '.join(missing)}, expected them in its page")
        unused = set(BUTTONS) - set(self.core.buttons)
        return {f"camera_{name}": pin for name, pin in board.camera.items()} | {
            f"panel_{name}": pin for name, pin in board.panel.items() if name not in unused}

    def _sdram(self, config):
        """{"chip": SdramChip, "pins": {name: pin}} of the board's SDRAM; UsageError where the design's is another one."""
        board = self.board
        if not board.sdram:
            raise UsageError(f"--board {board.name}: has no SDRAM that is read, expected a design without --weights sdram")
        chip = CHIPS.get(board.sdram["chip"])
        if chip is None:
            raise UsageError(f"--board {board.name}: sdram.chip is {board.sdram['chip']}, expected {' or '.join(CHIPS)}")
        if chip.lines != config.beat_bits:
            raise UsageError(f"--board {board.name}: its SDRAM has {chip.lines} lines, the design reads {config.beat_bits}")
        self.sdram_clock = plls.sdram(self.clock, chip)
        return {"chip": chip, "pins": board.sdram["pins"]}

    def pins(self):
        """{port: pin}."""
        pins, flash = self.board.pins, self.board.flash
        places = {name: pins[name] for name in PINS if name in pins} | self.around | self.driven
        if self.streams:
            places |= {"flash_select": flash["select"], "flash_clock": flash["clock"]}
            places |= {f"flash_io{i}": pin for i, pin in enumerate(flash["io"])} | self.sdram
        return {name: pin for name, pin in places.items() if name in self.ports}

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.domains.start = start = ClockDomain(reset_less=True)
        locked, seen = Signal(), Signal(2)
        settled = Signal(SETTLE_BITS + 1)
        m.d.comb += start.clk.eq(ClockSignal("sync"))
        if self.family == "ice40":
            m.d.comb += sync.rst.eq(~settled[-1])
        else:  # larger: a register on its way
            reset = Signal(init=1)
            m.d.start += reset.eq(~settled[-1])
            m.d.comb += sync.rst.eq(reset)
        m.d.start += seen.eq(seen << 1 | locked)
        with m.If(seen[-1] & ~settled[-1]):
            m.d.start += settled.eq(settled + 1)
        m.submodules.core = core = self.core
        outputs = self._device(m) if self.around else {}
        if "tx" in self.ports:
            outputs = {"tx": core.tx} | outputs
        fault = Signal(init=1)  # it starts as 1, without a clock; and the way to a pin is short
        m.d.start += fault.eq(core.fault | ~settled[-1])
        for name, value in (("ready", core.ready), ("fault", fault)):
            if name in self.ports:
                outputs[name] = ~value if name in self.board.low else value
        outputs |= {f"drive{i}": Const(level) for i, level in enumerate(self.board.drive.values())}
        if self.family == "ice40":
            self._ice40(m, sync, locked, outputs)
        else:
            self._others(m, sync, locked, outputs)
        return m

    def _device(self, m):
        """The pins of camera and buttons; returns {port: value} of those that are outputs."""
        core = self.core
        taken = {name: getattr(core, name) for name in ("pclk", "href", "vsync")} | {f"data{i}": core.data[i] for i in range(8)}
        for name, value in taken.items():
            m.submodules[f"pad_camera_{name}"] = self._in(f"camera_{name}", value)
        for i, button in enumerate(core.buttons):
            level = Signal(name=f"button_{button}")
            m.submodules[f"pad_panel_{button}"] = self._in(f"panel_{button}", level)
            m.d.comb += core.pressed[i].eq(~level if button in self.board.low else level)
        for name in ("sioc", "siod"):
            m.submodules[f"pad_camera_{name}"] = self._pulled(f"camera_{name}", getattr(core, f"{name}_low"), getattr(core, name, None))
        outputs = {"camera_xclk": core.xclk, "camera_reset": Const(1), "camera_pwdn": Const(0)}
        for name, value in ({f"number{i}": bit for i, bit in enumerate(core.number)} | {"flag": core.flag}).items():
            outputs[f"panel_{name}"] = ~value if name in self.board.low else value
        return {name: value for name, value in outputs.items() if name in self.ports}

    def _in(self, port, value):
        """A pin that is an input."""
        if self.family == "ice40":
            return _ice40_pad(self.ports[port], 0b000001, o_D_IN_0=value)
        return Instance("IB" if self.family == "ecp5" else "IBUF", i_I=self.ports[port], o_O=value)

    def _pulled(self, port, low, level=None):
        """A pin that pulls its wire to ground or lets it go.  level: what gets the level of the wire, if anybody looks at it."""
        if self.family == "ice40":
            seen = {} if level is None else {"o_D_IN_0": level}
            return _ice40_pad(self.ports[port], 0b101001, p_PULLUP=Const(1, 1), i_D_OUT_0=Const(0), i_OUTPUT_ENABLE=low, **seen)
        kind, floats, pin = {
            "ecp5": ("BB", "T", "io_B"), "gowin": ("IOBUF", "OEN", "io_IO"), "xilinx7": ("IOBUF", "T", "io_IO")}[self.family]
        return Instance(kind, i_I=Const(0), **{f"i_{floats}": ~low, pin: self.ports[port]}, **({} if level is None else {"o_O": level}))

    def _ice40(self, m, sync, locked, outputs):
        ports, core = self.ports, self.core
        reference = {"io_PACKAGEPIN": ports["clock"]}
        kind, setting, outputs_of = "SB_PLL40_PAD", self.clock.parameters, {"o_PLLOUTGLOBAL": sync.clk}
        if self.flash_clock:
            m.domains.flash = flash = ClockDomain(reset_less=True)
            kind, setting = "SB_PLL40_2F_PAD", self.flash_clock.parameters
            outputs_of = {"o_PLLOUTGLOBALA": flash.clk, "o_PLLOUTGLOBALB": sync.clk}
        if self.board.target != "ice40":  # its oscillator is not at the PLL's own pin
            oscillator = Signal()
            m.submodules.pad_clock = _ice40_pad(ports["clock"], 0b000001, o_D_IN_0=oscillator)
            kind, reference = "SB_PLL40_CORE", {"i_REFERENCECLK": oscillator}
        m.submodules.pll = Instance(
            kind, **reference, **{f"p_{k}": v for k, v in setting.items()}, **outputs_of, o_LOCK=locked,
            i_RESETB=Const(1), i_BYPASS=Const(0))
        if "rx" in ports:
            m.submodules.pad_rx = _ice40_pad(ports["rx"], 0b000001, p_PULLUP=Const(1, 1), o_D_IN_0=core.rx)
        for name, value in outputs.items():
            m.submodules[f"pad_{name}"] = _ice40_pad(ports[name], 0b011001, i_D_OUT_0=value)
        if not self.streams:
            return
        clock = {"i_OUTPUT_CLK": ClockSignal()}
        if self.flash_clock:
            self._quick_pads(m)
        else:
            self._pads(m, clock)
        for i in range(self.board.flash["lines"]):
            second = {"o_D_IN_1": core.flash_input[4 + i]} if self.flash_clock else {}
            m.submodules[f"pad_flash_io{i}"] = _ice40_pad(
                ports[f"flash_io{i}"], 0b110100, i_D_OUT_0=core.flash_output[i], i_OUTPUT_ENABLE=core.flash_enable[i],
                o_D_IN_0=core.flash_input[i], **second, i_INPUT_CLK=ClockSignal(), **clock)

    def _pads(self, m, clock):
        """Clock and select of the flash, registered at their pins."""
        ports, core = self.ports, self.core
        pulse = Signal()
        m.d.sync += pulse.eq(core.flash_pulse)
        # High in the second half of the cycle: the register of the falling edge.
        m.submodules.pad_flash_clock = _ice40_pad(ports["flash_clock"], 0b010001, i_D_OUT_0=Const(0), i_D_OUT_1=pulse, **clock)
        m.submodules.pad_flash_select = _ice40_pad(ports["flash_select"], 0b010101, i_D_OUT_0=core.flash_select_n, **clock)

    def _quick_pads(self, m):
        """Clock and select of a flash at twice the clock, registered at their pins by that clock, since the two pins share a tile.

        The cell of the clock takes a bit in the middle of a cycle of sync and one at its end, each from registers that changed half a
        cycle before, and shows it for a quarter of a cycle.  The clock at twice the frequency is later by d (`plls.flash`), less than a
        register and a LUT take, so no bit changes before it is taken.
        """
        clock = {"i_OUTPUT_CLK": ClockSignal("flash")}
        m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
        m.d.comb += falling.clk.eq(ClockSignal("sync"))
        pulse = Signal(2)
        select_n = Signal(init=1)
        turn, turned = Signal(), Signal()  # they differ in the first half of a cycle
        m.d.start += [pulse.eq(self.core.flash_pulse), select_n.eq(self.core.flash_select_n), turn.eq(~turn)]
        m.d.falling += turned.eq(turn)
        level = Signal()
        m.d.comb += level.eq(Mux(turn ^ turned, pulse[0], pulse[1]))
        m.submodules.pad_flash_clock = _ice40_pad(self.ports["flash_clock"], 0b010001, i_D_OUT_0=level, i_D_OUT_1=Const(0), **clock)
        m.submodules.pad_flash_select = _ice40_pad(self.ports["flash_select"], 0b010101, i_D_OUT_0=select_n, **clock)

    def _others(self, m, sync, locked, outputs):
        """The pins and the PLL of the other families, with the readers of flash and SDRAM."""
        into = "IB" if self.family == "ecp5" else "IBUF"
        oscillator = Signal()
        m.submodules.pad_clock = Instance(into, i_I=self.ports["clock"], o_O=oscillator)
        parameters = {f"p_{k}": v for k, v in self.clock.parameters.items()}
        if self.sdram:
            shifted = Signal()
            second = "CLKOS" if self.family == "ecp5" else "CLKOUTP"
            parameters |= {f"p_{k}": v for k, v in self.sdram_clock[0].items()} | {f"o_{second}": shifted}
        if self.family == "ecp5":
            unused = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG", "PLLWAKESYNC", "ENCLKOP")
            feedback = Signal()
            m.submodules.pll = Instance(
                "EHXPLLL", **parameters, **{f"a_{k}": v for k, v in plls.FILTER.items()}, i_CLKI=oscillator, i_CLKFB=feedback,
                o_CLKINTFB=feedback, o_CLKOP=sync.clk, o_LOCK=locked, **{f"i_{name}": Const(0) for name in unused})
        elif self.family == "gowin":
            unused = {"CLKFB": 1, "RESET": 1, "RESET_P": 1, "FBDSEL": 6, "IDSEL": 6, "ODSEL": 6, "PSDA": 4, "DUTYDA": 4, "FDLY": 4}
            m.submodules.pll = Instance("rPLL", **parameters, i_CLKIN=oscillator, o_CLKOUT=sync.clk, o_LOCK=locked,
                                        **{f"i_{name}": Const(0, width) for name, width in unused.items()})
        else:
            output, feedback = Signal(), Signal()
            m.submodules.pll = Instance(
                "PLLE2_BASE", **parameters, i_CLKIN1=oscillator, i_CLKFBIN=feedback, o_CLKFBOUT=feedback, o_CLKOUT0=output, o_LOCKED=locked,
                i_RST=Const(0), i_PWRDWN=Const(0))
            m.submodules.global_clock = Instance("BUFG", i_I=output, o_O=sync.clk)
        if "rx" in self.ports:
            m.submodules.pad_rx = Instance(into, i_I=self.ports["rx"], o_O=self.core.rx)
        for name, value in outputs.items():
            m.submodules[f"pad_{name}"] = self._out(name, value)
        if self.streams:
            self._flash(m)
        if self.sdram:
            self._sdram_pins(m, shifted)

    def _flash(self, m):
        """The pins of the flash that configured the FPGA.

        On ECP5 its clock leaves through USRMCLK, and the other pins are free after configuration.  On Gowin all of them are, where the
        packer is told so (`toolchain.commands`).
        """
        core = self.core
        m.submodules.flash_clock = clock = FlashClock()
        m.d.comb += clock.pulse.eq(core.flash_pulse)
        m.submodules.pad_flash_clock = (
            self._out("flash_clock", clock.clock) if "flash_clock" in self.ports else
            Instance("USRMCLK", i_USRMCLKI=clock.clock, i_USRMCLKTS=Const(0)))
        select = Signal()
        m.submodules.register_select = self._register(core.flash_select_n, select, "flash_select")
        m.submodules.pad_flash_select = self._out("flash_select", select)
        for i in range(self.board.flash["lines"]):
            self._line(m, f"flash_io{i}", "", i, core.flash_output[i], core.flash_enable[i], core.flash_input[i])

    def _sdram_pins(self, m, shifted):
        """The pins of an SDRAM, each behind a register of its own.

        Its clock, `shifted`, leaves through a register of both edges, which on ECP5 has the delay of the others.  CKE is 1, CS# is 0.
        """
        core, ports = self.core, self.ports
        clock, level = Signal(), Signal()
        if self.family == "ecp5":
            m.submodules.sdram_global = Instance("DCCA", i_CLKI=shifted, i_CE=Const(1), o_CLKO=clock)
            m.submodules.register_sdram_clk = Instance(
                "ODDRX1F", i_SCLK=clock, i_RST=Const(0), i_D0=Const(1), i_D1=Const(0), o_Q=level)
        else:
            m.submodules.register_sdram_clk = Instance("ODDR", i_CLK=shifted, i_D0=Const(1), i_D1=Const(0), i_TX=Const(0), o_Q0=level)
        m.submodules.pad_sdram_clk = self._out("sdram_clk", level)
        for name, value in (("cke", 1), ("cs", 0)):
            if f"sdram_{name}" in ports:
                m.submodules[f"pad_sdram_{name}"] = self._out(f"sdram_{name}", Const(value))
        values = dict(zip(("we", "cas", "ras"), core.sdram_command))
        for name, signal in (("ba", core.sdram_bank), ("a", core.sdram_address)):
            values |= {f"{name}{i}": bit for i, bit in enumerate(signal)}
        values |= {name[len("sdram_"):]: core.sdram_mask for name in ports if name.startswith("sdram_dqm")}
        for name, value in values.items():
            pad = Signal(name=f"sdram_{name}_out")
            m.submodules[f"register_sdram_{name}"] = self._register(value, pad, f"sdram_{name}")
            m.submodules[f"pad_sdram_{name}"] = self._out(f"sdram_{name}", pad)
        for i in range(len(core.sdram_input)):
            self._line(m, f"sdram_dq{i}", "sdram_", i, core.sdram_output[i], core.sdram_enable, core.sdram_input[i])

    def _line(self, m, port, prefix, i, output, enable, taken):
        """A pin of both directions, with a register for its output, its enable and its input.  prefix, i: of their names."""
        out, into, floats = (Signal(name=f"{prefix}{name}{i}") for name in ("out", "in", "floats"))
        m.submodules[f"register_{prefix}out{i}"] = self._register(output, out, port)
        m.submodules[f"register_{prefix}enable{i}"] = self._register(~enable, floats, port, "enable")
        m.submodules[f"register_{prefix}in{i}"] = self._register(into, taken, port, "in")
        kind, pins = {"ecp5": ("BB", {"i_T": floats, "io_B": self.ports[port]}),
                      "gowin": ("IOBUF", {"i_OEN": floats, "io_IO": self.ports[port]})}[self.family]
        m.submodules[f"pad_{port}"] = Instance(kind, i_I=out, **pins, o_O=into)

    def _out(self, port, value):
        """A pin that is an output."""
        return Instance("OB" if self.family == "ecp5" else "OBUF", i_I=value, o_O=self.ports[port])

    def _register(self, source, target, port, what="out"):
        """A register at the pin of a port, of sync without a reset.  what: "out", "enable" or "in".

        An output is 1 after configuration, so nothing is selected or driven.  An ECP5 has it in the pin's cell.  On Gowin it is in the
        fabric, since apycula 0.35 cannot pack one into a pin's cell.
        Ref: Lattice FPGA-TN-02032 (ECP5 High-Speed I/O), single data rate registers; Gowin UG288, DFF and DFFS.
        """
        if self.family == "gowin":
            kind, pins = ("DFF", {}) if what == "in" else ("DFFS", {"i_SET": Const(0)})
            return Instance(kind, i_D=source, o_Q=target, i_CLK=ClockSignal(), **pins, **_beside(self.pins()[port], what))
        kind, clear = ("IFS1P3DX", "CD") if what == "in" else ("OFS1P3BX", "PD")
        return Instance(kind, i_D=source, o_Q=target, i_SCLK=ClockSignal(), i_SP=Const(1), **{f"i_{clear}": Const(0)})


def _beside(pad, what):
    """The attribute that puts a register into the tile beside a pad of the left or right side of a Gowin part; {} for any other pin.

    Six flip-flops share the tile, those of a pair are of one kind.  nextpnr knows no timing of pads, and leaves a register without it
    anywhere on the die.
    """
    place = re.fullmatch(r"IO([LR])(\d+)([AB])", pad)
    if not place:
        return {}
    column = {"L": 1, "R": COLUMNS - 2}[place[1]]
    number = {"out": 0, "enable": 1, "in": 4}[what] + "AB".index(place[3]) * (1 if what == "in" else 2)
    return {"a_BEL": f"X{column}Y{int(place[2]) - 1}/DFF{number}"}


class FlashClock(Elaboratable):
    """The flash's clock, made by registers of both edges.

    It is high in the second half of a cycle if `pulse` was 1 in the cycle before.  Only one of the two
    registers changes at an edge, so their exclusive or has no glitch.
    """

    def __init__(self):
        self.pulse, self.clock = Signal(), Signal()

    def elaborate(self, platform):
        m = Module()
        m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
        m.d.comb += falling.clk.eq(ClockSignal("sync"))
        pulse, rise, fall = Signal(), Signal(), Signal()
        m.d.sync += [pulse.eq(self.pulse), rise.eq(fall)]
        m.d.falling += fall.eq(rise ^ pulse)
        m.d.comb += self.clock.eq(rise ^ fall)
        return m


def _ice40_pad(port, kind, **connections):
    """PIN_TYPE of an iCE40 pin: output mode in the high four bits, input mode in the low two.  Ref: Lattice TN1253 (iCE40 I/O)."""
    return Instance("SB_IO", p_PIN_TYPE=Const(kind, 6), io_PACKAGE_PIN=port, **connections)


def to_verilog(pads):
    """Verilog of a `Pads` as module top; it instantiates `accelerator`."""
    return convert(pads, "top", ports=list(pads.ports.values()))


def constraints(pads):
    """Text of the pin constraints: PCF for iCE40, LPF for ECP5, CST for Gowin, XDC for Xilinx."""
    form = {
        "ice40": "set_io {name} {pin}\n", "ecp5": 'LOCATE COMP "{name}" SITE "{pin}";\nIOBUF PORT "{name}" IO_TYPE=LVCMOS33;\n',
        "gowin": 'IO_LOC "{name}" {pin};\nIO_PORT "{name}" IO_TYPE=LVCMOS33;\n',
        "xilinx7": "set_property -dict {{PACKAGE_PIN {pin} IOSTANDARD LVCMOS33}} [get_ports {name}]\n"}[pads.family]
    text = "".join(form.format(name=name, pin=pin) for name, pin in pads.pins().items())
    if pads.family == "ecp5":
        text += "".join(f'IOBUF PORT "{name}" SLEWRATE=FAST;\n' for name in pads.sdram)
    if pads.family in PULLS:
        text += "".join(PULLS[pads.family].format(name=name) for name in PULLED if name in pads.ports)
    if pads.family == "xilinx7":
        text += f"create_clock -period {1e9 / pads.board.clock_hz:g} [get_ports clock]\n"
    return text
