"""The folder of a design is written whole or not at all."""

from pathlib import Path

import pytest

from fbnn_hw.design import output


@pytest.mark.parametrize("there", [False, True])
def test_an_interrupt_leaves_no_new_folder(there, tmp_path, monkeypatch):
    around = tmp_path / "rtl_out"
    if there:
        around.mkdir()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output._replace(around / "design", {"accelerator.v": b""})
    assert list(tmp_path.iterdir()) == ([around] if there else [])
