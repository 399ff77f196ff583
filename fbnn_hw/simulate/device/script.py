"""Scripts of what happens to a device: a time in seconds and an event a line; # begins a comment.

    0    show cup.png          # a picture comes before the lens; its path is that from the folder of pictures, or the script's
    1.5  press teach
    3    release teach
    3.2  expect learning       # by then the device shows this sign, or class: its name, or its number
    3.25 cut power
    3.5  restore power
    4    stop sensor
    5    start sensor
    6    expect cup
    6    save cup.pbm          # a picture of what the display shows, in the folder of the script
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ...base import files
from ...base.errors import InputError, nearest, show
from ...machine.device import BUTTONS

EVENTS = {"show": "the path of a picture", "press": "a button", "release": "a button", "cut": "power", "restore": "power",
          "stop": "sensor", "start": "sensor", "expect": "a sign or a class",
          "save": "the path of a file, for what the display shows"}
"""{event: what follows it}"""
PAIRS = {"press": "release", "cut": "restore", "stop": "start"}
"""{event: what ends it}.  Each comes only while the other holds."""
MOST_BYTES, MOST_SECONDS = 1 << 20, 3600
EXPECTED = "a script: a time in seconds and an event a line"
_TIME = re.compile(r"\d+(?:\.\d{1,12})?", re.ASCII)


@dataclass(frozen=True)
class Event:
    """An event of a script."""

    ps: int  # when, in picoseconds
    event: str  # of `EVENTS`
    what: str | Path  # a button, "power", "sensor", a sign or class as it is written, or the Path of a picture or file
    line: int  # its number in the script


def read(path, buttons=tuple(BUTTONS), folder=None, display=True):
    """The events of a script -> list of `Event`, in time's order.

    buttons: names of those that the device has.  folder: where its pictures are, by default that of the script.  display: whether the
    device has one.  Raises InputError, with the number of the line, for what is no script.
    """
    try:
        text = files.read(path, MOST_BYTES, EXPECTED).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text, expected {EXPECTED}") from None
    events, held = [], set()
    for number, line in enumerate(text.splitlines(), start=1):
        # A # belongs to a name that has it inside, and begins a comment after a blank.
        words = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].split(None, 2)
        if not words:
            continue
        try:
            event = _event(words, number, Path(folder or Path(path).parent), buttons)
            if event.event == "save":
                if not display:
                    raise InputError("save: the design has no display, expected one made with generate --display")
                event = replace(event, what=Path(path).parent / event.what)
            if events and event.ps < events[-1].ps:
                raise InputError(f"{words[0]} s is before the line above it, expected times that do not fall")
            _follow(event, held)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        events.append(event)
    if not events:
        raise InputError(f"{path}: has no event, expected {EXPECTED}")
    return events


def _event(words, number, folder, buttons):
    time, event, what = [*words, "", ""][:3]
    what = what.strip()
    if not _TIME.fullmatch(time) or float(time) > MOST_SECONDS:
        raise InputError(f"the time is {show(time)}, expected seconds up to {MOST_SECONDS:,}, such as 1.5")
    if event not in EVENTS:
        raise InputError(f"the event is {show(event)}, expected {', '.join(EVENTS)}{nearest(event, EVENTS)}")
    if not what:
        raise InputError(f"nothing follows {event}, expected {EVENTS[event]}")
    known = {"a button": buttons, "power": ("power",), "sensor": ("sensor",)}.get(EVENTS[event])
    if known and what not in known:
        raise InputError(f"{event} {show(what)}, expected {', '.join(known)}{nearest(what, known)}")
    whole, _, part = time.partition(".")
    return Event(int(whole + part.ljust(12, "0")), event, _picture(folder / what) if event == "show" else what, number)


def _picture(path):
    if not path.is_file():
        raise InputError(f"{path} is no file, expected {EVENTS['show']}")
    return path


def _follow(event, held):
    """Note in `held`, {(event, what)}, what begins and ends."""
    if event.event in PAIRS:
        if (event.event, event.what) in held:
            raise InputError(f"{event.event} {event.what} comes twice, expected {PAIRS[event.event]} {event.what} between")
        held.add((event.event, event.what))
    for begin, end in PAIRS.items():
        if event.event == end:
            if (begin, event.what) not in held:
                raise InputError(f"{end} {event.what} without {begin} {event.what} before it")
            held.remove((begin, event.what))
    if event.event == "expect" and ("cut", "power") in held:
        raise InputError("expect while the power is cut, expected restore power before it")
