"""`generate --wrapper wishbone` and `axi-lite`: the registers, as registers.md has them, and the driver in C, against the reference."""

import json
import os
import random
import re

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine import registers
from fbnn_hw.machine.protocol import Command, Space
from fbnn_hw.machine.registers import BY_NAME
from fbnn_hw.reference import inference
from fbnn_hw.reference.learning.lfsr import REGISTERS
from tests import strategies
from tests.emit import wake_up
from tests.emit.bus import Bus

OK, TIMEOUT, STRANGE, LOST, UNFIT, SAMPLE, LABEL, FROZEN, DAMAGED = range(9)
"""The numbers of fbnn.h."""
STATUS, PIXELS, CONTROL = (BY_NAME[name].offset for name in ("STATUS", "PIXELS", "CONTROL"))
BIT = {field.name: field.mask for field in BY_NAME["STATUS"].fields}
RANDOM = int(os.environ.get("FBNN_BUS_ACCESSES", 3000))


@pytest.fixture(scope="module", params=["wishbone", "axi-lite"])
def learner(request, tmp_path_factory):
    """(design, whether its bus is AXI): streamed weights, words of 16 bits, two classes that ship, replay."""
    out = tmp_path_factory.mktemp("learner")
    return design.generate(strategies.smallest_learner(), "ice40", out=out, learn=True, max_classes=4, exemplars=3, forget=True,
                           wrapper=request.param), request.param == "axi-lite"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Weights in a memory, no learner."""
    return design.generate(strategies.smallest(), "generic", out=tmp_path_factory.mktemp("plain"), wrapper="wishbone")


def hexes(made, images):
    return [data.hex() for data in made.pixels(images)]


def words(made, image):
    """The words of PIXELS of an image, uint8 (3, S, S)."""
    [data] = made.pixels(image[None])
    return np.frombuffer(data + bytes(-len(data) % 4), "<u4").tolist()


def test_an_image_by_the_page(plain):
    """Step by step as registers.md says, without the driver."""
    images = strategies.images(3, 3, plain.config.size)
    logits = inference.logits(plain.network, images).tolist()
    with Bus(plain) as bus:
        for number, (image, expected) in enumerate(zip(images, logits)):
            for word in words(plain, image):
                bus.until(STATUS, BIT["ROOM"], BIT["ROOM"])
                bus.write(PIXELS, word)
            bus.until(STATUS, BIT["DONE"], BIT["DONE"])
            assert bus.read(BY_NAME["RESULT"].offset) == expected.index(max(expected))
            seen = [bus.read(registers.LOGITS + 4 * i) for i in range(2)]
            assert np.array(seen, np.uint32).astype(np.int32).tolist() == expected
            cycles = bus.read(BY_NAME["CYCLES"].offset)
            assert 0 < cycles < plain.estimate["first_cycles"]
            assert bus.read(BY_NAME["IMAGES"].offset) == number
            bus.write(STATUS, BIT["DONE"])
        assert bus.read(BY_NAME["IMAGES"].offset) == 3 and bus.read(STATUS) == BIT["ROOM"]


def test_an_image_that_was_cut_short_and_one_that_is_too_long(learner):
    made, axi = learner
    images = strategies.images(3, 2, made.config.size)
    whole = words(made, images[0])
    cut = images[0].transpose(1, 2, 0).reshape(-1).copy()
    cut[40:] = 0
    cut = cut.reshape(8, 8, 3).transpose(2, 0, 1)
    latents = inference.layers(made.network, np.stack([images[0], cut]))["latent"].reshape(2, -1)
    answers = made.learner().logits(latents).astype(np.uint32).tolist()

    def result():
        bus.until(STATUS, BIT["DONE"], BIT["DONE"])
        seen = [bus.read(registers.LOGITS + 4 * i) for i in range(2)]
        bus.write(STATUS, BIT["DONE"])
        return seen

    with Bus(made, axi) as bus:
        bus.write(CONTROL, 2)  # FILL, and nothing to fill
        assert not bus.read(STATUS) & BIT["INSIDE"]
        for word in whole[:10]:
            bus.until(STATUS, BIT["ROOM"], BIT["ROOM"])
            bus.write(PIXELS, word)
        assert bus.read(STATUS) & BIT["INSIDE"]
        bus.write(CONTROL, 2)
        assert result() == answers[1] and not bus.read(STATUS) & (BIT["INSIDE"] | BIT["LOST"])
        for word in whole:
            bus.write(PIXELS, word)
        for _ in range(3):  # of an image more than there is room for
            assert 250 < bus.write(PIXELS, 12345) < 262 and bus.read(STATUS) & BIT["LOST"]
            bus.write(STATUS, BIT["LOST"])
            assert not bus.read(STATUS) & BIT["LOST"]
        assert result() == answers[0]
        bus.write(PIXELS, 1)
        bus.write(CONTROL, 1)  # RESTART in an image
        for word in whole:
            bus.until(STATUS, BIT["ROOM"], BIT["ROOM"])
            bus.write(PIXELS, word)
        assert result() == answers[0] and bus.read(BY_NAME["IMAGES"].offset) == 1


def test_accesses_at_random_never_hang(learner):
    """Any reads and writes; then the design still classifies after a restart.  Outside the map, and of what is write-only, reads give 0."""
    made, axi = learner
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    known = [register.offset + 4 * i for register in registers.of_design(made.config) for i in range(min(4, register.words))]
    readable = {register.offset + 4 * i for register in registers.of_design(made.config) if register.access != "write"
                for i in range(register.words)}
    constants = {BY_NAME[name].offset: value for name, value in registers.constants(made.config).items()}
    lines, offsets = [], []
    while len(lines) < RANDOM:
        offset = draw.choice(known) if draw.random() < 0.8 else draw.randrange(1 << registers.ADDRESS_BITS)
        kind = draw.random()
        if kind < 0.4:
            lines.append(f"read {offset}")
        elif kind < 0.98 or axi:
            value = draw.choice([draw.getrandbits(32), draw.getrandbits(3), 1 << draw.randrange(32)])
            if offset & ~3 == BY_NAME["COMMAND"].offset:
                value &= 0x3FFFFFF  # few replays
            lines.append(f"write {offset} {value} {15 if draw.random() < 0.9 else draw.randrange(16)}")
        else:
            lines.append(f"aborted {offset} {draw.randrange(2)} {draw.getrandbits(32)}")
        offsets.append(offset & ~3)
    with Bus(made, axi) as bus:
        for line, offset, answer in zip(lines, offsets, bus.many(lines)):
            *value, spent = map(int, answer.split())
            assert spent <= (8 if value else registers.PATIENCE + 6), line
            if value and offset < registers.LOGITS:
                assert value[0] == constants.get(offset, value[0] if offset in readable else 0), line
        assert bus.ask("restart") == [OK]
        [image] = hexes(made, strategies.images(1, 1, made.config.size))
        latent = inference.layers(made.network, strategies.images(1, 1, made.config.size))["latent"].reshape(1, -1)
        assert bus.ask("classify", 0, image)[4:] == made.learner().logits(latent)[0].tolist()


def test_commands_and_accesses_while_busy_are_dropped_and_said(learner):
    made, axi = learner
    command, access, data = (BY_NAME[name].offset for name in ("COMMAND", "ACCESS", "DATA"))
    [image] = strategies.images(1, 1, made.config.size)

    def known():
        return bus.read(STATUS) >> 16

    with Bus(made, axi) as bus:
        bus.write(BY_NAME["INTERRUPT"].offset, 2)
        for word in words(made, image):
            bus.until(STATUS, BIT["ROOM"], BIT["ROOM"])
            bus.write(PIXELS, word)
        bus.until(STATUS, BIT["DONE"], BIT["DONE"])
        bus.write(command, Command.LEARN | 2 << 8)  # waits until the result is taken
        assert bus.read(STATUS) & BIT["PENDING"] and bus.ask("clocks", 2000) == [0]
        assert bus.read(STATUS) & BIT["PENDING"] and known() == 2
        for dropped in (lambda: bus.write(command, Command.LEARN | 3 << 8), lambda: bus.write(access, Space.SCALARS)):
            dropped()
            assert bus.read(STATUS) & BIT["LOST"]
            bus.write(STATUS, BIT["LOST"])
        bus.write(STATUS, BIT["DONE"])
        bus.until(STATUS, BIT["PENDING"], 0)
        status = bus.read(STATUS)
        assert status & BIT["FINISHED"] and not status & (BIT["REFUSED"] | BIT["LOST"]) and known() == 3
        assert bus.ask("clocks", 1) == [1]
        bus.write(STATUS, BIT["FINISHED"])
        assert bus.ask("clocks", 1) == [0]
        bus.write(command, Command.LEARN | 4 << 8)  # no room for it
        bus.until(STATUS, BIT["PENDING"], 0)
        assert bus.read(STATUS) & BIT["REFUSED"] and known() == 3
        bus.write(command, Command.LEARN | 0x8001 << 8)  # of which the learner reads fewer bits
        bus.until(STATUS, BIT["PENDING"], 0)
        assert bus.read(STATUS) & BIT["REFUSED"]
        bus.write(access, Space.SCALARS)
        bus.until(STATUS, BIT["PENDING"], 0)
        assert bus.read(data) == 3
        bus.write(command, Command.FREEZE, 7)  # a part of a word
        assert bus.read(STATUS) & BIT["LOST"] and not bus.read(STATUS) & BIT["FROZEN"]


# The driver.

def twin_of(made, images):
    """(the reference learner, latents of images)."""
    return made.learner(), inference.layers(made.network, images)["latent"].reshape(len(images), -1)


@pytest.mark.parametrize("interrupt", [0, 1])
def test_the_driver_classifies_and_teaches(learner, interrupt):
    """Every logit is the reference's, and so is the state in the end; the answers to what it must refuse; by polls or by interrupt."""
    made, axi = learner
    images = strategies.images(3, 8, made.config.size)
    twin, latents = twin_of(made, images)
    sent = hexes(made, images)
    with Bus(made, axi) as bus:
        bus.ask("set", 0, interrupt, 0)
        assert bus.ask("identify") == [OK, int(made.config_id, 16), made.config.image_bytes, 2, 4]
        assert bus.ask("learn", 0) == [SAMPLE]
        for number, (image, latent, label) in enumerate(zip(sent, latents, (0, 1, 2, 2, 4, 3, 0, 2))):
            expected = twin.logits(latent[None])[0].tolist()
            failed, answer, unknown, cycles, *logits = bus.ask("classify", number % 4, image)
            assert (failed, logits, answer, unknown) == (OK, expected, expected.index(max(expected)), 0) and cycles > 0
            legal = label <= twin.known and label < 4
            assert bus.ask("learn", label) == [OK if legal else LABEL]
            if legal:
                twin.learn(latent[None], [label])
            assert bus.ask("known") == [OK, twin.known]
        assert bus.ask("store", 1) == [OK] and bus.ask("rehearse", 300) == [OK]
        twin.store(latents[-1:], [1])
        twin.rehearse(300)
        assert bus.ask("freeze", 1) == [OK] and bus.ask("learn", 0) == [FROZEN] and bus.ask("forget", 0) == [FROZEN]
        assert bus.ask("freeze", 0) == [OK]
        assert bus.ask("classify_many", 8, "".join(sent)) == [OK, *twin.classify(latents)]
        assert state(made, bus) == twin.snapshot()
        assert bus.ask("forget", 1) == [OK] and bus.ask("forget", 1) == [LABEL]
        twin.forget(1)
        assert state(made, bus) == twin.snapshot()
        assert bus.ask("forget", 3) == [OK] and bus.ask("known") == [OK, 3]
        twin.forget(3)
        assert bus.ask("classify", 0, sent[5])[4:] == twin.logits(latents[5:6])[0].tolist() and bus.ask("learn", 1) == [OK]
        twin.learn(latents[5:6], [1])
        assert state(made, bus) == twin.snapshot()
        assert (bus.ask("set", 0, 0, 0)[0] > 0) == interrupt


