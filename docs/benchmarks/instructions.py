"""Instructions and estimated cycles of an image by network.c of `--target c` on small processors, counted in what the compiler gives.

    python docs/benchmarks/instructions.py tiny.pt 0.5mb.pt

Needs gcc-arm-none-eabi, gcc-riscv64-unknown-elf and qemu-user of Debian.  The program is compiled for each processor and runs in
QEMU, which names every block of instructions as it enters it; objdump says which instructions the block has.  Its logits are compared
with the reference.  Cycles are ESTIMATED: one an instruction, and more as `PROCESSORS` says, with all code and data in memory without
wait states.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from fbnn_hw.data.datasets import test_images
from fbnn_hw.design import c99
from fbnn_hw.ir import shipped
from fbnn_hw.reference import inference


class Processor(NamedTuple):
    """more: {mnemonics: cycles beyond the first}.  taken: cycles beyond the first of a branch that is taken."""

    compiler: str
    flags: tuple[str, ...]
    qemu: tuple[str, ...]
    begin: str
    exit: str
    more: dict[str, int]
    taken: int


ARM_EXIT = "register int r7 asm(\"r7\") = 1, r0 asm(\"r0\") = code; asm volatile(\"svc 0\" :: \"r\"(r7), \"r\"(r0));"
RISCV_EXIT = "register int a7 asm(\"a7\") = 93, a0 asm(\"a0\") = code; asm volatile(\"ecall\" :: \"r\"(a7), \"r\"(a0));"
RISCV_BEGIN = 'asm volatile(".option push\\n.option norelax\\nla gp, __global_pointer$\\n.option pop");'
PROCESSORS = {
    # Arm publishes no table for the M33.  Ref: Cortex-M4 TRM (Arm 100166), table 3-1, three stages as well: a load 2 cycles, the next of
    # loads in a row 1; a branch that is taken 1 + P, P from 1 to 3; LDM, STM, PUSH, POP a cycle a register beyond the first.
    "Cortex-M33": Processor("arm-none-eabi-gcc", ("-mcpu=cortex-m33", "-mthumb"), ("qemu-arm",), "", ARM_EXIT,
                            {r"ldr\w*": 1, r"[us]div": 8}, 2),
    # Ref: RP2350 datasheet, 3.8.7 (Hazard3, instruction cycle counts): loads 1 where the next instruction does not use them, a branch that
    # is taken 2, cpop 1.
    "RP2350's RISC-V": Processor(
        "riscv64-unknown-elf-gcc", ("-march=rv32imac_zba_zbb_zbs", "-mabi=ilp32"),
        ("qemu-riscv32", "-cpu", "rv32,zba=true,zbb=true,zbs=true"), RISCV_BEGIN, RISCV_EXIT, {r"div\w*|rem\w*": 17}, 1),
}
COUNT, PAGE = 1, 4096
MAIN = """#include "network.h"
#include "picture.h"
static void leave(int code) {{ {exit} __builtin_unreachable(); }}
void _start(void) {{
    int32_t logits[FBNN_CLASSES];
    int wrong = 0;
    {begin}
    fbnn_logits(picture, logits);
    for (int c = 0; c < FBNN_CLASSES; c++) wrong |= logits[c] != expected[c];
    leave(wrong);
}}
void *memset(void *to, int value, unsigned long size) {{
    for (unsigned char *byte = to; size--; byte++) *byte = (unsigned char)value;
    return to;
}}
"""
LINK = ("-O2", "-ffreestanding", "-fno-tree-loop-distribute-patterns", "-nostdlib", "-static", "-Wl,--no-warn-rwx-segments",
        "-o", "program", "start.c", "network.c", "-lgcc")
LOG = "-d", "exec,nochain", "-D", "/dev/stdout"
BLOCK = re.compile(rb"\[[0-9a-f]+/([0-9a-f]+)/")


def compiled(processor, network, picture, work):
    """The program as ELF."""
    for name, text in c99.files(network).items():
        (work / name).write_text(text)
    logits = inference.logits(network, picture[None])[0].tolist()
    (work / "picture.h").write_text(
        f"static const uint8_t picture[] = {{{', '.join(map(str, picture.transpose(1, 2, 0).ravel().tolist()))}}};\n"
        f"static const int32_t expected[] = {{{', '.join(map(str, logits))}}};\n")
    (work / "start.c").write_text(MAIN.format(begin=processor.begin, exit=processor.exit))
    subprocess.run([processor.compiler, *processor.flags, *LINK], cwd=work, check=True)
    return work / "program"


def blocks(processor, program):
    """{(address of the block before, 0 at first, that of a block): times} of the program's run."""
    run = subprocess.Popen([*processor.qemu, *LOG, program], stdout=subprocess.PIPE, cwd=program.parent)
    entered: Counter[tuple[int, int]] = Counter()
    before = 0
    for line in run.stdout:
        if found := BLOCK.search(line):
            now = int(found[1], 16)
            entered[before, now] += 1
            before = now
    assert run.wait() == 0, "the logits differ"
    return entered


