"""Reading a checkpoint (docs/checkpoint.md) without torch, and without running anything that is in the file.

torch.save writes a zip archive of stored entries: NAME/data.pkl, a pickle that refers to the tensors' memory, and
NAME/data/KEY, that memory.  `_Machine` executes the few pickle operations such a file needs and knows a dozen names.
"""

import io
import math
import pickletools
import sys
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base import files
from ..base.errors import InputError, at, require, show
from . import plain
from .filetypes import EXPORT, STATE, by_beginning, by_entries, by_folder, listed
from .network import Network

FORMAT = "fbnn-hw checkpoint"
MAX_BYTES = 2 ** 26
"""Largest file read: twice the packed weights of the largest legal network."""

HEAD_BYTES = 600
"""What is read of a larger file, to say what it is."""

MAX_ENTRIES = 10_000
MAX_OPERATIONS = 500_000
"""Limits of the zip archive and of its pickle, far above what the largest legal network needs."""

BESIDE_STATES = ("argparse", "collections", "numpy", "pathlib", "torch")
"""Packages whose values trainings put beside a state_dict."""

STORAGES = {"ByteStorage": "u1", "CharStorage": "i1", "ShortStorage": "<i2", "IntStorage": "<i4", "LongStorage": "<i8", "BoolStorage": "?",
            "HalfStorage": "<f2", "FloatStorage": "<f4", "DoubleStorage": "<f8", "BFloat16Storage": None}


def to_plain(network: Network) -> dict[str, Any]:
    """`Network` -> the dict that a checkpoint holds, arrays as numpy."""
    return plain.to_plain(network, FORMAT)


def from_plain(values: Any, where: object) -> Network:
    """Inverse of `to_plain`; `where` (the file) begins every InputError."""
    return plain.from_plain(values, FORMAT, where)


def read(path: str | Path) -> Network:
    """Checkpoint file -> `Network`.  Raises InputError for any other file, with its name and the reason."""
    try:
        if kind := files.kind_if_not_file(Path(path)):
            raise InputError(f"{path}: {by_folder(Path(path)) or f'is a {kind}, expected a checkpoint file'}")
        data, size = files.beginning(path, MAX_BYTES + 1, "a checkpoint")
    except ValueError as error:  # a name that no system allows
        raise InputError(f"{path}: cannot be read ({error}), expected a checkpoint") from None
    if size > MAX_BYTES:
        raise InputError(f"{path}: {by_beginning(data[:HEAD_BYTES]) or _too_large(data[:HEAD_BYTES], size)}")
    return replace(parse(data, path), source=Path(path))


def parse(data: bytes, path: str | Path) -> Network:
    """The content of a checkpoint file -> `Network`; path: its name, for messages."""
    with at(path):
        content = _content(data)
    if names := _state_dict(content):
        raise InputError(f"{path}: is a state_dict with {listed(names)}, expected a checkpoint; {STATE}")
    return from_plain(content, path)


def _too_large(data, size):
    """Describe a file of `size` bytes that begins with `data` and is too large.  Archives of PyTorch begin with NAME/data."""
    door = f"; if it is a model of PyTorch, {EXPORT}" if data.startswith(b"PK") and b"/data" in data else ""
    return f"{size} bytes, expected at most {MAX_BYTES} in a checkpoint{door}"


def _content(data):
    if not data:
        raise InputError("file is empty, expected a checkpoint")
    if stranger := by_beginning(data):
        raise InputError(stranger)
    if not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise InputError(f"begins with {show(data[:4])}, expected a zip archive written by torch.save")
    if data.count(b"PK\x01\x02") > MAX_ENTRIES:  # zipfile would make an object of each
        raise InputError(f"more than {MAX_ENTRIES} entries in the zip archive, expected a few for each layer")
    try:
        return _unzip(data)
    except InputError:
        raise
    except Exception as error:  # zipfile raises a dozen classes on damaged archives, and names no common one
        raise InputError(f"damaged zip archive ({show(str(error)).strip(chr(39) + chr(34))}), expected one written by torch.save") from None


