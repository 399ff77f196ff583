"""The page of a board, NAME.toml: its keys, and what each may say.  docs/own-board.md lists them."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import InputError, UsageError, nearest, show, whole
from ..machine.device import BUTTONS, DATA_PINS, NUMBER_LEDS, SENSOR_PINS, STRAPPED
from .bridges import BRIDGES

LARGEST = 2 ** 14
"""Most bytes of a page."""
SECTOR = 4096
"""Bytes that a flash erases at a time."""
ADDRESSES = 2 ** 24
"""Bytes that the three bytes of an address reach."""
BITSTREAM = "bitstream"
"""What a drive takes that programs a board with a plain bitstream."""
WORDS = {"bitstream": "a.bit", "weights": "a.bin", "both": "b.bin", "offset": "0x100000"}
"""Words that a command may have in braces."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _pattern(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value, re.ASCII))


def _types(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and [*map(type, value)] == [*types]


def _led(value: Any) -> bool:
    return _types(str, int)(value) or _types(str, int, str)(value)


def _drives(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and set(one) == {"pin", "level"} and _led(one["pin"])
                                           and whole(one["level"], 0, 2) for one in value)


def _commands(value: Any) -> bool:
    """Whether these are commands to a flash: lists of bytes."""
    return isinstance(value, list) and all(isinstance(c, list) and c and all(whole(byte, 0, 256) for byte in c) for c in value)


def _command(*needed: str) -> Callable[[Any], bool]:
    """A check of a command line that names the words `needed`."""
    def check(value: Any) -> bool:
        if not (isinstance(value, list) and value and all(isinstance(word, str) and word for word in value)):
            return False
        try:
            _ = [word.format(**WORDS) for word in value]
        except (ValueError, LookupError, AttributeError):
            return False
        return all(any(f"{{{name}}}" in word for word in value[1:]) for name in needed)
    return check


def _places(count: int) -> "Key":
    return Key(lambda value: isinstance(value, list) and len(value) == count and all(map(PLACE.legal, value)),
               f"a list of {count} places, the lowest bit first, each {PLACE.expected}", True)


def _of_command(*needed: str) -> "Key":
    return Key(_command(*needed), f"a list of words, a program and what it is told, with {' and '.join(f'{{{name}}}' for name in needed)}; "
                                  f"other braces are {', '.join(f'{{{name}}}' for name in WORDS)}")


@dataclass(frozen=True)
class Key:
    """One key.  legal: whether a value will do.  expected: what will, in words."""

    legal: Callable[[Any], bool]
    expected: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A key whose value is a table."""

    keys: "Mapping[str, Key | Table]"
    required: bool = False


TEXT = Key(_text, "text on one line", True)
FLAG = Key(lambda value: isinstance(value, bool), "true or false")
LED = Key(_led, "[resource, number], or a third word for a part of it")
PLACE = Key(lambda value: _led(value) or _pattern(r"\w+:[\w+-]+")(value),
            '"connector_number:pin", or [resource, number], or a third word for a part of it')
COMMANDS = {"bitstream": _of_command("bitstream"), "weights": _of_command("weights"), "both": _of_command("both")}
KEYS: dict[str, Key | Table] = {
    "title": TEXT,
    "platform": Key(_pattern(r"\w+(\.\w+)*:\w+"), "module:class", True),
    "usb": Key(_pattern("[0-9a-fA-F]{4}:[0-9a-fA-F]{4}"), "vendor:product, four hexadecimal digits each, as lsusb prints them", True),
    "console": TEXT,
    "flash": Table({
        "bytes": Key(lambda value: whole(value, SECTOR, 2 ** 32), f"its size, a whole number from {SECTOR}", True),
        "offset": Key(lambda value: whole(value, SECTOR, ADDRESSES) and value % SECTOR == 0,
                      f"an address behind the bitstream, a multiple of {SECTOR} below {ADDRESSES:#x}", True),
        "double": FLAG,
        "quad_enable": Key(_commands, "a list of commands, lists of bytes")}, True),
    "ready": LED,
    "fault": LED,
    "low": FLAG,
    "drive": Key(_drives, "a list of { pin = [resource, number], level = 0 or 1 }, or with a third word for a part of the resource"),
    "link": Table({
        "connector": Key(_types(str, int), "[name, number]", True),
        "rx": Key(_text, "a pin of the connector, as text", True),
        "tx": Key(_text, "a pin of the connector, as text", True)}),
    "package": Key(_pattern("[A-Za-z0-9-]+"), "the name of a package"),
    "program": Table(COMMANDS | {
        "drag": Key(lambda value: value == BITSTREAM or whole(value, 0, 2 ** 32),
                    f"'{BITSTREAM}', or the family of the UF2 files that the board's drive takes, a whole number"),
        "start": Key(lambda value: whole(value, 0, ADDRESSES), "an address, a whole number from 0"),
        "also": Table(COMMANDS | {"bitstream": replace(COMMANDS["bitstream"], required=True)})}),
    "port": Key(lambda value: whole(value, 0, 10), "which of the board's serial ports reaches the design, a whole number from 0"),
    "bridge": Key(lambda value: isinstance(value, str) and value in BRIDGES, f"one of {', '.join(BRIDGES)}"),
    "sdram": Table({"chip": Key(_text, "the name of a chip", True)}),
    "camera": Table({name: replace(PLACE, required=name not in STRAPPED) for name in SENSOR_PINS} | {"data": _places(DATA_PINS)}),
    "panel": Table(dict.fromkeys((*BUTTONS, "flag"), PLACE) | {"number": _places(NUMBER_LEDS)}),
}


def read(path: Path) -> dict[str, Any]:
    """The contents of a page.  Raises UsageError, beginning with the path, for what is no page."""
    try:
        page = tomllib.loads(files.read(path, LARGEST, "a board's page, as boards/icebreaker.toml is one").decode("utf-8-sig"))
    except InputError as error:
        raise UsageError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no page of a board ({show(str(error))}), expected TOML as in boards/icebreaker.toml") from None
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]{0,40}", path.stem):
        raise UsageError(f"{path}: expected a name of letters, digits and dashes")
    _check(path, page, KEYS)
    if missing := list(_missing(page, KEYS)):
        raise UsageError(f"{path}: no {' and no '.join(missing)}, expected as in boards/icebreaker.toml")
    _together(path, page)
    return page


def single(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, place) of a table of places; those of a list, such as data, are data0 and so on."""
    for name, value in table.items():
        lists = name in ("data", "number")
        yield from ((f"{name}{i}", one) for i, one in enumerate(value)) if lists else ((name, value),)


def _check(path, table, keys, prefix=""):
    """Refuse unknown keys of a table, and values that will not do."""
    for name, value in table.items():
        if name not in keys:
            raise UsageError(f"{path}: key {show(prefix + name)}, expected {', '.join(prefix + key for key in keys)}{nearest(name, keys)}")
        key = keys[name]
        if isinstance(key, Table):
            if not isinstance(value, dict):
                raise UsageError(f"{path}: {prefix}{name} is {show(value)}, expected a table of {', '.join(key.keys)}")
            _check(path, value, key.keys, f"{prefix}{name}.")
        elif not key.legal(value):
            raise UsageError(f"{path}: {prefix}{name} is {show(value)}, expected {key.expected}")


def _missing(table, keys, prefix=""):
    """Names of the required keys that a table lacks."""
    for name, key in keys.items():
        if isinstance(key, Table):
            if name in table or key.required:
                yield from _missing(table.get(name, {}), key.keys, f"{prefix}{name}.")
        elif key.required and name not in table:
            yield prefix + name


def _together(path, page):
    """Refuse keys that do not fit each other."""
    flash, program = page["flash"], page.get("program", {})
    if flash["offset"] >= flash["bytes"]:
        raise UsageError(f"{path}: flash.offset is {flash['offset']:#x}, expected an address in a flash of {flash['bytes']:,} bytes")
    if ("both" in program) != ("start" in program):
        raise UsageError(f"{path}: program.{'start' if 'start' in program else 'both'} stands alone, expected both and start together")
    if "start" in program and program["start"] >= flash["offset"]:
        raise UsageError(f"{path}: program.start is {program['start']:#x}, expected an address before flash.offset = {flash['offset']:#x}")
    if "also" in program:
        for name in ("weights", "both"):
            if (name in program["also"]) != (name in program):
                raise UsageError(f"{path}: program.also has {'a' if name in program['also'] else 'no'} command {name}, expected the same "
                                 "commands as in program")