def state(made, bus):
    """The snapshot in the reference's format, from what the driver peeks."""
    def peek(space, address, count):
        found = [line.split() for line in bus.many([f"peek {space} {address + i}" for i in range(count)])]
        assert all(failed == "0" for failed, *_ in found)
        return [sum(int(part) << 32 * i for i, part in enumerate(parts)) for _, *parts in found]

    def poke(space, address, values):
        mask = (1 << 32) - 1
        lines = [f"poke {space} {address + i} " + " ".join(str(value >> 32 * k & mask) for k in range(4)) for i, value in enumerate(values)]
        assert set(bus.many(lines)) == {"0"}

    chip = ChipState(made.config.learning, made.learner(), peek, poke)
    text = chip.snapshot()
    chip.write(chip.read())  # by POKE, word by word
    return text


def test_snapshots_of_the_driver(learner):
    """A state comes back, in another chip too; a damaged snapshot changes nothing."""
    made, axi = learner
    images = strategies.images(3, 5, made.config.size)
    twin, latents = twin_of(made, images)
    with Bus(made, axi) as bus:
        bus.ask("identify")
        for image, latent, label in zip(hexes(made, images), latents, (2, 0, 2, 3, 1)):
            assert bus.ask("classify", 0, image)[0] == bus.ask("learn", label)[0] == OK
            twin.learn(latent[None], [label])
        text = bus.many(["snapshot"])[0].split()
        assert text[0] == "0" and int(text[1]) * 2 == len(text[2])
        assert int(text[1]) == wake_up.formula(wake_up.constants(made), made.config.learning.slots)  # all are taken
        assert int(text[1]) == wake_up.constants(made)["SNAPSHOT_BYTES"]
        assert bus.ask("restart") == [OK] and bus.ask("known") == [OK, 2]
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        for _ in range(5):
            at = random.Random(seed).randrange(len(text[2]))
            damaged = text[2][:at] + f"{int(text[2][at], 16) ^ 1:x}" + text[2][at + 1:]
            assert bus.ask("restore", damaged) == [DAMAGED]
        assert bus.ask("restore", text[2][:-2]) == [DAMAGED] and state(made, bus) == made.learner().snapshot()
    with Bus(made, axi) as bus:
        bus.ask("identify")
        assert bus.ask("restore", text[2]) == [OK] and state(made, bus) == twin.snapshot()
        assert bus.many(["snapshot"])[0].split() == text


