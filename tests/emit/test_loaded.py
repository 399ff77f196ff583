"""`generate --weights ram`: one netlist, whose weights come after each reset, is the accelerator of every network of its configuration."""

import random
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from amaranth.sim import Simulator

import fbnn_hw
from fbnn_hw import design
from fbnn_hw.base.errors import FbnnError
from fbnn_hw.compile.plan import plan
from fbnn_hw.machine.registers import BY_NAME
from fbnn_hw.reference import inference
from fbnn_hw.rtl.weight_file import WeightFile
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.emit.bus import Bus
from tests.emit.test_registers import BIT, DAMAGED, OK, PIXELS, STATUS, STRANGE, UNFIT, hexes

MOST_CYCLES = 20_000
"""Of the first image of a random network."""
LOADED, OTHER, BROKEN = BIT["LOADED"], BIT["STRANGE"], BIT["DAMAGED"]


def pair(out, make, **options):
    """Two designs of one configuration, whose hardware is the same."""
    options = {"target": "generic", "weights": "ram"} | options
    first, second = (design.generate(make(seed), out=out, **options) for seed in (1, 2))
    assert first.config_id == second.config_id and first.read("accelerator.v") == second.read("accelerator.v")
    assert first.read("weights.bin") != second.read("weights.bin")
    return first, second


def file_of(made):
    return made.read("weights.bin")


def random_pair(out, seed=None):
    """Of a random network that has room and runs in seconds, and one with other weights; the seed is printed.  seed: of a certain one."""
    for found in [seed] if seed else iter(lambda: random.randrange(1 << 30), None):
        try:
            made = pair(out, partial(strategies.fill, strategies.random_topology(found)))
        except FbnnError:
            continue
        if made[0].estimate["first_cycles"] > MOST_CYCLES:
            continue
        print(f"seed {found}")
        return made


@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog (Debian: apt install iverilog)")
@pytest.mark.parametrize("seed", [None, 656437145], ids=["any", "with bits of a field that are constant"])
def test_one_netlist_by_its_ports(tmp_path, seed):
    """Icarus compiles it once, and runs it with the files of both networks: each has its own logits, and not the other's."""
    first, second = random_pair(tmp_path, seed)
    folder, program = first.folder.absolute(), tmp_path / "sim"
    sources = [folder / name for name in ("sim.v", "testbench.v", "accelerator.v")]
    subprocess.run(["iverilog", "-g2012", "-s", "sim", "-I", folder, "-o", program, *sources], check=True)
    for weights in (first, second):
        for logits in (first, second):
            work = tmp_path / f"{weights.folder.name}-{logits.folder.name}"
            work.mkdir()
            (work / "weights.hex").write_bytes(weights.read("weights.hex"))
            (work / "images.hex").write_bytes(first.read("golden.hex"))
            (work / "expected.hex").write_bytes(logits.read("expected.hex"))
            done = subprocess.run(["vvp", "-N", program], cwd=work, capture_output=True, text=True)
            same = first.read("expected.hex") == second.read("expected.hex")
            assert (done.returncode == 0) == (weights is logits or same), done.stdout


@pytest.fixture(scope="module", params=["wishbone", "axi-lite"])
def loaded(request, tmp_path_factory):
    """((design, another one with the same hardware), whether its bus is AXI)."""
    made = pair(tmp_path_factory.mktemp("loaded"), strategies.smallest, wrapper=request.param)
    return made, request.param == "axi-lite"


def test_one_netlist_by_its_registers(loaded):
    (first, second), axi = loaded
    images = strategies.images(3, 2, first.config.size)
    given = hexes(first, images)
    with Bus(first, axi) as bus:
        assert bus.ask("identify")[0] == OK
        for _ in range(10):  # some have room, then none
            bus.write(PIXELS, 0)
        assert bus.read(STATUS) & (LOADED | BIT["LOST"]) == BIT["LOST"]
        for number, made in enumerate((second, first, second)):
            assert bus.ask("load", number, file_of(made).hex()) == [OK]
            assert bus.read(STATUS) & (LOADED | OTHER | BROKEN | BIT["LOST"]) == LOADED
            assert bus.read(BY_NAME["WEIGHTS"].offset) == crc32(file_of(made)[:-4]) == int.from_bytes(file_of(made)[-4:], "little")
            logits = inference.logits(made.network, images).tolist()
            assert [bus.ask("classify", 0, image)[4:] for image in given] == logits or made.network.topology.classes
            bus.write(BY_NAME["WEIGHTS"].offset, 1)  # of a file more
            assert bus.read(STATUS) & (LOADED | BIT["LOST"]) == LOADED | BIT["LOST"]
            answers = [bus.ask("classify", 0, image)[:2] for image in given]
            assert answers == [[OK, row.index(max(row))] for row in logits]


