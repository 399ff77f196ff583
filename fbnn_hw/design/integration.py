"""Files for a design of one's own: an instantiation of the accelerator, timing constraints, a FuseSoC core file.

docs/integration.md explains the ports.
"""

import re
from functools import partial

from .. import __version__
from ..rtl.axi_stream import AxiStreamWrapper
from ..rtl.registers import AxiLiteWrapper, WishboneWrapper
from ..rtl.verilog import convert
from . import registers

AXI_STREAM, WISHBONE, AXI_LITE = "accelerator_axis", "accelerator_wb", "accelerator_axil"
"""The modules that `generate --wrapper` puts around an accelerator."""
WRAPPERS = {"axi-stream": (AXI_STREAM, AxiStreamWrapper, "aclk"), "wishbone": (WISHBONE, WishboneWrapper, "wb_clk_i"),
            "axi-lite": (AXI_LITE, AxiLiteWrapper, "aclk"),
            "wishbone-dma": (WISHBONE, partial(WishboneWrapper, streams=True), "wb_clk_i"),
            "axi-lite-dma": (AXI_LITE, partial(AxiLiteWrapper, streams=True), "aclk")}
"""{value of --wrapper: (module, component, its clock)}."""
MEANING = {
    "clk": "every register takes its rising edge", "rst": "synchronous, active high, at least one cycle",
    "pixels": "RGB bytes of an image, row by row; taken while valid and ready", "weights": "the bytes of weights.bin, see manifest.json",
    "logits": "a signed integer a class, in order; last with the final one", "result": "the class, after its logits",
    "latent": "words of the latent, before the result, where want_latent was 1", "want_latent": "sampled when the last logit leaves",
    "standby": "1: the banks rest; only while busy is 0 and no image comes",
    "pause": "1: no image is loaded, since the learner's memory is read or written word by word",
    "busy": "0 while it waits for an image or takes one", "step": "steps of the program begun, for observers",
    "loaded": "1: weights.bin is loaded", "strange": "1: it is of another configuration", "damaged": "1: its check sum is wrong",
    "checksum": "the CRC-32 of the weights that have come",
    "command": "from bit 0 on: command (3 bits), label, count (8 bits)",
    "refused": "the last command had an illegal label, or found it frozen",
    "known": "number of classes", "used": "number of exemplars", "frozen": "1 while it is frozen",
    "host": "from bit 0 on: write (1 bit), space (3 bits), address, data", "found": "the word read, valid while host__ready is 1",
    "aclk": "every register takes its rising edge", "aresetn": "synchronous, active low, at least one cycle",
    "s_axis_image": "RGB bytes of an image, row by row; tlast with the last one",
    "s_axis_weights": "the bytes of weights.bin, see manifest.json",
    "m_axis_logits": "a signed integer a class, in order; tlast with the final one",
    "m_axis_latent": "words of the latent, before the result, where want_latent was 1",
    "m_axis_result": "the class, after its logits; tuser: the image's packet had another length",
    "s_axis_command": "command in 7:0, label in 23:8, count in 31:24",
    "s_axis_host": "space in 2:0, write in 7, address in 31:8, then data",
    "m_axis_host": "a word for each access, with the data of a read",
    "wb_clk_i": "every register takes its rising edge", "wb_rst_i": "synchronous, active high, at least one cycle",
    "wb_cyc_i": "Wishbone B4, classic cycles; the registers are those of registers.md", "wb_adr_i": "counts bytes; bits 1:0 are ignored",
    "restart": "1 for a clock: the stream of weights begins again, with the boot image",
    "irq_o": "a level, see INTERRUPT in registers.md",
    "s_axi_awaddr": "AXI4-Lite; the registers are those of registers.md", "irq": "a level, see INTERRUPT in registers.md"}
"""Comments of the ports, by the part of their names before __ or _t."""
OF_LEVELS = {"pixels": "packed levels of an image, docs/link.md; taken while valid and ready",
             "s_axis_image": "packed levels of an image, docs/link.md; tlast with the last byte"}
"""Those of ports that take levels, in place of RGB bytes."""


