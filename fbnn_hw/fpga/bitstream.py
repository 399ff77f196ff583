"""From a design and a board to a bitstream: the inputs of a build, the run of its tools, and its record."""

import shutil
import time
from dataclasses import dataclass

from ..base.files import Stamp, json_object
from ..targets import blocks, synthesis
from . import compared, drag, pads, programmer, seeds, toolchain, xilinx
from .progress import SynthesisProgress

RECORD = "build.json"
KINDS = {True: "placed and routed", False: "synthesised"}
"""The kind of a record, by whether nextpnr knows the part."""
SYNTHESIS = 0.25
"""Share of a build's time before place and route from one seed.  Measured: 0.5mb that learns on the UP5K, 36 of 141 s."""


@dataclass(frozen=True)
class Recipe:
    """All inputs of a build except the seeds.

    flow, tools: as in fpga.toolchain.
    """

    board: object  # targets.boards.Board
    flow: object
    tools: object
    settings: dict  # which a record repeats
    files: dict  # {name: text} that the tools read

    @property
    def key(self):
        """Key of the inputs and of the options of nextpnr, a hash."""
        return synthesis.key(self.settings | {"place": self.commands(0)[0]}, self.files)

    def key_of(self, numbers):
        """Key of the inputs and the seeds `numbers`, a hash."""
        return synthesis.key({"recipe": self.key, "seeds": list(numbers)}, {})

    def commands(self, seed):
        """(options of nextpnr, options of the packer) for a seed."""
        return toolchain.commands(self.board.target, self.board.package, self.settings["clock_hz"] / 1e6, seed,
                                  flash="flash_select" in self.settings["pins"], own=self.own)[1:]

    @property
    def own(self):
        """The user's options for nextpnr."""
        return self.settings.get("nextpnr_options", ())


def recipe(config, board, tools, clock, baud, model, verilog, weights, ahead=False, options=(), link=False):
    """The `Recipe` of a design.

    clock: plls.Pll.  baud: of the link.  model: the network's mark, bytes.  verilog: text of accelerator.v; weights: of weights.hex,
    None where the weights come from a flash and are no part of the bitstream.  ahead: as `HostLink` has it.  options: of nextpnr, beside
    those of the flow.  link: as `Pads` has it.  Raises UsageError where they do not go together.
    """
    top = pads.Pads(config, board, clock, baud, model, ahead, link)
    files = {"top.v": pads.to_verilog(top), "pins.txt": pads.constraints(top), "accelerator.v": verilog}
    if weights is not None:
        files["weights.hex"] = weights
    files |= blocks.of_design(config, board.target, verilog, weights)
    script = toolchain.commands(board.target, board.package, clock.hz / 1e6, 0, files)[0]
    settings = {"board": board.name, "clock_hz": clock.hz, "baud": baud, "tools": tools.versions, "pins": top.pins(), "script": script}
    settings |= {name: True for name, given in (("link", link), ("ahead", ahead)) if given}
    settings |= {"nextpnr_options": list(options)} if options else {}
    settings |= {"flash_clock": top.flash_clock.record} if top.flash_clock else {}
    if board.target.startswith("xilinx7"):
        files |= {"pins.xdc": files.pop("pins.txt"), "build.tcl": xilinx.script(board.package)}
    return Recipe(board, toolchain.FLOWS[board.target], tools, settings, files)


def stored(where, key=None):
    """Return the record of an earlier build with that key (`Recipe.key_of`), or with any, in the folder `where`, or None."""
    record = json_object(where / RECORD)
    if record is None or key and record.get("key") != key:
        return None
    product = record.get("bitstream") if record.get("kind") == KINDS[True] else None
    return record if product is None or (where / product).exists() else None


def beside(where, key):
    """Find the build of a neighbouring design that differs in its weights alone, and copy it to `where`."""
    for other in sorted(where.absolute().parents[1].glob(f"*/{where.name}")):
        if record := stored(other, key):
            where.mkdir(exist_ok=True)
            for path in other.iterdir():
                if path.is_file() and path.name not in (RECORD, "flash.bin", programmer.BOTH, drag.UF2):
                    shutil.copyfile(path, where / path.name)
            return record
    return None


def finished(inputs, where, numbers):
    """Return {seed: result} of those seeds `numbers` that an earlier build of the same inputs has placed and routed.

    That build may have been interrupted.
    """
    target = inputs.board.target
    results = {seed: seeds.finished(where, seed, inputs.key, target) for seed in numbers} if inputs.flow.nextpnr else {}
    return {seed: result for seed, result in results.items() if result}