def test_a_snapshot_under_other_weights_is_taken(learner, tmp_path):
    """Its mark is that of the configuration, not of the network: another training of the same model takes up the learner's state."""
    made, axi = learner
    other = design.generate(strategies.fill(made.network.topology, 2), "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=3,
                            forget=True, wrapper="axi-lite" if axi else "wishbone")
    assert other.config_id == made.config_id and other.read("weights.bin") != made.read("weights.bin")
    [image] = hexes(made, strategies.images(3, 1, made.config.size))
    with Bus(made, axi) as bus:
        bus.ask("identify")
        assert bus.ask("classify", 0, image)[0] == bus.ask("learn", 2)[0] == OK
        text, kept = bus.many(["snapshot"])[0].split()[2], state(made, bus)
    with Bus(other, axi) as bus:
        bus.ask("identify")
        assert bus.ask("restore", text) == [OK] and bus.many(["snapshot"])[0].split()[2] == text and state(made, bus) == kept


def test_the_driver_gives_up_and_goes_on(learner):
    """A wait that ends too early, by polls or by the user's function; the next call finishes what was begun."""
    made, axi = learner
    images = strategies.images(3, 2, made.config.size)
    twin, latents = twin_of(made, images)
    sent = hexes(made, images)
    with Bus(made, axi) as bus:
        bus.ask("identify")
        assert bus.ask("classify", 0, sent[0])[0] == OK
        bus.ask("set", 2, 0, 0)
        assert bus.ask("classify", 0, sent[1])[0] == TIMEOUT and bus.ask("learn", 1) == [TIMEOUT]
        bus.ask("set", 0, 1, 1)
        bus.ask("identify")
        assert bus.ask("classify", 0, sent[1])[0] == TIMEOUT
        bus.ask("set", 0, 0, 0)
        expected = twin.logits(latents)[1].tolist()
        assert bus.ask("classify", 0, sent[1])[4:] == expected
        bus.write(PIXELS, 7)  # somebody else's
        bus.ask("clocks", 50)
        assert bus.ask("classify", 0, sent[1])[4:] == expected