def ports(verilog, module="accelerator"):
    """[(direction, bits, name)] of a module that `rtl.verilog` wrote, streams together, in the order of `MEANING`."""
    header = re.search(rf"^module {module}\((.*?)\);(.*?)^endmodule", verilog, re.DOTALL | re.MULTILINE)
    directions = {name: (kind, int(high) + 1 if high else 1) for kind, high, name in
                  re.findall(r"^  (input|output) (?:(?:signed )?\[(\d+):0\] )?(?:signed )?([A-Za-z_]\w*);$", header[2], re.MULTILINE)}
    order, parts = list(MEANING), ("payload", "valid", "ready", "tdata", "tvalid", "tready", "tlast", "tuser")

    def place(name):
        stream, part = _split(name)
        number = order.index(stream) if stream in order else len(order)
        return number, stream, parts.index(part) if part in parts else len(parts), name

    return [(*directions[name], name) for name in sorted(re.findall(r"[A-Za-z_]\w*", header[1]), key=place)]


def _split(name):
    """(stream, part) of a port's name: NAME__payload, or NAME_tdata of AXI4-Stream."""
    stream, _, part = name.partition("__" if "__" in name else "_t")
    return stream, part if "__" in name else f"t{part}"


def instance(signals, module="accelerator", levels=False):
    """instance.v, a template to copy: a wire and a connection for each port.  levels: images come as packed levels."""
    meaning = MEANING | (OF_LEVELS if levels else {})
    lines = [f"// Template: wires and an instance of {module}, to be copied.  The ports: docs/integration.md of fbnn-hw.",
             "// Ports that you do not use: an output stays open, ready of a stream that leaves is 1, any other input is 0.", ""]
    seen = set()
    for direction, bits, name in signals:
        stream, _ = _split(name)
        if stream not in seen and stream in meaning:
            lines.append(f"// {stream}: {meaning[stream]}")
        seen.add(stream)
        lines.append(f"wire {f'[{bits - 1}:0] ' if bits > 1 else ''}{name};  // {direction}")
    connections = [f"    .{name}({name})" for _, _, name in signals]
    return "\n".join([*lines, "", f"{module} {module}_instance (", ",\n".join(connections), ");", ""])


def constraints(clock_hz, module="accelerator", port="clk"):
    """accelerator.sdc: the clock that the target is planned for, in the syntax of most tools."""
    return (f"# The clock that this design is planned for; all paths of {module}.v are within it.\n"
            f"create_clock -name {port} -period {1e9 / clock_hz:.3f} [get_ports {port}]\n")


def files(config, clock_hz, folder, design, wrapper=None, top=None, models=()):
    """{file name: text} of what a design of one's own takes from a folder.

    folder: its name, which no other design has.  design: {file name: text} of accelerator.v and of the memory image that it reads.
    wrapper: a key of `WRAPPERS`.  top: the name of the module, with which the names of all others begin, in place of `accelerator`.
    models: names of files with Verilog of the part's own cells, which a simulator needs and a synthesis has.
    """
    module, component, clock = WRAPPERS[wrapper] if wrapper else ("accelerator", None, "clk")
    written = {"accelerator.sdc": constraints(clock_hz), "accelerator.vlt": waivers("accelerator*.v", *models),
               "instance.v": instance(ports(design["accelerator.v"]), levels=config.takes_levels)}
    sources = dict(design)
    if wrapper:
        sources[f"{module}.v"] = convert(component(config), module)
        written |= {f"{module}.v": sources[f"{module}.v"], f"{module}.sdc": constraints(clock_hz, module, clock),
                    module.replace("accelerator", "instance") + ".v": instance(
                        ports(sources[f"{module}.v"], module), module, config.takes_levels)}
        if wrapper != "axi-stream":
            written |= registers.files(config, wrapper.endswith("-dma"))
    waiver = "accelerator.vlt"
    if top:
        sources, waiver = _renamed(sources, module, top), f"{top}.vlt"
        module = top
        written |= sources | {f"{top}.sdc": constraints(clock_hz, top, clock), waiver: waivers(f"{top}.v", *models),
                              f"instance_{top}.v": instance(ports(sources[f"{top}.v"], top), top, config.takes_levels)}
    return written | {"accelerator.core": core(folder, sources, module, waiver, models)}


