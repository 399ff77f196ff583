"""The virtual board: a generated design with link, flash and SDRAM, compiled by Verilator, behind a pseudo-terminal.

Windows has none, and those of macOS refuse the speeds of a board; there the board is behind a TCP port of this machine, which pyserial
opens too.
"""

import queue
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

from ..base import bits, files
from ..base.errors import InputError, ToolError
from ..machine import protocol, timing
from ..machine.config import AcceleratorConfig
from ..machine.line import FEWEST_ASLEEP
from ..rtl.qspi_flash import READ_COMMANDS, FlashChip
from ..rtl.sdram import CHIPS
from ..rtl.verilog import convert
from . import simulator

BOARD = Path(__file__).parent / "board"
CLOCK_HZ = 48_000_000
CLOCKS = 4
"""Clocks of a bit on the serial line: the least that the link of an FPGA allows, which saves simulated cycles."""
IN_STEP = 1
"""Clocks of a bit on a line that is in step with the clock, which a simulated one can be: it saves more of them."""
IN_STEP_BYTES = 12
"""Clocks that a byte takes there at least.  A design that takes longer for a byte of an image gets `CLOCKS`."""
SLEEPING_CLOCKS = FEWEST_ASLEEP
"""Clocks of a bit for a design that sleeps between frames, since it wakes up during a start bit."""
OFFSET = 1 << 20
"""Address of the flash image.  Bitstreams lie below it."""
FLASH_RATIO = 1
"""Cycles of a design with an SDRAM to one of its flash; a board has more of them where its clock is faster than the flash's."""
START_SECONDS = 60
LOCK = ".virtual.lock"
"""File of a folder that its virtual board holds while it is at work."""
PORTS = ("/dev/", "socket://")
"""Beginnings of the line in which the board names its port."""


def alone(folder):
    """A context manager that holds the lock of a folder's virtual or interpreted board.  Raises InputError where another program has it."""
    return files.locked(Path(folder) / LOCK, f"{folder}: its simulated board is at work for another program; wait for that one")


def clocks_of(config):
    """Clocks of a bit on the simulated line of an `AcceleratorConfig`, where the line is one of a real board."""
    return SLEEPING_CLOCKS if config.sleeps else CLOCKS


def fewest_clocks(config):
    """Clocks of a bit on the line of the virtual board of an `AcceleratorConfig`."""
    quick = 8 * timing.encoder_cycles(len(config.pieces), config.encoder_rate) <= IN_STEP_BYTES * config.pixel_bits
    return IN_STEP if quick and not config.sleeps else clocks_of(config)


def flash_image(folder):
    """The bytes for a board's flash: configuration's mark, model mark, weights.

    folder: what `generate` wrote.  Raises InputError where a file is missing, or where the design
    has its weights in the FPGA.
    """
    folder = Path(folder)
    config = AcceleratorConfig.from_json(_read(folder / "config.json").decode())
    if config.weights != "stream":
        raise InputError(f"{folder}: has its weights in the FPGA's memory, expected a design that streams them")
    return protocol.config_mark(config.id) + protocol.model_mark(_read(folder / "network.json")) + _read(folder / "weights.bin")


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        raise InputError(f"{path}: not found, expected a folder that `fbnn-hw generate` wrote") from None


def verilate(sources, build_dir, include=(), level=None, note=None, *, options=(), module="board", driver=BOARD / "board.cpp",
             title="the virtual board", headers=()):
    """Compile a module with a program, unless an earlier build of the same is there; returns the program's Path.

    sources: Verilog files.  build_dir: the folder of the build.  include: folders of *.vh files.  level: options of the C++ compiler, by
    default `simulator.optimise`.  note: called with a line before it compiles.  options: more ones of Verilator.  driver: the program's
    source, which includes `headers`.  title: in messages.  Raises ToolError where a tool is missing or fails.
    """
    build_dir, program, sources = Path(build_dir).absolute(), simulator.executable(driver.stem), [*map(Path, sources), driver]
    build_dir.mkdir(parents=True, exist_ok=True)
    command = [*simulator.translation(module, build_dir), "--exe", "-o", program, "--timescale-override", "1ns/1ps", *options,
               *(f"-I{folder}" for folder in include), *(str(s.absolute()) for s in sources)]
    texts = [path.read_text() for path in (*sources, *headers, *(p for folder in include for p in sorted(Path(folder).glob("*.vh"))))]

    def say():
        if note:
            note(f"compiling the {driver.stem} in {build_dir.name}, once for this design; this takes a minute or two")

    simulator.compiled(command, texts, build_dir, program, title, level or simulator.optimise(), say)
    return build_dir / program


