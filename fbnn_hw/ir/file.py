"""The IR as JSON text (docs/ir.md): the content of a checkpoint, packed bits in base64, thresholds as lists."""

import base64
import binascii
import json

import numpy as np

from ..base.errors import InputError, at, require, show
from . import plain
from .network import Network

FORMAT = "fbnn-hw network"
MAX_CHARACTERS = 2 ** 27


def dumps(network: Network) -> str:
    """`Network` -> JSON text; equal networks give equal text."""
    values = plain.to_plain(network, FORMAT)
    values["weights"] = {name: base64.b64encode(array.tobytes()).decode() for name, array in values["weights"].items()}
    if "thresholds" in values:
        values["thresholds"] = {name: array.tolist() for name, array in values["thresholds"].items()}
    return json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n"


def loads(text: str, where: object) -> Network:
    """Inverse of `dumps`; `where` (the file) begins every InputError."""
    require(len(text) <= MAX_CHARACTERS, where, f"{len(text)} characters", f"at most {MAX_CHARACTERS}")
    try:
        with at(where):
            values = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
            _decode(values)
    except RecursionError:
        raise InputError(f"{where}: nested too deep, expected a network") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    return plain.from_plain(values, FORMAT, where)


def _unique(pairs):
    values = {}
    for key, value in pairs:
        if key in values:
            raise InputError(f"key {show(key)} is there twice, expected once")
        values[key] = value
    return values


def _no_constant(name):
    raise InputError(f"found {name}, expected finite numbers")


def _decode(values):
    """Turn weights and thresholds into arrays in place.  A value of another type stays, for `from_plain` to refuse."""
    if not isinstance(values, dict):
        return
    weights, thresholds = values.get("weights"), values.get("thresholds")
    if isinstance(weights, dict):
        for name, text in weights.items():
            if isinstance(text, str):
                try:
                    weights[name] = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
                except (binascii.Error, ValueError):
                    raise InputError(f"weights.{show(name)}: found {show(text)}, expected base64") from None
    if isinstance(thresholds, dict):
        for name, numbers in thresholds.items():
            if isinstance(numbers, list):
                if not all(type(n) is int and abs(n) < 2 ** 31 for n in numbers):
                    raise InputError(f"thresholds.{show(name)}: found {show(numbers)}, expected integers of 32 bits")
                thresholds[name] = np.array(numbers, np.int32)
