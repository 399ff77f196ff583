"""`fbnn-hw simulate --bitstream`: the file that `fbnn-hw flash` writes, run as Verilog against the reference."""

import time

from ..base.errors import InputError, MismatchError, ToolError, UsageError


def run(args, out, design, images):
    """Disassemble the bitstream of a design, run it behind the virtual board, and compare pictures and a lesson."""
    from ..board.proved import prove
    from ..fpga import bitstream, disassembled, pads, unpacked
    from ..link.transport import Serial
    from ..machine.line import bit_clocks
    from ..rtl.qspi_flash import FlashChip
    from ..simulate import virtual
    from ..simulate.chip import ChipBoard

    for name in ("stall", "latent", "netlist", "waves"):
        if getattr(args, name):
            raise UsageError(f"--{name}: expected without --bitstream, which shows a chip by its pins alone")
    if design.config.camera:
        raise UsageError(f"--bitstream: {design.folder} has a camera in place of the link, expected a design without; `fbnn-hw build` "
                         "compares its bitstream with the netlist")
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
    clocks = bit_clocks(record["clock_hz"], record["baud"])
    flash = FlashChip(width=board.flash["lines"]) if board.flash else FlashChip()
    settings = hz, clocks, pads.SETTLES, flash, board.flash.get("offset", 0)
    with virtual.alone(design.folder), ChipBoard(design.folder, text, *settings, out.note) as running:
        built = time.monotonic() - start
        with Serial(running.port) as line:
            proof = prove(line, design, images, out.progress)
        if faults := running.faults():
            proof.differences.append(faults)
    if abs(hz - record["clock_hz"]) > 1:
        proof.differences.append(f"its PLL makes {hz / 1e6:g} MHz, the record says {record['clock_hz'] / 1e6:g}")
    seconds = time.monotonic() - start - built
    values = {"folder": design.folder, "bitstream": where / record["bitstream"], "board": board.name, "images": len(images),
              "clock_hz": hz, "logits": proof.logits, "cycles": proof.cycles, "lesson": proof.lesson, "snapshot_bytes": proof.snapshot,
              "differences": proof.differences, "build_seconds": built, "simulation_seconds": seconds}
    if proof.differences:
        raise MismatchError(f"{where / record['bitstream']}: {len(proof.differences)} differences from the reference; the first: "
                            f"{proof.differences[0]}", values)
    out.text(f"bitstream {where / record['bitstream']}, {hz / 1e6:g} MHz by its PLL",
             f"images   {len(images)}, in {', '.join(f'{cycles:,}' for cycles in sorted(set(proof.cycles)))} cycles (simulated)",
             *([f"lesson   {proof.lesson} pictures as a new class, {proof.snapshot:,} bytes of state read back"] if proof.lesson else ()),
             f"time     {built:.1f} s to build, {seconds:.1f} s to simulate",
             f"compared logits{', snapshot' * bool(proof.lesson)} and weights of the bitstream with the reference, bit for bit: equal")
    out.result(values)


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