def top_verilog(config, model, **options):
    """Verilog of BoardTop as module board_top; it instantiates `accelerator`."""
    from ..rtl import duty_cycle
    from ..rtl.board_top import BoardTop

    return convert(duty_cycle.board(BoardTop(config, model=model, **options), options["clocks"]), "board_top")


def _sources():
    """Texts of the sources that BoardTop is generated by."""
    package = Path(__file__).parents[1]
    return [path.read_text() for path in (*sorted((package / "rtl").rglob("*.py")), *sorted((package / "machine").glob("*.py")))]


def accelerator_sources(folder):
    """The Verilog of a folder's accelerator, and of the cells that it instantiates."""
    models = [path for path in (folder / "SB_SPRAM256KA.v",) if path.exists()]
    return [folder / "accelerator.v", *models]


def board_sources(folder, build_dir, clocks, image=None, chip=None, timeout_bits=20, ahead=False):
    """The Verilog files of the module `board` of a generated folder, as a list of Path.

    Files that the folder lacks are written to `build_dir`.  clocks: of a bit on the line.  image: bytes in the flash instead of the
    design's own.  chip: the flash, by default a Winbond W25Q.  timeout_bits: a pause of 2^timeout_bits clocks inside a message is a
    fault.  ahead: as `HostLink` has it.  Raises InputError where a file is missing.
    """
    config = AcceleratorConfig.from_json(_read(folder / "config.json").decode())
    chip = chip or FlashChip()
    build_dir.mkdir(parents=True, exist_ok=True)
    model = protocol.model_mark(_read(folder / "network.json"))
    macros = {}
    if config.weights == "stream":
        image = flash_image(folder) if image is None else image
        macros = {"FLASH": 1, "WIDTH": chip.width, "READ": READ_COMMANDS[chip.width], "DUMMY": chip.dummy, "BASE": OFFSET,
                  "BYTES": len(flash_image(folder))}
        simulator.write(build_dir / "flash.hex", bits.bytes_hex(image))
    else:
        simulator.write(build_dir / "weights.hex", _read(folder / "weights.hex").decode())
    options = {"clock_hz": CLOCK_HZ, "clocks": clocks, "chip": chip, "offset": OFFSET, "timeout_bits": timeout_bits,
               "ahead": ahead}
    if config.sleeps:
        macros["SLEEPS"] = 1
    if config.way == "double":
        macros["DOUBLE"] = 1
    if config.sdram:
        options |= {"sdram": next(one for one in CHIPS.values() if one.lines == config.beat_bits), "flash_ratio": FLASH_RATIO}
        macros |= sdram_macros(options["sdram"], config)
    top = build_dir / "board_top.v"
    key = simulator._hash([config.to_json(), model.hex(), repr(options), version("amaranth"), *_sources()])
    stamp = files.Stamp(build_dir / "board_top.sha256", key)
    if not stamp.valid(top):
        stamp.clear()
        simulator.write(top, top_verilog(config, model, **options))
        stamp.write()
    simulator.write(build_dir / "board.vh", "".join(f"`define {name} {value}\n" for name, value in macros.items()))
    return [BOARD / "board.v", top, *accelerator_sources(folder), *([BOARD / "spi_flash.v"] if "FLASH" in macros else ()),
            *([BOARD / "sdram.v"] if "SDRAM" in macros else ())]


def sdram_parameters(chip, beats, cas, ns=1e9):
    """{parameter of sdram.v: value} for an SdramChip with an image of so many beats, whole rows.  ns: of a second of the simulation."""
    times = {"RCD": chip.rcd, "RP": chip.rp, "RAS": chip.ras, "RC": chip.rc, "RFC": chip.rfc, "WR": chip.wr, "REFRESH": chip.refresh,
             "POWER": chip.power_up}
    return {"LINES": chip.lines, "COLUMN_BITS": chip.column_bits, "ADDRESS_BITS": chip.address_bits, "BEATS": beats, "CAS": cas,
            "REFRESHES": chip.refreshes, "MODE_CLOCKS": chip.mode_clocks,
            **{name: f"{seconds * ns:.9f}" for name, seconds in times.items()}}


