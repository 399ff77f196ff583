"""The integer learner against a slow one written from the documentation, over whole incremental sequences; its registers and tables."""

import json
import math
import random
import struct
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.ir import file as ir_file
from fbnn_hw.ir.models import build
from fbnn_hw.reference.learning import Head, LearnConfig, Learner, counters, gumbel_table, lfsr, snapshot
from tests import strategies
from tests.reference.slow_learner import REGISTERS, Register, SlowLearner, table

# registers


@pytest.mark.parametrize("taps", [lfsr.Taps(3, 1), lfsr.Taps(7, 1), lfsr.Taps(9, 4), lfsr.Taps(15, 7), lfsr.Taps(17, 3)])
def test_the_period_of_small_registers_is_full(taps):
    period = 2 ** taps.width - 1
    drawn = lfsr.block(taps, 1, 2 * period + taps.width)
    assert (drawn[:period] == drawn[period:2 * period]).all()
    windows = np.lib.stride_tricks.sliding_window_view(drawn[:period + taps.width - 1], taps.width) @ (1 << np.arange(taps.width))
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
    quantiles = np.array(gumbel_table(1000)) / 1000
    assert (np.diff(quantiles) > 0).all() and quantiles[0] == -1.831 and quantiles[-1] == 6.237
    assert abs(quantiles.mean() - 0.5772) < 0.01 and abs(quantiles.var() - math.pi ** 2 / 6) < 0.08  # the tail is cut at 6.24


def test_the_drawn_class_follows_the_softmax():
    scores, temperature = np.array([0, 100, 250]), 100
    noise = np.array(gumbel_table(temperature))[lfsr.block(lfsr.NOISE, 99, 8 * 3 * 40000).reshape(-1, 3, 8) @ (1 << np.arange(8))]
    shares = np.bincount((scores + noise).argmax(1), minlength=3) / 40000
    expected = np.exp(scores / temperature) / np.exp(scores / temperature).sum()
    assert np.abs(shares - expected).max() < 0.01


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
            counters.move(row, t, k, 2 ** count - 1)
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
        max_classes=classes, slots=rng.choice((1, 2, 5, 8, 13)), counter_bits=bits, hidden_counter_bits=hidden_bits,
        rule=rng.choice(("gumbel", "metaplastic", "margin", "flip")), temperature=rng.choice((1, 5, 20)), margin=rng.choice((0, 3, 9)),
        thinning=rng.choice((0, 0, 1, 3)), hidden_thinning=rng.choice((0, 1, 2)), gate=rng.choice((0, 3, 100)),
        confidence=rng.randrange(2 ** (min([b for b in (bits, hidden_bits) if b]) - 1)), replays=rng.choice((0, 1, 3)),
        pick=rng.choice(("slot", "class", "least")), weighted=rng.random() < 0.4, prototype=rng.choice((0, 0, 2)),
        seed=rng.randrange(1000))
    if seed >= 60:
        rule = "nearest-mean" if seed >= 76 else "means" if seed % 2 and bits > 2 else "prototypes"
        config = replace(config, rule=rule, slots=1, hidden_counter_bits=0, thinning=0, replays=0, weighted=False, prototype=0,
                         counter_bits=max(3, bits) if seed >= 76 else bits)
    numbers = np.random.default_rng(seed)
    shipped = rng.randrange(classes + 1) * (seed < 76)
    count = rng.choice((30, 80))
    labels, started = [], shipped
    for _ in range(count):
        new = started < classes and (not started or rng.random() < 4 * classes / count)
        labels.append(started if new else rng.randrange(started))
        started += new
    return (head, config, numbers.integers(0, 2, (hidden, head.hidden_fan_in), np.uint8),
            numbers.integers(0, 2, (shipped, head.fan_in), np.uint8), numbers.integers(0, 2, (count, head.latent), np.uint8), labels)


def assert_equal(fast, slow):
    assert fast.known == slow.known and fast.presented == slow.presented and fast.prototypes_left == slow.left
    assert fast.counters[:fast.known].tolist() == slow.rows
    if fast.config.hidden_counter_bits:
        assert fast.hidden_counters.tolist() == slow.hidden
    buffer = fast.buffer
    assert buffer.used == slow.used and buffer.counts == slow.counts and buffer.labels[:buffer.used] == slow.labels[:slow.used]
    assert buffer.latents.tolist() == slow.slots[:slow.used]
    assert fast.registers == (slow.noise.state, slow.mask.state, slow.pick.state)


