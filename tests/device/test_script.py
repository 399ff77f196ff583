"""Scripts of a device: what they become, and the one line of each mistake."""

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.simulate.device.script import Event, read

TEXT = """
# a lesson
0      show a cup #2.png   # the picture
1.5    press teach

1.500000000001 press choose
3 release teach
3.2 expect my old cup
3.25 cut power
3.5 restore power
4 stop sensor
4 start sensor
6 expect unknown
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a cup #2.png").write_bytes(b"")
    return tmp_path / "script"


def test_events(path):
    (path.parent / "a cup").write_bytes(b"")
    path.write_text(TEXT.replace("cup #2.png", "cup"), encoding="utf-8-sig")
    second = 10 ** 12
    assert read(path) == [
        Event(0, "show", path.parent / "a cup", 3), Event(3 * second // 2, "press", "teach", 4),
        Event(3 * second // 2 + 1, "press", "choose", 6), Event(3 * second, "release", "teach", 7),
        Event(3_200_000_000_000, "expect", "my old cup", 8), Event(3_250_000_000_000, "cut", "power", 9),
        Event(3_500_000_000_000, "restore", "power", 10), Event(4 * second, "stop", "sensor", 11), Event(4 * second, "start", "sensor", 12),
        Event(6 * second, "expect", "unknown", 13)]


def test_a_file_of_the_display(path):
    path.write_text("1 save out.pbm")
    assert read(path, folder=path.parent / "pictures") == [Event(10 ** 12, "save", path.parent / "out.pbm", 1)]
    with pytest.raises(InputError, match="line 1: save: the design has no display, expected one made with generate --display"):
        read(path, display=False)


def test_a_sign_within_a_name_is_no_comment(path):
    (path.parent / "c#2.png").write_bytes(b"")
    path.write_text("0 show c#2.png\n1 expect c#2#\n")
    assert [event.what for event in read(path)] == [path.parent / "c#2.png", "c#2#"]


@pytest.mark.parametrize("text, message", [
    ("x show a", "line 1: the time is 'x', expected seconds up to 3,600, such as 1.5"),
    ("-1 show a", "line 1: the time is '-1', expected seconds up to 3,600, such as 1.5"),
    ("1e3 show a", "line 1: the time is '1e3', expected seconds up to 3,600, such as 1.5"),
    ("1.0000000000001 cut power", "line 1: the time is '1.0000000000001', expected seconds up to 3,600, such as 1.5"),
    ("\n3601 show a", "line 2: the time is '3601', expected seconds up to 3,600, such as 1.5"),
    ("0 pres teach",
     "line 1: the event is 'pres', expected show, press, release, cut, restore, stop, start, expect, save; did you mean press?"),
    ("0", "line 1: the event is '', expected show, press, release, cut, restore, stop, start, expect, save"),
    ("0 show", "line 1: nothing follows show, expected the path of a picture"),
    ("0 expect  # cup", "line 1: nothing follows expect, expected a sign or a class"),
    ("0 press teech", "line 1: press 'teech', expected teach, choose, forget, undo; did you mean teach?"),
    ("0 cut the power", "line 1: cut 'the power', expected power; did you mean power?"),
    ("0 stop teach", "line 1: stop 'teach', expected sensor"),
    ("1 stop sensor\n0.9 start sensor", "line 2: 0.9 s is before the line above it, expected times that do not fall"),
    ("0 press teach\n1 press teach", "line 2: press teach comes twice, expected release teach between"),
    ("0 release teach", "line 1: release teach without press teach before it"),
    ("0 save", "line 1: nothing follows save, expected the path of a file, for what the display shows"),
    ("0 cut power\n1 expect kept", "line 2: expect while the power is cut, expected restore power before it"),
    ("0 cut power\n1 restore power\n2 restore power", "line 3: restore power without cut power before it")])
def test_mistakes(path, text, message):
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value) == f"{path}, {message}"


def test_a_picture_that_is_not_there(path):
    path.write_text("0 show cup.png")
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value) == f"{path}, line 1: {path.parent / 'cup.png'} is no file, expected the path of a picture"


@pytest.mark.parametrize("data, message", [
    (b"\xff\xfe0", "is not text, expected a script: a time in seconds and an event a line"),
    (b"# none\n", "has no event, expected a script: a time in seconds and an event a line"),
    (b"#" * (1 << 20) + b"\n", "longer than 1,048,576 bytes, expected a script: a time in seconds and an event a line")])
def test_what_is_no_script(path, data, message):
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value) == f"{path}: {message}"


def test_a_script_that_is_missing(path):
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value) == f"{path}: not found, expected a script: a time in seconds and an event a line"
