"""Reading the pickles of a published data set without running what they may contain."""

import io
import pickle
import re
from contextlib import contextmanager

import numpy as np

from ..base.errors import InputError, show

ORDERS = {0: "C", 1: "F"}


class _Ndarray:
    """Stands for numpy.ndarray while a pickle is read; `array` makes the real one from what the pickle says of it."""

    def __setstate__(self, state):
        _, self.shape, self.dtype, fortran, self.data = state
        self.order = ORDERS[fortran]

    def array(self):
        if type(self.dtype) is not _Dtype:
            raise pickle.UnpicklingError("an array without a type")
        data = self.data.encode("latin1") if isinstance(self.data, str) else self.data
        return np.frombuffer(data, self.dtype.dtype).reshape(self.shape, order=self.order)


class _Dtype:
    """Stands for numpy.dtype: numbers alone."""

    def __init__(self, name, *flags):
        self.name, self.order = _text(name), "<"

    def __setstate__(self, state):
        self.order = _text(state[1])

    @property
    def dtype(self):
        if not re.fullmatch(r"[biuf][1248]", self.name) or self.order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"an array of type {self.name}")
        return np.dtype(self.order + self.name)


def _text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value


def _key(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _reconstruct(kind, shape, typecode):
    return _Ndarray()


def _frombuffer(data, dtype, shape, order, axes=None):
    array = _Ndarray()
    array.data, array.dtype, array.shape, array.order = data, dtype, shape, order
    return array


def _encode(text, codec):
    if _text(codec) != "latin1":
        raise pickle.UnpicklingError(f"text in {codec}")
    return text.encode("latin1")


ALLOWED = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _frombuffer for core in ("core", "_core")},
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes in protocol 2
    ("__builtin__", "bytes"): lambda: b"",  # and how it writes none
}
"""Every global a pickle may name, with what it gets instead."""


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler, the one in Python: the one in C takes 8 bytes for every number below that of a memo, so a pickle of ten
    bytes takes 32 GiB.  Only arrays and types get a state, and a buffer is as long as its data, whatever length the pickle names."""

    def find_class(self, module, name):
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None

    def load_build(self):
        if not isinstance(self.stack[-2], _Ndarray | _Dtype):
            raise pickle.UnpicklingError("a state of what is no array")
        super().load_build()

    def load_bytearray8(self):
        self.load_binbytes8()
        self.append(bytearray(self.stack.pop()))

    dispatch = pickle._Unpickler.dispatch | {pickle.BUILD[0]: load_build, pickle.BYTEARRAY8[0]: load_bytearray8}


@contextmanager
def _opened(data, kind, where, what, expected):
    """Yield the object of type `kind` that a pickle holds.  InputError for whatever is wrong with it, then and during the block."""
    try:
        value = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(value, kind):
            raise pickle.UnpicklingError(f"it holds {type(value).__name__}")
        yield value
    except Exception as error:  # a damaged pickle may raise anything, which may quote it
        text = "Ran out of input" if isinstance(error, EOFError) else str(error).split("\n")[0] or type(error).__name__
        reason = text if len(text) <= 100 and text.isprintable() else show(text)
        raise InputError(f"{where}: damaged or not {what} ({reason}), expected {expected}") from None


def loads(data, where):
    """Bytes of a pickled dict of numbers, strings, lists and numpy arrays of numbers -> dict with text keys.

    Pickles of Python 2 and 3, any protocol.  Raises InputError, naming `where`, for anything else; runs no code of the pickle.
    """
    with _opened(data, dict, where, "a data set's pickle", "a dict of numpy arrays and lists") as values:
        return {_key(key): value.array() if isinstance(value, _Ndarray) else value for key, value in values.items()}


def texts(data, where):
    """Bytes of a pickled list of strings -> list of str; otherwise as `loads`."""
    with _opened(data, list, where, "a list of names", "a pickled list of text") as names:
        for name in names:
            if not isinstance(name, bytes | str):
                raise pickle.UnpicklingError(f"it holds a list of {type(name).__name__}")
        return [_key(name) for name in names]