@pytest.mark.parametrize("seed", range(100))
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
        assert fast.logits(latents).tolist() == [slow.logits(x) for x in latents.tolist()]
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


@pytest.mark.parametrize("seed", [*range(30), *range(60, 90)])
def test_classes_are_forgotten_and_samples_unknown(seed):
    """Lessons of known, new and forgotten numbers between forgetting; all others stay bit for bit."""
    head, config, hidden, output, latents, _ = random_case(seed)
    config = replace(config, forget=True, unknown=config.rule == "nearest-mean")
    fast, slow = Learner(head, config, hidden, output), SlowLearner(head, config, hidden.tolist(), output.tolist())
    source, forgotten = random.Random(seed), 0
    for latent in latents:
        living = [c for c in range(fast.known) if c not in fast.forgotten]
        if len(living) > (len(output) > 0) and source.random() < 0.2:
            label, before = source.choice(living), fast.counters
            fast.forget(label)
            slow.forget(label)
            forgotten += 1
            stay = [c for c in living if c != label]
            assert (fast.counters[stay] == before[stay]).all() and label not in fast.buffer.labels
        free = [fast.next_free] * (fast.next_free < config.max_classes)
        label = source.choice([c for c in living if c < fast.known and c not in fast.forgotten] + 3 * free)
        fast.learn(latent[None], [label])
        slow.learn(latent.tolist(), label)
        assert_equal(fast, slow)
        assert fast.limits == slow.limits and fast.forgotten == slow.gone
    assert fast.logits(latents).tolist() == [slow.logits(x) for x in latents.tolist()]
    assert fast.classify(latents).tolist() == [slow.classify(x) for x in latents.tolist()]
    if config.unknown:
        assert fast.unknown(latents).tolist() == [slow.unknown(x) for x in latents.tolist()]
    assert forgotten or len(output) == config.max_classes == 1
    other = Learner(head, config, hidden, output)
    other.restore(fast.snapshot())
    assert other.snapshot() == fast.snapshot() and other.logits(latents).tolist() == fast.logits(latents).tolist()
    with pytest.raises(InputError, match="of another design"):
        Learner(head, replace(config, forget=False, unknown=False), hidden, output).restore(
            resealed(fast.snapshot(), 2))


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
    head, config = Head(8), LearnConfig(max_classes=1, slots=2, replays=5)
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
    learner = Learner(Head(8), LearnConfig(max_classes=3, slots=4, rule="margin", thinning=0), output=output)
    latent = np.ones((1, 8), np.uint8)
    assert learner.logits(latent).tolist() == [[-8, -8, -8]] and learner.classify(latent).tolist() == [0]
    learner.config = replace(learner.config, replays=0)
    learner.learn(latent, np.array([2]))  # a lead of 0 is a margin of 0
    assert learner.updates == 0
    learner = Learner(Head(8), LearnConfig(max_classes=3, slots=4, rule="margin", margin=1, thinning=0, replays=0), output=output)
    learner.learn(latent, np.array([2]))
    assert learner.counters.tolist() == [[-2] * 8, [-1] * 8, [0] * 8]  # the rival is the lowest of the equal ones


def test_saturation():
    for width in (1, 2, 8):
        config = LearnConfig(max_classes=2, slots=2, counter_bits=width, prototype=255, replays=0)
        learner = Learner(Head(4), config, output=np.zeros((1, 4), np.uint8))
        latents = np.array([[1, 1, 0, 0]], np.uint8).repeat(200, 0)
        learner.learn(latents, np.ones(200, int))
        top = 2 ** (width - 1)
        assert learner.counters[1].tolist() == [top - 1, top - 1, -top, -top]


def test_the_buffer_is_full_and_balanced():
    rng = np.random.default_rng(3)
    learner = Learner(Head(16), LearnConfig(max_classes=5, slots=23, replays=0))
    for c in range(5):
        learner.learn(rng.integers(0, 2, (60, 16), np.uint8), np.full(60, c))
        counts = learner.buffer.counts[:c + 1]
        assert sum(counts) == 23 and max(counts) - min(counts) <= 1 and learner.buffer.labels.count(c) == counts[c]