def test_files_that_do_not_fit_are_refused(loaded):
    """Of another configuration, cut short, too long, with a wrong bit anywhere; then the right one still loads."""
    (made, _), axi = loaded
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw, file = random.Random(seed), file_of(made)
    [image] = hexes(made, strategies.images(1, 1, made.config.size))
    with Bus(made, axi) as bus:
        assert bus.ask("identify")[0] == OK
        for wrong in (lambda: draw.randrange(4, len(file)), lambda: len(file) - 1 - draw.randrange(4), lambda: 4):
            at = wrong()
            broken = file[:at] + bytes([file[at] ^ 1 << draw.randrange(8)]) + file[at + 1:]
            assert bus.ask("load", 0, broken.hex()) == [DAMAGED]
            assert bus.read(STATUS) & (LOADED | OTHER | BROKEN) == BROKEN
            assert bus.ask("set", 50, 0, 0) and bus.ask("classify", 0, image)[0] != OK
        at = draw.randrange(4)
        strange = file[:at] + bytes([file[at] ^ 1 << draw.randrange(8)]) + file[at + 1:]
        assert bus.ask("load", 0, strange.hex()) == [STRANGE]
        assert bus.read(STATUS) & (LOADED | OTHER | BROKEN) == OTHER
        for wrong in (file[:4 * draw.randrange(len(file) // 4)], file[:-4], file + file[:4]):
            assert bus.ask("load", 0, wrong.hex()) == [DAMAGED]
        assert bus.ask("load", 0, file.hex()) == [OK] and bus.ask("set", 0, 0, 0)
        expected = inference.logits(made.network, strategies.images(1, 1, made.config.size))[0].tolist()
        assert bus.ask("classify", 0, image)[:2] == [OK, expected.index(max(expected))]


def test_a_learner_begins_with_the_classes_of_its_file(tmp_path):
    first, second = pair(tmp_path, strategies.smallest_learner, wrapper="wishbone", learn=True, max_classes=4, exemplars=3)
    images = strategies.images(3, 3, first.config.size)
    given = hexes(first, images)
    with Bus(first) as bus:
        assert bus.ask("identify")[0] == OK
        for made in (first, second):
            twin = made.learner()
            latents = inference.layers(made.network, images)["latent"].reshape(len(images), -1)
            assert bus.ask("load", 0, file_of(made).hex()) == [OK]
            for latent, image in zip(latents, given):
                assert bus.ask("classify", 0, image)[4:] == twin.logits(latent[None])[0].tolist()
            assert bus.ask("learn", 2) == [OK]
            twin.learn(latents[-1:], [2])
            assert bus.ask("classify", 0, given[0])[4:] == twin.logits(latents[:1])[0].tolist()


def test_other_designs_take_no_weights(tmp_path):
    made = design.generate(strategies.smallest(), "generic", out=tmp_path, wrapper="wishbone")
    with Bus(made) as bus:
        assert bus.ask("identify")[0] == OK and bus.ask("load", 0, "00000000") == [UNFIT]
        assert bus.read(STATUS) & (LOADED | OTHER | BROKEN) == 0


def test_a_file_byte_by_byte(tmp_path):
    """`WeightFile` with pauses: the words, the end of a file, what follows it; a file with a wrong byte, of any other configuration."""
    made, _ = pair(tmp_path, strategies.smallest)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw, file, width = random.Random(seed), file_of(made), made.config.word_bits // 8
    words = np.frombuffer(file[4:-4], np.uint8).reshape(-1, width).tolist()

    def run(data):
        """(words written, state in the end) of the bytes and some more."""
        dut, memory = WeightFile(made.config), [[None] * width for _ in words]

        async def testbench(context):
            for byte in data + b"more":
                while draw.random() < 0.3:
                    assert not context.get(dut.write)
                    await context.tick()
                context.set(dut.bytes.valid, 1)
                context.set(dut.bytes.payload, byte)
                if context.get(dut.write):
                    memory[context.get(dut.address)][context.get(dut.mask).bit_length() - 1] = context.get(dut.byte)
                    assert context.get(dut.mask).bit_count() == 1
                assert context.get(dut.bytes.ready)
                await context.tick()
                context.set(dut.bytes.valid, 0)
            state.extend(context.get(getattr(dut, name)) for name in ("loaded", "strange", "damaged", "checksum"))

        state = []
        simulator = Simulator(dut)
        simulator.add_clock(1e-7)
        simulator.add_testbench(testbench)
        simulator.run()
        return memory, state

    assert run(file) == (words, [1, 0, 0, crc32(file[:-4])])
    at = draw.randrange(4)
    memory, state = run(file[:at] + bytes([file[at] ^ 0x10]) + file[at + 1:])
    assert state[:3] == [0, 1, 0] and memory == [[None] * width for _ in words]
    at = draw.randrange(4, len(file))
    assert run(file[:at] + bytes([file[at] ^ 1]) + file[at + 1:])[1][:3] == [0, 0, 1]


def test_what_a_configuration_depends_on(monkeypatch):
    """As docs/weights.md says of networks after tape-out; the room that docs/benchmarks/room.py makes changes no answer."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "benchmarks")
    import room

    plain, other, listed = (fbnn_hw.load(name) for name in ("0.5mb.pt", "0.5mb-t.pt", "fast.pt"))

    def config(network):
        return plan(network, TARGETS["generic"], 4, 16, 8, weights="ram").config.id

    def scaled(network, factor):
        return replace(network, thresholds={name: (values * factor).astype(values.dtype) for name, values in network.thresholds.items()})

    assert config(plain) != config(other) == config(scaled(other, 0)) == config(scaled(other, 1.5))
    assert config(listed) == config(scaled(listed, 0.5)) and config(listed) not in (config(scaled(listed, 0)), config(scaled(listed, 1.5)))
    made = [room.roomy(network, other, 16) for network in (plain, other)]
    assert len({config(network) for network in made}) == 1 and config(made[0]) not in (config(plain), config(other))
    images = strategies.images(5, 3, 32)
    before, after = (inference.logits(network, images) for network in (plain, made[0]))
    assert (after[:, :10] == before).all() and (after.argmax(1) == before.argmax(1)).all()