def test_words_of_64_bits_and_an_answer_of_unknown(tmp_path):
    """A learner of means from no class on, whose words are two of the bus; snapshots and forgetting are those of the reference too."""
    layers = (*strategies.smallest_learner().topology.ops[:-2], op.Dense(LATENT, ("gap",), 64),
              op.Dense("logits", (LATENT,), 2, logits=True))
    network = strategies.fill(Topology("wide", layers, ("a", "b")), 1)
    made = design.generate(network, "generic", out=tmp_path, learn="nearest-mean", unknown=True, forget=True, max_classes=5, pixels=4,
                           lanes=64, outputs=8, wrapper="wishbone")
    images = strategies.images(16, 12, made.config.size)
    images[9:] = np.array([0, 255, 128], np.uint8)[:, None, None, None]  # unlike the others
    twin, latents = twin_of(made, images)
    said = set()
    with Bus(made) as bus:
        assert bus.ask("identify")[3:] == [0, 5]
        for number, (image, latent) in enumerate(zip(hexes(made, images), latents)):
            label = min(number % 4, twin.known)
            failed, answer, unknown, _, *logits = bus.ask("classify", 0, image)
            assert failed == OK and logits == twin.logits(latent[None])[0].tolist()
            if twin.known:
                assert (answer, unknown) == (twin.classify(latent[None])[0], twin.unknown(latent[None])[0])
                said.add(unknown)
            assert bus.ask("learn", label) == [OK]
            twin.learn(latent[None], [label])
        assert said == {0, 1} and state(made, bus) == twin.snapshot()
        kept = bus.many(["snapshot"])[0].split()[2]
        assert len(kept) == 2 * wake_up.constants(made)["SNAPSHOT_BYTES"]
        assert bus.ask("forget", 1) == [OK]
        twin.forget(1)
        assert state(made, bus) == twin.snapshot() != kept
        assert bus.ask("restore", kept) == [OK] and bus.many(["snapshot"])[0].split()[2] == kept


