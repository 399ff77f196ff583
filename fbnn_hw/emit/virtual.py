"""The virtual board: a generated design with link and flash, compiled by Verilator, behind a pseudo-terminal."""

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from importlib.metadata import version
from pathlib import Path

from .. import protocol
from ..compile.config import AcceleratorConfig
from ..errors import InputError, ToolError
from ..rtl.qspi_flash import READ_COMMANDS, FlashChip
from ..rtl.verilog import convert
from . import simulator, weights

BOARD = Path(__file__).parent / "board"
CLOCK_HZ = 48_000_000
CLOCKS = 4
"""Of a bit on the line: as fast as the link goes, to save simulated cycles."""
OFFSET = 1 << 20
"""Of the flash image; bitstreams lie before it."""
START_SECONDS = 60


def flash_image(folder):
    """The bytes for the board's flash, from a generated folder: configuration's mark, model's mark, weights."""
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


def verilate(sources, build_dir, include=(), optimise="-O1", shared=None, note=None):
    """Compile the module `board` of Verilog sources with board.cpp -> the program; an earlier build is kept while nothing changes.

    optimise: the C++ compiler's level; what runs for seconds is built faster with -O0.  shared: folder where several builds
    keep the object files of Verilator's own runtime, half the time of a small build.  note: called with a line before it compiles.
    Raises ToolError if a tool is missing or fails.
    """
    build_dir = Path(build_dir).resolve()
    build_dir.mkdir(parents=True, exist_ok=True)
    executable, root = simulator._verilator()
    sources = [*map(Path, sources), BOARD / "board.cpp"]
    command = [str(executable), "-cc", "--exe", "-Mdir", str(build_dir), "--top-module", "board", "--prefix", "Vtop", "-o",
               "board", "-Wno-fatal", "--timescale-override", "1ns/1ps", *(f"-I{folder}" for folder in include),
               *(str(s.resolve()) for s in sources)]
    texts = [path.read_text() for path in sources] + [p.read_text() for folder in include for p in sorted(Path(folder).glob("*.vh"))]
    stamp = simulator._hash([*command, *texts, version("verilator"), json.dumps(simulator.MAKE_VARIABLES), optimise])
    kept, program = build_dir / "build.sha256", build_dir / "board"
    if kept.is_file() and kept.read_text() == stamp and program.is_file():
        return program
    if note:
        note(f"compiling the board in {build_dir.name}, once for this design; this takes a minute or two")
    for name in (*build_dir.glob("Vtop*"), *build_dir.glob("verilat*.[od]"), *build_dir.glob("board.[od]"), program, kept):
        name.unlink(missing_ok=True)
    flags = "-- " + " ".join(f"{name}={value}" for name, value in {**simulator.MAKE_VARIABLES, "OPT_FAST": optimise}.items())
    settings = {**os.environ, "VERILATOR_ROOT": str(root), "MAKEFLAGS": flags}
    make = ["make", "-j", str(min(os.cpu_count() or 1, 8)), "-C", str(build_dir), "-f", "Vtop.mk",
            *(["VM_PARALLEL_BUILDS=0"] if optimise == "-O0" else ())]  # in one piece: two thirds of the time, most of which goes to headers
    shared = Path(shared) / simulator._hash([flags, version("verilator")])[:16] if shared else None
    for path in shared.glob("verilated*.o") if shared else ():
        shutil.copy(path, build_dir)  # newer than its source, so make keeps it
    log = build_dir / "build.log"
    with open(log, "w") as output:
        for step in (command, make):
            code = simulator.call(step, build_dir, settings, output)
            if code:
                found = simulator._first_error(log)
                raise ToolError(f"{Path(step[0]).name} failed on the virtual board with code {code}: {found}; see {log}")
    if shared and not shared.exists():
        shared.mkdir(parents=True)
        for path in build_dir.glob("verilated*.o"):
            shutil.copy(path, shared)
    kept.write_text(stamp)
    return program


def top_verilog(config, model, **options):
    """Verilog of BoardTop as module board_top; it instantiates `accelerator`."""
    from ..rtl.board_top import BoardTop

    return convert(BoardTop(config, model=model, **options), "board_top")


