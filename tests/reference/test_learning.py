"""The integer learner against a slow one written from the documentation, over whole incremental sequences; its registers and tables."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw import bits
from fbnn_hw.errors import InputError, UsageError
from fbnn_hw.ir.models import build
from fbnn_hw.reference.learning import Head, LearnConfig, Learner, counters, gumbel_table, lfsr
from tests import strategies
from tests.reference.slow_learner import REGISTERS, Register, SlowLearner, table

# registers


@pytest.mark.parametrize("taps", [lfsr.Taps(3, 1), lfsr.Taps(7, 1), lfsr.Taps(9, 4), lfsr.Taps(15, 7), lfsr.Taps(17, 3)])
def test_the_period_of_small_registers_is_full(taps):
    period = 2 ** taps.width - 1
    found = lfsr.block(taps, 1, 2 * period + taps.width)
    assert (found[:period] == found[period:2 * period]).all()
    windows = np.lib.stride_tricks.sliding_window_view(found[:period + taps.width - 1], taps.width) @ (1 << np.arange(taps.width))
    assert len(np.unique(windows)) == period  # every state but 0


def power_of_x(exponent, taps):
    """x^exponent modulo x^width + x^tap + 1 over GF(2), as an integer."""
    modulus = 1 << taps.width | 1 << taps.tap | 1
    result, base = 1, 2

    def times(a, b):
        out = 0
        while b:
            if b & 1:
                out ^= a
            b >>= 1
            a <<= 1
            if a >> taps.width:
                a ^= modulus
        return out

    while exponent:
        if exponent & 1:
            result = times(result, base)
        base, exponent = times(base, base), exponent >> 1
    return result


@pytest.mark.parametrize("taps, primes", [
    (lfsr.NOISE, (2 ** 31 - 1,)), (lfsr.MASK, (7, 7, 73, 127, 337, 92737, 649657)), (lfsr.PICK, (2351, 4513, 13264529))])
def test_the_period_of_the_registers_is_full(taps, primes):
    period = 2 ** taps.width - 1
    assert math.prod(primes) == period and power_of_x(period, taps) == 1
    assert all(power_of_x(period // p, taps) != 1 for p in primes)


@pytest.mark.parametrize("name", REGISTERS)
def test_register_twin(name):
    taps = {"noise": lfsr.NOISE, "mask": lfsr.MASK, "pick": lfsr.PICK}[name]
    for seed in (0, 1, 2 ** 32 - 1):
        slow = Register(name, seed)
        fast = lfsr.Lfsr(taps, taps.start(seed, list(REGISTERS).index(name)))
        rng = random.Random(seed)
        for _ in range(300):
            count = rng.choice((1, 2, 8, 31, 100, 3000))
            if count <= 8:
                assert fast.word(count) == slow.word(count)
            else:
                assert fast.bits(count).tolist() == [slow.bit() for _ in range(count)]
            assert fast.state == slow.state


def test_draws_go_on_beyond_a_block():
    fast = lfsr.Lfsr(lfsr.PICK, 5)
    whole = lfsr.block(lfsr.PICK, 5, 3 * lfsr.BLOCK_BITS)
    parts = []
    for width in (7, 11, 13):
        words = [fast.word(width) for _ in range(lfsr.BLOCK_BITS // width // 2)]
        parts += [w >> i & 1 for w in words for i in range(width)]
    assert fast.taken == len(parts)
    parts += fast.bits(lfsr.BLOCK_BITS + 77).tolist()
    assert fast.taken == len(parts)
    assert (whole[:len(parts)] == parts).all()


def test_gumbel_table():
    assert gumbel_table(128) == tuple(table(128)) and gumbel_table(1)[:2] == (-2, -2)
    found = np.array(gumbel_table(1000)) / 1000
    assert (np.diff(found) > 0).all() and found[0] == -1.831 and found[-1] == 6.237
    assert abs(found.mean() - 0.5772) < 0.01 and abs(found.var() - math.pi ** 2 / 6) < 0.08  # the tail is cut at 6.24


def test_the_drawn_class_follows_the_softmax():
    scores, temperature = np.array([0, 100, 250]), 100
    noise = np.array(gumbel_table(temperature))[lfsr.block(lfsr.NOISE, 99, 8 * 3 * 40000).reshape(-1, 3, 8) @ (1 << np.arange(8))]
    found = np.bincount((scores + noise).argmax(1), minlength=3) / 40000
    expected = np.exp(scores / temperature) / np.exp(scores / temperature).sum()
    assert np.abs(found - expected).max() < 0.01


# counters

@pytest.mark.parametrize("width", range(1, 9))
def test_planes_of_counters(width):
    rng, count, top = np.random.default_rng(width), 37, 2 ** (width - 1)
    h = rng.integers(-top, top, (5, count))
    rows = counters.to_planes(h, width)
    assert (counters.from_planes(rows, count) == h).all() and counters.from_planes([], count).shape == (0, count)
    assert [row[-1] for row in rows] == bits.to_integers(h >= 0)
    for _ in range(300):  # far into saturation
        towards, moves = rng.integers(0, 2, (2, 5, count))
        towards[0], moves[1] = 1, 1
        for row, t, k in zip(rows, bits.to_integers(towards), bits.to_integers(moves)):
            counters.step(row, t, k, 2 ** count - 1)
        h = np.clip(h + moves * (2 * towards - 1), -top, top - 1)
        assert (counters.from_planes(rows, count) == h).all()
    for confidence in range(top):
        row = counters.start(0b0110, width, 0b1111, confidence)
        assert counters.from_planes([row], 4).tolist() == [[-1 - confidence, confidence, confidence, -1 - confidence]]


# whole sequences

def random_case(seed):
    """(head, config, shipped hidden, shipped rows, latents, labels): small, and of every option."""
    rng = random.Random(seed)
    groups = rng.choice((1, 2))
    hidden = rng.choice((0, 0, 4, 6))
    head = Head(rng.choice((8, 12, 20)), rng.choice((1, 2)), hidden, groups if hidden else 1, rng.choice((1, 2)) if hidden else 1)
    classes = rng.choice((1, 2, 3, 5, 6))
    hidden_bits = rng.choice((0, 1, 2, 4, 8)) if hidden else 0
    bits = rng.choice((1, 2, 3, 5, 8))
    config = LearnConfig(
        classes, rng.choice((1, 2, 5, 8, 13)), bits, hidden_bits, rng.choice(("gumbel", "metaplastic", "margin", "flip")),
        rng.choice((1, 5, 20)), rng.choice((0, 3, 9)), rng.choice((0, 0, 1, 3)), rng.choice((0, 1, 2)), rng.choice((0, 3, 100)),
        rng.randrange(2 ** (min([b for b in (bits, hidden_bits) if b]) - 1)), rng.choice((0, 1, 3)),
        rng.choice(("slot", "class", "least")), rng.random() < 0.4, rng.choice((0, 0, 2)), rng.randrange(1000))
    numbers = np.random.default_rng(seed)
    shipped = rng.randrange(classes + 1)
    count = rng.choice((30, 80))
    labels, known = [], shipped
    for _ in range(count):
        new = known < classes and (not known or rng.random() < 4 * classes / count)
        labels.append(known if new else rng.randrange(known))
        known += new
    return (head, config, numbers.integers(0, 2, (hidden, head.hidden_fan_in), np.uint8),
            numbers.integers(0, 2, (shipped, head.fan_in), np.uint8), numbers.integers(0, 2, (count, head.latent), np.uint8), labels)


def assert_equal(fast, slow):
    assert fast.known == slow.known and fast.presented == slow.presented and fast.prototypes_left == slow.left
    assert fast.counters[:fast.known].tolist() == slow.rows
    if fast.config.hidden_counter_bits:
        assert fast.hidden_counters.tolist() == slow.hidden
    buffer = fast.buffer
    assert buffer.used == slow.used and buffer.counts == slow.counts and buffer.labels[:buffer.used] == slow.labels[:slow.used]
    found = buffer.latents.tolist()
    assert found == slow.slots[:slow.used]
    assert fast.registers == (slow.noise.state, slow.mask.state, slow.pick.state)


@pytest.mark.parametrize("seed", range(60))
def test_sequences(seed):
    head, config, hidden, output, latents, labels = random_case(seed)
    fast, slow = Learner(head, config, hidden, output), SlowLearner(head, config, hidden.tolist(), output.tolist())
    assert_equal(fast, slow)
    middle = len(labels) // 2
    for part in (slice(0, middle), slice(middle, None)):
        fast.learn(latents[part], np.array(labels[part]))
        for latent, label in zip(latents[part].tolist(), labels[part]):
            slow.learn(latent, label)
        assert_equal(fast, slow)
        assert fast.classify(latents).tolist() == [slow.classify(x) for x in latents.tolist()]
        other = Learner(head, config, hidden, output)  # a chip that was just powered up
        other.restore(fast.snapshot())
        assert other.snapshot() == fast.snapshot()
        fast = other
    fast.rehearse(7)
    fast.store(latents[:3], np.zeros(3, int))
    for _ in range(7):
        slow.replay()
    for latent in latents[:3].tolist():
        slow.store(latent, 0)
    assert_equal(fast, slow)
    fast.reset()
    assert fast.snapshot() == Learner(head, config, hidden, output).snapshot()


def test_the_random_cases_reach_the_corners():
    cases = [random_case(seed)[1:] for seed in range(60)]
    learners = []
    for seed in range(60):
        head, config, hidden, output, latents, labels = random_case(seed)
        learner = Learner(head, config, hidden, output)
        learner.learn(latents, np.array(labels))
        learners.append(learner)
    assert any(c.max_classes == 1 for c, *_ in cases) and any(c.weighted for c, *_ in cases)
    assert sum(x.buffer.used == x.config.slots for x in learners) > 30  # evictions
    tops = [2 ** (x.config.counter_bits - 1) for x in learners]
    assert sum((np.abs(x.counters + 0.5).max(1) == top - 0.5).all() for x, top in zip(learners, tops)) > 20  # saturated in each row
    assert sum(x.known == x.config.max_classes > 1 for x in learners) > 20


def test_counts_of_presentations_are_halved():
    head, config = Head(8), LearnConfig(1, 2, replays=5)
    fast, slow = Learner(head, config), SlowLearner(head, config, [], [])
    latents = np.random.default_rng(0).integers(0, 2, (60, 8), np.uint8)
    fast.learn(latents, np.zeros(60, int))
    for latent in latents.tolist():
        slow.learn(latent, 0)
    assert_equal(fast, slow)
    assert fast.presentations == 1 + 59 * 6 and fast.presented[0] == (355 - 255) + 127


# meaning

def test_ties_go_to_the_lowest_class():
    output = np.zeros((3, 8), np.uint8)
    learner = Learner(Head(8), LearnConfig(3, 4, rule="margin", thinning=0), output=output)
    latent = np.ones((1, 8), np.uint8)
    assert learner.logits(latent).tolist() == [[-8, -8, -8]] and learner.classify(latent).tolist() == [0]
    learner.config = replace(learner.config, replays=0)
    learner.learn(latent, np.array([2]))  # a lead of 0 is a margin of 0
    assert learner.updates == 0
    learner = Learner(Head(8), LearnConfig(3, 4, rule="margin", margin=1, thinning=0, replays=0), output=output)
    learner.learn(latent, np.array([2]))
    assert learner.counters.tolist() == [[-2] * 8, [-1] * 8, [0] * 8]  # the rival is the lowest of the equal ones


def test_saturation():
    for width in (1, 2, 8):
        learner = Learner(Head(4), LearnConfig(2, 2, width, prototype=255, replays=0), output=np.zeros((1, 4), np.uint8))
        latents = np.array([[1, 1, 0, 0]], np.uint8).repeat(200, 0)
        learner.learn(latents, np.ones(200, int))
        top = 2 ** (width - 1)
        assert learner.counters[1].tolist() == [top - 1, top - 1, -top, -top]


def test_the_buffer_is_full_and_balanced():
    rng = np.random.default_rng(3)
    learner = Learner(Head(16), LearnConfig(5, 23, replays=0))
    for c in range(5):
        learner.learn(rng.integers(0, 2, (60, 16), np.uint8), np.full(60, c))
        counts = learner.buffer.counts[:c + 1]
        assert sum(counts) == 23 and max(counts) - min(counts) <= 1 and learner.buffer.labels.count(c) == counts[c]


def test_replays_of_the_least_presented_class_balance_the_presentations():
    rng = np.random.default_rng(4)
    learner = Learner(Head(16), LearnConfig(4, 20, replays=3))
    for c in range(4):
        learner.learn(rng.integers(0, 2, (20, 16), np.uint8), np.full(20, c))
    learner.learn(rng.integers(0, 2, (40, 16), np.uint8), np.full(40, 3))
    found = learner.presented
    assert max(found) - min(found) <= 1


def test_it_learns():
    rng = np.random.default_rng(5)
    prototypes, labels = rng.integers(0, 2, (6, 128), np.uint8), rng.integers(0, 6, 600)
    labels[:6] = range(6)
    latents = prototypes[labels] ^ (rng.random((600, 128)) < 0.3)
    learner = Learner(Head(128), LearnConfig(6, 60, temperature=16))
    for c in range(0, 6, 2):
        part = (labels >= c) & (labels < c + 2)
        learner.learn(latents[part][np.argsort(labels[part], kind="stable")], np.sort(labels[part]))
    assert (learner.classify(latents) == labels).mean() > 0.95


def test_frozen():
    learner = Learner(Head(8), LearnConfig(2, 3))
    latents = np.random.default_rng(1).integers(0, 2, (5, 8), np.uint8)
    learner.learn(latents, np.array([0, 1, 0, 1, 1]))
    learner.freeze()
    before = learner.snapshot()
    learner.learn(latents, np.zeros(5, int))
    learner.rehearse(5)
    learner.store(latents, np.zeros(5, int))
    assert learner.snapshot() == before
    learner.freeze(False)
    learner.rehearse(1)
    assert learner.snapshot() != before


def test_of_a_network():
    network = strategies.fill(build("0.5mb"), 1)
    learner = Learner.of(network, LearnConfig(12, 4, hidden_counter_bits=4))
    assert learner.head == Head(1024, 2, 128, 2, 2) and learner.known == 10
    from fbnn_hw.reference import inference

    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), np.uint8)
    layers = inference.layers(network, images)
    latents = layers["latent"].reshape(3, -1)
    assert (learner.logits(latents) == layers["logits"]).all()
    assert Learner.of(network, LearnConfig(12, 4), keep_classes=False).known == 0
    ledger = learner.config.ledger(learner.head)
    assert ledger == {"output_counter_bits": 12 * 2304 * 8, "hidden_counter_bits": 131072 * 4, "latent_bits": 4096, "label_bits": 16,
                      "count_bits": 12 * (3 + 8), "total_bits": 12 * 2304 * 8 + 131072 * 4 + 4096 + 16 + 12 * 11}


# errors

@pytest.mark.parametrize("change, line", [
    (dict(counter_bits=9), "counter_bits: found 9, expected a whole number from 1 to 8"),
    (dict(slots=0), "slots: found 0, expected a whole number from 1 to 16777216"),
    (dict(rule="adam"), "rule: found 'adam', expected one of gumbel, margin, flip, metaplastic"),
    (dict(counter_bits=4, confidence=8), "confidence: found 8, expected below 8, half the range of counter_bits = 4"),
    (dict(hidden_counter_bits=4), "hidden_counter_bits: found 4, but the head has no hidden layer; expected 0"),
])
def test_configurations_that_are_refused(change, line):
    with pytest.raises(UsageError) as error:
        Learner(Head(8), replace(LearnConfig(2, 3), **change))
    assert str(error.value) == line


def test_labels_that_are_refused():
    learner = Learner(Head(8), LearnConfig(2, 3))
    x = np.zeros((2, 8), np.uint8)
    before = learner.snapshot()
    for labels, line in (([0, 2], "label 2: 1 classes are known, expected 0 to 1; classes arrive in order"),
                         ([-1, 0], "label -1: 0 classes are known, expected 0 to 0; classes arrive in order")):
        with pytest.raises(UsageError) as error:
            learner.learn(x, labels)
        assert str(error.value) == line and learner.snapshot() == before
    learner.learn(x, [0, 1])
    with pytest.raises(UsageError) as error:
        learner.learn(x[:1], [2])
    assert str(error.value) == "label 2: the chip has rows for 2 classes; expected a design with a larger max_classes"


def test_snapshots_that_are_refused():
    learner = Learner(Head(8), LearnConfig(2, 3))
    learner.learn(np.zeros((3, 8), np.uint8), [0, 1, 0])
    data = learner.snapshot()
    for found, line in ((b"", "x: not a snapshot of a learner, expected one that this chip or its reference wrote"),
                        (data[:-1], "x: damaged snapshot of a learner, its checksum does not fit"),
                        (data[:8] + b"\2" + data[9:], "x: version 2 of a snapshot of a learner, expected 1")):
        with pytest.raises(InputError) as error:
            learner.restore(found, "x")
        assert str(error.value) == line and learner.snapshot() == data
    with pytest.raises(InputError) as error:
        Learner(Head(8), LearnConfig(2, 4)).restore(data, "x")
    assert str(error.value) == "x: snapshot of a learner of another design, expected one of the same classifier and the same configuration"