def _unzip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if stranger := by_entries(archive.namelist()):
            raise InputError(stranger)
        entries = {}
        for info in archive.infolist():
            if info.filename in entries:
                raise InputError(f"zip entry {show(info.filename)} is there twice, expected once")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
                raise InputError(f"zip entry {show(info.filename)} is compressed or encrypted, expected it stored as torch.save does")
            entries[info.filename] = info
        if sum(info.file_size for info in entries.values()) > len(data):
            raise InputError(f"zip entries claim more bytes than the {len(data)} of the file")
        roots = [name[:-len("data.pkl")] for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(roots) != 1:
            raise InputError(f"found {len(roots)} entries NAME/data.pkl in the zip archive, expected 1")
        root, = roots

        def load(name):
            return archive.read(entries[root + name])

        order = load("byteorder") if root + "byteorder" in entries else b"little"
        if order != b"little":
            raise InputError(f"byteorder is {show(order.decode('latin-1'))}, expected 'little'")
        machine = _Machine(lambda key: load(f"data/{key}") if f"{root}data/{key}" in entries else None)
        return machine.run(load("data.pkl"))


def _door(name):
    """Return the way out for a file whose pickle imports `name`, as the end of a message; "" where the name tells nothing.

    A class of PyTorch's modules, or of a package that is not known, means a module saved whole.  Some packages mean a state_dict with
    other values beside it.
    """
    room = name.split(".")[0]
    if name.startswith("torch.nn.") or room not in {*sys.stdlib_module_names, "__builtin__", "numpy", "torch"}:
        return f"; if it is a module saved whole, {EXPORT}"
    plain = "; int, float and torch.from_numpy make plain values and tensors of those of numpy" * (room == "numpy")
    return plain + (f"; if it has a state_dict, {STATE}" if room in BESIDE_STATES else "")


def _state_dict(content):
    """Names of the tensors where `content` is a state_dict, or has one beside other values; else ()."""
    for values in (content, *(content.values() if isinstance(content, dict) else ())):
        if isinstance(values, dict) and "format" not in content:
            names = [name for name, value in values.items() if isinstance(value, np.ndarray)]
            if names and len(names) == len(values):
                return names
    return ()


@dataclass(frozen=True)
class _Name:
    """A name that the pickle imports; it is compared, never looked up."""

    text: str


@dataclass(frozen=True)
class _Storage:
    dtype: np.dtype
    data: bytes


class _Machine:
    """The subset of the pickle virtual machine that torch.save uses for plain values and tensors.

    load_storage(key) -> bytes or None.  No object is built but None, bool, int, float, str, list, tuple, dict and array.
    """

    PUSH = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"}
    CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
    EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
    TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
    TENSOR, ORDERED = "torch._utils._rebuild_tensor_v2", "collections.OrderedDict"

    def __init__(self, load_storage):
        self.load_storage = load_storage
        self.stack, self.marks, self.memo, self.storages = [], [], {}, {}

    def run(self, pickle):
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(pickle)):
                require(count < MAX_OPERATIONS, "data.pkl", f"more than {MAX_OPERATIONS} pickle operations", "a network")
                if opcode.name == "STOP":
                    result, = self.stack
                    return result
                self.execute(opcode.name, argument)
        except InputError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"data.pkl is damaged ({type(error).__name__}), expected the pickle that torch.save writes") from None
        raise InputError("data.pkl ends early, expected the pickle that torch.save writes")

    def execute(self, code, argument):
        stack = self.stack
        if code in self.PUSH:
            stack.append(argument)
        elif code in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif code in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif code in self.CONSTANTS:
            stack.append(self.CONSTANTS[code])
        elif code in self.EMPTY:
            stack.append(self.EMPTY[code]())
        elif code == "MARK":
            self.marks.append(len(stack))
        elif code == "TUPLE":
            stack.append(tuple(self.since_mark()))
        elif code in self.TUPLES:
            count = self.TUPLES[code]
            self.stack[-count:] = [tuple(self.top(count))]
        elif code in ("APPEND", "APPENDS"):
            items = self.since_mark() if code == "APPENDS" else [stack.pop()]
            self.top(1, list)[0].extend(items)
        elif code in ("SETITEM", "SETITEMS"):
            items = self.since_mark() if code == "SETITEMS" else [stack.pop() for _ in range(2)][::-1]
            target = self.top(1, dict)[0]
            for key, value in zip(items[::2], items[1::2], strict=True):
                if type(key) not in (str, int):  # hashing a deep tuple would end the process, one of shared parts would never end
                    raise InputError(f"a key is a {type(key).__name__}, expected a string")
                if type(key) is str and key in target:
                    raise InputError(f"key {show(key)} is there twice, expected once")
                target[key] = value
        elif code == "GLOBAL":
            name = argument.replace(" ", ".")
            if name not in (self.TENSOR, self.ORDERED) and name.removeprefix("torch.") not in STORAGES:
                raise InputError(f"data.pkl names {show(name)}, expected plain values and tensors alone; nothing was executed{_door(name)}")
            stack.append(_Name(name))
        elif code == "BINPERSID":
            stack.append(self.storage(stack.pop()))
        elif code == "REDUCE":
            function, arguments = self.top(2)
            stack[-2:] = [self.call(function, arguments)]
        elif code == "BUILD":  # the _metadata of a state_dict, so that such a file is refused for what it is
            stack.pop()
            self.top(1, OrderedDict)
        elif code != "PROTO":
            raise InputError(f"data.pkl uses the pickle operation {code}, expected plain values and tensors alone; nothing was executed")

    def top(self, count, kind=object):
        items = self.stack[-count:]
        if len(items) != count or not all(isinstance(i, kind) for i in items) or (self.marks and len(self.stack) - count < self.marks[-1]):
            raise ValueError
        return items

    def since_mark(self):
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def call(self, function, arguments):
        if function == _Name(self.ORDERED) and arguments == ():
            return OrderedDict()
        if function == _Name(self.TENSOR):
            return self.tensor(*arguments)
        raise ValueError

    def storage(self, persistent):
        kind, name, key, _, count = persistent
        if kind != "storage" or not isinstance(name, _Name) or type(key) is not str or type(count) is not int:
            raise ValueError
        dtype = STORAGES[name.text.removeprefix("torch.")]
        require(dtype is not None, show('data/' + key), f"found a tensor of {name.text}",
                f"uint8 or int32; if it is of a state_dict, {STATE}")
        dtype = np.dtype(dtype)
        if key not in self.storages:
            self.storages[key] = self.load_storage(key)
        data = self.storages[key]
        require(data is not None, show('data/' + key), "missing in the zip archive", f"{count} elements")
        require(count >= 0 and len(data) == count * dtype.itemsize, show('data/' + key), f"{len(data)} bytes", f"{count * dtype.itemsize}")
        return _Storage(dtype, data)

    def tensor(self, storage, offset, size, stride, requires_grad, hooks, *metadata):
        """A view of the storage: nothing is allocated, however large the tensor claims to be."""
        numbers = (offset, *size, *stride)
        if not isinstance(storage, _Storage) or len(size) != len(stride) or len(size) > 8:
            raise ValueError
        if any(type(n) is not int or n < 0 for n in numbers):
            raise ValueError
        count = len(storage.data) // storage.dtype.itemsize
        last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else -1
        if last >= count or math.prod(size) >= 2 ** 62:
            raise InputError(f"data.pkl: a tensor of size {show(size)} reaches beyond its storage of {count} elements")
        whole = np.frombuffer(storage.data, storage.dtype)
        if not all(size):
            return np.zeros(size if max(size) < 2 ** 31 else (0,), storage.dtype)
        return np.lib.stride_tricks.as_strided(whole[offset:], size, [s * storage.dtype.itemsize for s in stride], writeable=False)
