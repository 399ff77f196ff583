"""A model's name is a path first, a shipped checkpoint second."""

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import shipped


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = tmp_path / "shipped"
    files.mkdir()
    for name in ("3mb.pt", "0.5mb.pt"):
        (files / name).write_bytes(b"x")
    monkeypatch.setattr(shipped, "FOLDER", files)
    monkeypatch.chdir(tmp_path)
    return files


@pytest.mark.parametrize("name, file", [("3mb", "3mb.pt"), ("3mb.pt", "3mb.pt"), ("0.5mb", "0.5mb.pt")])
def test_shipped(folder, capsys, name, file):
    assert shipped.resolve(name) == folder / file
    assert capsys.readouterr() == ("", f"fbnn-hw: taking the shipped checkpoint {file}\n")


def test_a_file_of_that_name_wins(folder, tmp_path, capsys):
    (tmp_path / "3mb.pt").write_bytes(b"mine")
    assert shipped.resolve("3mb.pt").read_bytes() == b"mine"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["4mb", "sub/3mb.pt", "../shipped2/3mb.pt", ""])
def test_unknown(folder, name):
    with pytest.raises(InputError) as error:
        shipped.resolve(name or "nothing")
    assert str(error.value) == (
        f"--model {name or 'nothing'}: no such file, and no shipped checkpoint of that name; shipped are 0.5mb.pt, 3mb.pt"
        + ("; did you mean 3mb.pt?" if name == "sub/3mb.pt" else ""))
