import pytest

from fbnn_hw.fpga import placement


@pytest.mark.parametrize("first, second", [("X3/Y5/lc1", "X13/Y50/lc0"), ("X3Y5/LUT1", "X13Y50/DFF0")])
def test_places_of_both_kinds_of_nextpnr(first, second, tmp_path):
    """nextpnr-himbaechel, for Gowin, writes a place without the stroke of the others."""
    file = tmp_path / "placed.json"
    file.write_text("".join(f'        "{cell}": {{\n            "NEXTPNR_BEL": "{place}",\n        }},\n' for cell, place in (
        ("core.link.x", first), ("core.link.y", first), ("core.accelerator.array.z", second))))
    assert placement.read(file) == {
        "columns": 14, "rows": 51, "components": {"link": [[3, 5, 2]], "array": [[13, 50, 1]]}}


@pytest.mark.parametrize("cell, component", [
    ("core.accelerator.shared_array.sum", "array"), ("core.accelerator.bank3.ram", "bank"), ("core.led", "board"),
    ("$abc$1", "without a name")])
def test_the_component_of_a_cell(cell, component):
    assert placement.component(cell) == component
