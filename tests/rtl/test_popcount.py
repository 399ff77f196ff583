from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.popcount import XnorPopcount
from sim import checks


@pytest.mark.parametrize("registers", [0, 1, 2, 4])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 18, 31, 36, 64])
def test_counts(pysim, width, registers):
    pysim(XnorPopcount(width, registers), checks.popcount, width, registers, words=10)


@pytest.mark.parametrize("width, registers", [(1, 1), (2, 1), (3, 2), (4, 1), (5, 2), (8, 1), (16, 3), (17, 2), (64, 5)])
def test_a_register_behind_the_leaves(pysim, width, registers):
    pysim(XnorPopcount(width, registers, leaves=True), checks.popcount, width, registers, words=20)


@pytest.mark.parametrize("registers", [0, 1, 2, 4])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 64, 65])
def test_counts_by_plain_sums(pysim, width, registers):
    pysim(XnorPopcount(width, registers, "sum"), checks.popcount, width, registers, words=30)


def test_wide(pysim):
    pysim(XnorPopcount(144, 2), checks.popcount, 144, 2, words=10)


def test_is_the_sum_for_all_inputs(tmp_path):
    """Proved by the SAT solver of yosys, against the plain sum of the products."""
    ys = pytest.importorskip("pyosys.libyosys")
    m = Module()
    m.submodules.popcount = popcount = XnorPopcount(16, registers=0)
    act, weight, equal = Signal(16, name="act"), Signal(16, name="weight"), Signal(name="equal")
    m.d.comb += [popcount.act.eq(act), popcount.weight.eq(weight)]
    m.d.comb += equal.eq(popcount.count == sum(act[i] == weight[i] for i in range(16)))
    source, log = tmp_path / "top.il", tmp_path / "log"
    source.write_text(rtlil.convert(m, ports=[act, weight, equal]))
    script = tmp_path / "script.ys"
    script.write_text(f"read_rtlil {source}\nproc\nflatten\nopt\nsat -prove equal 1 top\n")
    ys.run_pass(f"tee -q -o {log} script {script}", ys.Design())
    assert "SAT proof finished - no model found: SUCCESS!" in log.read_text()


@pytest.mark.parametrize("arguments, message", [
    ((0, 1), "popcount: width is 0, expected an integer from 1"),
    ((16.0, 1), "popcount: width is 16.0, expected an integer from 1"),
    ((16, -1), "popcount: registers is -1, expected an integer from 0"),
    ((16, 0, "lut4", True), "popcount: registers is 0, expected an integer from 1"),
])
def test_refuses(arguments, message):
    with pytest.raises(UsageError) as error:
        XnorPopcount(*arguments)
    assert str(error.value) == message


def test_the_program_of_the_page_writes_one_component(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "rtl.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    assert capsys.readouterr().out == "2\n" and "module popcount(" in Path("popcount.v").read_text()
