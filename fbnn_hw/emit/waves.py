"""Waveforms of a generated design: the steps of one layer, and what viewers need to show signals by name."""

import re
from pathlib import Path

from ..base.errors import InputError, UsageError

STREAMS = ("pixels", "weights", "logits", "result", "latent")
FIRST = "+waves-first="
"""Argument that testbench.v reads where it can record a window; folders of version 0.1.0 cannot."""

# Flags of a line in GTKWave's save files.
BIT, HEXADECIMAL, DECIMAL, SIGNED, TRANSLATED, OPEN, CLOSE = 0x28, 0x22, 0x24, 0x420, 0x2024, 0x800200, 0x1000200


def windows(config):
    """{name of a layer or of an operation in it: (first, last)}: the steps that work on it for the first image of a pass.

    Steps count from one, as the port `step` of the accelerator does; while the first image is loaded it is 0.
    """
    layers = {}
    for number, step in enumerate(config.program, 1):
        first, last = layers.setdefault(step.layer, (number, number - 1))
        if last == number - 1:  # a later frame of the pass comes back to the layer
            layers[step.layer] = first, number
    operations = {name: span for layer, span in layers.items() for name in layer.split("+")}
    return {"input": (0, 0)} | operations | layers


def window(design, layer):
    """(first, last) of `windows`; UsageError where the design has no such layer, InputError where its bench records no window."""
    spans = windows(design.config)
    if layer not in spans:
        names = ", ".join(dict.fromkeys(["input", *(step.layer for step in design.config.program)]))
        raise UsageError(f"--waves {layer[:60]}: not a layer of this design, expected one of {names}; the folder stands before --waves")
    if FIRST[1:] not in design.read("testbench.v").decode():
        raise InputError(f"{design.folder / 'testbench.v'}: of {design.manifest['generator']}, records no single layer; "
                         "generate the folder again, or give --waves alone")
    return spans[layer]


def arguments(span, waveform):
    """Arguments of a simulation that records the steps of `span` into the file `waveform` and then ends."""
    return f"{FIRST}{span[0]}", f"+waves-last={span[1]}", f"+waves-file={waveform}"


def write_views(design, waveform):
    """Write beside a design's waveform what shows its streams in groups; returns the path of GTKWave's save file.

    NAME.steps and NAME.classes turn numbers into names in GTKWave.
    """
    waveform = Path(waveform).absolute()
    steps, classes = waveform.with_suffix(".steps"), waveform.with_suffix(".classes")
    layers = {0: "input"} | {number: step.layer for number, step in enumerate(design.config.program, 1)}
    for path, names in ((steps, layers), (classes, dict(enumerate(design.manifest["classes"])))):
        path.write_text("".join(f"{number} {number}: {name}\n" for number, name in names.items()))
    return save(waveform, _groups(design.read("accelerator.v").decode(), steps, classes))


def save(waveform, groups):
    """Write NAME.gtkw for GTKWave and NAME.sucl, commands for Surfer, beside the waveform NAME.fst or NAME.vcd; returns the first's path.

    groups: {group: [(signal with its scopes, bits, flags of GTKWave, file with names of its values or None)]}.
    """
    waveform = Path(waveform).absolute()
    commands, lines = [], [
        f'[dumpfile] "{waveform}"', f'[savefile] "{waveform.with_suffix(".gtkw")}"',
        f"[treeopen] {next(iter(groups.values()))[0][0].split('.')[0]}."]
    for group, signals in groups.items():
        lines += [f"@{OPEN:x}", f"-{group}"]
        commands.append(f"divider_add {group}")
        for name, bits, flags, names in signals:
            translation = [f"^1 {names}"] if names else []
            lines += [f"@{flags:x}", *translation, name + f"[{bits - 1}:0]" * (bits > 1)]
            commands.append(f"variable_add {name}")
        lines += [f"@{CLOSE:x}", f"-{group}"]
    waveform.with_suffix(".sucl").write_text("\n".join([*commands, "zoom_fit"]) + "\n")
    waveform.with_suffix(".gtkw").write_text("\n".join(lines) + "\n")
    return waveform.with_suffix(".gtkw")


def _groups(verilog, steps, classes):
    """The groups of `save` for testbench.v around an accelerator."""
    module = re.search(r"^module accelerator\b.*?^endmodule", verilog, re.MULTILINE | re.DOTALL)[0]
    declared = re.findall(r"^\s*(?:input|output)\s+(?:\[(\d+):0\]\s*)?(\w+);", module, re.MULTILINE)
    ports = {name: int(high or 0) + 1 for high, name in declared}
    groups = {"time": [("clk", 1, BIT, None), ("rst", 1, BIT, None), ("cycle", 32, DECIMAL, None),
                       ("dut.step", ports["step"], TRANSLATED, steps)]}
    for stream in STREAMS:
        payload = f"{stream}__payload"
        if payload not in ports:  # the weights of a design that holds them in a memory
            continue
        bits = ports[payload]
        value = {"logits": ("logit", bits - 1, SIGNED, None), "result": (f"dut.{payload}", bits, TRANSLATED, classes),
                 "latent": ("latent", bits - 1, HEXADECIMAL, None)}.get(stream, (f"dut.{payload}", bits, HEXADECIMAL, None))
        groups[stream] = [(f"dut.{stream}__valid", 1, BIT, None), (f"dut.{stream}__ready", 1, BIT, None), value]
    return {group: [(f"testbench.{name}", *how) for name, *how in signals] for group, signals in groups.items()}