def sdram_macros(chip, config):
    """{macro of board.v: value} for the model of an SdramChip beside a design of an `AcceleratorConfig`."""
    from ..rtl.board_top import weight_bytes

    beats = sum(map(chip.rows_of, weight_bytes(config))) * chip.columns
    values = sdram_parameters(chip, beats, chip.cas_latency(CLOCK_HZ))
    return {"SDRAM": 1} | {f"SDRAM_{name}": value for name, value in values.items()}


class VirtualBoard:
    """The virtual board of a folder that `generate` wrote; a context manager that runs it behind a pseudo-terminal or a TCP port.

    image, chip, timeout_bits, ahead: as of `board_sources`.  build_dir: by default folder/sim_build_board.  note: called with a line
    before it compiles.  Attribute `port`: what `link.transport.Serial` opens while it runs, the path of a pseudo-terminal or
    socket://HOST:PORT, else None.

    Raises InputError where a file of the folder is missing, ToolError where a tool is missing or fails, or the board does not start.
    """

    clock_hz: float = CLOCK_HZ
    arguments: tuple = ()
    """More ones of the program, such as "+verilator+seed+1"."""

    def __init__(self, folder, image=None, chip=None, build_dir=None, timeout_bits=20, note=None, ahead=False):
        simulator.check_tools("the virtual board")
        self.folder, self.port, self._process = Path(folder), None, None
        self.build_dir = Path(build_dir or self.folder / "sim_build_board").absolute()
        self.clocks = fewest_clocks(AcceleratorConfig.from_json(_read(self.folder / "config.json").decode()))
        sources = board_sources(self.folder, self.build_dir, self.clocks, image, chip, timeout_bits, ahead)
        self.program = verilate(sources, self.build_dir, [self.build_dir], note=note)

    def __enter__(self):
        self.log = open(self.build_dir / "board.log", "w")
        arguments = [str(self.clocks), str(round(1e12 / self.clock_hz)), *([] if sys.platform == "linux" else ["socket"]), *self.arguments]
        # Ctrl-C is for the program that talks to the board, which still reads what the board has learned.
        alone = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if sys.platform == "win32" else {"start_new_session": True}
        self._process = subprocess.Popen([str(self.program), *arguments], cwd=self.build_dir, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self.log, text=True, **alone)
        lines = queue.Queue()

        def copy():
            for line in self._process.stdout:
                lines.put(line)
                if len(line) > 1 and not line.startswith(PORTS):
                    self.log.write(line)
            lines.put("")

        self._reader = threading.Thread(target=copy, daemon=True)
        self._reader.start()
        until = time.monotonic() + START_SECONDS
        while self.port is None:
            try:
                line = lines.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                line = ""
            if not line:
                self.close()
                raise ToolError(f"the virtual board did not start; see {self.build_dir / 'board.log'}")
            if line.startswith(PORTS):
                self.port = line.strip()
        return self

    def __exit__(self, kind, error, trace):
        process = self._process
        if isinstance(error, InputError) and process:  # the line broke: say so if the board has ended
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                process = None
        self.close()
        if isinstance(error, InputError) and process:
            raise self._ended(process.returncode) from error

    def _ended(self, code):
        return ToolError(f"{self.folder}: the virtual board ended with exit code {code}, see {self.build_dir / 'board.log'}; "
                         "give the command again")

    def faults(self):
        """The first complaint of the models of flash and SDRAM as one line, or ""."""
        self.log.flush()
        try:
            lines = (self.build_dir / "board.log").read_text().splitlines()
        except FileNotFoundError:  # its folder has gone
            return ""
        return next((line for line in lines if line.startswith(("flash:", "sdram:"))), "")

    def close(self):
        """End the board.  Returns its exit code: 0, 4 if flash or SDRAM were used wrongly, or None where it did not run."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(5)
        process.stdout.close()
        self.log.close()
        return process.returncode
