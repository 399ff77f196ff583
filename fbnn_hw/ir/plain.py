"""A network as plain values: the content that the checkpoint (`checkpoint`) and the IR file (`file`) share.

    {"format": str, "version": 1 or 2, "name": str, "architecture": [dict], "classes": [str],
     "weights": {layer: packed bits, uint8 (ceil(n / 8),)}, "thresholds": {layer: int32 (channels,)}, "training": {...}}

The last two keys are left out where they are empty.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..base import bits
from ..base.errors import InputError, at, require, show
from . import ops
from .network import MAX_LAYERS, Network, Topology

REQUIRED = ("format", "version", "name", "architecture", "classes", "weights")
OPTIONAL = ("thresholds", "training")
MAX_DEPTH = 100
"""A training that went on from another one has a record two deeper than that one's."""
MAX_VALUES = 200_000
MAX_TEXT = 100_000
CHARACTERS = 50
"""Characters of a text that count as another value: one text of a small file may be there many times."""


def to_plain(network: Network, file_format: str) -> dict[str, Any]:
    """`Network` -> dict as above, of the lowest version that suffices, arrays as numpy; the network is verified first."""
    network.verify()
    topology = network.topology
    values = {
        "format": file_format, "version": topology.version(), "name": topology.name, "architecture": [o.to_dict() for o in topology.ops],
        "classes": list(topology.classes), "weights": {name: bits.pack(network.weights[name]) for name in topology.weight_shapes()}}
    if network.thresholds:
        values["thresholds"] = {o.name: network.thresholds[o.name].astype(np.int32) for o in topology.ops if o.name in network.thresholds}
    if network.training:
        values["training"] = plain_tree(network.training, "training")
    return values


def from_plain(values: Any, file_format: str, where: object) -> Network:
    """Inverse of `to_plain`.  Raises InputError, `where` first, then the field, what was found and what was expected."""
    with at(where):
        return _from_plain(values, file_format)


def _from_plain(values, file_format):
    if not isinstance(values, dict):
        raise InputError(f"found {_noun(values)}, expected a dict with {', '.join(REQUIRED)}")
    for key, legal in (("format", (file_format,)), ("version", ops.VERSIONS)):
        expected = " or ".join(map(repr, legal))
        if key not in values:
            raise InputError(f"{key} is missing, expected {expected}")
        if type(values[key]) is not type(legal[0]) or values[key] not in legal:
            raise InputError(f"{key} is {show(values[key])}, expected {expected}")
    values = plain_tree(values, "")
    for key in REQUIRED:
        if key not in values:
            raise InputError(f"{key} is missing, expected {', '.join(REQUIRED)}")
    for key in values:
        if key not in REQUIRED + OPTIONAL:
            raise InputError(f"unknown field {show(key)}, expected {', '.join(REQUIRED + OPTIONAL)}")
    kinds = {"name": str, "architecture": list, "classes": list, "weights": dict, "thresholds": dict, "training": dict}
    for key, kind in kinds.items():
        require(isinstance(values.get(key, kind()), kind), key, f"found {_noun(values.get(key))}", f"a {kind.__name__}")
    require(len(values["architecture"]) <= MAX_LAYERS, "architecture", f"{len(values['architecture'])} layers", f"at most {MAX_LAYERS}")
    version = values["version"]
    layers = tuple(ops.from_dict(layer, f"architecture[{index}]", version) for index, layer in enumerate(values["architecture"]))
    topology = Topology(values["name"], layers, tuple(values["classes"]))
    topology.verify()
    if version == 1 and (lacking := topology.beyond_version_1()):
        raise InputError(f"{lacking}, version is 1")
    weights = _weights(values["weights"], topology)
    thresholds = {}
    for name, array in values.get("thresholds", {}).items():
        thresholds[name] = _array(array, f"thresholds.{_label(name)}", np.int32)
    network = Network(topology, weights, thresholds, values.get("training", {}))
    network.verify()  # before the copy: a tensor of stride 0 may claim any size
    return replace(network, thresholds={name: array.copy() for name, array in thresholds.items()})


def _weights(packed, topology):
    weights = {}
    for name, shape in topology.weight_shapes().items():
        where = f"weights.{name}"
        require(name in packed, where, "missing", f"the packed bits of shape {shape}")
        array = _array(packed[name], where, np.uint8)
        count = math.prod(shape)
        require(array.size == (count + 7) // 8, where, f"{array.size} bytes", f"{(count + 7) // 8} for shape {shape}")
        if count % 8 and array[-1] >> count % 8:
            raise InputError(f"{where}: last byte is {array[-1]}, expected 0 in its {8 - count % 8} fill bits")
        weights[name] = bits.unpack(array, shape)
    for name in packed:
        require(name in weights, f"weights.{_label(name)}", "no layer of that name has weights", f"{', '.join(weights)}")
    return weights


def _array(value, where, dtype):
    """`value` if it is a vector of `dtype`."""
    dtype = np.dtype(dtype)
    require(isinstance(value, np.ndarray), where, f"found {_noun(value)}", f"a tensor of {dtype}")
    require(value.dtype == dtype and value.ndim == 1, where, f"found {value.dtype} {value.shape}", f"{dtype} with one dimension")
    return value


def plain_tree(value: Any, where: str) -> Any:
    """A copy of `value` with tuples as lists.

    Legal values are None, bool, int (64 bits), finite float, str, list, tuple, dict with str keys, and array.  Raises InputError that
    names the field of any other value, and of one that is nested or repeated without end.
    """
    budget = MAX_VALUES

    def copy(value, where, depth):
        nonlocal budget
        budget -= 1 + (len(value) // CHARACTERS if type(value) is str else 0)
        if budget < 0:
            raise InputError(f"more than {MAX_VALUES} values, {CHARACTERS} characters of text counted as one, expected a network")
        place = where or "content"
        if depth > MAX_DEPTH:
            raise InputError(f"{place.split('.')[0].split('[')[0]}: nested more than {MAX_DEPTH} deep, expected less")
        if value is None or type(value) is bool:
            return value
        if isinstance(value, np.ndarray) and where.startswith(("weights.", "thresholds.")):
            return value
        if type(value) is int:
            if not -2 ** 63 <= value < 2 ** 63:
                raise InputError(f"{place}: found {show(value)}, expected an integer from -2^63 to 2^63 - 1")
            return value
        if type(value) is float:
            if not math.isfinite(value):
                raise InputError(f"{place}: found {value}, expected a finite number")
            return value
        if type(value) is str:
            if len(value) > MAX_TEXT:
                raise InputError(f"{place}: text of {len(value)} characters, expected at most {MAX_TEXT}")
            if any("\ud800" <= c <= "\udfff" for c in value):
                raise InputError(f"{place}: found {show(value)}, expected valid Unicode")
            return value
        if isinstance(value, (list, tuple)):
            return [copy(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
        if isinstance(value, dict):
            for key in value:
                if type(key) is not str:
                    raise InputError(f"{place}: key {show(key)} is {_noun(key)}, expected a string")
                copy(key, f"{place}, a key", depth)
            return {k: copy(v, f"{where}.{_label(k)}" if where else _label(k), depth + 1) for k, v in value.items()}
        raise InputError(f"{place}: found {_noun(value)}, expected plain values")

    return copy(value, where, 0)


def _label(key):
    return key if key.isidentifier() and len(key) <= 64 else show(key)


def _noun(value):
    nouns = {type(None): "nothing", bool: "True or False", int: "an integer", float: "a number", str: "text", np.ndarray: "a tensor"}
    return nouns.get(type(value), f"a {type(value).__name__}")
