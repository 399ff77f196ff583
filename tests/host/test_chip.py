"""The state of a learner on a chip that is a dictionary: what it may say, and what is written to it."""

import random

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError, show
from fbnn_hw.compile.learn_plan import LearnPlan
from fbnn_hw.host.chip import ChipState, Space, marks_of
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from tests.reference.test_learning import resealed

HEAD = Head(32)
CONFIG = LearnConfig(max_classes=5, slots=6, counter_bits=4, prototype=3)


class Memory:
    """Spaces of a chip as dictionaries."""

    def __init__(self):
        self.words, self.pokes = {}, 0

    def peek(self, space, address, count):
        return [self.words.get((space, address + n), 0) for n in range(count)]

    def poke(self, space, address, words):
        self.pokes += 1
        self.words.update({(space, address + n): int(word) for n, word in enumerate(words)})


def taught():
    """(chip, its memory, snapshot): four of five classes known, three of six exemplars."""
    source = np.random.default_rng(3)
    learner = Learner(HEAD, CONFIG, output=source.integers(0, 2, (2, 32), dtype=np.uint8))
    learner.learn(source.integers(0, 2, (3, 32), dtype=np.uint8), [2, 3, 2])
    memory = Memory()
    chip = ChipState(LearnPlan.of(HEAD, CONFIG, 4, 16, 2, 3, 11), learner, memory.peek, memory.poke)
    kept = learner.snapshot()
    chip.restore(kept)
    assert chip.snapshot() == kept and chip.marks() == marks_of(learner)
    return chip, memory, kept


@pytest.mark.parametrize("space, address, value, line", [
    (Space.SCALARS, 0, 6, "classes known: 6, expected at most 5"),
    (Space.SCALARS, 0, 2 ** 2040, f"classes known: {show(2 ** 2040)}, expected at most 5"),
    (Space.SCALARS, 0, 1, "classes known: 1, expected 2 to 5"),
    (Space.SCALARS, 1, 7, "exemplars: 7, expected at most 6"), (Space.SCALARS, 2, 2, "frozen: 2, expected at most 1"),
    (Space.LABELS, 2, 4, "class of exemplar 2: 4, expected one below 4, the classes known"),
    (Space.PRESENTED, 1, 255, "presentations of class 1: 255, expected at most 254"),
    (Space.PRESENTED, 1, 4 << 8, "prototype presentations to come of class 1: 4, expected at most 3"),
    (Space.PRESENTED, 1, 1 << 16, "presentations of a class: 65536, expected at most 65535"),
    (Space.MASK, 5, 2, "bit of a register: 2, expected at most 1")])
def test_a_chip_that_says_what_cannot_be(space, address, value, line):
    chip, memory, _ = taught()
    memory.words[space, address] = value
    with pytest.raises(InputError) as error:
        chip.snapshot()
    assert str(error.value) == f"the board's learner: {line}"


def test_a_register_that_stands_still():
    chip, memory, _ = taught()
    memory.poke(Space.NOISE, 0, [0] * 31)
    with pytest.raises(InputError) as error:
        chip.snapshot()
    assert str(error.value) == "the board's learner: register noise: 0, expected 1 to 2147483647"


def test_random_words_of_a_chip_give_a_state_or_one_line():
    source, states = random.Random(1), 0
    for _ in range(150):
        chip, memory, _ = taught()
        for _ in range(source.choice((1, 2, 8))):
            memory.words[source.choice(list(memory.words))] = source.choice((0, 1, 255, 65535, source.randrange(65536)))
        try:
            text = chip.snapshot()
        except InputError as error:
            assert "\n" not in str(error)
        else:
            states += 1
            chip.learner.restore(text)
    assert 10 < states < 140


@pytest.mark.parametrize("learns", [True, False])
def test_nothing_is_written_of_a_snapshot_that_is_refused(learns):
    chip, memory, kept = taught()
    before = dict(memory.words), memory.pokes
    damaged = bytearray(kept)
    damaged[59] = 7  # the class of the first exemplar
    with pytest.raises(InputError) as error:
        chip.restore(resealed(damaged), "x", learns)
    assert str(error.value) == "x: class of exemplar 0: 7, expected one below 4, the classes known"
    assert (memory.words, memory.pokes) == before
