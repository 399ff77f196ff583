"""A system on a chip in simulation: picorv32, Wishbone, the accelerator, and the driver compiled for RISC-V (driver/soc)."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.design import c99
from fbnn_hw.design.registers import DRIVER
from fbnn_hw.ir import shipped
from fbnn_hw.reference import inference
from fbnn_hw.simulate import simulator
from tests import strategies

HERE = Path(__file__).parent
COMPILER = "riscv64-unknown-elf-gcc"
MACHINE = ("-march=rv32imc", "-mabi=ilp32")
FLAGS = ("-std=c99", *MACHINE, "-ffreestanding", "-Wall", "-Wextra", "-pedantic", "-Werror")
CLOCKS = 2_000_000_000
needs_compiler = pytest.mark.skipif(not shutil.which(COMPILER), reason=f"no {COMPILER} (Debian: apt install gcc-riscv64-unknown-elf)")
needs_processor = pytest.mark.skipif(not importlib.util.find_spec("pythondata_cpu_picorv32"),
                                     reason="no picorv32 (pip install pythondata-cpu-picorv32)")


def processor():
    return Path(importlib.util.find_spec("pythondata_cpu_picorv32").origin).parent / "verilog" / "picorv32.v"


def program(work, sources, pictures, lesson=(), most=1, level="-Os", includes=(), defines=()):
    """Compile a program with its pictures, bytes; work/program.hex is the memory of soc.v."""
    padded = [np.frombuffer(data + bytes(-len(data) % 4), "<u4") for data in pictures]
    rows = ",\n".join("{" + ", ".join(f"{word:#x}u" for word in words) + "}" for words in padded)
    (work / "pictures.h").write_text(
        f"#include <stdint.h>\n#define MOST {most}\n#define LESSON {', '.join(map(str, lesson))}\n"
        f"static const uint32_t pictures[{len(padded)}][{len(padded[0])}] = {{{rows}}};\n")
    folders = [f"-I{folder}" for folder in (work, *includes)]
    subprocess.run([COMPILER, *FLAGS, level, *defines, *folders, "-nostdlib", "-T", DRIVER / "soc" / "soc.ld", "-o", work / "program.elf",
                    DRIVER / "soc" / "start.S", *sources, "-lgcc", "-Wl,--no-warn-rwx-segments"], check=True)
    subprocess.run([COMPILER.replace("gcc", "objcopy"), "-O", "verilog", "--verilog-data-width=4", work / "program.elf",
                    work / "program.hex"], check=True)


def run(work, made=None, level=None):
    """(the words that leave, clocks of all) of program.hex in a folder; made: the design beside the processor."""
    sources = [DRIVER / "soc" / "soc.v", processor()]
    defines = ["-DSOFTWARE"]
    if made:
        folder = made.folder.absolute()
        sources += [folder / name for name in ("accelerator_wb.v", "accelerator.v", "SB_SPRAM256KA.v") if (folder / name).exists()]
        defines = [f"-DSTREAM={made.config.beat_bits}"] * (made.config.weights == "stream") or ["-DMEMORY"]
        for image in folder.glob("weights.hex"):
            shutil.copy(image, work)
    build = work / "sim_build"
    build.mkdir(exist_ok=True)
    command = [*simulator.translation("soc", build), "--exe", "-o", "soc", *simulator.OPTIONS, *defines, "-CFLAGS", " ".join(defines),
               str(HERE / "soc.cpp"), *map(str, sources)]
    simulator.compiled(command, [path.read_text() for path in (HERE / "soc.cpp", *sources)], build, "soc", "soc",
                       level or simulator.optimise())
    weights = made.folder / "weights.bin" if made and made.config.weights == "stream" else "/dev/null"
    boot = made.manifest["boot_bytes"] if made else 0
    done = subprocess.run([build / "soc", weights, str(boot), str(CLOCKS)], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), np.uint32).astype(np.int32).tolist(), int(done.stderr.split()[-2])


def lesson_in_the_system(made, images, labels, work, level=None):
    """Clocks of the calls that classify; every word that leaves is the reference's.  labels: of each image its class number, or -1."""
    program(work, [DRIVER / "soc" / "main.c", made.folder / "fbnn.c"], made.pixels(images), labels, made.config.result_classes,
            includes=[made.folder], defines=["-DFBNN_HW_MAPPED"])
    words, _ = run(work, made, level)
    twin = made.learner()
    latents = inference.layers(made.network, images)["latent"].reshape(len(images), -1)
    assert words.pop(0) == 0
    spent = []
    for latent, label in zip(latents, labels):
        logits = twin.logits(latent[None])[0].tolist()
        assert words[:2] == [0, logits.index(max(logits))]
        spent.append(words[2])
        assert words[3:4 + len(logits)] == [len(logits), *logits]
        words = words[4 + len(logits):]
        if label >= 0:
            twin.learn(latent[None], [label])
            assert words.pop(0) == 0
    assert not words and twin.known > made.config.classes
    return spent


