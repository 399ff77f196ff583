"""PLLs: the setting of each family that comes nearest to a wanted frequency."""

from dataclasses import dataclass

from amaranth import Const

from ..errors import UsageError

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
                if vco_hz / 2 ** q >= 16e6:
                    yield Pll(vco_hz / 2 ** q, {
                        "FEEDBACK_PATH": "SIMPLE", "DIVR": Const(r, 4), "DIVF": Const(f, 7), "DIVQ": Const(q, 3),
                        "FILTER_RANGE": Const(filter_range, 3)})


def ecp5(reference_hz, wanted_hz):
    """EHXPLLL, feedback from CLKOP.  Ref: Lattice FPGA-DS-02012, table 3.29: phase detector 3.125 to 400 MHz, VCO 400 to 800 MHz."""
    for i in range(1, int(reference_hz // 3.125e6) + 1):
        for f in range(1, 81):
            hz = reference_hz / i * f
            o = round(600e6 / hz)
            if 1 <= o <= 128 and 400e6 <= hz * o <= 800e6:
                yield Pll(hz, {"CLKI_DIV": i, "CLKFB_DIV": f, "CLKOP_DIV": o, "CLKOP_CPHASE": o - 1, "FEEDBK_PATH": "CLKOP",
                               "CLKOP_ENABLE": "ENABLED", "PLLRST_ENA": "DISABLED"})


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
    return {"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": divider, "CLKOS_CPHASE": divider - 1 + eighths // 8,
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
    """PLLE2_BASE.  Ref: AMD DS181, PLL switching characteristics, speed grade -1: phase detector 19 to 450 MHz, VCO 800 to 1600 MHz."""
    for d in range(1, 57):
        phase_hz = reference_hz / d
        if not 19e6 <= phase_hz <= 450e6:
            continue
        for f in range(2, 65):
            vco_hz = phase_hz * f
            if not 800e6 <= vco_hz <= 1600e6:
                continue
            o = min(128, max(1, round(vco_hz / wanted_hz)))
            yield Pll(vco_hz / o, {"CLKIN1_PERIOD": 1e9 / reference_hz, "DIVCLK_DIVIDE": d, "CLKFBOUT_MULT": f, "CLKOUT0_DIVIDE": o})


def nearest(board, wanted_hz):
    """The `Pll` of a board nearest to `wanted_hz`; UsageError if none comes within 5 %."""
    family = board.part.family
    settings = {"ice40": ice40, "ecp5": ecp5, "xilinx7": xilinx7}.get(family) or gowin(board.target)
    pll = min(settings(board.clock_hz, wanted_hz), key=lambda setting: abs(setting.hz - wanted_hz), default=None)
    if pll is None or abs(pll.hz / wanted_hz - 1) > TOLERANCE:
        best = "none" if pll is None else f"{pll.hz / 1e6:g} MHz at best"
        raise UsageError(f"--clock {wanted_hz / 1e6:g}: the PLL makes {best} of {board.clock_hz / 1e6:g} MHz; take another frequency")
    return pll