def test_replays_of_the_least_presented_class_balance_the_presentations():
    rng = np.random.default_rng(4)
    learner = Learner(Head(16), LearnConfig(max_classes=4, slots=20, replays=3))
    for c in range(4):
        learner.learn(rng.integers(0, 2, (20, 16), np.uint8), np.full(20, c))
    learner.learn(rng.integers(0, 2, (40, 16), np.uint8), np.full(40, 3))
    presented = learner.presented
    assert max(presented) - min(presented) <= 1


def test_it_learns():
    rng = np.random.default_rng(5)
    prototypes, labels = rng.integers(0, 2, (6, 128), np.uint8), rng.integers(0, 6, 600)
    labels[:6] = range(6)
    latents = prototypes[labels] ^ (rng.random((600, 128)) < 0.3)
    learner = Learner(Head(128), LearnConfig(max_classes=6, slots=60, temperature=16))
    for c in range(0, 6, 2):
        part = (labels >= c) & (labels < c + 2)
        learner.learn(latents[part][np.argsort(labels[part], kind="stable")], np.sort(labels[part]))
    assert (learner.classify(latents) == labels).mean() > 0.95


def test_frozen():
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
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
    learner = Learner.of(network, LearnConfig(max_classes=12, slots=4, hidden_counter_bits=4))
    assert learner.head == Head(1024, 2, 128, 2, 2) and learner.known == 10
    from fbnn_hw.reference import inference

    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), np.uint8)
    layers = inference.layers(network, images)
    latents = layers["latent"].reshape(3, -1)
    assert (learner.logits(latents) == layers["logits"]).all()
    assert Learner.of(network, LearnConfig(max_classes=12, slots=4), keep_classes=False).known == 0
    ledger = learner.config.ledger(learner.head)
    assert ledger == {"output_counter_bits": 12 * 2304 * 8, "hidden_counter_bits": 131072 * 4, "latent_bits": 4096, "label_bits": 16,
                      "count_bits": 12 * (3 + 8), "total_bits": 12 * 2304 * 8 + 131072 * 4 + 4096 + 16 + 12 * 11}


# errors

@pytest.mark.parametrize("change, line", [
    (dict(counter_bits=9), "counter_bits: found 9, expected a whole number from 1 to 8"),
    (dict(slots=0), "slots: found 0, expected a whole number from 1 to 16777216"),
    (dict(rule="adam"), "rule: found 'adam', expected one of gumbel, margin, flip, metaplastic, prototypes, means, nearest-mean"),
    (dict(rule="means", counter_bits=2), "counter_bits: found 2, expected at least 3 with the rule means"),
    (dict(rule="prototypes", thinning=0), "replays: found 9, expected 0 with the rule prototypes, which moves one row by every sample"),
    (dict(counter_bits=4, confidence=8), "confidence: found 8, expected below 8, half the range of counter_bits = 4"),
    (dict(hidden_counter_bits=4), "hidden_counter_bits: found 4, but the head has no hidden layer; expected 0"),
    (dict(rule=["gumbel"]), "rule: found ['gumbel'], expected one of gumbel, margin, flip, metaplastic, prototypes, means, nearest-mean"),
    (dict(weighted="no"), "weighted: found 'no', expected True or False"),
])
def test_configurations_that_are_refused(change, line):
    with pytest.raises(UsageError) as error:
        Learner(Head(8), replace(LearnConfig(max_classes=2, slots=3), **change))
    assert str(error.value) == line


@pytest.mark.parametrize("head, line", [
    (Head(0), "latent: found 0, expected a whole number from 1"),
    (Head(8, hidden=4, groups=0), "groups: found 0, expected a whole number from 1"),
    (Head(8, hidden=4, groups=3), "groups: found 3, expected a divisor of latent = 8 and of hidden = 4"),
    (Head(8, copies=1.5), "copies: found 1.5, expected a whole number from 1"),
])
def test_heads_that_are_refused(head, line):
    with pytest.raises(UsageError) as error:
        Learner(head, LearnConfig(max_classes=2, slots=3))
    assert str(error.value) == line


BITS = np.ones((2, 8), np.uint8)


