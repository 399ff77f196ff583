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
