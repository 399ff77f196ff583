"""docs/benchmarks/instructions.py: the instructions that it counts in blocks are as many as QEMU carries out."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import strategies

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "benchmarks"))

import instructions  # noqa: E402


@pytest.mark.parametrize("name", instructions.PROCESSORS)
def test_instructions_are_those_of_single_steps(name, tmp_path):
    processor = instructions.PROCESSORS[name]
    if missing := next((tool for tool in (processor.compiler, processor.qemu[0]) if not shutil.which(tool)), None):
        pytest.skip(f"no {missing} (Debian: apt install gcc-arm-none-eabi gcc-riscv64-unknown-elf qemu-user)")
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    network = strategies.smallest(seed)
    [picture] = strategies.images(seed, 1, network.topology.image_size)
    program = instructions.compiled(processor, network, picture, tmp_path)
    counted, cycles = instructions.cost(processor, program)
    log = subprocess.run([*processor.qemu, "-singlestep", *instructions.LOG, program], capture_output=True, check=True)
    assert counted == len(instructions.BLOCK.findall(log.stdout)) < cycles


def test_a_logit_that_differs_is_seen(tmp_path):
    processor = instructions.PROCESSORS["RP2350's RISC-V"]
    if not all(map(shutil.which, (processor.compiler, processor.qemu[0]))):
        pytest.skip("no gcc-riscv64-unknown-elf or no qemu-user")
    network = strategies.smallest()
    [picture] = strategies.images(1, 1, network.topology.image_size)
    instructions.compiled(processor, network, picture, tmp_path)
    text = (tmp_path / "picture.h").read_text()
    (tmp_path / "picture.h").write_text(text.replace("expected[] = {", "expected[] = {1 + "))
    subprocess.run([processor.compiler, *processor.flags, *instructions.LINK], cwd=tmp_path, check=True)
    with pytest.raises(AssertionError, match="differ"):
        instructions.blocks(processor, tmp_path / "program")
