"""What a design made with --keep has in its flash, as what a board was taught, and back: `machine.kept` says what lies where."""

from functools import partial
from pathlib import Path

from ..design import Design
from ..link.chip import ChipState
from ..machine.kept import SLOTS, SlotMemory, SlotPlan, newest
from .taught import Taught


def _state(design: Design, memory: SlotMemory) -> ChipState:
    return ChipState(design.config.learning, design.learner(), memory.peek, memory.poke)


def unpack(data: bytes, where: str | Path, design: Design) -> Taught:
    """What the newest flash slot holds.

    data: bytes of a flash from a slot on, of one or all three.  where: the file, in messages.  Raises InputError where no slot has a
    state of this design.
    """
    slot = SlotPlan(design.config.learning)
    slots = [data[place:place + slot.bytes] for place in range(0, max(1, len(data) - slot.bytes + 1), slot.room)][:SLOTS]
    best = newest(slot, slots, *design.marks)
    memory, _ = SlotMemory.unpack(slot, slots[best or 0], *design.marks, str(where))
    return Taught((), _state(design, memory).snapshot())


def pack(taught: Taught, design: Design) -> bytes:
    """The bytes of the three slots, the first of which has the state.  design: made with --keep."""
    slot = SlotPlan(design.config.learning)
    memory = SlotMemory(slot)
    _state(design, memory).restore(taught.snapshot)
    return memory.pack(*design.marks).ljust(SLOTS * slot.room, b"\xff")


def read(path: str | Path, design: Design | None) -> Taught:
    """From a file of a flash, or of `Taught`.  Raises InputError as `unpack` and `Taught.read` do."""
    return Taught.read(path, partial(unpack, design=design) if design and design.config.keeps else None)
