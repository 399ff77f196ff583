"""PLLs: the setting of each family that comes nearest to a wanted frequency."""

from dataclasses import dataclass

from amaranth import Const

from ..base.errors import UsageError

TOLERANCE = 0.05
GOWIN = {
    "gowin-gw1nr9": ("GW1NR-9C", 3e6, 400e6, 400e6, 1200e6), "gowin": ("GW2AR-18C", 3e6, 500e6, 500e6, 1250e6)}
"""{target: (name of the part in the primitive, limits of phase detector and VCO)}.

Ref: Gowin DS117 (C6/I5) and DS226 (C8/I7), PLL switching.
"""


@dataclass(frozen=True)
class Pll:
    """Parameters of a PLL and the frequency they give, in Hz."""

    hz: float
    parameters: dict


def ice40(reference_hz, wanted_hz):
    """SB_PLL40, feedback SIMPLE.  Ref: Lattice TN1251, section "PLL parameters"; FPGA-DS-02008, table 4.15: reference 10 to
    133 MHz, VCO 533 to 1066 MHz, output 16 to 275 MHz."""
    for r in range(16):
        phase_hz = reference_hz / (r + 1)
        if not 10e6 <= phase_hz <= 133e6:
            continue
        filter_range = 1 + sum(phase_hz >= limit for limit in (17e6, 26e6, 44e6, 66e6, 101e6))
        for f in range(128):
            vco_hz = phase_hz * (f + 1)
            if not 533e6 <= vco_hz <= 1066e6:
                continue
            for q in range(1, 7):
                if 16e6 <= vco_hz / 2 ** q <= 275e6:
                    yield Pll(vco_hz / 2 ** q, {
                        "FEEDBACK_PATH": "SIMPLE", "DIVR": Const(r, 4), "DIVF": Const(f, 7), "DIVQ": Const(q, 3),
                        "FILTER_RANGE": Const(filter_range, 3)})


PADS = 3.5, 3.75
"""ns from the clock of an UP5K's pad register to its pin, and from a pin until a register has what is there, both at most.

Ref: Project IceStorm, timings_up5k.txt: OUTPUTCLK to PADOUT 1.15 and DIN to PACKAGEPIN 2.35; PACKAGEPIN to DOUT 0.59 and set-up of PADIN
3.16.  No board has measured them."""
FASTEST = 0.42
"""Share of these times that they take at least: 1.32 of 3.15 ns of that set-up, between its fastest and its slowest conditions."""
WIRES = 0.5
"""ns of the wires of a board to the flash and back, at most: assumed."""
FINE = 0.1, 0.2
"""ns of a step by which a PLL delays its first output, least and most: 0.15 by Lattice TN1251, and a third more or less assumed."""
FINE_STEPS = 16


@dataclass(frozen=True)
class FlashClock:
    """The clock of a flash at twice the clock of the design, and when its data is taken.

    steps: by which the PLL delays it.  late, early: ns between the latest data and the edge that takes it, and between that edge and the
    earliest next data, at least; jitter of the PLL and skew of its two outputs come off both.  parameters: of the PLL with both clocks.
    """

    steps: int
    late: float
    early: float
    parameters: dict

    @property
    def record(self):
        """What a build's record says of it."""
        return {"delay_steps": self.steps, "late_margin_ns": round(self.late, 3), "early_margin_ns": round(self.early, 3)}


def flash(pll, chip, reference_hz):
    """The `FlashClock` of an iCE40UP5K for a `FlashChip`.  pll: of the design's clock, whose period is 2 h.  reference_hz: the PLL's input.

    A pulse of the flash's clock falls at h / 2 + d after an edge of the design's clock, of either kind, d the delay of the steps, and
    launches data.  The edge 3 h / 2 - d later takes it.  It has to be there by then with the slowest pads (PADS), and with the fastest
    ones the data of the next pulse, h later, must not:

        PADS[0] + WIRES + tCLQV + PADS[1] <= 3 h / 2 - d <= h + FASTEST * (PADS[0] + PADS[1]) + tCLQX

    Of the numbers of steps that one is taken that leaves most at the tighter end.  At 49.5 MHz (h = 10.1 ns) d has to be from 0.5 to 1.4
    ns.  Raises UsageError with the clocks of the PLL that leave enough, where this one does not.
    """
    best = delay_steps(pll.hz, chip)
    if best is None:
        fitting = [setting.hz / 1e6 for setting in ice40(reference_hz, pll.hz) if delay_steps(setting.hz, chip)]
        raise UsageError(f"--clock {pll.hz / 1e6:g}: no edge takes the data of a flash at twice the clock safely, expected from "
                         f"{min(fitting):g} to {max(fitting):g}; or generate the design with --weights flash")
    steps, late, early = best
    return FlashClock(steps, late, early, pll.parameters | {
        "DIVQ": Const(pll.parameters["DIVQ"].value - 1, 3), "PLLOUT_SELECT_PORTA": "GENCLK", "PLLOUT_SELECT_PORTB": "GENCLK_HALF",
        "DELAY_ADJUSTMENT_MODE_RELATIVE": "FIXED", "FDA_RELATIVE": Const(steps - 1, 4)})


