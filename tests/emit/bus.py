"""A bus master and the driver in C before a design with registers, in Verilator: bus.cpp, to which `Bus` talks."""

import subprocess
from pathlib import Path

from fbnn_hw.design.integration import AXI_LITE, WISHBONE
from fbnn_hw.simulate import simulator

HERE = Path(__file__).parent
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-g")


def compiled(made, axi):
    """Path of the program for a design."""
    module, config = AXI_LITE if axi else WISHBONE, made.config
    folder, work = made.folder.absolute(), made.folder.absolute() / f"sim_build_{module}"
    work.mkdir(exist_ok=True)
    driver = folder / "fbnn.o"
    subprocess.run(["gcc", *STRICT, "-O1", "-c", "-o", driver, "fbnn.c"], cwd=folder, check=True)
    defines = ["-DAXI"] * axi + [f"-DSTREAM={config.beat_bits // 8}"] * (config.weights == "stream")
    defines += ["-DDMA"] * ("s_axis_image_tdata" in (folder / f"{module}.v").read_text())
    sources = [folder / name for name in (f"{module}.v", "accelerator.v", "SB_SPRAM256KA.v") if (folder / name).exists()]
    command = [*simulator.translation(module, work), "--exe", "-o", "bus", *simulator.OPTIONS,
               "-CFLAGS", " ".join([f"-I{folder}", *defines]), "-LDFLAGS", "-fsanitize=undefined", str(HERE / "bus.cpp"),
               str(driver), *map(str, sources)]
    parts = [path.read_text() for path in (HERE / "bus.cpp", folder / "fbnn.c", folder / "fbnn.h", *sources)]
    simulator.compiled(command, parts, work, "bus", module, simulator.optimise())
    return work / "bus"


class Bus:
    """A design after its reset.  Registers are named as machine.registers names them, by their offsets."""

    def __init__(self, made, axi=False):
        self.made = made
        weights = made.folder / "weights.bin"
        command = [compiled(made, axi), weights if weights.exists() else "/dev/null", str(made.manifest["boot_bytes"])]
        # Memories are read from where it runs.
        self.process = subprocess.Popen(command, cwd=made.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def many(self, lines):
        """The answers to several lines: lists of numbers."""
        answers = []
        for start in range(0, len(lines), 500):  # what a pipe holds
            self.process.stdin.write("\n".join(lines[start:start + 500]) + "\n")
            self.process.stdin.flush()
            answers += [self.process.stdout.readline().rstrip("\n") for _ in lines[start:start + 500]]
        assert "hang" not in answers and "" not in answers, answers.index("hang" if "hang" in answers else "")
        return answers

    def ask(self, *words):
        """The numbers that one line gives."""
        return [int(word) for word in self.many([" ".join(map(str, words))])[0].split()]

    def read(self, offset):
        return self.ask("read", offset)[0]

    def write(self, offset, value, select=15):
        return self.ask("write", offset, value, select)[0]

    def until(self, offset, mask, value, most=100_000):
        """Read until the bits of the mask have a value."""
        for _ in range(most):
            if self.read(offset) & mask == value:
                return
        raise AssertionError(f"{offset:#x}: {self.read(offset):#x}, expected {value:#x} in {mask:#x}")
