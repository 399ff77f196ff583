"""network.c of `generate --target c`, compiled and run: the reference's logits, no warning, no undefined behaviour."""

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.cli import main
from fbnn_hw.design import c99
from fbnn_hw.ir import shipped
from fbnn_hw.reference import inference
from tests import strategies
from tests.quick import quick

COMPILER = ["gcc"] if shutil.which("gcc") else [sys.executable, "-m", "ziglang", "cc"]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")
CHECKED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def answers(folder, network, images, *flags):
    """What main.c prints of images, uint8 (N, 3, S, S): a list of (class, logits)."""
    for name, text in c99.files(network).items():
        (folder / name).write_text(text)
    subprocess.run([*COMPILER, *STRICT, *flags, "-o", "classify", "main.c", "network.c"], cwd=folder, check=True)
    run = subprocess.run(folder / "classify", input=images.transpose(0, 2, 3, 1).tobytes(), capture_output=True, check=True)
    count = len(network.topology.classes)
    lines = [line.rsplit(" ", count) for line in run.stdout.decode().splitlines()]
    return [name for name, *_ in lines], np.array([[int(logit) for logit in logits] for _, *logits in lines])


def check(folder, network, *flags, count=2):
    images = strategies.images(7, count, network.topology.image_size)
    names, logits = answers(folder, network, images, *flags)
    expected = inference.logits(network, images)
    assert logits.tolist() == expected.tolist()
    assert names == [network.topology.classes[c] for c in inference.classify(expected)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("network", [strategies.network, strategies.network_2, strategies.engine_network])
def test_random_networks(tmp_path, network, seed):
    check(tmp_path, network(300 + seed), *CHECKED)


@pytest.mark.parametrize("name", quick(shipped.names(), "tiny.pt", "0.5mb-t.pt"))
def test_shipped_networks(tmp_path, name):
    check(tmp_path, shipped.load(name), "-O2")


def test_names_that_c_would_read_otherwise(tmp_path):
    network = strategies.smallest()
    names = ('a "b" \\n', "??/ é 7")
    new = {"conv1": "int", "conv2": "maps", "pool1": "image", "conv3": "weights_int"}
    ops = tuple(replace(op, name=new.get(op.name, op.name), inputs=tuple(new.get(i, i) for i in op.inputs)) for op in network.topology.ops)
    check(tmp_path, replace(network, topology=replace(network.topology, ops=ops, classes=names),
                            weights={new.get(key, key): value for key, value in network.weights.items()}))


def test_an_instruction_for_the_count_of_ones(tmp_path):
    check(tmp_path, strategies.network(300), "-DFBNN_POPCOUNT(x)=(uint32_t)__builtin_popcount(x)")


def test_maps_share_memory():
    """Maps that are not needed at the same time lie in the same place: fewer words than all of them together."""
    source = c99.Source(shipped.load("tiny.pt"))
    places, total = source.places()
    assert total < sum(source.maps.values()) * 0.8 and min(places.values()) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What `generate --target c` writes of `tiny`."""
    out = tmp_path_factory.mktemp("c")
    assert main(["generate", "--model", "tiny.pt", "--target", "c", "--out", str(out)]) == 0
    return next(out.iterdir())


def test_the_command_writes_a_folder_that_compiles(folder, capsys):
    assert sorted(path.name for path in folder.iterdir()) == ["main.c", "network.c", "network.h"]
    assert (folder / "network.c").read_text() == c99.files(shipped.load("tiny.pt"))["network.c"]
    subprocess.run([*COMPILER, *STRICT, "-c", "-o", "network.o", "network.c"], cwd=folder, check=True)
    (folder / "network.o").unlink()


@pytest.mark.parametrize("flag", ["--learn", "--lanes=16", "--weights=chip", "--duty-cycle", "--input=levels", "--wrapper=axi-stream"])
def test_flags_of_hardware_are_refused(tmp_path, capsys, flag):
    assert main(["generate", "--model", "tiny.pt", "--target", "c", flag, "--out", str(tmp_path / "out")]) == 2
    name = flag.split("=")[0]
    assert capsys.readouterr().err == f"fbnn-hw generate: {name}: is of hardware, expected --model and --out alone with --target c\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", ["simulate {}", "report {}", "build {} --board icebreaker", "flash {} --board icebreaker", "energy {}",
                                   "selftest --board virtual --design {}", "classify --board interpreted --design {} --data fixture"])
def test_commands_of_hardware_refuse_the_folder(folder, capsys, words):
    assert main(words.format(folder).split()) == 3
    verb = words.split()[0]
    assert capsys.readouterr().err == (f"fbnn-hw {verb}: {folder}: holds a network as C, which has no hardware; expected a folder of "
                                       "`fbnn-hw generate` for a part, such as --target ice40\n")
