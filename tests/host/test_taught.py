"""The file of what a board was taught: names and a snapshot, as someone else may have written them."""

import json
import os
import zipfile
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError, show
from fbnn_hw.board import taught
from fbnn_hw.board.taught import HEAD, Taught, named
from fbnn_hw.reference.learning import Head, LearnConfig, Learner

OTHER = "damaged or another file, expected what fbnn-hw learn --snapshot wrote"


def learner():
    learner = Learner(Head(8), LearnConfig(max_classes=3, slots=3))
    learner.learn(np.zeros((2, 8), np.uint8), [0, 1])
    return learner


def test_names_and_snapshot_come_back(tmp_path):
    pupil = learner()
    for names in ((), ("a",), ("Straße", "日本")):
        path = tmp_path / "file"
        path.write_bytes(Taught(names, pupil.snapshot()).pack())
        assert Taught.read(path) == Taught(names, pupil.snapshot())
        assert Taught.read(path).state(pupil).pack() == pupil.snapshot()
    path.write_bytes(pupil.snapshot())
    assert Taught.read(path) == Taught((), pupil.snapshot())


def test_a_file_of_0_1_0():
    with zipfile.ZipFile(Path(__file__).parents[1] / "fixtures" / "design-0.1.0.zip") as archive:
        data = archive.read("taught.snapshot")
    lesson = Taught.unpack(data)
    assert lesson.names == ("class0", "class1", "new") and HEAD + json.dumps(lesson.names).encode() + b"\n" + lesson.snapshot == data


@pytest.mark.parametrize("head, line", [
    (b"hello\n", OTHER), (b"", OTHER), (HEAD, OTHER), (HEAD + b"[]", OTHER), (HEAD + b"{}\n", OTHER), (HEAD + b"7\n", OTHER),
    (HEAD + b"null\n", OTHER), (HEAD + b"[\"a\"\n", OTHER), (HEAD + b"[" * 100_000 + b"\n", OTHER),
    (HEAD + b"[" + b"1" * 10_000 + b"]\n", OTHER), (HEAD + b"[\"\xff\"]\n", OTHER),
    (HEAD + b"[" + b" " * taught.LONGEST_LINE + b"]\n", OTHER),
    (HEAD + b"[7]\n", "name of class 0: 7, expected 1 to 100 printable characters"),
    (HEAD + b"[\"\\u001b[2J\"]\n", "name of class 0: '\\x1b[2J', expected 1 to 100 printable characters"),
    (HEAD + b"[\"a\", \"\\ud800\"]\n", "name of class 1: '\\ud800', expected 1 to 100 printable characters"),
    (HEAD + b"[\"\"]\n", "name of class 0: '', expected 1 to 100 printable characters"),
    (HEAD + b"[\" \"]\n", "name of class 0: ' ', expected 1 to 100 printable characters"),
    (HEAD + b"[\"" + b"x" * 101 + b"\"]\n", f"name of class 0: {show('x' * 101)}, expected 1 to 100 printable characters"),
    (HEAD + b"[\"a\", \"b\", \"a\"]\n", "name of class 2: 'a', expected another than that of class 0"),
    (HEAD + json.dumps([str(n) for n in range(1025)]).encode() + b"\n", "1025 names of classes, expected at most 1024")],
    ids=map(str, count()))
def test_files_that_are_refused(tmp_path, head, line):
    (tmp_path / "file").write_bytes(head + b"x")
    with pytest.raises(InputError) as error:
        Taught.read(tmp_path / "file")
    assert str(error.value) == f"{tmp_path / 'file'}: {line}"


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "long", "wb") as file:
        file.truncate(taught.MAX_BYTES + 1)
    for name, line in (("pipe", "is a pipe, expected what fbnn-hw learn --snapshot wrote"),
                       (".", "is a directory, expected what fbnn-hw learn --snapshot wrote"),
                       ("long", "longer than 67,108,864 bytes, expected what fbnn-hw learn --snapshot wrote"),
                       ("none", "not found, expected what fbnn-hw learn --snapshot wrote")):
        with pytest.raises(InputError) as error:
            Taught.read(tmp_path / name)
        assert str(error.value) == f"{tmp_path / name}: {line}"
    with pytest.raises(InputError):
        Taught.read("/dev/zero")


def test_names_that_could_not_be_read_again_are_not_written():
    for names in (("a", "a"), ("\n",), ("",)):
        with pytest.raises(InputError):
            Taught(names, b"").pack()


def test_more_names_than_classes():
    pupil = learner()
    with pytest.raises(InputError) as error:
        Taught(("a", "b", "c"), pupil.snapshot()).state(pupil, "x")
    assert str(error.value) == "x: 3 names of classes, expected at most 2, the classes known"


def test_names_of_classes_without_one():
    assert named(["a", "b"], 4) == ["a", "b", "class 2", "class 3"] and named(["a", "b"], 1) == ["a"]
    assert named(["class 2", "class 3"], 4) == ["class 2", "class 3", "class 2'", "class 3'"]
