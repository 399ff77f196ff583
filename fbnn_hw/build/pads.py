"""From a board's pins to `rtl.board_top.BoardTop`: oscillator, PLL, reset and the cells at the pins, for one family each."""

import os
from dataclasses import dataclass

from amaranth import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.hdl import IOPort

from ..errors import UsageError
from ..rtl.board_top import BoardTop
from ..rtl.qspi_flash import FlashChip
from ..rtl.uart import divider

FLASH_LATENCY = 2
"""Cycles from FlashReader.pulse to its data: a register at the pin on the way out, one on the way in."""
SETTLE_BITS = 10
"""Cycles of reset, 2^n, after the PLL has locked; the iCE40's block RAM cannot be read in the first microseconds."""


@dataclass(frozen=True)
class Pll:
    """Parameters of a PLL and the frequency they give, in Hz."""

    hz: float
    parameters: dict


def ice40_pll(reference_hz, wanted_hz):
    """Nearest frequency of SB_PLL40, feedback SIMPLE.  Ref: Lattice TN1251, section "PLL parameters"; FPGA-DS-02008, table 4.15:
    reference 10 to 133 MHz, VCO 533 to 1066 MHz, output 16 to 275 MHz."""
    best = None
    for r in range(16):
        phase_hz = reference_hz / (r + 1)
        if not 10e6 <= phase_hz <= 133e6:
            continue
        for f in range(128):
            vco_hz = phase_hz * (f + 1)
            if not 533e6 <= vco_hz <= 1066e6:
                continue
            for q in range(1, 7):
                hz = vco_hz / 2 ** q
                if hz >= 16e6 and (best is None or abs(hz - wanted_hz) < abs(best.hz - wanted_hz)):
                    limits = (17e6, 26e6, 44e6, 66e6, 101e6)
                    best = Pll(hz, {"FEEDBACK_PATH": "SIMPLE", "DIVR": Const(r, 4), "DIVF": Const(f, 7), "DIVQ": Const(q, 3),
                                    "FILTER_RANGE": Const(1 + sum(phase_hz >= limit for limit in limits), 3)})
    return _near(best, reference_hz, wanted_hz)


