"""What a design does in a frame, counted in its netlist: toggles, accesses of memories, edges at pins.

`device.counted` counts a design with a camera.
"""

import json
import subprocess
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ..base import files
from ..base.errors import MismatchError, ToolError, UsageError
from ..base.progress import silent
from ..machine import protocol
from ..reference import encode, inference
from ..targets import synthesis
from . import netlist, virtual

TARGET = "ice40"
OUTPUTS = {"SB_LUT4": "O", "SB_MAC16": "O", "SB_RAM40_4K": "RDATA", "SB_SPRAM256KA": "DATAOUT"}
"""{cell: its output} for cells, beside flip-flops, whose outputs toggle in the routing.  Carries do not use it."""
QUIET, REFILL = 2000, 60_000
"""Cycles without a byte before each request.

QUIET: for a board that waits.  REFILL: for one that also fetches weights for the next frame.
"""
LESSONS = 4
"""How often a design that learns learns the last image.  The first lessons have few exemplars to replay."""
OWN = "TOP.board.top"
"""Path in the simulation of the module that the FPGA holds."""
PINS = ("flash_edges", "flash_clocks", "flash_selected", "line_edges")
"""Edges on the flash's lines, clocks of the flash, cycles in which it was selected, edges on the serial line."""


@dataclass
class Counts:
    """Events that were counted over some cycles, of each part."""

    cycles: float = 0
    toggles: Counter = field(default_factory=Counter)  # bits of outputs that changed
    blocks: Counter = field(default_factory=Counter)  # accesses of block RAMs
    banks: Counter = field(default_factory=Counter)  # accesses of SPRAMs
    multiplies: Counter = field(default_factory=Counter)  # cycles in which an input of a multiplier changed
    pins: Counter = field(default_factory=Counter)  # of PINS, not of a part

    def add(self, other, factor=1.0):
        """Add other counts, times a factor; return this object."""
        self.cycles += factor * other.cycles
        for name in ("toggles", "blocks", "banks", "multiplies", "pins"):
            counter = getattr(self, name)
            for key, value in getattr(other, name).items():
                counter[key] += factor * value
        return self


@dataclass
class Activity:
    """Events of a design on its virtual board."""

    images: int  # that were classified
    start: Counts  # from reset until the board takes images
    waiting: Counts  # one cycle in which the board waits
    first: tuple[Counts, Counts]  # `line` and `compute` of the first frame, which pays for what only that one does
    line: Counts  # the bytes of one image and of its answer, in a later frame
    compute: Counts  # a later frame, from the end of its image to its result
    lesson: Counts | None  # one sample learned, with request and answer
    line_bytes: int  # on the line for an image
    lesson_bytes: int  # and for a lesson
    clocks: int  # of a bit on the line
    flip_flops: Counter  # of each part


def measure(design, images, *, progress=silent, note=None):
    """Run images, uint8 RGB (N, 3, S, S), through the netlist of a `Design` on its virtual board -> `Activity`.

    A design that learns then learns the last image as its next class, LESSONS times.  One with a camera is simulated among its parts, and
    sees the images (`device.counted`).  Builds in DIR/sim_build_activity.
    Raises UsageError for fewer than two images and for another target than an iCE40UP5K, ToolError, MismatchError where an answer is not
    the reference's.
    """
    if design.estimate["target"] != TARGET:
        raise UsageError(f"{design.folder}: a design for --target {design.estimate['target']}, expected {TARGET}: energies are known of "
                         "the iCE40UP5K alone")
    if design.config.learning and design.config.learning.adds and not design.config.camera:
        raise UsageError(f"{design.folder}: its learner begins with no class, expected --learn replay or none")
    images = encode.checked(images, design.config.size)
    if len(images) < 2:
        raise UsageError("images: found one, expected two or more, since the first frame is not like later ones")
    build = design.folder / "sim_build_activity"
    alone = files.locked(build / ".lock", f"{design.folder}: is being counted by another program in {build.name}; wait for that one")
    if design.config.camera:
        from .device import counted

        with alone:
            return counted.measure(design, images, build, progress, note)
    with alone, progress(total=3, desc="synthesise, compile, simulate") as bar:
        clocks = virtual.clocks_of(design.config)
        sources = virtual.board_sources(design.folder, build, clocks)
        verilog, flip_flops = netlist_of(sources, build)
        bar.update()
        share, _ = netlist._yosys()
        board = [path for path in sources if path.name in ("board.v", "spi_flash.v")]
        with open(build / "board.vh", "a") as macros:
            macros.write("`define ACTIVITY\n")
        program = virtual.verilate([*board, share / "ice40" / "cells_sim.v", verilog], build, [build], note=note,
                                   options=("-DNO_ICE40_DEFAULT_ASSIGNMENTS",))
        bar.update()
        requests = _requests(design, images)
        replies, snapshots = _run(program, build, requests, clocks, REFILL if design.manifest["frame_bytes"] else QUIET)
        bar.update()
    _check(design, images, replies)
    return _activity(design, len(images), requests, replies, snapshots, flip_flops)