def delay_steps(hz, chip):
    """(steps, late, early) as `FlashClock` has them at a clock of the design, or None where no number of steps takes all data."""
    half = 0.5e9 / hz
    latest, earliest = sum(PADS) + WIRES + 1e9 * chip.access, half + FASTEST * sum(PADS) + 1e9 * chip.hold
    margins = {n: (1.5 * half - n * FINE[1] - latest, earliest - 1.5 * half + n * FINE[0]) for n in range(1, FINE_STEPS + 1)}
    steps = max(margins, key=lambda n: min(margins[n]))
    return (steps, *margins[steps]) if min(margins[steps]) >= 0 and 2 * hz <= chip.fastest_hz else None


FILTER = {"ICP_CURRENT": "12", "LPF_RESISTOR": "8", "MFG_ENABLE_FILTEROPAMP": "1", "MFG_GMCREF_SEL": "2"}
"""Attributes of an EHXPLLL, without which nextpnr writes 0: charge pump and loop filter.  Lattice documents none of them.

Ref: Project Trellis, libtrellis/tools/ecppll.cpp."""


def ecp5(reference_hz, wanted_hz):
    """EHXPLLL, feedback from CLKOS3 inside, so that the clock is any whole part of the VCO.

    The VCO runs at CLKFB_DIV * CLKOS3_DIV times the phase detector's frequency.  CLKFB_DIV is 1: CLKOS3 then has that frequency, which
    is within the range of an output.
    Ref: Lattice FPGA-DS-02012, sysCLOCK PLL timing: phase detector 10 to 400 MHz, VCO 400 to 800 MHz, output 3.125 to 400 MHz.
    """
    settings = _divided(reference_hz, wanted_hz, range(1, 129), (10e6, 400e6), range(1, 129), (400e6, 800e6), (3.125e6, 400e6))
    for hz, i, f, o in sorted(settings, key=lambda one: (one[1], abs(reference_hz / one[1] * one[2] - 600e6))):  # the VCO's middle first
        yield Pll(hz, {
            "CLKI_DIV": i, "CLKFB_DIV": 1, "FEEDBK_PATH": "INT_OS3", "CLKOS3_ENABLE": "ENABLED", "CLKOS3_DIV": f,
            "CLKOS3_CPHASE": f - 1, "CLKOP_ENABLE": "ENABLED", "CLKOP_DIV": o, "CLKOP_CPHASE": o - 1, "PLLRST_ENA": "DISABLED"})


def _divided(reference_hz, wanted_hz, inputs, phases, factors, vcos, outputs):
    """(Hz, divider before the phase detector, factor of the VCO, divider of the output) of the settings within the limits, in Hz."""
    for i in inputs:
        phase_hz = reference_hz / i
        for f in factors if phases[0] <= phase_hz <= phases[1] else ():
            vco_hz = phase_hz * f
            o = min(128, max(1, round(vco_hz / wanted_hz)))
            if vcos[0] <= vco_hz <= vcos[1] and outputs[0] <= vco_hz / o <= outputs[1]:
                yield vco_hz / o, i, f, o


COMMANDS = 2.0, 1.5
"""Least ns from the edge at which commands leave to that of an SDRAM's clock, and from there to the next one.

Set-up 1.5 and hold 1.0 ns, as all chips of `rtl.sdram.CHIPS` have them at most, and 0.5 ns between two pins."""
WAYS = 2.5, 6.3
"""ns, least and most, of the way of an SDRAM's clock to the chip and of its data back into a register at the pin.

Out of the pad 2 to 3.5 ns, board 0 to 0.5 twice, into the pad 0.5 to 1.5, set-up 0.3: assumed, with a margin; nextpnr does not
check them, and no board has measured them."""
ROUTE = 5.0
"""ns of the wires between a pin of a Gowin part and its register in the fabric, at most: assumed.  A wire over the whole die takes 3 ns
in nextpnr's model, one to the tile beside the pin (`pads`) a tenth."""
LEAST_WINDOW = 0.5
"""ns in which the edge of an SDRAM's clock may lie, at least."""