def ecp5_pll(reference_hz, wanted_hz):
    """Nearest frequency of EHXPLLL, feedback from CLKOP.  Ref: Lattice FPGA-DS-02012, table 3.29: phase detector 3.125 to 400 MHz,
    VCO 400 to 800 MHz."""
    best = None
    for i in range(1, int(reference_hz // 3.125e6) + 1):
        for f in range(1, 81):
            hz = reference_hz / i * f
            o = round(600e6 / hz)
            if 1 <= o <= 128 and 400e6 <= hz * o <= 800e6 and (best is None or abs(hz - wanted_hz) < abs(best.hz - wanted_hz)):
                best = Pll(hz, {"CLKI_DIV": i, "CLKFB_DIV": f, "CLKOP_DIV": o, "CLKOP_CPHASE": o - 1, "FEEDBK_PATH": "CLKOP",
                                "CLKOP_ENABLE": "ENABLED", "PLLRST_ENA": "DISABLED"})
    return _near(best, reference_hz, wanted_hz)


def _near(pll, reference_hz, wanted_hz):
    if pll is None or abs(pll.hz / wanted_hz - 1) > 0.05:
        found = "none" if pll is None else f"{pll.hz / 1e6:g} MHz at best"
        raise UsageError(f"--clock {wanted_hz / 1e6:g}: the PLL makes {found} of {reference_hz / 1e6:g} MHz; take another frequency")
    return pll


def pll(board, wanted_hz):
    """The PLL of a board for about `wanted_hz`; UsageError if it cannot come within 5 %."""
    return (ice40_pll if board.target.startswith("ice40") else ecp5_pll)(board.clock_hz, wanted_hz)


class Pads(Elaboratable):
    """The top module of a bitstream.

    ports: {name: IOPort}, to be placed by `constraints`.  clock: a Pll.
    """

    def __init__(self, config, board, clock, baud, model):
        self.board, self.clock = board, clock
        streams = config.weights == "stream"
        self.core = BoardTop(
            config, model=model, clock_hz=clock.hz, clocks=divider(clock.hz, baud), chip=FlashChip(width=board.flash["lines"]),
            offset=board.flash["offset"], latency=FLASH_LATENCY)
        names = ["clock", "rx", "tx", "ready", "fault"]
        if streams:
            names += ["flash_select", "flash_clock", *(f"flash_io{i}" for i in range(board.flash["lines"]))]
        self.ports = {name: IOPort(1, name=name) for name in names}
        self.streams = streams

    def pins(self):
        """{port: pin}."""
        pins, flash = self.board.pins, self.board.flash
        found = {name: pins[name] for name in ("clock", "rx", "tx", "ready", "fault")}
        if self.streams:
            found |= {"flash_select": flash["select"], "flash_clock": flash["clock"]}
            found |= {f"flash_io{i}": pin for i, pin in enumerate(flash["io"])}
        return found

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.domains.start = start = ClockDomain(reset_less=True)
        locked, seen = Signal(), Signal(2)
        settled = Signal(SETTLE_BITS + 1)
        m.d.comb += [start.clk.eq(ClockSignal("sync")), sync.rst.eq(~settled[-1])]
        m.d.start += seen.eq(seen << 1 | locked)
        with m.If(seen[-1] & ~settled[-1]):
            m.d.start += settled.eq(settled + 1)
        m.submodules.core = core = self.core
        lit = self.board.pins["lit"]
        lamps = {"ready": core.ready, "fault": core.fault}
        lamps = {name: value if lit else ~value for name, value in lamps.items()}
        family = self._ice40 if self.board.target.startswith("ice40") else self._ecp5
        family(m, sync, locked, lamps)
        return m

    def _ice40(self, m, sync, locked, lamps):
        ports, core = self.ports, self.core
        reference = {"io_PACKAGEPIN": ports["clock"]}
        kind = "SB_PLL40_PAD"
        if self.board.target != "ice40":  # its oscillator is not at the PLL's own pin
            oscillator = Signal()
            m.submodules.pad_clock = _ice40_pad(ports["clock"], 0b000001, o_D_IN_0=oscillator)
            kind, reference = "SB_PLL40_CORE", {"i_REFERENCECLK": oscillator}
        m.submodules.pll = Instance(
            kind, **reference, **{f"p_{k}": v for k, v in self.clock.parameters.items()}, o_PLLOUTGLOBAL=sync.clk, o_LOCK=locked,
            i_RESETB=Const(1), i_BYPASS=Const(0))
        m.submodules.pad_rx = _ice40_pad(ports["rx"], 0b000001, p_PULLUP=Const(1, 1), o_D_IN_0=core.rx)
        for name, value in {"tx": core.tx, **lamps}.items():
            m.submodules[f"pad_{name}"] = _ice40_pad(ports[name], 0b011001, i_D_OUT_0=value)
        if not self.streams:
            return
        clock = {"i_OUTPUT_CLK": ClockSignal()}
        pulse = Signal()
        m.d.sync += pulse.eq(core.flash_pulse)
        # High in the second half of the cycle: the register of the falling edge.
        m.submodules.pad_flash_clock = _ice40_pad(ports["flash_clock"], 0b010001, i_D_OUT_0=Const(0), i_D_OUT_1=pulse, **clock)
        m.submodules.pad_flash_select = _ice40_pad(ports["flash_select"], 0b010101, i_D_OUT_0=core.flash_select_n, **clock)
        for i in range(self.board.flash["lines"]):
            m.submodules[f"pad_flash_io{i}"] = _ice40_pad(
                ports[f"flash_io{i}"], 0b110100, i_D_OUT_0=core.flash_output[i], i_OUTPUT_ENABLE=core.flash_enable[i],
                o_D_IN_0=core.flash_input[i], i_INPUT_CLK=ClockSignal(), **clock)

    def _ecp5(self, m, sync, locked, lamps):
        ports, core = self.ports, self.core
        if self.streams:
            raise UsageError(f"--board {self.board.name}: has no flash reader, expected a design with its weights on the chip")
        oscillator = Signal()
        m.submodules.pad_clock = Instance("IB", i_I=ports["clock"], o_O=oscillator)
        m.submodules.pll = Instance(
            "EHXPLLL", **{f"p_{k}": v for k, v in self.clock.parameters.items()}, i_CLKI=oscillator, i_CLKFB=sync.clk, o_CLKOP=sync.clk,
            o_LOCK=locked, i_RST=Const(0), i_STDBY=Const(0), i_PHASESEL0=Const(0), i_PHASESEL1=Const(0), i_PHASEDIR=Const(0),
            i_PHASESTEP=Const(0), i_PHASELOADREG=Const(0), i_PLLWAKESYNC=Const(0), i_ENCLKOP=Const(0))
        m.submodules.pad_rx = Instance("IB", i_I=ports["rx"], o_O=core.rx)
        for name, value in {"tx": core.tx, **lamps}.items():
            m.submodules[f"pad_{name}"] = Instance("OB", i_I=value, o_O=ports[name])


def _ice40_pad(port, kind, **connections):
    """Ref: Lattice TN1253 (iCE40 I/O), PIN_TYPE: output mode in the high four bits, input mode in the low two."""
    return Instance("SB_IO", p_PIN_TYPE=Const(kind, 6), io_PACKAGE_PIN=port, **connections)


def to_verilog(pads):
    """Verilog of a `Pads` as module top; it instantiates `accelerator`."""
    from amaranth.back import verilog

    previous = os.environ.get("AMARANTH_USE_YOSYS")
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    try:
        return verilog.convert(pads, name="top", ports=list(pads.ports.values()), strip_internal_attrs=True)
    finally:
        if previous is None:
            os.environ.pop("AMARANTH_USE_YOSYS", None)


def constraints(pads):
    """Text of the pin constraints: PCF for iCE40, LPF for ECP5."""
    if pads.board.target.startswith("ice40"):
        return "".join(f"set_io {name} {pin}\n" for name, pin in pads.pins().items())
    return "".join(f'LOCATE COMP "{name}" SITE "{pin}";\nIOBUF PORT "{name}" IO_TYPE=LVCMOS33;\n' for name, pin in pads.pins().items())
