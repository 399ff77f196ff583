"""The keeper alone, between the model of a flash and a learner's memory, in Verilator."""

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.machine.kept import CRC_BYTES, PAGE, SlotMemory, SlotPlan, newest
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl.keeper_program import Program, program_size
from tests.rtl.keeper.cuts import cut
from tests.rtl.keeper.puppet import MARK, MODEL, Case, Puppet, build, plan, rng

CASES = {"small": Case(plan()), "sectors": Case(plan(16, 20, 256), latency=1, base=0x80000, address_bits=10),
         "means": Case(plan(4, 1, rule="nearest-mean", replays=0, thinning=0, prototype=0, unknown=True, forget=True), latency=0),
         "CRC in two pages": Case(plan(16, 3)), "CRC at a page": Case(plan(9, 6)), "CRC ends a page": Case(plan(3, 8))}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    made = {}

    def program(name):
        if name not in made:
            made[name] = build(CASES[name], tmp_path_factory.mktemp(name))
        return made[name]
    return program


@pytest.mark.parametrize("name", CASES)
def test_states_are_kept(programs, name):
    """Three states: the newest is loaded after a boot, each undo gives the one before, and the bytes are those of the codec."""
    case = CASES[name]
    with Puppet(case, programs(name), 3) as keeper:
        shipped = keeper.fill(9)
        state = keeper.run(until=3)
        assert keeper.words() == shipped and not (state.undoable or state.foreign or state.failed)
        keeper.run(until=2)
        first, second = keeper.fill(1), None
        assert not keeper.save().failed and keeper.words() == first
        keeper.run(until=2)
        second = keeper.fill(2)
        state = keeper.save()
        assert state.undoable and keeper.words() == second
        keeper.run(until=2)
        keeper.fill(9)
        assert keeper.restart().undoable and keeper.words() == second
        slots = keeper.slots()
        memory, sequence = SlotMemory.unpack(case.slot, slots[newest(case.slot, slots, MARK, MODEL)], MARK, MODEL)
        assert [word for space, at, count in case.slot.tables for word in memory.peek(space, at, count)] == second
        assert memory.pack(MARK, MODEL, sequence) == slots[newest(case.slot, slots, MARK, MODEL)]
        assert keeper.undo().done and keeper.words() == first
        keeper.fill(9)
        assert not keeper.restart().undoable and keeper.words() == first
        assert keeper.faults() == {} and keeper.state().stray == 0


def test_pages_of_the_crc():
    """Where the CRC begins and ends in its page."""
    places = {name: (case.slot.bytes - CRC_BYTES) % PAGE for name, case in CASES.items() if name.startswith("CRC")}
    assert places == {"CRC in two pages": PAGE - 2, "CRC at a page": 0, "CRC ends a page": PAGE - CRC_BYTES}


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_the_program_fits(lanes):
    """It is as small as the choice of its memory says, for each size of a learner that an iCE40 holds, and for wider words."""
    for slots in range(1, 260, 13):
        for classes in (3, 16, 64):
            for options in ({}, {"rule": "nearest-mean", "replays": 0, "thinning": 0, "prototype": 0}):
                config = LearnConfig(classes, slots, 4, confidence=3, **options)
                slot = SlotPlan(LearnPlan.of(Head(1024), config, 4, lanes, 2, learn_base=6400))
                program = Program(slot, MARK, 0, 22 - (slot.room - 1).bit_length(), 16)
                words, bits = program_size(slot.plan.host_bits)
                assert len(program.memory) <= words and program.layout.size <= bits


