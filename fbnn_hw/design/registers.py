"""What a processor's programmer needs of a design with registers: registers.h, registers.json, registers.md, and the driver fbnn.c."""

import json
from collections.abc import Iterable

from .. import __version__
from ..base.files import bundled
from ..machine.config import AcceleratorConfig
from ..machine.registers import ADDRESS_BITS, LOGITS, PATIENCE, REGISTERS, Field, Register, constants, geometry, of_design

DRIVER = bundled("driver")


def files(config: AcceleratorConfig, streams: bool = False) -> dict[str, str]:
    """{file name: text}.  streams, here and below: images come as a stream."""
    driver = {path.name: path.read_text() for path in sorted(DRIVER.glob("fbnn.*"))}
    return driver | {"registers.h": header(config, streams), "registers.json": description(config, streams),
                     "registers.md": page(config, streams)}


def header(config: AcceleratorConfig, streams: bool = False) -> str:
    """registers.h: offsets, fields and, of this design, the values of the constant registers."""
    values = constants(config, streams)
    lines = [f"/* The registers of an accelerator, written by fbnn-hw {__version__}; registers.md describes them.  Offsets count bytes. */",
             "#ifndef FBNN_HW_REGISTERS_H", "#define FBNN_HW_REGISTERS_H", ""]
    for register in REGISTERS:
        name = f"FBNN_HW_{register.name}"
        lines.append(f"#define {name} {register.offset:#05x} /* {_what(register)} */")
        for field in register.fields:
            lines += [f"#define {name}_{field.name} {field.mask:#010x}u /* {field.meaning} */"]
            if field.bits > 1:
                lines.append(f"#define {name}_{field.name}_LOW {field.low}")
    lines += ["", "/* The constants of this design. */"]
    lines += [f"#define FBNN_HW_THIS_{name} {value:#010x}u" for name, value in values.items()]
    lines += [f"#define FBNN_HW_THIS_{name} {value}u /* {meaning} */" for name, (value, meaning) in geometry(config).items()]
    return "\n".join([*lines, "", "#endif", ""])


def description(config: AcceleratorConfig, streams: bool = False) -> str:
    """registers.json: what a program can read of the registers that this design has."""
    values = constants(config, streams)
    return json.dumps({
        "address_bits": ADDRESS_BITS, "word_bits": 32, "streams": streams, "registers": [
            {"name": r.name, "offset": r.offset, "words": r.words, "access": r.access, "meaning": r.meaning,
             **({"value": values[r.name]} if r.name in values else {}),
             "fields": [{"name": f.name, "low": f.low, "bits": f.bits, "meaning": f.meaning} for f in r.fields]}
            for r in of_design(config, streams)],
        "learner": {name: value for name, (value, _) in geometry(config).items()}}, indent=1) + "\n"


def page(config: AcceleratorConfig, streams: bool = False) -> str:
    """registers.md, from driver/registers.md."""
    values = constants(config, streams)
    constant = ["| constant of this design | value |", "|---|---|", *(f"| {name} | `{value:#010x}` |" for name, value in values.items()),
                *(f"| {name}: {meaning} | {value} |" for name, (value, meaning) in geometry(config).items())]
    fills = {"table": "\n".join(table(of_design(config, streams))), "constants": "\n".join(constant), "bits": ADDRESS_BITS,
             "patience": PATIENCE, "logits": f"{LOGITS:#x}"}
    text = (DRIVER / "registers.md").read_text()
    for name, value in fills.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def table(registers: Iterable[Register]) -> list[str]:
    """Rows of Markdown, a register and its fields each."""
    rows = ["| offset | register | access | bits | meaning |", "|---|---|---|---|---|"]
    for register in registers:
        rows.append(f"| {_offsets(register)} | {register.name} | {register.access} | | {register.meaning} |")
        rows += [f"| | | | {_bits(field)} {field.name} | {field.meaning} |" for field in register.fields]
    return rows


def _offsets(register: Register) -> str:
    last = register.offset + 4 * (register.words - 1)
    return f"`{register.offset:#05x}`" + (f" to `{last:#05x}`" if register.words > 1 else "")


def _bits(field: Field) -> str:
    return f"{field.low + field.bits - 1}:{field.low}" if field.bits > 1 else str(field.low)


def _what(register: Register) -> str:
    """The comment of a register in C."""
    of = ", of designs that learn" * register.learns + ", of designs with LOADS" * register.loads
    return ": ".join(filter(None, (register.access + of, register.meaning)))