@needs_compiler
@needs_processor
def test_a_processor_classifies_and_teaches(tmp_path):
    """Ten pictures, of which three are learned as a new class."""
    made = design.generate(strategies.smallest_learner(), "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=3, wrapper="wishbone")
    images = strategies.images(3, 10, made.config.size)
    lesson_in_the_system(made, images, [-1, -1, 2, 2, 2, -1, -1, 0, -1, -1], tmp_path)


@needs_compiler
@needs_processor
@pytest.mark.slow
def test_a_processor_teaches_tiny(tmp_path):
    from fbnn_hw.data.datasets import test_images

    made = design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path, learn=True, wrapper="wishbone")
    spent = lesson_in_the_system(made, test_images(32, 10), [-1] * 5 + [10] * 3 + [-1] * 2, tmp_path, "-O1")
    engine = made.estimate["cycles"]
    print(f"{engine} cycles of the engine, {max(spent[1:])} of the call")
    assert engine / max(spent[1:]) >= 0.7


@needs_compiler
@needs_processor
def test_the_same_processor_without_an_accelerator(tmp_path):
    """network.c of `generate --target c`."""
    network = strategies.smallest()
    for name, text in c99.files(network).items():
        (tmp_path / name).write_text(text)
    images = strategies.images(3, 2, network.topology.image_size)
    program(tmp_path, [DRIVER / "soc" / "software.c", tmp_path / "network.c"], [image.transpose(1, 2, 0).tobytes() for image in images],
            level="-O2")
    words, _ = run(tmp_path)
    assert [words[k + 1:k + 3] for k in (0, 3)] == inference.logits(network, images).tolist() and min(words[0], words[3]) > 1000


def deepest(text):
    """Bytes of stack below the deepest call of the driver, by gcc's -fcallgraph-info=su, without the user's functions."""
    frames = {found[1]: int(found[2]) for found in re.finditer(r'title: "([^"]+)" label: "[^"]*?(\d+) bytes', text)}
    calls = {}
    for caller, called in re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', text):
        calls.setdefault(caller, set()).add(called)

    def depth(name):
        return frames.get(name, 0) + max(map(depth, calls.get(name, ())), default=0)

    return max(depth(name) for name in frames if name.startswith("fbnn_hw_"))


@needs_compiler
def test_the_driver_is_small(tmp_path):
    """Text on RV32IMC -Os of a design that learns; its RAM, which is the struct and the stack; no data of its own."""
    made = design.generate(strategies.smallest_learner(), "generic", out=tmp_path, learn=True, max_classes=4, exemplars=3, forget=True,
                           wrapper="wishbone")
    (made.folder / "struct.c").write_text('#include "fbnn.h"\nfbnn_hw device;\n')

    def sections(name, *flags):
        subprocess.run([COMPILER, *FLAGS, "-Os", *flags, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=made.folder, check=True)
        done = subprocess.run([COMPILER.replace("gcc", "size"), f"{name}.o"], cwd=made.folder, capture_output=True, text=True, check=True)
        return map(int, done.stdout.splitlines()[1].split()[:3])

    for define in ("-DFBNN_HW_MAPPED", "-DNOTHING"):
        text, data, zeros = sections("fbnn", define, "-fcallgraph-info=su")
        stack, struct = deepest((made.folder / "fbnn.ci").read_text()), sum(sections("struct", define))
        print(f"{define}: {text} bytes of text, {stack} of stack, {struct} of struct")
        assert text <= 4096 and data + zeros == 0 and 0 < stack and stack + struct <= 256
