"""Lines as yosys 0.70, nextpnr-ice40 0.11 and nextpnr-ecp5 0.7 print them."""

import pytest

from fbnn_hw.fpga.progress import PlaceProgress, SynthesisProgress

ICE40 = """Info: Packing LUT-FFs..
Info: Creating initial analytic placement for 3919 cells, random placement wirelen = 120477.
Info:     at iteration #1, type ALL: wirelen solved = 721, spread = 44121, legal = 50285; time = 0.69s
Info:     at iteration #37, type ALL: wirelen solved = 14163, spread = 22367, legal = 26693; time = 0.26s
Info: Running simulated annealing placer for refinement.
Info:   at iteration #1: temp = 0.000000, timing cost = 757, wirelen = 25968
Info:   at iteration #18: temp = 0.000000, timing cost = 1186, wirelen = 22260
Info: Routing 16707 arcs.
Info:            |   (re-)routed arcs  |   delta    | remaining|       time spent     |
Info:       1000 |       48        951 |   48   951 |     15763|       0.89       0.89|
Info:      23000 |     9000      14000 |  300   600 |      4132|       1.34      43.63|
Info:      39194 |    14000      25000 |    0   194 |         0|       1.34      64.10|
Info: Routing complete.
Info: Program finished normally."""
ROUTER2 = """Info: Running main router loop...
Info:     iter=1 wires=120000 overused=30000 overuse=42000 tns=0.00 archfail=NA
Info:     iter=2 wires=130000 overused=15000 overuse=21000 tns=0.00 archfail=NA
Info:     iter=30 wires=140000 overused=0 overuse=0 tns=0.00 archfail=0"""


def shares(progress, text):
    found = []
    for line in text.splitlines():
        progress.hear(line.strip())
        found.append(progress.share)
    return found


def test_place_and_route():
    progress = PlaceProgress()
    found = shares(progress, ICE40)
    assert found == sorted(found) and found[0] == 0 and found[-1] == 1
    assert 0 < found[2] < found[3] < 0.2 < found[5] < found[6] < found[7] == 0.3
    assert found[9] < 0.35 and 0.7 < found[10] < 0.9 and found[11] == pytest.approx(0.98)
    progress = PlaceProgress()
    shares(progress, ICE40.split("Info:      39194")[0])
    assert progress.phase == "routing, 4,132 arcs left"


def test_the_other_router():
    progress = PlaceProgress()
    found = shares(progress, ROUTER2)
    assert found[1] == pytest.approx(0.3) and found[2] == pytest.approx(0.64) and found[3] == pytest.approx(0.98)
    assert progress.phase == "routing, 0 wires left"


@pytest.mark.parametrize("wires, stuck", [
    ((57939, 20231, 10259, 9996, 10339, 10408, 10586, 11101, 12009), None), ((20231, 9996, 10339, 10408, 10586, 11101, 12009, 12320), 9996),
    ((20231, 9996, 10339, 10408, 10586, 11101, 12009, 9000), None), ((900, 2, 2, 2, 2, 2, 2, 2, 2, 1), None)])
def test_conflicts_that_stay(wires, stuck):
    """As 0.5mb with 8 x 64 x 16 on an LFE5U-85F, which never ended; a few wires take many rounds, and end."""
    progress = PlaceProgress()
    shares(progress, "\n".join(f"Info:     iter={i} wires=1 overused={count} overuse=1" for i, count in enumerate(wires, 1)))
    assert progress.stuck == stuck


def test_what_rises_again_does_not_run_back():
    progress = PlaceProgress()
    shares(progress, "Info: Routing 100 arcs.\nInfo: 50 | 1 2 | 3 4 | 20| 1 2|\nInfo: 60 | 1 2 | 3 4 | 30| 1 2|")
    assert progress.share == pytest.approx(0.3 + 0.68 * 0.8)


def test_synthesis():
    found = shares(SynthesisProgress(), """1. Executing Verilog-2005 frontend: top.v
3.6. Executing TRIBUF pass.
3.6.1. Executing OPT_EXPR pass (perform const folding).
3.52. Executing ABC9 pass.
3.60. Executing CHECK pass (checking for obvious problems).""")
    assert found == sorted(found) and found[0] == 0 and found[1] == 0.1 and found[-1] == 0.95