def sdram(pll, chip):
    """The second output of a PLL as an SDRAM's clock: (its parameters, latency of `rtl.sdram.SdramReader`).

    pll: Pll of the first output, an EHXPLLL or rPLL, whose period is T.  The chip's clock rises at some time p after an edge of sync.
    Commands, which leave at an edge, need COMMANDS[0] <= p <= T - COMMANDS[1].  Data, which the chip launches at p, is at the register
    from p + tAC + WAYS[1] to p + T + tOH + WAYS[0], and edge k T has to lie between: of k = 1 and k = 2 the one is taken that leaves p
    more room, and p is the middle of it.  At 80 MHz (T = 12.5 ns, tAC 6, tOH 2.5) k is 2 and p from 7.5 to 11 ns, at 50 MHz k is 1 and p
    from 2 to 7.7 ns.

    Where the registers are in the fabric, commands leave and data comes up to ROUTE later.  Of k = 2 that takes nothing up to 60 MHz
    (T = 16.7 ns, p from 11.7 to 15.2 ns): a late command still has most of T, and late data too.  Raises UsageError where no p is left.
    """
    fabric = "PSDA_SEL" in pll.parameters  # rPLL
    route = ROUTE * fabric
    period, access, held = 1e9 / pll.hz, 1e9 * chip.access + WAYS[1] + route, 1e9 * chip.hold + WAYS[0]
    windows = {k: (max(COMMANDS[0] + route, (k - 1) * period - held), min(period - COMMANDS[1], k * period - access)) for k in (1, 2)}
    latency = max(windows, key=lambda k: windows[k][1] - windows[k][0])
    low, high = windows[latency]
    divider = 2 if fabric else pll.parameters["CLKOP_DIV"]
    eighths = round((low + high) / 2 / period * divider * 8)  # of a period of the VCO; of an rPLL, sixteenths of the output's period
    if high - low < LEAST_WINDOW or not low <= eighths * period / 8 / divider <= high:
        raise UsageError(f"--clock {pll.hz / 1e6:g}: leaves no time for an SDRAM's commands and data at its pins; take another frequency")
    if fabric:
        return {"PSDA_SEL": f"{eighths:04b}"}, latency
    return {"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": divider, "CLKOS_CPHASE": (divider - 1 + eighths // 8) % divider,
            "CLKOS_FPHASE": eighths % 8}, latency


def gowin(target):
    """rPLL, feedback inside."""
    device, phase_from, phase_to, vco_from, vco_to = GOWIN[target]

    def settings(reference_hz, wanted_hz):
        for i in range(64):
            phase_hz = reference_hz / (i + 1)
            if not phase_from <= phase_hz <= phase_to:
                continue
            for f in range(64):
                hz = phase_hz * (f + 1)
                o = next((o for o in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128) if vco_from <= hz * o <= vco_to), None)
                if o:
                    yield Pll(hz, {
                        "FCLKIN": f"{reference_hz / 1e6:g}", "IDIV_SEL": i, "FBDIV_SEL": f, "ODIV_SEL": o, "DEVICE": device,
                        "DYN_IDIV_SEL": "false", "DYN_FBDIV_SEL": "false", "DYN_ODIV_SEL": "false", "CLKFB_SEL": "internal",
                        "DYN_DA_EN": "false", "PSDA_SEL": "0000", "DUTYDA_SEL": "1000", "DYN_SDIV_SEL": 2})
    return settings


def xilinx7(reference_hz, wanted_hz):
    """PLLE2_BASE.

    Ref: AMD DS181, PLL switching characteristics, speed grade -1: phase detector 19 to 450 MHz, VCO 800 to 1600 MHz, output 6.25 to
    800 MHz.
    """
    for hz, d, f, o in _divided(reference_hz, wanted_hz, range(1, 57), (19e6, 450e6), range(2, 65), (800e6, 1600e6), (6.25e6, 800e6)):
        yield Pll(hz, {"CLKIN1_PERIOD": 1e9 / reference_hz, "DIVCLK_DIVIDE": d, "CLKFBOUT_MULT": f, "CLKOUT0_DIVIDE": o})


def nearest(board, wanted_hz):
    """The `Pll` of a board nearest to `wanted_hz`; UsageError if none comes within 5 %."""
    family = board.part.family
    settings = {"ice40": ice40, "ecp5": ecp5, "xilinx7": xilinx7}.get(family) or gowin(board.target)
    pll = min(settings(board.clock_hz, wanted_hz), key=lambda setting: abs(setting.hz - wanted_hz), default=None)
    if pll is None or abs(pll.hz / wanted_hz - 1) > TOLERANCE:
        best = "none" if pll is None else f"{pll.hz / 1e6:g} MHz at best"
        raise UsageError(f"--clock {wanted_hz / 1e6:g}: the PLL makes {best} of {board.clock_hz / 1e6:g} MHz; take another frequency")
    return pll