def test_slots_of_the_codec_are_loaded(programs):
    case, random = CASES["small"], rng(5)
    with Puppet(case, programs("small"), 4) as keeper:
        keeper.run(until=3)
        states = []
        for number, place in enumerate(case.slot.places(case.base)):
            memory = SlotMemory(case.slot)
            for space, first, count in case.slot.tables:
                memory.poke(space, first, [random.randrange(2 if space > 4 else 1 << 16) for _ in range(count)])
            states.append([word for space, first, count in case.slot.tables for word in memory.peek(space, first, count)])
            text = memory.pack(MARK, MODEL, 6 + number)  # 6, 7, 0
            keeper.say(f"write {place} {len(text)} {' '.join(map(str, text))}")
        assert keeper.restart().undoable and keeper.words() == states[2]
        assert keeper.undo().done and keeper.words() == states[1]


def damage(slot, number):
    """The bytes of a slot with something wrong in it, and what the codec says."""
    return [(b"\xff" + slot[1:], "no state"),
            (slot[:2] + b"\x7f" + slot[3:], "undone"), (slot[:249] + b"\x01" + slot[250:], "configuration"),
            (slot[:255] + b"\x01" + slot[256:], "model"), (slot[:247] + bytes([slot[247] ^ 4]) + slot[248:], "checksum"),
            (slot[:400] + bytes([slot[400] ^ 16]) + slot[401:], "checksum"), (slot[:-1] + bytes([slot[-1] ^ 1]), "checksum")][number]


@pytest.mark.parametrize("number", range(7))
def test_damage(programs, number):
    """A damaged slot is not loaded, nor read by the codec; the one before is."""
    case = CASES["small"]
    with Puppet(case, programs("small"), 5) as keeper:
        keeper.run(until=2)
        first = keeper.fill(1)
        keeper.save(), keeper.run(until=2)
        keeper.fill(2)
        keeper.save(), keeper.run(until=2)
        slots = keeper.slots()
        best = newest(case.slot, slots, MARK, MODEL)
        text, message = damage(slots[best], number)
        keeper.say(f"write {case.slot.places(case.base)[best]} {len(text)} {' '.join(map(str, text))}")
        keeper.fill(9)
        assert not keeper.restart().undoable and keeper.words() == first
        with pytest.raises(InputError, match=message):
            SlotMemory.unpack(case.slot, text, MARK, MODEL)


def test_another_design(programs):
    """Slots of another design are named, and not loaded; the next state is kept nevertheless.  An empty flash is none of them."""
    case = CASES["small"]
    with Puppet(case, programs("small"), 6) as keeper:
        assert not keeper.run(until=3).foreign
        text = SlotMemory(case.slot).pack(MARK[::-1], MODEL)
        for place in case.slot.places(case.base):
            keeper.say(f"write {place} {len(text)} {' '.join(map(str, text))}")
        assert keeper.restart().foreign
        keeper.run(until=2)
        kept = keeper.fill(1)
        assert not keeper.save().failed
        assert not keeper.restart().foreign and keeper.words() == kept


def test_a_worn_flash(programs):
    """A slot that does not hold what was written fails after two tries, and both states before stay."""
    case = CASES["sectors"]  # of which the first sector is full
    with Puppet(case, programs("sectors"), 7) as keeper:
        keeper.run(until=2)
        first = keeper.fill(1)
        assert not keeper.save().failed
        keeper.run(until=2)
        spare = next(n for n, slot in enumerate(keeper.slots()) if slot[:2] == b"\0\xff")
        third = next(n for n, slot in enumerate(keeper.slots()) if n != spare and slot[248:252] != MARK)
        keeper.say(f"value worn {case.slot.places(case.base)[third] // 4096 + 1}")
        second = keeper.fill(2)
        assert not keeper.save().failed
        keeper.run(until=2)
        erasures = keeper.value("erased")
        keeper.fill(3)
        state = keeper.save()
        assert state.failed and state.undoable and keeper.value("erased") > erasures
        keeper.fill(9)
        assert keeper.restart().ready and keeper.words() == second
        assert keeper.undo().done and keeper.words() == first


@pytest.mark.parametrize("name, cuts", [("small", 200), ("sectors", 20)])
def test_power_cuts(programs, name, cuts):
    assert cut(CASES[name], programs(name), cuts, 20261129).total() == cuts
