"""Files for a design of one's own: an instantiation of the accelerator, timing constraints, a FuseSoC core file.

docs/integration.md explains the ports.
"""

import re

from .. import __version__
from ..rtl.axi_stream import AxiStreamWrapper
from ..rtl.verilog import convert

AXI_STREAM = "accelerator_axis"
"""The module that `generate --wrapper axi-stream` puts around an accelerator."""
MEANING = {
    "clk": "every register takes its rising edge", "rst": "synchronous, active high, at least one cycle",
    "pixels": "RGB bytes of an image, row by row; taken while valid and ready", "weights": "the bytes of weights.bin, see manifest.json",
    "logits": "a signed integer a class, in order; last with the final one", "result": "the class, after its logits",
    "latent": "words of the latent, before the result, where want_latent was 1", "want_latent": "sampled when the last logit leaves",
    "standby": "1: the banks rest; only while busy is 0 and no image comes",
    "pause": "1: no image is loaded, since the learner's memory is read or written word by word",
    "busy": "0 while it waits for an image or takes one", "step": "steps of the program begun, for observers",
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
    "m_axis_host": "a word for each access, with the data of a read"}
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
    lines = [f"// Template: wires and an instance of {module}.v, to be copied.  The ports: docs/integration.md of fbnn-hw.", ""]
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


def wrapper(config, clock_hz):
    """{file name: text} of the module `AXI_STREAM`: its Verilog, its constraints and a template to copy."""
    verilog = convert(AxiStreamWrapper(config), AXI_STREAM)
    return {f"{AXI_STREAM}.v": verilog, f"{AXI_STREAM}.sdc": constraints(clock_hz, AXI_STREAM, "aclk"),
            "instance_axis.v": instance(ports(verilog, AXI_STREAM), AXI_STREAM, config.takes_levels)}


def core(folder, sources, models=()):
    """accelerator.core, CAPI2 of FuseSoC.

    folder: name of the design's folder, which no other design has; so the core's name is its own too.  sources: names of the files of
    a design, Verilog and memory images; a wrapper is the top.  models: Verilog of the part's own cells, which a simulator needs and a
    synthesis has.
    """
    verilog = [f"      - {source}" for source in sources if source.endswith(".v")]
    images = [f"      - {source}: {{file_type: user, copyto: {source}}}" for source in sources if source.endswith(".hex")]
    version = re.match(r"\d+(\.\d+)*", __version__)
    top = AXI_STREAM if f"{AXI_STREAM}.v" in sources else "accelerator"
    return "\n".join([
        "CAPI=2:", f"name: fbnn-hw:designs:{re.sub('[^A-Za-z0-9_]', '_', folder)}:{version[0] if version else 0}",
        "description: An accelerator for a fully-binary neural network, generated by fbnn-hw.", "filesets:", "  rtl:",
        "    file_type: verilogSource", "    files:", *verilog, *images,
        *(["  models:", "    file_type: verilogSource", "    files:", *(f"      - {model}" for model in models)] if models else []),
        "  constraints:", "    file_type: SDC", "    files:", f"      - {top}.sdc",
        "targets:", "  default:", "    filesets: [rtl, constraints]", f"    toplevel: {top}",
        "  lint:", f"    filesets: [{', '.join(['rtl'] + ['models'] * bool(models))}]", f"    toplevel: {top}",
        "    default_tool: verilator",
        "    tools:", "      verilator:", "        mode: lint-only", "        verilator_options: [-Wno-fatal]", ""])
