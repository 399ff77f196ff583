import itertools

import numpy as np
import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.ir.ops import planes
from fbnn_hw.train.memorizer import BitCode, LevelCode, Memorizer, shares

TYCC = LevelCode(planes("tycc", 16), 32)


def test_bits_of_a_sample_are_the_papers():
    assert TYCC.bits == 13312 == 13 * 1024 and LevelCode(planes("trgb", 85), 32).bits == 21 * 1024
    assert LevelCode(planes("tycc", 16), 128).bits == 13 * 128 ** 2  # 208 latents of 1024 bits


@pytest.mark.parametrize("encoder, levels", [("tycc", 16), ("tycc", 4), ("trgb", 85), ("trgb", 2)])
def test_packing_is_lossless_and_as_counted(encoder, levels):
    code = LevelCode(planes(encoder, levels), 6)
    rng = np.random.default_rng(0)
    samples = np.stack([rng.integers(0, n, (50, 6, 6), dtype=np.uint8) for n in code.planes], 1)
    memory = Memorizer(50 * code.bits, code)
    memory.update(samples, np.arange(50) % 5)
    found, labels = memory.samples()
    assert len(memory) == 50 and memory.packed.nbytes == 50 * -(-code.bits // 8)
    assert {(s.tobytes(), int(label)) for s, label in zip(found, labels)} == {(s.tobytes(), i % 5) for i, s in enumerate(samples)}


def test_images_of_which_none_enters():
    memory = Memorizer(TYCC.bits, TYCC)
    for label in range(3):
        memory.update(np.full((2, 3, 32, 32), label, np.uint8), [label] * 2)
    assert memory.labels.tolist() == [0] and not memory.samples()[0].any()


def test_shares_exhaustively():
    for available in itertools.product(range(5), repeat=3):
        for slots in range(13):
            given = shares(available, slots)
            assert given.sum() == min(slots, sum(available)) and (given <= available).all()
            for i, j in itertools.permutations(range(3), 2):  # nobody is more than one ahead of one who could have more
                assert given[i] <= given[j] + 1 or given[j] == available[j]


def test_always_full_and_balanced():
    rng = np.random.default_rng(1)
    memory = Memorizer(103 * 64, BitCode(64), seed=2)
    for task in range(5):
        memory.update(rng.integers(0, 2, (300, 64), dtype=np.uint8), rng.integers(2 * task, 2 * task + 2, 300))
        counts = np.bincount(memory.labels)
        assert len(memory) == 103 and len(counts) == 2 * task + 2 and counts.max() - counts.min() <= 1


def test_every_sample_has_the_same_chance():
    samples = np.eye(8, dtype=np.uint8).repeat(1, 0)
    seen = np.zeros(8)
    for seed in range(600):
        memory = Memorizer(4 * 8, BitCode(8), seed)
        memory.update(samples[:4], np.zeros(4, int))
        memory.update(samples[4:], np.zeros(4, int))  # the same class again
        seen += memory.samples()[0].sum(0)
    assert abs(seen / 600 - 0.5).max() < 0.08


def test_a_class_with_few_samples_leaves_its_share():
    memory = Memorizer(20 * 8, BitCode(8))
    memory.update(np.zeros((33, 8), np.uint8), np.array([0] * 30 + [1] * 3))
    assert np.bincount(memory.labels).tolist() == [17, 3]


def test_state():
    rng = np.random.default_rng(0)
    one, two = Memorizer(80 * 16, BitCode(16), 5), Memorizer(80 * 16, BitCode(16), 6)
    data = [(rng.integers(0, 2, (100, 16), dtype=np.uint8), rng.integers(t, t + 2, 100)) for t in (0, 2, 4)]
    one.update(*data[0])
    two.restore(one.state())
    for part in data[1:]:
        one.update(*part)
        two.update(*part)
    assert np.array_equal(one.packed, two.packed) and np.array_equal(one.labels, two.labels)


def test_ledger():
    memory = Memorizer(5_000_000, BitCode(1024))
    assert memory.ledger(50) == {
        "capacity_bits": 5_000_000, "bits_per_sample": 1024, "slots": 4882, "samples": 0, "classes": 50, "samples_per_class": 97.64,
        "used_bits": 0, "label_bits_per_sample": 6, "used_bits_with_labels": 0, "slots_if_labels_counted": 4854}


def test_too_small():
    with pytest.raises(UsageError) as error:
        Memorizer(30_000, TYCC).check(10)
    assert str(error.value) == ("--buffer-mb 0.03: holds 2 samples of 13312 bits, expected one for each of 10 classes; "
                                "use at least 0.134")
    Memorizer(134_000, TYCC).check(10)
