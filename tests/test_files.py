"""Files on a full disk.  Locks: what is in their place, and who holds them.  Stamps: what they stand for."""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fbnn_hw.base import files
from fbnn_hw.base.errors import InputError


@pytest.mark.parametrize("write, reason", [
    (lambda file: file.write(bytes(10_000)), "File too large"),
    (lambda file: np.save(file, np.zeros(10_000, np.uint8)), "10000 requested and [0-9]+ written"),  # its OSError has no number
])
def test_a_file_larger_than_the_disk(write, reason, tmp_path):
    path = tmp_path / "x"
    path.write_text("earlier")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match=rf"^{path}: cannot be written \({reason}\), expected a file name in a folder that can$"):
            with files.replacing(path) as file:
                write(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").write_bytes(b"old")
    for name in ("real", "new"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(tmp_path / "folder" / name)
        files.write(link, b"text")
        assert link.is_symlink() and (tmp_path / "folder" / name).read_bytes() == b"text"
    assert len(list(tmp_path.rglob("*"))) == 5


@pytest.mark.parametrize("name", ["n" * 255, "\N{GOTHIC LETTER AHSA}" * 63])
def test_a_name_as_long_as_names_may_be(name, tmp_path):
    with files.replacing(tmp_path / name) as file:
        file.write(b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]


def test_a_lock_is_held_by_one_and_by_what_it_started(tmp_path):
    """A tool may outlive the program that held the lock and was killed; until it ends nobody else writes there."""
    path = tmp_path / "new" / ".lock"
    with files.locked(path, "held"):
        with pytest.raises(InputError, match="^held$"), files.locked(path, "held"):
            pass
        tool = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with pytest.raises(InputError, match="^held$"), files.locked(path, "held"):
        pass
    tool.communicate(b"\n")
    with files.locked(path, "held"):
        pass
    other.communicate(b"\n")


def test_a_lock_that_goes_with_its_holder(tmp_path):
    """Of programs that come and go one has the lock at a time, whenever the others look."""
    path, at_work, most = tmp_path / ".lock", [], []

    def use():
        for _ in range(500):
            try:
                with files.sole(path, "held"):
                    at_work.append(1)
                    most.append(len(at_work))
                    at_work.pop()
            except InputError as error:
                assert str(error) == "held"

    with ThreadPoolExecutor(4) as pool:
        for user in [pool.submit(use) for _ in range(4)]:
            user.result()
    assert set(most) == {1} and not path.exists() and not files.held(path)


@pytest.mark.parametrize("lock", [files.locked, files.sole])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "loop of folders", "file for a folder"])
def test_what_is_in_the_place_of_a_lock(kind, lock, tmp_path):
    path = tmp_path / "folder" / ".lock"
    if "folders" not in kind and kind != "file for a folder":
        path.parent.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "loop of folders":
            path.parent.symlink_to(path.parent.name)
        case _:
            path.parent.write_text("")
    with pytest.raises(InputError, match=rf"^{path}: (is a pipe|is a device|is a directory|cannot be made \(.*\)), expected .*"):
        with lock(path, "held"):
            pass


def test_a_stamp_stands_for_whole_files_of_one_key(tmp_path):
    product, stamp = tmp_path / "netlist.v", files.Stamp(tmp_path / "netlist.sha256", "a")
    product.write_text("")
    assert not stamp.valid(product)
    stamp.write()
    assert stamp.valid(product) and not stamp.valid(product, tmp_path / "cells.json")
    assert not files.Stamp(stamp.path, "b").valid(product)
    stamp.clear(product)
    assert not list(tmp_path.iterdir())