def _requests(design, images):
    """The bytes of each request: the images, and the lesson of a design that learns."""
    requests = [protocol.encode(protocol.Opcode.CLASSIFY | protocol.LOGITS, image, number)
                for number, image in enumerate(design.pixels(images))]
    if design.config.learning:
        label = min(len(design.classes), design.config.learning.max_classes - 1)
        lesson = protocol.operand(label, 0)
        requests += [protocol.encode(protocol.Opcode.LEARN, lesson, len(images) + number) for number in range(LESSONS)]
    return requests


# The netlist, with counters in each module.

def netlist_of(sources, build, top="board_top"):
    """Synthesise a module with counters; return (path of the netlist, {part: flip-flops}).

    An earlier netlist is used while the Verilog is the same.
    """
    verilog = [path for path in sources if path.name in (f"{top}.v", "accelerator.v")]
    names = " ".join(path.name for path in verilog)
    for path in verilog:
        if path.parent != build:
            (build / path.name).write_text(path.read_text())
    script = (f"read_verilog {names}\n{synthesis.COMMANDS[TARGET]} -noflatten -top {top}\nwrite_json netlist.json\n"
              "tee -q -o cells.json stat -json\n")
    _, version = netlist._yosys()
    texts = {path.name: path.read_text() for path in verilog}
    stamp = files.Stamp(build / "netlist.sha256", synthesis.key([script, version], texts))
    if not stamp.valid(build / "netlist.json"):
        stamp.clear()
        synthesis.synthesise(script, build)
        stamp.write()
    counted = count(build, build / "netlist.json")
    modules = _own(json.loads((build / "netlist.json").read_text())["modules"])
    return counted, _flip_flops(modules, top, OWN)


def count(build, netlist_json):
    """Write the Verilog of a netlist that yosys wrote as JSON, with counters; returns its path."""
    (build / "counted.json").write_text(json.dumps(with_wires(json.loads(netlist_json.read_text()))))
    synthesis.synthesise("read_json counted.json\nwrite_verilog -noattr counted.v\ntee -q -o cells.json stat -json\n", build)
    counted = build / "activity.v"
    counted.write_text(with_counters((build / "counted.v").read_text()))
    return counted


def _own(modules):
    """{name: module} without the models of cells."""
    return {name: module for name, module in modules.items() if not {"blackbox", "whitebox"} & set(module["attributes"])}


def _flip_flops(modules, name, path):
    """Counter {part: flip-flops} of a module and of what is in it."""
    counts = Counter()
    for cell, values in modules[name]["cells"].items():
        kind = values["type"]
        if kind in modules:
            counts += _flip_flops(modules, kind, f"{path}.{cell}")
        elif kind.startswith("SB_DFF"):
            counts[part_of(path)] += 1
    return counts


