"""What is done to good input: to bytes, to plain values such as JSON's, to a file's place in its folder."""

import json
import os
from pathlib import Path

NUMBERS = (-1, 0, 1, 2, 3, 255, 256, 65535, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 63, -2 ** 63, 2 ** 64, 10 ** 30, 10 ** 4200, 0.5,
           -0.0, 1e308, 1e-308, float("inf"), float("nan"))
STRINGS = ("", " ", "\0", "\x1b[2J\x1b]0;owned\a", "\u202e", "\ud800", "x" * 10 ** 5, "../../x", "/etc/passwd", "/dev/zero", "a\nb",
           "<script>alert(1)</script>", "%s%n", "__class__", "{0.__class__}", "-1", "nan", "é" * 100)
DEEP = 10 ** 5


def some(rng, values):
    """One of `values`."""
    return values[int(rng.integers(len(values)))]


def value(rng):
    """A value that nobody expects."""
    match int(rng.integers(5)):
        case 0:
            return some(rng, NUMBERS)
        case 1:
            return some(rng, STRINGS)
        case 2:
            return some(rng, ([], {}, [[]], [None], {"": None}, [0] * 10 ** 5, {str(n): n for n in range(10 ** 4)}))
        case 3:
            return some(rng, (None, True, False))
        case _:
            return int(rng.integers(-2 ** 40, 2 ** 40)) >> int(rng.integers(40))


def tree(rng, values):
    """Change, remove, double or exchange one to three of the values inside plain `values`, in place; returns the changed whole."""
    for _ in range(int(rng.integers(1, 4))):
        nodes = list(_nodes(values))
        if not nodes:
            return value(rng)
        parent, key = some(rng, nodes)
        match int(rng.integers(6)):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.insert(key, parent[key])
            case 2 if isinstance(parent, dict):
                parent[some(rng, STRINGS)] = parent.pop(key)
            case 3 if type(parent[key]) is int:
                parent[key] += int(rng.integers(-2, 3))
            case 4:
                other, at = some(rng, nodes)
                if other is parent and at in (parent if isinstance(parent, dict) else range(len(parent))):
                    parent[key], parent[at] = parent[at], parent[key]
            case _:
                parent[key] = value(rng)
    return value(rng) if rng.random() < 0.02 else values


def _nodes(values):
    """(container, key) of every value inside."""
    for key in list(values) if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ():
        yield values, key
        yield from _nodes(values[key])


def text(rng, values):
    """`values`, changed, as JSON, or what looks like JSON; bytes."""
    match int(rng.integers(12)):
        case 0:
            return some(rng, (b"[", b'{"a":')) * DEEP
        case 1:
            return json.dumps(values).encode()[:int(rng.integers(200))]
        case 2:
            return some(rng, (b"", b"\xff\xfe", b"\0" * 100, b"nul", b"NaN", b'"' + b"x" * 10 ** 6 + b'"', b"9" * 10 ** 5))
        case _:
            return json.dumps(tree(rng, values)).encode()


def data(rng, content):
    """Bytes, changed: bits flipped, cut off, doubled, put in, overwritten with ones, zeros or noise."""
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, length = int(rng.integers(len(content) + 1)), int(rng.integers(1, 64))
        match int(rng.integers(7)):
            case 0:
                del content[at:]
            case 1:
                del content[at:at + length]
            case 2:
                content[at:at] = rng.bytes(length)
            case 3:
                content[at:at + length] = some(rng, (b"\0", b"\xff", b"\x7f")) * length
            case 4:
                content[at:at] = content[at:at + length]
            case 5:
                number = some(rng, (0, 2 ** 16, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1))
                content[at:at + 4] = number.to_bytes(4, some(rng, ("little", "big")))
            case _:
                for place in rng.integers(len(content), size=8) if content else ():
                    content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def obstacle(rng, path):
    """Something at `path` that is no file that can be read to its end, or nothing."""
    path.unlink(missing_ok=True)
    if number := int(rng.integers(len(OBSTACLES) + 1)):
        OBSTACLES[number - 1](path)


def endless(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def huge(path):
    with open(path, "wb") as file:
        file.truncate(2 ** 33)


def deep(path):
    path.write_bytes(b"[" * DEEP)


OBSTACLES = os.mkfifo, endless, loop, os.mkdir, huge, Path.touch
