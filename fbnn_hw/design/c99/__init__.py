"""A network as C99: network.c and network.h for any processor, and main.c, a program around them (`generate --target c`)."""

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...ir import file as ir_file
from ...ir import ops
from ...ir.network import Network

HERE = Path(__file__).parent
TARGET = "c"
"""The value of `generate --target`."""
SECTION = re.compile(r"^/\* -- (\w+) -- \*/\n", re.M)
NEEDS = {"conv_bits": ("ones", "conv"), "dense_logits": ("ones",), "byte_bits": ("byte_sum",)}
"""Sections of network.c that another one calls."""
WORD = 32

Runs = list[tuple[str, int, int]]
"""Channels of an output: (map that is stored, first channel, channels), one run after the other."""


def words(bits: int) -> int:
    return -(-bits // WORD)


def packed(array: np.ndarray) -> np.ndarray:
    """uint8 bits (..., n) -> uint32 (..., words), the first bit lowest."""
    padded = np.zeros((*array.shape[:-1], words(array.shape[-1]) * WORD), np.uint8)
    padded[..., :array.shape[-1]] = array
    return np.packbits(padded, axis=-1, bitorder="little").view("<u4")


def joined(runs: Iterable[tuple[str, int, int]]) -> Runs:
    """Runs, with those that follow each other in a map as one."""
    out: Runs = []
    for name, first, count in runs:
        if out and out[-1][0] == name and out[-1][1] + out[-1][2] == first:
            count += out[-1][2]
            first = out.pop()[1]
        out.append((name, first, count))
    return out


def cut(runs: Runs, start: int, stop: int) -> Runs:
    """Channels start .. stop - 1 of runs."""
    out, at = [], 0
    for name, first, count in runs:
        low, high = max(start, at), min(stop, at + count)
        if low < high:
            out.append((name, first + low - at, high - low))
        at += count
    return out


def taps(layer: ops.Conv | ops.Dense) -> tuple[int, int, int]:
    """(kernel, stride, pixels of padding); a dense layer is a convolution of one pixel."""
    return (layer.kernel, layer.stride, layer.frame) if isinstance(layer, ops.Conv) else (1, 1, 0)


def table(kind: str, name: str, values: np.ndarray, form: str) -> str:
    """A constant array of C."""
    texts = [form % int(value) for value in values.ravel()]
    rows = (", ".join(texts[i:i + 8]) for i in range(0, len(texts), 8))
    return f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};\n"