@pytest.mark.parametrize("latents, line", [
    (BITS * 2, "latents: found the value 2, expected bits, 0 and 1"),
    (BITS.astype(int) * -1, "latents: found int64 (2, 8), expected uint8 (2, 8)"),
    (BITS[:, :7], "latents: found uint8 (2, 7), expected uint8 (2, 8)"),
    (BITS[0], "latents: found uint8 (8,), expected uint8 (2, 8)"),
])
def test_latents_that_are_refused(latents, line):
    """By all that takes them, in the same words, and before anything is learned."""
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
    learner.learn(BITS, [0, 1])
    before = learner.snapshot()
    for call in (lambda: learner.learn(latents, [0, 1]), lambda: learner.store(latents, [0, 1])):
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == line and learner.snapshot() == before
    for call in (learner.logits, learner.classify, learner.sample_bits):
        with pytest.raises(InputError) as error:
            call(latents)
        assert str(error.value) == line.replace("uint8 (2, 8)", "uint8 (N, 8)")


@pytest.mark.parametrize("given", [{"output": BITS * 255}, {"output": BITS[:, :4]}, {"output": BITS * 1.0},
                                   {"head": Head(8, hidden=2), "hidden": BITS * 2}])
def test_shipped_weights_that_are_refused(given):
    with pytest.raises(InputError, match="^shipped (rows|hidden weights): found "):
        Learner(**{"head": Head(8), "config": LearnConfig(max_classes=2, slots=3)} | given)


def test_what_a_learner_without_classes_says():
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
    assert learner.logits(BITS).shape == (2, 0)
    with pytest.raises(UsageError) as error:
        learner.classify(BITS)
    assert str(error.value) == "classify: the learner knows no class, expected one that it was taught"
    with pytest.raises(UsageError, match="^rehearse: found -1, expected a whole number from 0$"):
        learner.rehearse(-1)


def test_labels_that_are_no_numbers():
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
    before = learner.snapshot()
    for labels in ([0., 1.], ["0", "1"], [[0, 1]], [True, False]):
        with pytest.raises(InputError, match="^labels: found .*, expected whole numbers"):
            learner.learn(BITS, labels)
        assert learner.snapshot() == before


def test_labels_that_are_refused():
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
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


def random_learner(seed):
    """A learner that has learned, and its twin as it is shipped."""
    head, config, hidden, output, latents, labels = random_case(seed)
    learner = Learner(head, config, hidden, output)
    learner.learn(latents, np.array(labels))
    return learner, Learner(head, config, hidden, output)


def resealed(data, version=snapshot.VERSION):
    """A snapshot with the check sum of its bytes."""
    body = bytes(data[snapshot.HEADER.size:])
    return snapshot.HEADER.pack(snapshot.MAGIC, version, zlib.crc32(body)) + body


def refused(learner, data):
    """The line that is said of a snapshot; nothing of the learner changes."""
    before = learner.snapshot()
    with pytest.raises(InputError) as error:
        learner.restore(data, "x")
    assert learner.snapshot() == before and "\n" not in str(error.value)
    return str(error.value)


def test_snapshots_that_are_refused():
    config = LearnConfig(max_classes=2, slots=3)
    learner = Learner(Head(8), config)
    learner.learn(np.zeros((3, 8), np.uint8), [0, 1, 0])
    data = learner.snapshot()
    for damaged, line in ((b"", "x: not a snapshot of a learner, expected one that this chip or its reference wrote"),
                          (data[:-1], "x: damaged snapshot of a learner, its checksum does not fit"),
                          (data[:8] + b"\3" + data[9:], "x: version 3 of a snapshot of a learner, expected at most 2"),
                          (data[:8] + b"\0" + data[9:], "x: version 0 of a snapshot of a learner, expected at most 2")):
        assert refused(learner, damaged) == line
    other = "x: snapshot of a learner of another design, expected one of the same classifier and the same configuration"
    assert refused(Learner(Head(8), replace(config, slots=4)), data) == other
    assert refused(learner, resealed(data, 1)) == other  # the new check value in an old snapshot


# Places of a snapshot of the learner below, 4 classes of 5 known and 3 exemplars of 6.
KNOWN, FROZEN, USED, NOISE, MASK, PICK, PRESENTED, LEFT, LABELS, LATENTS = 18, 20, 21, 25, 33, 41, 49, 54, 59, 65
COUNTERS = LATENTS + 3 * 2