def part_of(path):
    """Name the part of a design that an instance belongs to.

    It is the first name of the path, or the first two names inside the accelerator.  A synchroniser, `line$37`, belongs to what is
    around it, and the array of a design that learns, `shared_array`, is an array.  What makes a sensor's clock belongs to the camera.
    """
    names = path.removeprefix(OWN).strip(".").removeprefix("core").strip(".").split(".")
    if names[0] != "accelerator":
        return "top" if "$" in names[0] else "camera" if names[0] == "clock" else names[0] or "top"
    inside = names[1].split("$")[0].rstrip("0123456789").removeprefix("shared_") if len(names) > 1 else "control"
    return f"accelerator.{inside}"


def with_wires(netlist_json):
    """Add the vectors activity_* to each module of yosys' JSON, except models of cells.  `with_counters` counts their bits."""
    for module in _own(netlist_json["modules"]).values():
        vectors = {name: [] for name in VECTORS}
        for cell in module["cells"].values():
            for name, bits in _vectors(cell["type"], cell["connections"]):
                vectors[name] += bits
        for name, bits in vectors.items():
            if bits:
                module["netnames"][f"activity_{name}"] = {"hide_name": 0, "bits": bits, "attributes": {}}
    return netlist_json


VECTORS = ("outputs", "reads", "read_clocks", "writes", "write_clocks", "selects", "sleeps", "operands")


def _vectors(kind, connections):
    """Yield (name of a vector, bits) for what a cell adds to the vectors."""
    if kind in OUTPUTS or kind.startswith("SB_DFF"):
        yield "outputs", [bit for bit in connections[OUTPUTS.get(kind, "Q")] if not isinstance(bit, str)]
    if kind == "SB_RAM40_4K":
        for name, port in (("reads", "RE"), ("read_clocks", "RCLKE"), ("writes", "WE"), ("write_clocks", "WCLKE")):
            yield name, connections[port]
    elif kind == "SB_SPRAM256KA":
        yield "selects", connections["CHIPSELECT"]
        yield "sleeps", connections["STANDBY"]
    elif kind == "SB_MAC16":
        yield "operands", [bit for port in "AB" for bit in connections[port] if not isinstance(bit, str)]


COUNTER = """
  reg [63:0] activity_toggles = 0, activity_blocks = 0, activity_banks = 0, activity_multiplies = 0;
  {lasts}
  always @(posedge board.clk) begin
    {counts}
  end
  always @(board.activity_phase) $display("activity %0d %m %0d %0d %0d %0d", board.activity_cycle,
      activity_toggles, activity_blocks, activity_banks, activity_multiplies);
endmodule
"""


def with_counters(verilog):
    """Add counters to each module of a netlist.  They print their counts whenever board.activity_phase changes."""
    modules = verilog.split("\nendmodule\n")
    return "".join(text + _counter(text) for text in modules[:-1]) + modules[-1]


def _counter(text):
    vectors = [name for name in VECTORS if f" activity_{name};" in text]
    if not vectors:
        return "\nendmodule\n"
    lasts, counts = [], []
    for name, total in (("outputs", "toggles"), ("operands", "multiplies")):
        if name in vectors:
            lasts.append(f"reg [$bits(activity_{name}) - 1:0] activity_{name}_last;")
            changed = f"activity_{name} ^ activity_{name}_last"
            counts += [f"activity_{name}_last <= activity_{name};",
                       f"activity_{total} <= activity_{total} + " + (f"$countones({changed});" if total == "toggles" else f"|({changed});")]
    if "reads" in vectors:
        counts.append("activity_blocks <= activity_blocks + $countones(activity_reads & activity_read_clocks)"
                      " + $countones(activity_writes & activity_write_clocks);")
    if "selects" in vectors:
        counts.append("activity_banks <= activity_banks + $countones(activity_selects & ~activity_sleeps);")
    return COUNTER.format(lasts="\n  ".join(lasts), counts="\n    ".join(counts))


# The run, and its output.