class Source:
    """network.c of a network: statements of `fbnn_logits`, constants, and the maps.

    Where a map lies in the one array of maps depends on how long each is needed.  A place is written as "@map@" until all are known.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.topology = network, network.topology
        self.shapes, self.byte_maps = self.topology.shapes, self.topology.byte_maps()
        self.statements: list[str] = []
        self.constants: list[str] = []
        self.sections: set[str] = set()
        self.maps: dict[str, int] = {}  # words
        self.gathered: dict[str, str] = {}  # rows of tables of runs
        self.beyond = 1
        self.runs: dict[str, Runs] = {}
        for layer in self.topology.ops:
            channels = self.shapes[layer.name][0]
            self.runs[layer.name] = self.renamed(layer) or [(layer.name, 0, channels)]
            if self.runs[layer.name] == [(layer.name, 0, channels)]:
                self.compute(layer)

    def renamed(self, layer: ops.Op) -> Runs:
        """The channels of a layer that moves channels and computes none; none where it does, or moves nothing."""
        inputs = [self.runs[name] for name in layer.inputs]
        match layer:
            case ops.Concat():
                return joined(run for runs in inputs for run in runs)
            case ops.Slice():
                return cut(inputs[0], layer.start, layer.stop)
            case ops.Duplicate():
                return joined(run for c in range(self.shapes[layer.inputs[0]][0]) for run in layer.times * cut(inputs[0], c, c + 1))
            case ops.Shuffle():
                order = np.arange(self.shapes[layer.name][0]).reshape(layer.groups, -1).T.ravel().tolist()
                return joined(run for c in order for run in cut(inputs[0], c, c + 1))
        return []

    def store(self, name: str, size: int) -> str:
        """Room for a map of `size` words; its place."""
        self.maps[name] = size
        return f"maps + @{name}@"

    def call(self, section: str, *arguments: str | int) -> None:
        self.sections.add(section)
        self.statements.append(f"{section}({', '.join(map(str, arguments))});")

    def read(self, name: str, groups: int = 1) -> str:
        """The place of a layer's output with each of its groups of channels from a word on."""
        channels, height, width = self.shapes[name]
        runs, depth = self.runs[name], channels // groups
        if len(runs) == 1 and runs[0][2] == self.shapes[runs[0][0]][0] and (groups == 1 or depth % WORD == 0):
            return f"maps + @{runs[0][0]}@"
        form, runs_name = f"{name}/{groups}", f"runs_{groups}_{name}"
        if form not in self.maps:
            rows = []
            for g in range(groups):
                at = g * words(depth) * WORD
                for source, first, count in cut(runs, g * depth, (g + 1) * depth):
                    rows.append(f"    {{@{source}@, {words(self.shapes[source][0])}, {first}, {at}, {count}}}")
                    at += count
            self.gathered[runs_name] = "\n".join(rows)
            self.constants.append(f"static const struct run {runs_name}[] = {{\n" + ",\n".join(rows) + "\n};\n")
            size = groups * words(depth)
            place = self.store(form, height * width * size)
            self.call("gather", runs_name, len(rows), place, height * width, size)
        return f"maps + @{form}@"

    def limits(self, layer: ops.Op, most: np.ndarray) -> str:
        """The name of a table of int32, one for each output."""
        self.constants.append(table("int32_t", f"limits_{layer.name}", most, "%d"))
        return f"limits_{layer.name}"

    def compute(self, layer: ops.Op) -> None:
        """The statement of a layer that computes."""
        name, (channels, height, width) = layer.name, self.shapes[layer.name]
        if isinstance(layer, ops.Input):
            return self.encode(layer)
        source = layer.inputs[0]
        depth, rows, columns = self.shapes[source]
        if source in self.byte_maps:
            return self.of_bytes(layer, source)
        if isinstance(layer, ops.Conv | ops.Dense):
            return self.convolve(layer, source)
        place = self.read(source)
        if isinstance(layer, ops.MaxPool):
            self.call("pool", place, self.store(name, height * width * words(channels)), rows, columns, words(depth))
        elif isinstance(layer, ops.Flatten):
            self.call("flatten", place, self.store(name, words(channels)), rows * columns, depth)
        else:
            weights = "0"
            if name in self.network.weights:
                weights = self.weights(name, self.network.weights[name].reshape(depth, -1).T)
            limits = self.limits(layer, (rows * columns - self.network.threshold(name)) // 2)
            self.call("over_map", place, weights, limits, rows * columns, depth, self.store(name, words(channels)))

    def weights(self, name: str, array: np.ndarray) -> str:
        self.constants.append(table("uint32_t", f"weights_{name}", packed(array), "0x%08x"))
        return f"weights_{name}"

    def convolve(self, layer: ops.Conv | ops.Dense, source: str) -> None:
        """A convolution or a dense layer of bits."""
        name, (outputs, height, width) = layer.name, self.shapes[layer.name]
        depth, rows, columns = self.shapes[source]
        array = self.network.weights[name]
        if isinstance(layer, ops.Dense) and layer.logits:
            return self.call("dense_logits", self.read(source), self.weights(name, array), depth, "logits")
        kernel, stride, frame = taps(layer)
        span = words(depth // layer.groups)
        self.beyond = max(self.beyond, layer.groups * span)
        place = self.read(source, layer.groups)
        weights = self.weights(name, array.reshape(outputs, -1, kernel ** 2).swapaxes(1, 2))
        limits = self.limits(layer, (kernel ** 2 * depth // layer.groups - self.network.threshold(name)) // 2)
        fields = rows, columns, height, width, outputs, layer.groups, span, kernel, stride, frame, weights, limits
        self.constants.append(f"static const struct conv layer_{name} = {{{', '.join(map(str, fields))}}};\n")
        self.call("conv_bits", f"&layer_{name}", place, self.store(name, height * width * words(outputs)))

    def of_bytes(self, layer: ops.Op, source: str) -> None:
        """A layer whose input is bytes, each of which stands for 2 u - 255: a dot product is twice `byte_sum` less 255 times the sum of
        the weights, those beyond the map included."""
        name, (outputs, height, width) = layer.name, self.shapes[layer.name]
        depth, rows, columns = self.shapes[source]
        place = f"(const uint8_t *)(maps + @{self.runs[source][0][0]}@)"
        if isinstance(layer, ops.Flatten):
            out = self.store(name, -(-outputs // 4))
            return self.call("flatten_bytes", place, f"(uint8_t *)({out})", rows * columns, depth)
        assert isinstance(layer, ops.Conv | ops.Dense)  # what `verify` demands
        array = self.network.weights[name].reshape(outputs, depth, -1).swapaxes(1, 2).reshape(outputs, -1)
        offset = ops.BYTE * (2 * array.sum(1, np.int64) - array.shape[1])
        logits = isinstance(layer, ops.Dense) and layer.logits
        kernel, stride, frame = taps(layer)
        limits = self.limits(layer, offset if logits else -(-(self.network.threshold(name) + offset) // 2))
        weights = self.weights(name, array)
        fields = rows, columns, height, width, depth, outputs, kernel, stride, frame, weights, limits
        self.constants.append(f"static const struct byte_conv layer_{name} = {{{', '.join(map(str, fields))}}};\n")
        self.sections.add("byte_sum")
        if logits:
            self.statements += ["for (unsigned o = 0; o < FBNN_CLASSES; o++)",
                                f"    logits[o] = 2 * byte_sum(&layer_{name}, {place}, o, 0, 0) - {limits}[o];"]
        else:
            self.call("byte_bits", f"&layer_{name}", place, self.store(name, height * width * words(outputs)))

    def encode(self, layer: ops.Input) -> None:
        """The statement that makes the first map of the image."""
        channels, size, _ = self.shapes[layer.name]
        section = layer.kind
        if isinstance(layer, ops.Bits8):
            return self.call(section, "image", f"(uint8_t *)({self.store(layer.name, -(-3 * size * size // 4))})")
        self.call(section, "image", self.store(layer.name, size * size * words(channels)))

    def filled(self, text: str) -> str:
        """A section, with the numbers of the first layer."""
        layer = self.topology.ops[0]
        ycc = [f"({r} * r + {g} * g + {b} * b + {rounding + 256 * offset}) >> 8".replace("+ -", "- ")
               for r, g, b, rounding, offset in ops.YCC]
        numbers: dict[str, Any] = {"WORDS": words(self.shapes[layer.name][0]), "BYTES": ycc[0]}
        if isinstance(layer, ops.Thermometer):
            bytes_ = {"tycc": ycc, "trgb": ["r", "g", "b"], "grey": ycc[:1]}[layer.encoder]
            numbers |= {"BYTES": ", ".join(bytes_), "LEVELS": ", ".join(map(str, layer.planes))}
        elif isinstance(layer, ops.Binarize):
            numbers["THRESHOLD"] = layer.threshold
        elif isinstance(layer, ops.Bits8):
            numbers["TABLE"] = ", ".join(map(str, layer.table))
        return fill(text, numbers)

    def places(self) -> tuple[dict[str, int], int]:
        """({map: its first word}, words in all): maps that are needed at the same time do not overlap."""
        lives = {}
        for name in self.maps:
            marks = [f"@{name}@", *(f"gather({runs}," for runs, rows in self.gathered.items() if f"@{name}@" in rows)]
            used = [i for i, text in enumerate(self.statements) if any(mark in text for mark in marks)]
            lives[name] = min(used), max(used)
        placed: dict[str, int] = {}
        for name in sorted(self.maps, key=lambda name: -self.maps[name]):
            at = 0
            for other in sorted(placed, key=lambda other: placed[other]):
                apart = lives[other][1] < lives[name][0] or lives[name][1] < lives[other][0]
                if not apart and placed[other] < at + self.maps[name]:
                    at = max(at, placed[other] + self.maps[other])
            placed[name] = at
        return placed, max(placed[name] + self.maps[name] for name in placed)

    def text(self) -> str:
        """network.c."""
        head, *rest = SECTION.split((HERE / "network.c").read_text())
        sections = dict(zip(rest[::2], rest[1::2]))
        used = self.sections | {need for name in self.sections for need in NEEDS.get(name, ())}
        places, total = self.places()
        classes = self.topology.classes
        parts = [head, f"static uint32_t maps[{total}];\n"]
        if "conv" in used:
            parts.append(f"static const uint32_t beyond[{self.beyond}];\n")
        parts += [self.filled(text) for name, text in sections.items() if name in used]
        parts += [*self.constants, sections["network"]]
        names = {
            "NAME": self.topology.name, "VERSION": __version__, "NAMES": ", ".join(map(quoted, classes)),
            "ABOUT": f"{self.topology.weight_bits():,} weights of a bit, {len(classes)} classes, {4 * total:,} bytes of maps.",
            "BODY": "\n    ".join(self.statements)}
        text = fill("\n".join(part.strip("\n") + "\n" for part in parts), names)
        return fill(text, places)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """`text` with the values in place of "@name@"; other names stay."""
    return re.sub(r"@([^@\n]+)@", lambda match: str(values.get(match[1], match[0])), text)


def quoted(text: str) -> str:
    """A string literal of C: octal escapes, which end after three digits, for all but plain characters."""
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()) + '"'


def files(network: Network) -> dict[str, str]:
    """{name: text} of network.c, network.h and main.c."""
    header = fill((HERE / "network.h").read_text(), {"SIZE": network.topology.image_size, "CLASSES": len(network.topology.classes)})
    return {"network.c": Source(network).text(), "network.h": header, "main.c": (HERE / "main.c").read_text()}


def write(network: Network, out: str | Path, written: Callable[[Path], object] | None = None) -> Path:
    """Write the files into the folder `<model>-<classes>c-c-<id>` under `out`, whole or not at all; its path.  The id names the weights.

    written: called with the folder as soon as it is there.  Raises InputError where it cannot be written.
    """
    from ..output import write_folder

    digest = sha256(ir_file.dumps(network).encode()).hexdigest()[:8]
    own = f"{network.topology.name}-{len(network.topology.classes)}c-{TARGET}-{digest}"
    return write_folder(out, own, {name: text.encode() for name, text in files(network).items()}, written)