def _renamed(sources, module, top):
    """{file name: text} of the sources of a design as one file of Verilog, whose top `module` has the name `top`, and of its image."""
    names = {module: top} | ({"accelerator": f"{top}_core"} if module != "accelerator" else {})
    text = "\n".join(text for name, text in sources.items() if name.endswith(".v"))
    text = re.sub(r"\baccelerator(_[a-z]+)?\b", lambda found: names.get(found[0], found[0]), text)
    text = re.sub(r"\bfbnn_(?=(weight_memory|ring|bank|two_port_bank)\b)", f"{top}_", text)
    images = {f"{top}_{name}": text for name, text in sources.items() if name.endswith(".hex")}
    return {f"{top}.v": re.sub(r'"(\w+\.hex)"', rf'"{top}_\1"', text)} | images


WAIVED = {
    "ASCRANGE": "a memory of one word", "CASEINCOMPLETE": "yosys gives the other cases before", "CMPCONST": "a counter of one step",
    "DECLFILENAME": "all modules are in one file", "GENUNNAMED": "blocks of memories", "INITIALDLY": "yosys starts `always @*` by it",
    "PINMISSING": "outputs that a wrapper does not use", "PROCASSINIT": "registers have initial values", "UNSIGNED": "a comparison with 0",
    "UNUSEDPARAM": "of models of memories", "UNUSEDSIGNAL": "bits that a module does not need", "VARHIDDEN": "names of memories",
    "WIDTHEXPAND": "Verilog's own rules for widths, by which yosys writes", "WIDTHTRUNC": "the same"}
"""{rule of Verilator: why what yosys writes does not keep it}; all other rules hold."""


def waivers(*patterns):
    """accelerator.vlt: the rules that are off for files whose paths end so."""
    lines = [f'lint_off -rule {rule} -file "*{pattern}"' for pattern in patterns for rule in WAIVED]
    reasons = [f"// {rule}: {reason}" for rule, reason in WAIVED.items()]
    return "\n".join(["// Rules of `verilator --lint-only -Wall` that are off for this design, and why; all others hold.", *reasons,
                      "`verilator_config", *lines, ""])


def core(folder, sources, top, waiver, models=()):
    """accelerator.core, CAPI2 of FuseSoC.

    folder: name of the design's folder, which no other design has; so the core's name is its own too.  sources: names of the files of
    a design, Verilog and memory images.  top: the top module.  waiver, models: names of files, as `files` has them.
    """
    verilog = [f"      - {source}" for source in sources if source.endswith(".v")]
    images = [_copied(source) for source in sources if source.endswith(".hex")]
    version = re.match(r"\d+(\.\d+)*", __version__)
    return "\n".join([
        "CAPI=2:", f"name: fbnn-hw:designs:{re.sub('[^A-Za-z0-9_]', '_', folder)}:{version[0] if version else 0}",
        "description: An accelerator for a fully-binary neural network, generated by fbnn-hw.", "filesets:", "  rtl:",
        "    file_type: verilogSource", "    files:", *verilog, *images,
        *(["  models:", "    file_type: verilogSource", "    files:", *(f"      - {model}" for model in models)] if models else []),
        "  constraints:", "    file_type: SDC", "    files:", f"      - {top}.sdc",
        "  waivers:", "    file_type: vlt", "    files:", f"      - {waiver}",
        "  bench:", "    file_type: systemVerilogSource", "    files:",
        *(f"      - {name}" for name in ("accelerator.v", *models, "testbench.v", "sim.v")),
        "      - parameters.vh: {is_include_file: true}",
        _copied("weights.hex"), _copied("golden.hex", "images.hex"), _copied("expected.hex"),
        "targets:", "  default:", "    filesets: [rtl, constraints]", f"    toplevel: {top}",
        "  lint:", f"    filesets: [waivers, {', '.join(['rtl'] + ['models'] * bool(models))}]", f"    toplevel: {top}",
        "    default_tool: verilator",
        "    tools:", "      verilator:", "        mode: lint-only", "        verilator_options: [-Wall]",
        "  sim:", "    filesets: [bench]", "    toplevel: sim", "    default_tool: icarus",
        "    tools:", "      icarus:", "        iverilog_options: [-g2012]", ""])


def _copied(name, to=None):
    """A line of a core for a file that a simulation reads from where it runs, there with the name `to`."""
    return f"      - {name}: {{file_type: user, copyto: {to or name}}}"