def listing(processor, program):
    """{address: (mnemonic, operands, address of the next instruction)}."""
    command = [processor.compiler.replace("gcc", "objdump"), "-d", "--no-show-raw-insn", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [re.match(r"^ *([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", line) for line in done.stdout.splitlines()]
    rows = [(int(found[1], 16), found[2], found[3]) for found in lines if found]
    return {at: (name, operands, rows[i + 1][0] if i + 1 < len(rows) else at + 4) for i, (at, name, operands) in enumerate(rows)}


ENDS = re.compile(r"b|bl|bx|blx|b(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)(\.[nw])?|b\.[nw]|cbn?z|tb[bh]|svc|pop|ldmia"
                  r"|j|jal|jr|jalr|ret|ecall|b(eq|ne|lt|ge|ltu|geu|eqz|nez|lez|gez|ltz|gtz|le|gt|leu|gtu)|call|tail")


def cost(processor, program):
    """(instructions, estimated cycles) of the run."""
    code, instructions, cycles = listing(processor, program), 0, 0
    for (before, begin), times in blocks(processor, program).items():
        at, count, spent, loads = begin, 0, 0, False
        while True:
            name, operands, following = code[at]
            more = next((extra for pattern, extra in processor.more.items() if re.fullmatch(pattern + r"(\.[nw])?", name)), 0)
            load = bool(re.match("ldr", name))
            count, spent = count + 1, spent + 1 + (0 if load and loads else more)
            if re.match(r"(ldm|stm|push|pop)", name):
                spent += len(re.findall(r"\w+", operands)) - 1
            loads = load
            if ends(name, operands) or following // PAGE != begin // PAGE:
                break
            at = following
        instructions += times * count
        cycles += times * spent
        if before in code and begin != falls(code, before):
            cycles += times * processor.taken
    return instructions, cycles


def ends(name, operands):
    """Whether an instruction ends a block of QEMU."""
    if name.startswith(("pop", "ldm")):
        return "pc" in operands
    return bool(ENDS.fullmatch(name))


def falls(code, begin):
    """The address behind a block."""
    at = begin
    while not ends(*code[at][:2]) and code[at][2] // PAGE == begin // PAGE:
        at = code[at][2]
    return code[at][2]


def main():
    print("| network | processor | instructions | cycles, estimated | images/s at 150 MHz |\n|---|---|---|---|---|")
    for name in sys.argv[1:]:
        network = shipped.load(name)
        [picture] = test_images(network.topology.image_size, COUNT)
        for title, processor in PROCESSORS.items():
            with tempfile.TemporaryDirectory() as work:
                instructions, cycles = cost(processor, compiled(processor, network, picture, Path(work)))
            print(f"| `{network.topology.name}` | {title} | {instructions:,} | {cycles:,} | {150e6 / cycles:.1f} |", flush=True)


if __name__ == "__main__":
    main()
