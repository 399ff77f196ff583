"""The page's memory of a learner, scores and snapshots, by states of the reference: python tests/studio/test_state.py writes them anew."""

import json
import shutil
import subprocess
import sys
import unicodedata
import zlib
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError, is_name, spelled
from fbnn_hw.board import lesson
from fbnn_hw.board.taught import HEAD, Taught, titled
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
    (Head(64, copies=2), LearnConfig(max_classes=6, slots=1, counter_bits=4, rule="means", replays=0, thinning=0), 4, 16),
    (Head(64), LearnConfig(max_classes=6, slots=1, counter_bits=4, rule="nearest-mean", replays=0, thinning=0), 4, 16),
    (Head(64), LearnConfig(max_classes=7, slots=1, counter_bits=4, rule="nearest-mean", replays=0, thinning=0, unknown=True, forget=True),
     4, 16),
    (Head(32), LearnConfig(max_classes=6, slots=9, prototype=3, forget=True), 4, 16))
LINES = ("[]", "[null]", "{}", '["a",]', "['a']", "[1]", "[NaN]", '["a"]x', '["a", "a"]', ' ["a" ,"b"] ', '["\\u0061", "a"]',
         '["a\\u0000"]', '["\\ud800"]', '\ufeff["a"]', '["\ufeffa"]', '["\ufffd"]', '["\u3000"]', '[" "]', '["cafe\u0301", "caf\u00e9"]',
         f'["{chr(0x1f375) * 100}"]', f'["{chr(0x1f375) * 101}"]', '["\udcff"]', '["\udced\udca0\udc80"]', '["\udcc0\udc80b"]')
"""First lines of files with names; bytes that are no UTF-8 as Python's surrogates."""
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
    shipped = 0 if config.rule == "nearest-mean" else 2
    learner = Learner(head, config, hidden, source.integers(0, 2, (shipped, head.fan_in), np.uint8))
    labels = [*range(shipped, 2), *[2, 3, 2, 0, 3] * (5 if config.adds else 1)]  # enough for counters at their ends
    learner.learn(source.integers(0, 2, (len(labels), head.latent), np.uint8), labels)
    memory, plan = Memory(), LearnPlan.of(head, config, pixels, lanes, shipped, 3, 11)
    chip = ChipState(plan, learner, memory.peek, memory.poke)
    names = list(NAMES)
    if config.forget:
        learner.forget(1)
        names[1] = None
    snapshot = learner.snapshot()
    chip.restore(snapshot)
    less = []  # [class, snapshot after it was forgotten, too]
    for label in (2, 3) if config.forget else ():
        other = Learner(head, config, hidden, learner.shipped)
        other.restore(snapshot)
        other.forget(label)
        less.append([label, other.snapshot().hex()])
    latents = source.integers(0, 2, (4, head.latent), np.uint8)
    near = []  # [class, latents of a lesson of it, those after it, close class and pictures mistaken or none] of lessons like other classes
    for label in (2, 3, learner.next_free) if config.adds else ():
        base = source.integers(0, 2, (2, head.latent), np.uint8)
        known = learner.counters[0].reshape(-1, head.copies)[:, 0] >= 0
        for start, flips in (known, 0.1), (base[0], 0.1), (base[1], 0.45):
            shown = (source.random((11, head.latent)) < flips) ^ np.asarray(start, bool)
            near.append(_close(learner, head, config, label, shown.astype(np.uint8), snapshot))
    return {
        "facts": page.of_learner(learner, plan), "snapshot": snapshot.hex(), "names": names, "less": less, "near": near,
        "file": Taught(tuple(names), snapshot).pack().hex(),
        "memory": [[space, address, format(word, "x")] for (space, address), word in sorted(memory.words.items()) if word],
        "latents": [row.tobytes().hex() for row in np.packbits(latents, axis=1, bitorder="little")],
        "scores": learner.logits(latents).tolist(),
        "changes": _changes(source, snapshot, learner),
        "lines": [[line.hex(), _taken(line + snapshot, learner)] for line in (
            HEAD + text.encode("utf-8", "surrogateescape") + b"\n" for text in LINES)],
        "samples": [row.tobytes().hex() for row in np.packbits(learner.sample_bits(latents), axis=1, bitorder="little")]}


def _close(learner, head, config, label, latents, snapshot):
    found = lesson.close(learner, list("012345"), label, latents)
    other = Learner(head, config, None, learner.shipped)
    other.restore(snapshot)
    other.learn(latents, [label] * len(latents))
    packed = [row.tobytes().hex() for row in np.packbits(latents, axis=1, bitorder="little")]
    return [label, packed, other.logits(latents).tolist(), found and {"index": int(found.name), "mistaken": found.mistaken}]


def _taken(data, learner):
    """Whether the program takes a file."""
    try:
        Taught.unpack(data).state(learner)
    except InputError:
        return False
    return True


def _changes(source, snapshot, learner, count=400):
    """[offset, byte, whether the snapshot is then of a state of this learner, under a right check sum], of parts that are no counters."""
    changes = []
    config = learner.config
    end = 49 + (2 + 2 * config.unknown + config.forget) * config.max_classes + (2 + learner.head.latent // 8) * learner.buffer.used
    drawn = [*((8, version) for version in range(5)),
             *zip(source.integers(18, end, count).tolist(), source.integers(0, 256, count).tolist())]
    for offset, byte in drawn:
        byte = byte if len(changes) % 4 else byte % 4
        changed = bytearray(snapshot)
        changed[offset] = byte
        changed[10:14] = zlib.crc32(changed[14:]).to_bytes(4, "little")
        changes.append([offset, byte, _taken(bytes(changed), learner)])
    return changes


def test_the_vectors_are_those_of_the_reference():
    assert json.loads(VECTORS.read_text()) == vectors()


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_page_reads_and_writes_the_same_states():
    told = subprocess.run(["node", str(HERE / "check_state.mjs")], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer.pop("names") == _runs(is_name)
    assert answer == {"learners": len(LEARNERS), "refused": sum(8 + (not config.adds) for _, config, *_ in LEARNERS)}


def _runs(rule):
    """[first, last + 1] of the runs of characters that a name may consist of, as text that JSON can carry."""
    legal = [number for number in range(sys.maxunicode + 1) if rule("a" + chr(number))]
    edges = [n for n, (one, other) in enumerate(zip([-2, *legal], [*legal, sys.maxunicode + 2])) if other - one > 1]
    return [[legal[a], legal[b - 1] + 1] for a, b in zip(edges, edges[1:])]


def test_a_name_that_any_python_can_show_is_a_name_and_no_other_control():
    for number in range(sys.maxunicode + 1):
        char, category = chr(number), unicodedata.category(chr(number))
        if category != "Cn":  # the version of Unicode does not know it
            assert is_name("a" + char) == (char == " " or category not in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp")), hex(number)
        assert is_name("a" + char) or not char.isprintable(), hex(number)


def test_names_of_classes_behind_those_of_a_file():
    assert titled(("b",), ("a", "b", "c")) == ("b", "class 1", "c")
    assert titled(("class 1", "b"), ("a", "class 1", "b")) == ("class 1", "b", "class 2")
    assert spelled("cafe\u0301") == "caf\u00e9"


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