def test_the_driver_of_a_design_that_does_not_learn(plain):
    images = strategies.images(3, 3, plain.config.size)
    logits = inference.logits(plain.network, images).tolist()
    with Bus(plain) as bus:
        assert bus.ask("identify")[0] == OK
        for image, expected in zip(hexes(plain, images), logits):
            assert bus.ask("classify", 0, image)[4:] == expected
        for word in ("learn", "store", "freeze", "forget"):
            assert bus.ask(word, 0) == [UNFIT]
        assert bus.ask("known")[0] == bus.ask("peek", 0, 0)[0] == bus.ask("snapshot")[0] == UNFIT


def test_what_a_wake_up_costs(tmp_path):
    """A load takes five clocks a word, as docs/weights.md has it; a snapshot has the bytes of its formula."""
    made = design.generate(strategies.smallest_learner(), out=tmp_path, learn=True, max_classes=4, exemplars=9, **wake_up.ARRAY)
    found = wake_up.wake_up(made, strategies.images(3, 5, made.config.size))
    load, snapshot, restore = (found[call] for call in ("load", "snapshot", "restore"))
    assert 0 < load["clocks"] - 5 * load["bytes"] // 4 < 200
    assert snapshot["bytes"] == snapshot["by_formula"] == restore["bytes"]
    assert min(snapshot["clocks"], restore["clocks"]) > snapshot["bytes"]


# The files.

def test_one_table_for_all_files(learner):
    made, _ = learner
    listed = json.loads((made.folder / "registers.json").read_text())["registers"]
    assert [entry["name"] for entry in listed] == [register.name for register in registers.of_design(made.config)]
    header, page = (made.folder / "registers.h").read_text(), (made.folder / "registers.md").read_text()
    for entry in listed:
        assert re.search(rf"#define FBNN_HW_{entry['name']} {entry['offset']:#05x} ", header)
        assert f"`{entry['offset']:#05x}`" in page and f"| {entry['name']} | {entry['access']} |" in page
        for field in entry["fields"]:
            mask = (1 << field["bits"]) - 1 << field["low"]
            assert f"#define FBNN_HW_{entry['name']}_{field['name']} {mask:#010x}u" in header
            assert f" {field['name']} | {field['meaning']}" in page
    assert not re.search(r"\{\w+\}", page)


def test_registers_do_not_overlap():
    places = [register.offset + 4 * i for register in registers.REGISTERS for i in range(register.words)]
    assert len(set(places)) == len(places) and max(places) < 1 << registers.ADDRESS_BITS
    for register in registers.REGISTERS:
        assert sum(field.mask for field in register.fields) < 1 << 32
        taken = 0
        for field in register.fields:
            assert not taken & field.mask
            taken |= field.mask


def test_registers_of_bits_are_as_long_as_the_driver_says():
    """fbnn.c has the widths of the random registers once more."""
    from fbnn_hw.design.registers import DRIVER

    widths = re.search(r"register_bits\[\] = \{([\d, ]+)\}", (DRIVER / "fbnn.c").read_text())[1]
    assert [int(width) for width in widths.split(",")] == [taps.width for taps in REGISTERS.values()]


def test_nothing_else_of_a_design_changes(plain, tmp_path):
    without = design.generate(strategies.smallest(), "generic", out=tmp_path).folder
    assert without.name == plain.folder.name and (without / "config.json").read_bytes() == (plain.folder / "config.json").read_bytes()
    more = {path.name for path in plain.folder.iterdir() if path.is_file()} - {path.name for path in without.iterdir()}
    assert more - {"fbnn.o"} == {"accelerator_wb.v", "accelerator_wb.sdc", "instance_wb.v", "fbnn.c", "fbnn.h", "registers.h",
                                 "registers.json", "registers.md"}