@pytest.mark.parametrize("at, value, line", [
    (KNOWN, b"\1\0", "classes known: 1, expected 2 to 5"), (KNOWN, b"\6\0", "classes known: 6, expected 2 to 5"),
    (KNOWN, b"\0\0", "classes known: 0, expected 2 to 5"),
    (KNOWN, b"\5\0", "bytes: 111, expected 121 with 5 classes and 3 exemplars"),
    (FROZEN, b"\2", "frozen: 2, expected 0 or 1"),
    (USED, b"\7", "exemplars: 7, expected at most 6"), (USED, b"\xff" * 4, "exemplars: 4294967295, expected at most 6"),
    (USED, b"\2", "bytes: 111, expected 107 with 4 classes and 2 exemplars"),
    (NOISE, bytes(8), "register noise: 0, expected 1 to 2147483647"),
    (NOISE, b"\0\0\0\x80", "register noise: 2147483648, expected 1 to 2147483647"),
    (MASK, bytes(8), "register mask: 0, expected 1 to 9223372036854775807"),
    (MASK, b"\xff" * 8, "register mask: 18446744073709551615, expected 1 to 9223372036854775807"),
    (PICK, bytes(8), "register pick: 0, expected 1 to 140737488355327"),
    (PICK, bytes(6) + b"\1\0", "register pick: 281474976710656, expected 1 to 140737488355327"),
    (PRESENTED + 1, b"\xff", "presentations of class 1: 255, expected at most 254"),
    (PRESENTED + 4, b"\1", "presentations of class 4: 1, expected 0, with 4 classes known"),
    (LEFT + 2, b"\4", "prototype presentations to come of class 2: 4, expected at most 3"),
    (LEFT + 1, b"\1", "prototype presentations to come of class 1: 1, expected 0 of a class that ships"),
    (LEFT + 4, b"\1", "prototype presentations to come of class 4: 1, expected 0, with 4 classes known"),
    (LABELS + 2, b"\4\0", "class of exemplar 1: 4, expected one below 4, the classes known"),
    (LABELS + 4, b"\xff\xff", "class of exemplar 2: 65535, expected one below 4, the classes known"),
    (LATENTS + 1, b"\x04", "bits behind a latent: 1, expected 0"),
    (COUNTERS, b"\x10", "counter: 16, expected -16 to 15"), (COUNTERS + 39, b"\x80", "counter: -128, expected -16 to 15"),
    (COUNTERS + 40, b"\0", "bytes: 112, expected 111 with 4 classes and 3 exemplars")])
def test_states_that_no_learner_is_in(at, value, line):
    """With the right check sum: what a snapshot of someone else may hold."""
    shipped = np.random.default_rng(1).integers(0, 2, (2, 10), np.uint8)
    learner = Learner(Head(10), LearnConfig(max_classes=5, slots=6, counter_bits=5, prototype=3), output=shipped)
    learner.learn(np.random.default_rng(2).integers(0, 2, (3, 10), np.uint8), [2, 3, 2])
    data = bytearray(learner.snapshot())
    assert len(data) == COUNTERS + 40
    learner.restore(resealed(data))
    data[at:at + len(value)] = value
    assert refused(learner, resealed(data)) == f"x: {line}"


def test_hidden_counters_that_no_learner_has():
    head, config = Head(8, hidden=2), LearnConfig(max_classes=2, slots=2, hidden_counter_bits=3)
    learner = Learner(head, config, hidden=np.ones((2, 8), np.uint8))
    data = bytearray(learner.snapshot())
    data[-1] = 4
    assert refused(learner, resealed(data)) == "x: hidden counter: 4, expected -4 to 3"


def test_exemplars_of_no_class_are_refused():
    """Of such a snapshot a replay looked for an exemplar of a class known, without end."""
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=3))
    state = replace(learner.state, labels=[0], latents=np.zeros((1, 8), np.uint8))
    assert refused(learner, state.pack()) == "x: exemplars: 1, expected 0, with no class known"
    learner.rehearse(10)


def test_exemplars_of_a_learner_that_keeps_none_are_refused():
    learner = Learner(Head(8), LearnConfig(max_classes=2, slots=1, counter_bits=3, rule="means", replays=0, thinning=0),
                      output=np.ones((1, 8), np.uint8))
    state = replace(learner.state, labels=[0], latents=np.zeros((1, 8), np.uint8))
    assert refused(learner, state.pack()) == "x: exemplars: 1, expected 0, which --learn means keeps"