def build(inputs, where, numbers, again=False, tell=lambda share, phase: None):
    """Run the tools in the folder `where` from the seeds `numbers`; return the record.

    The caller completes the record and writes it.  It has the `settings`, "cells" of the netlist,
    "seeds", and the result of the best of them; "bitstream" is None where that misses its timing.
    Seeds that are `finished` are not run again, unless `again`.  tell(share, phase) is called with the
    share that is done, 0 to 1, and the phase that comes.  Raises ToolError.
    """
    _prepare(inputs, where, again)
    start = time.monotonic()
    results = finished(inputs, where, numbers)
    missing = [seed for seed in numbers if seed not in results]
    most = seeds.at_once(inputs.flow, len(missing))
    rounds = -(-len(missing) // most)
    share = SYNTHESIS / (SYNTHESIS + (1 - SYNTHESIS) * rounds) if inputs.flow.nextpnr else 1
    if missing and inputs.flow.nextpnr:
        toolchain.verify_pins(inputs.flow, inputs.board.package, inputs.settings["pins"], inputs.own, where, inputs.tools)
    cells = _synthesise(inputs, where, lambda part, phase: tell(share * part, phase))
    record = {**inputs.settings, "kind": KINDS[inputs.flow.nextpnr is not None], "cells": cells, "bitstream": inputs.flow.bitstream}
    if inputs.flow.nextpnr:
        if missing:
            program = inputs.tools.nextpnr(inputs.flow)
            results |= seeds.place(
                {seed: [program, *inputs.commands(seed)[0]] for seed in missing}, where, record["clock_hz"] / 1e6,
                inputs.board.target, inputs.key, most,
                lambda part, phase: tell(share + (0.95 - share) * part, phase))
        tell(0.95, "bitstream")
        record |= _best(inputs, where, results)
        tell(0.97, "bitstream against netlist")
        record["compared"] = compared.compare(inputs, where, record)
    for name in ("netlist.json", "netlist.key"):  # large, and told by the others
        (where / name).unlink(missing_ok=True)
    return record | {"key": inputs.key_of(numbers), "minutes": round((time.monotonic() - start) / 60, 2)}


def _prepare(inputs, where, again):
    """Write the files that the tools read.

    The record is removed first and written last, so what an interrupt leaves is no build.
    """
    where.mkdir(exist_ok=True)
    for name in (RECORD, inputs.flow.bitstream, "flash.bin", programmer.BOTH, drag.UF2, seeds.PLACEMENT):
        (where / name).unlink(missing_ok=True)
    for folder in where.glob(toolchain.seed_folder("*")):
        key = (json_object(folder / seeds.RESULT) or {}).get("key")
        if again or key != inputs.key:
            shutil.rmtree(folder)
    for name, text in inputs.files.items():
        (where / name).write_text(text)


def _synthesise(inputs, where, tell):
    """Return {cell: count} of the netlist in `where`; a whole netlist of an interrupted build is used."""
    stamp = Stamp(where / "netlist.key", inputs.key)
    if stamp.valid(where / "netlist.json"):
        return synthesis.cells(where)
    stamp.clear(where / "netlist.json", where / "cells.json")
    progress = SynthesisProgress()

    def hear(line):
        progress.hear(line)
        tell(progress.share, progress.phase)

    cells = synthesis.synthesise(inputs.settings["script"], where, hear, inputs.tools.native)
    stamp.write()
    return cells


def _best(inputs, where, results):
    """Pack the best seed, if it meets its timing; returns what the record has of place and route."""
    seed = seeds.best(results)
    place, pack = inputs.commands(seed)
    result = {name: value for name, value in results[seed].items() if name not in ("key", "minutes")}
    shutil.copyfile(where / toolchain.seed_folder(seed) / seeds.PLACEMENT, where / seeds.PLACEMENT)
    if result["met"]:
        toolchain.pack(inputs.flow, pack, where, inputs.tools)
    asc = where / toolchain.seed_folder(seed) / toolchain.placed_file(inputs.board.target)
    # It relates no clocks, so its figure means nothing where there are two.
    beside = None if "flash_clock" in inputs.settings else toolchain.icetime(inputs.board.target, inputs.board.package, asc)
    return {"seed": seed, "seeds": seeds.summary(results), "place": place, "pack": pack, **result,
            "icetime_mhz": beside, "bitstream": inputs.flow.bitstream if result["met"] else None}