def _run(program, build, requests, clocks, quiet):
    """Run the board on requests, one after the other; return (replies, snapshots).

    quiet: cycles without a byte before each request.
    snapshots: [(phase that ends, Counts since the start)].
    """
    script = bytearray()
    for request in (b"", *requests, protocol.encode(protocol.Opcode.STATUS, sequence=0x7F)):
        for number, byte in enumerate(request):
            script += (0 if number else quiet).to_bytes(2, "little") + bytes([byte, 0])
        script += bytes([0, 0, 0, 2 if request else 6])
    (build / "script").write_bytes(script)
    limit = 1 << 28
    command = [program, str(clocks), str(round(1e12 / virtual.CLOCK_HZ)), "script", str(limit)]
    process = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
    if process.returncode:
        text = process.stderr or process.stdout
        raise ToolError(f"the counting board ended with exit code {process.returncode}; see {build}: {text[-200:]}")
    lines = process.stdout.splitlines()
    replies = [bytes.fromhex(line) for line in lines if not line.startswith("activity")]
    return replies[1:1 + len(requests)], snapshots_of(line.split() for line in lines if line.startswith("activity"))


def snapshots_of(lines):
    """Read [(phase that ends, Counts since the start)] from the lines that the simulation printed."""
    snapshots, at = [], {}
    for _, cycle, path, *values in lines:
        cycle = int(cycle)
        if cycle not in at:
            at[cycle] = [None, Counts(cycle)]
        counts = at[cycle][1]
        if path == "pins":
            at[cycle][0] = values[0]
            counts.pins.update(dict(zip(PINS, map(int, values[1:]))))
            continue
        part = part_of(path)
        for counter, value in zip((counts.toggles, counts.blocks, counts.banks, counts.multiplies), map(int, values)):
            counter[part] += value
    for cycle in sorted(at):
        if at[cycle][0] is not None:
            snapshots.append(tuple(at[cycle]))
    return snapshots


def stretches(snapshots):
    """Sum up the stretches between the snapshots -> Counts of (start, waiting, the first frame, later frames, all else).

    Frames are (line, compute); the later ones are a mean.  Phases are those of board.v: S before the board takes images, W while it
    waits, L while bytes come or go, or weights for the next frame are fetched, C while it computes.
    """
    before, groups = Counts(), [[]]
    for phase, counts in snapshots:
        groups[-1].append((phase, Counts().add(counts).add(before, -1)))
        if phase == "W":  # a request begins
            groups.append([])
        before = counts
    start, waiting, lesson, nothing = (Counts() for _ in range(4))
    frames = []  # (line, compute) of each
    for group in groups:
        phases = {phase for phase, _ in group}
        if "C" in phases:
            frames.append((Counts(), Counts()))
        other, compute = frames[-1] if "C" in phases else (start if "S" in phases else lesson, nothing)
        for phase, counts in group:
            {"W": waiting, "C": compute}.get(phase, other).add(counts)
    first, *later = frames
    line, compute = Counts(), Counts()
    for each in later:
        line.add(each[0], 1 / len(later))
        compute.add(each[1], 1 / len(later))
    return start, Counts().add(waiting, 1 / waiting.cycles), first, (line, compute), lesson


def _activity(design, images, requests, replies, snapshots, flip_flops):
    start, waiting, first, (line, compute), lesson = stretches(snapshots)
    lessons = len(requests) - images
    size = len(requests[0]) + len(replies[0])
    return Activity(
        images, start, waiting, first, line, compute,
        Counts().add(lesson, 1 / lessons) if lessons else None, size, len(requests[-1]) + len(replies[-1]) if lessons else 0,
        virtual.clocks_of(design.config), flip_flops)


def _check(design, images, replies):
    """Raise MismatchError where an answer differs from the reference."""
    expected = inference.logits(design.network, images)
    decoder = protocol.Decoder()
    for number, (reply, logits) in enumerate(zip(replies, expected)):
        messages = decoder.feed(reply)
        if len(messages) != 1:
            raise MismatchError(f"{design.folder}: image {number}: the netlist answered {len(messages)} messages, expected 1")
        payload = messages[0][2]
        answer = np.frombuffer(payload[:2 * len(logits)], "<i2")
        if not np.array_equal(answer, logits):
            raise MismatchError(f"{design.folder}: image {number}: the netlist's logits are {answer.tolist()}, expected {logits.tolist()}")