@pytest.mark.parametrize("seed", range(12))
def test_damaged_states_are_refused_or_legal(seed):
    """Bytes changed at random under a right check sum: one line, or a state that is written again as it was read and goes on learning."""
    learner, other = random_learner(seed)
    data, source, taken = learner.snapshot(), random.Random(seed), 0
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 5))):
            damaged[source.randrange(snapshot.HEADER.size, len(data))] = source.choice((0, 1, 255, source.randrange(256)))
        if source.random() < 0.1:
            damaged = damaged[:source.randrange(len(damaged))] + source.randbytes(source.randrange(9))
        damaged = resealed(damaged)
        before = other.snapshot()
        try:
            other.restore(damaged)
        except InputError as error:
            assert "\n" not in str(error) and other.snapshot() == before
        else:
            taken += 1
            assert other.snapshot() == damaged
            other.freeze(False)
            other.rehearse(4)
    assert taken


# Checks of designs, written from docs/learner.md alone.

def record(head, config, hidden, output):
    rules, picks = ("gumbel", "margin", "flip", "metaplastic", "prototypes", "means", "nearest-mean"), ("slot", "class", "least")
    text = b"FBNNDSN\0"
    for number in (head.latent, head.copies, head.hidden, head.groups, head.hidden_copies, config.max_classes, config.slots,
                   config.counter_bits, config.hidden_counter_bits, rules.index(config.rule), config.temperature, config.margin,
                   config.thinning, config.hidden_thinning, config.gate, config.confidence, config.replays, picks.index(config.pick),
                   int(config.weighted), config.prototype, config.seed, len(output)):
        text += struct.pack("<I", number)
    for row in (*output.tolist(), *hidden.tolist()):
        row += [0] * (-len(row) % 8)
        text += bytes(sum(bit << i for i, bit in enumerate(row[at:at + 8])) for at in range(0, len(row), 8))
    return text


@pytest.mark.parametrize("seed", [*range(20), 60, 61, 76])
def test_the_check_of_a_design_as_documented(seed):
    head, config, hidden, output, latents, labels = random_case(seed)
    learner = Learner(head, config, hidden, output)
    assert learner.design == zlib.crc32(record(head, config, hidden, output))
    assert learner.snapshot()[14:18] == struct.pack("<I", learner.design)


def test_the_check_of_a_design_as_it_was():
    """Values that fbnn-hw 0.1.0 gave; they do not change with the names of fields."""
    checks = [Learner(*random_case(seed)[:4]).old_design for seed in range(6)]
    assert checks == [217665111, 779418013, 3313022787, 3362982228, 2355081084, 2503640206]


@pytest.mark.parametrize("seed", range(6))
def test_snapshots_of_version_1_are_taken(seed):
    learner, other = random_learner(seed)
    data = bytearray(learner.snapshot())
    data[14:18] = struct.pack("<I", learner.old_design)
    other.restore(resealed(data, 1))
    assert other.snapshot() == learner.snapshot()


def test_a_lesson_that_0_1_0_kept():
    """A design's folder and what its board was taught: the reference takes it up and gives the logits that the board gave."""
    with zipfile.ZipFile(Path(__file__).parents[1] / "fixtures" / "design-0.1.0.zip") as archive:
        texts = {name.split("/")[-1]: archive.read(name) for name in archive.namelist()}
    network = ir_file.loads(texts["network.json"].decode(), "network.json")
    options = json.loads(texts["config.json"])["learning"]
    learner = Learner.of(network, LearnConfig(**{name: options[name] for name in (
        "max_classes", "slots", "counter_bits", "rule", "temperature", "margin", "thinning", "confidence", "replays", "pick", "weighted",
        "prototype", "seed")}))
    learner.restore(texts["taught.snapshot"].partition(b"\n")[2])
    answer = json.loads(texts["answer.json"])
    assert learner.known == len(answer["classes"]) == 3 and learner.buffer.used == 6
    for image in answer["images"]:
        latent = bits.unpack(np.frombuffer(bytes.fromhex(image["latent"]), np.uint8), (1, learner.head.latent))
        assert learner.logits(latent)[0].tolist() == image["logits"] and learner.classify(latent)[0] == image["index"]
    assert learner.snapshot()[18:] == texts["taught.snapshot"].partition(b"\n")[2][18:]
