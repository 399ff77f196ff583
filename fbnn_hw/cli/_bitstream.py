"""`fbnn-hw simulate --bitstream`: the file that `fbnn-hw flash` writes, run as Verilog against the reference."""

import time

from ..base.errors import InputError, MismatchError, ToolError, UsageError, plural


def run(args, out, design, images):
    """Disassemble the bitstream of a design, run it behind the virtual board or among the parts of a device, and compare pictures and a
    lesson."""
    from ..fpga import bitstream, disassembled, unpacked
    from ..simulate import virtual

    for name in ("stall", "latent", "netlist", "waves"):
        if getattr(args, name):
            raise UsageError(f"--{name}: expected without --bitstream, which shows a chip by its pins alone")
    board, where = _build(args.bitstream, design)
    record = bitstream.stored(where)
    if not record or not record.get("bitstream"):
        raise InputError(f"{where}: has no bitstream that meets its timing; run fbnn-hw build {design.folder} --board {board.name}")
    if unpacked.icebox() is None:
        raise ToolError(unpacked.MISSING)
    start = time.monotonic()
    chip = unpacked.unpack(where / record["bitstream"])
    hz = disassembled.frequency(chip, board.clock_hz)
    text = disassembled.Disassembly(chip, board.package, record["pins"], tuple(board.low)).verilog()
    with virtual.alone(design.folder):
        prove = _device if design.config.camera else _link
        found, lines, built = prove(out, design, images, text, hz, board, record)
    if abs(hz - record["clock_hz"]) > 1:
        found["differences"].append(f"its PLL makes {hz / 1e6:g} MHz, the record says {record['clock_hz'] / 1e6:g}")
    seconds = time.monotonic() - built
    values = {"folder": design.folder, "bitstream": where / record["bitstream"], "board": board.name, "images": len(images),
              "clock_hz": hz, **found, "build_seconds": built - start, "simulation_seconds": seconds}
    if differences := found["differences"]:
        raise MismatchError(f"{where / record['bitstream']}: {len(differences)} {plural(len(differences), 'difference')} from the "
                            f"reference; the first: {differences[0]}", values)
    *lines, compared = lines
    out.text(f"bitstream {where / record['bitstream']}, {hz / 1e6:g} MHz by its PLL", *lines,
             f"time     {built - start:.1f} s to build, {seconds:.1f} s to simulate",
             f"compared {compared} of the bitstream with the reference, bit for bit: equal")
    out.result(values)


def _link(out, design, images, text, hz, board, record):
    """(what was found, lines that say it, when the simulation began) of a chip behind a line."""
    from ..board.proved import prove
    from ..fpga.pads import SETTLES
    from ..link.transport import Serial
    from ..machine.line import bit_clocks
    from ..rtl.qspi_flash import FlashChip
    from ..simulate.chip import ChipBoard

    clocks = bit_clocks(record["clock_hz"], record["baud"])
    flash = FlashChip(width=board.flash["lines"]) if board.flash else FlashChip()
    with ChipBoard(design.folder, text, hz, clocks, SETTLES, flash, board.flash.get("offset", 0), out.note) as running:
        built = time.monotonic()
        with Serial(running.port) as line:
            proof = prove(line, design, images, out.progress)
        if faults := running.faults():
            proof.differences.append(faults)
    lines = [f"images   {len(images)}, in {', '.join(f'{cycles:,}' for cycles in sorted(set(proof.cycles)))} cycles (simulated)",
             *([f"lesson   {proof.lesson} pictures as a new class, {proof.snapshot:,} bytes of state read back"] if proof.lesson else ()),
             f"logits{', snapshot' * bool(proof.lesson)} and weights"]
    found = {"logits": proof.logits, "cycles": proof.cycles, "lesson": proof.lesson, "snapshot_bytes": proof.snapshot,
             "differences": proof.differences}
    return found, lines, built


def _device(out, design, images, text, hz, board, record):
    """The same of a chip among the parts of a device, which has LEDs and a flash, and no line."""
    from ..board.proved_device import prove_device
    from ..simulate.device.chip import ChipDevice
    from ..simulate.device.device import PS

    with ChipDevice(design, text, hz, board.flash.get("offset", 0), note=out.note) as device:
        built = time.monotonic()
        proof = prove_device(device, design, images, out.progress)
        seconds = device.now / PS
    answers = ", ".join("unknown" if answer is None else str(answer) for answer in proof.answers)
    kept = f", {proof.snapshot:,} bytes of state in the flash after {proof.learned} images" if proof.snapshot else ""
    lines = [f"answers  {answers} (LEDs, in {seconds:.2f} s of the device, simulated)",
             *([f"lesson   {proof.lesson} pictures as a class each{kept}"] if proof.lesson else ()),
             f"answers{', snapshot' * bool(kept)}"]
    found = {"logits": None, "answers": proof.answers, "cycles": [], "lesson": proof.lesson, "snapshot_bytes": proof.snapshot,
             "differences": proof.differences}
    return found, lines, built


def _build(wanted, design):
    """(Board, folder of its build) that --bitstream names, or the only one."""
    from ..targets.boards import board as find_board

    if wanted is not True:
        board = find_board(wanted)
    else:
        built = sorted(path.name.removeprefix("build-") for path in design.folder.glob("build-*") if path.is_dir())
        if len(built) != 1:
            found, way = ((f"builds for {', '.join(built)}", "give the board, --bitstream NAME") if built else
                          ("no build", f"run fbnn-hw build {design.folder} --board NAME"))
            raise UsageError(f"--bitstream: {design.folder} has {found}; {way}")
        board = find_board(built[0])
    if board.part.family != "ice40":
        raise UsageError(f"--bitstream {board.name}: only the bitstream of an iCE40 can be read back, expected a board with one")
    return board, design.folder / f"build-{board.name}"
