"""A hash of a netlist's structure: equal netlists have equal hashes, whatever their cells and wires are called."""

import json
from hashlib import blake2b

MODELS = {"blackbox", "whitebox"}
"""Attributes of yosys' models of the vendor's cells, which are no part of a netlist."""


def structure(path):
    """Return the hash, hexadecimal, of a netlist that yosys wrote as JSON: of the cells of the module top and their wires.

    It depends on types, parameters, the ports of the modules, and on which pins are connected.  It does
    not depend on names of cells, wires and inner modules, on attributes, or on the order in the file.
    Raises OSError, ValueError or KeyError for another file.
    """
    modules = json.loads(path.read_text())["modules"]
    return _module("top", modules, {}).hex()


def _module(name, modules, hashes):
    """Return the hash of a module, by Weisfeiler-Leman refinement of its graph of cells and wires.

    The refinement ends when a round distinguishes no more cells than the one before.
    hashes: {module: hash} of the modules that it contains.
    """
    module = modules[name]
    pins, start = [], []  # of each cell: (port, bit, wire); its colour
    for cell in module["cells"].values():
        kind = cell["type"]
        if kind in modules and kind not in hashes and not MODELS & set(modules[kind]["attributes"]):
            hashes[kind] = _module(kind, modules, hashes)
        own = hashes.get(kind, kind.encode())
        start.append(_hash(own, json.dumps(cell.get("parameters", {}), sort_keys=True).encode()))
        pins.append([(f"{port}.{i}".encode(), bit) for port, bits in sorted(cell["connections"].items()) for i, bit in enumerate(bits)])
    anchors = {}
    for name, port in module["ports"].items():
        for i, bit in enumerate(port["bits"]):
            anchors.setdefault(bit, []).append(f"{port['direction']} {name}.{i}".encode())
    colours, before = start, 0
    while len(set(colours)) > before:
        before = len(set(colours))
        ends = {bit: list(names) for bit, names in anchors.items()}
        for colour, own in zip(colours, pins):
            for port, bit in own:
                ends.setdefault(bit, []).append(colour + port)
        # A constant is told by its value, "0", "1" or "x"; a wire, a number, by what it connects.
        wires = {bit: bit.encode() if isinstance(bit, str) else _hash(*sorted(names)) for bit, names in ends.items()}
        colours = [_hash(colour, *(wires[bit] for _, bit in own)) for colour, own in zip(colours, pins)]
    return _hash(*sorted(colours), *sorted(name for names in anchors.values() for name in names))


def _hash(*parts):
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(4, "little") + part)
    return digest.digest()