def _sources():
    """Texts of what BoardTop is made from."""
    package = Path(__file__).parents[1]
    return [path.read_text() for path in (package / "protocol.py", *sorted((package / "rtl").rglob("*.py")),
                                          *sorted((package / "compile").glob("*.py")))]


class VirtualBoard:
    """A running virtual board; a context manager.

    folder: what `generate` wrote.  port: path of its serial port, once it runs.  Builds in folder/sim_build_board.
    image: bytes in the flash instead of the design's own.  shared, note: as `verilate` has them.
    Raises InputError or ToolError.
    """

    def __init__(self, folder, image=None, chip=None, build_dir=None, timeout_bits=20, shared=None, note=None):
        simulator.check_tools("the virtual board")
        self.folder, self.port, self._process = Path(folder), None, None
        self.build_dir = Path(build_dir or self.folder / "sim_build_board").resolve()
        config = AcceleratorConfig.from_json(_read(self.folder / "config.json").decode())
        chip = chip or FlashChip()
        self.build_dir.mkdir(parents=True, exist_ok=True)
        model = protocol.model_mark(_read(self.folder / "network.json"))
        macros = {}
        if config.weights == "stream":
            image = flash_image(self.folder) if image is None else image
            macros = {"FLASH": 1, "WIDTH": chip.width, "READ": READ_COMMANDS[chip.width], "DUMMY": chip.dummy, "BASE": OFFSET,
                      "BYTES": len(flash_image(self.folder))}
            _write(self.build_dir / "flash.hex", weights.bytes_hex(image))
        else:
            _write(self.build_dir / "weights.hex", _read(self.folder / "weights.hex").decode())
        options = {"clock_hz": CLOCK_HZ, "clocks": CLOCKS, "chip": chip, "offset": OFFSET, "timeout_bits": timeout_bits}
        kept, top = self.build_dir / "board_top.sha256", self.build_dir / "board_top.v"
        stamp = simulator._hash([config.to_json(), model.hex(), repr(options), version("amaranth"), *_sources()])
        if not (kept.is_file() and kept.read_text() == stamp and top.is_file()):
            kept.unlink(missing_ok=True)
            _write(top, top_verilog(config, model, **options))
            kept.write_text(stamp)
        _write(self.build_dir / "board.vh", "".join(f"`define {name} {value}\n" for name, value in macros.items()))
        models = [path for path in (self.folder / "SB_SPRAM256KA.v",) if path.exists()]
        sources = [BOARD / "board.v", self.build_dir / "board_top.v", self.folder / "accelerator.v", *models]
        if macros:
            sources.append(BOARD / "spi_flash.v")
        self.program = verilate(sources, self.build_dir, [self.build_dir], shared=shared, note=note)

    def __enter__(self):
        self.log = open(self.build_dir / "board.log", "w")
        self._process = subprocess.Popen(
            [str(self.program), str(CLOCKS), str(round(1e12 / CLOCK_HZ))], cwd=self.build_dir, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            start_new_session=True)  # Ctrl-C is for who talks to it: what it learned until then is still to be read
        lines = queue.Queue()

        def copy():
            for line in self._process.stdout:
                lines.put(line)
                if len(line) > 1 and not line.startswith("/dev/"):
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
            if line.startswith("/dev/"):
                self.port = line.strip()
        return self

    def __exit__(self, kind, error, trace):
        process = self._process
        if isinstance(error, InputError) and process:  # a line that broke: because its other end is no more?
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                process = None
        self.close()
        if isinstance(error, InputError) and process:
            raise ToolError(f"{self.folder}: the virtual board ended with exit code {process.returncode}, see "
                            f"{self.build_dir / 'board.log'}; give the command again") from error

    def faults(self):
        """What the flash complained about so far: the first line, or ""."""
        self.log.flush()
        return next((line for line in (self.build_dir / "board.log").read_text().splitlines() if line.startswith("flash:")), "")

    def close(self):
        """End it; returns its exit code: 0, or 4 if the flash was used wrongly."""
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


def _write(path, text):
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
