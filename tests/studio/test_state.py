"""The page's memory of a learner, scores and snapshots, by states of the reference: python tests/studio/test_state.py writes them anew."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.board.taught import Taught
from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.studio import page

HERE = Path(__file__).parent
VECTORS = HERE / "learner_vectors.json"
LEARNERS = (
    (Head(32), LearnConfig(max_classes=5, slots=6, counter_bits=4, prototype=3), 4, 16),
    (Head(64, copies=2, hidden=32, groups=2, hidden_copies=3), LearnConfig(max_classes=6, slots=9, confidence=32, prototype=16), 4, 16),
    (Head(64, hidden=64), LearnConfig(max_classes=9, slots=12, counter_bits=7, prototype=2), 8, 32),
    (Head(64, copies=2), LearnConfig(max_classes=6, slots=1, counter_bits=4, rule="means", replays=0, thinning=0), 4, 16))
NAMES = ["cat", "a \"b\"", "caf\u00e9 \U0001f375", "<img src=x onerror=alert(1)>"]


class Memory:
    """Spaces of a chip as dictionaries."""

    def __init__(self):
        self.words = {}

    def peek(self, space, address, count):
        return [self.words.get((space, address + n), 0) for n in range(count)]

    def poke(self, space, address, words):
        self.words.update({(int(space), address + n): int(word) for n, word in enumerate(words)})


def vectors():
    """The content of learner_vectors.json."""
    return [_vector(*one) for one in LEARNERS]


def _vector(head, config, pixels, lanes):
    source = np.random.default_rng(29)
    hidden = source.integers(0, 2, (head.hidden, head.hidden_fan_in), np.uint8)
    learner = Learner(head, config, hidden, source.integers(0, 2, (2, head.fan_in), np.uint8))
    labels = [2, 3, 2, 0, 3] * (5 if config.adds else 1)  # enough for counters at their ends
    learner.learn(source.integers(0, 2, (len(labels), head.latent), np.uint8), labels)
    memory, plan = Memory(), LearnPlan.of(head, config, pixels, lanes, 2, 3, 11)
    chip = ChipState(plan, learner, memory.peek, memory.poke)
    snapshot = learner.snapshot()
    chip.restore(snapshot)
    latents = source.integers(0, 2, (4, head.latent), np.uint8)
    return {
        "facts": page.of_learner(learner, plan), "snapshot": snapshot.hex(), "names": NAMES,
        "file": Taught(tuple(NAMES), snapshot).pack().hex(),
        "memory": [[space, address, format(word, "x")] for (space, address), word in sorted(memory.words.items()) if word],
        "latents": [row.tobytes().hex() for row in np.packbits(latents, axis=1, bitorder="little")],
        "scores": learner.logits(latents).tolist(),
        "samples": [row.tobytes().hex() for row in np.packbits(learner.sample_bits(latents), axis=1, bitorder="little")]}


def test_the_vectors_are_those_of_the_reference():
    assert json.loads(VECTORS.read_text()) == vectors()


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_page_reads_and_writes_the_same_states():
    told = subprocess.run(["node", str(HERE / "check_state.mjs")], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {"learners": len(LEARNERS), "refused": sum(8 + (not config.adds) for _, config, *_ in LEARNERS)}


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
