"""Where a learner's state lies in the rows of the banks, and what is refused."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError, UsageError
from fbnn_hw.compile.exemplars import choose_exemplars
from fbnn_hw.compile.plan import plan as plan_accelerator
from fbnn_hw.design import output
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine import cycles
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.machine.learner_memory import boot_rows
from fbnn_hw.machine.protocol import Space
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.targets import TARGETS
from tests import chip_words, strategies
from tests.compile.test_area import with_thresholds

HEAD = Head(64, 2, 16, 2)


def plan(head=HEAD, shape=(4, 16), shipped=0, **config):
    return LearnPlan.of(head, LearnConfig(**{"max_classes": 6, "slots": 9, **config}), *shape, shipped, 3, 11)


@pytest.mark.parametrize("shape", [(4, 16), (8, 16), (16, 16), (4, 32)])
@pytest.mark.parametrize("bits", [1, 3, 4, 6, 8])
def test_every_bit_has_a_place_of_its_own(shape, bits):
    head = Head(64, 2, 32, 2)
    learning = plan(head, shape, counter_bits=bits)
    assert learning.per_row <= learning.lanes and learning.per_row * learning.chunks == learning.lanes
    places = [learning.mirror_row(c, i) for c in range(6) for i in range(learning.fan_in_words)]
    places += [(learning.counter_row(c, i, h), bank) for c in range(6) for i in range(learning.fan_in_words) for h in range(learning.chunks)
               for bank in range(shape[0])]
    places += [learning.slot_row(slot, word) for slot in range(9) for word in range(learning.words)]
    assert len(set(places)) == len(places)
    assert {row for row, _ in places} <= set(range(11, 11 + learning.rows))


def test_the_names_are_those_of_the_configuration():
    own = {"pixels", "lanes", "words", "copies", "shipped", "latent_base", "learn_base", "slots_base", "boot"}
    of_hidden = {"hidden_counter_bits", "hidden_thinning", "gate"}
    assert {f.name for f in fields(LearnPlan)} - own == {f.name for f in fields(LearnConfig)} - of_hidden


@pytest.mark.parametrize("head, shape, config, line", [
    (Head(40), (4, 16), {}, "--learn: the latent has 40 bits, expected a multiple of --lanes (16); use a multiple of 16"),
    (Head(64, 1, 8), (4, 16), {}, "--learn: the hidden layer has 8 bits, expected a multiple of --lanes (16); use a multiple of 16"),
    (Head(96), (4, 64), {}, "--learn: the latent has 96 bits, expected a multiple of --lanes (64); use --lanes 32"),
    (HEAD, (4, 16), {"hidden_counter_bits": 4}, "hidden_counter_bits: found 4, expected 0 on the chip; only the reference has others"),
    *((HEAD, (4, 16), {"rule": rule},
       f"rule: found {rule}, expected gumbel or prototypes or means or nearest-mean on the chip; only the reference has others")
      for rule in ("margin", "flip", "metaplastic")),
    (HEAD, (4, 16), {"margin": 3}, "margin: found 3, expected 0 on the chip; only the reference has others"),
    (HEAD, (4, 16), {"thinning": 2}, "thinning: found 2, expected 0 or 1 on the chip; only the reference has others"),
    (HEAD, (4, 16), {"pick": "slot"}, "pick: found slot, expected least on the chip; only the reference has others"),
    (HEAD, (4, 16), {"weighted": True}, "weighted: found True, expected False on the chip; only the reference has others"),
    (HEAD, (4, 16), {"slots": 70000}, "slots: found 70000, expected at most 65536 on the chip")])
def test_refusals(head, shape, config, line):
    with pytest.raises((FitError, UsageError)) as refusal:
        plan(head, shape, **config)
    assert str(refusal.value) == line


class Memory:
    """Spaces of a chip as dictionaries; the registers turn."""

    def __init__(self):
        self.words, self.registers = {}, {}

    def peek(self, space, address, count):
        if space >= Space.NOISE:
            return list(self.registers[space][:count])
        return [self.words.get((space, address + n), 0) for n in range(count)]

    def poke(self, space, address, words):
        if space >= Space.NOISE:
            self.registers[space] = list(words)
        else:
            self.words.update({(space, address + n): int(word) for n, word in enumerate(words)})


def test_a_snapshot_goes_to_the_chip_and_back():
    source = np.random.default_rng(3)
    config = LearnConfig(6, 9, counter_bits=6, temperature=8, prototype=4, confidence=2)
    learner = Learner(HEAD, config, source.integers(0, 2, (16, 32), dtype=np.uint8), source.integers(0, 2, (2, 160), dtype=np.uint8))
    memory = Memory()
    chip = ChipState(plan(shipped=2, counter_bits=6, prototype=4, confidence=2), learner, memory.peek, memory.poke)
    boot = boot_rows(chip.plan, learner)
    for at, row in enumerate(boot):
        memory.poke(Space.BANKS, (chip.plan.learn_base + at) * 4, [row >> 16 * q & 0xFFFF for q in range(4)])
    for label in range(2):
        assert np.array_equal(chip_words.counters(chip, label), learner.counters[label])
        assert np.array_equal(chip.read_mirror(label)[0], learner.shipped[label])
    latents = source.integers(0, 2, (40, 64), dtype=np.uint8)
    learner.learn(latents, np.arange(40) % 5)
    kept = learner.snapshot()
    chip.restore(kept)
    assert chip.snapshot() == kept
    other = Memory()
    shown = ChipState(chip.plan, learner, other.peek, other.poke)
    shown.restore(kept, learns=False)
    assert other.peek(Space.SCALARS, 0, 3) == [learner.known, 0, 0]
    assert all(np.array_equal(shown.read_mirror(label), chip.read_mirror(label)) for label in range(learner.known))
    assert np.array_equal(chip_words.slot(chip, 0), learner.sample_bits(learner.state.latents[:1])[0])
    learner.learn(latents[:5], [0, 1, 2, 3, 4])
    learner.restore(kept)
    assert learner.snapshot() == kept


ICE40 = TARGETS["ice40"]


@pytest.fixture(scope="module")
def network():
    return strategies.vgg_network(0, width=0.25, latent=512, hidden=64)


def accelerator(network, target=ICE40, **config):
    learn = Head.of(network.topology), LearnConfig(**{"max_classes": 16, "slots": 0, **config})
    return plan_accelerator(network, target, outputs=4, learn=learn)


@pytest.mark.parametrize("config", [{}, {"slots": 1}, {"max_classes": 10, "counter_bits": 4}])
def test_tables_share_the_banks_with_features_and_weights(network, config):
    planned = accelerator(network, **config)
    learning, c = planned.config.learning, planned.config
    assert learning.learn_base == planned.program.used and learning.latent_base == c.latent_base
    assert c.resident_base == learning.learn_base + learning.class_rows and learning.slots_base == c.resident_base + c.resident_rows
    assert c.boot_rows == learning.class_rows + c.resident_rows and c.boot_base == learning.learn_base
    rows = output.split_memory(planned)
    assert sum(rows.values()) == c.feature_words == 16384 and rows["free"] >= 0
    if "slots" in config:
        assert learning.slots == config["slots"]
    else:
        assert rows["free"] < 64
    latent = planned.program.tensors[LATENT]
    others = [t for name, t in planned.program.tensors.items() if name not in planned.program.layers[-1].parts]
    end = latent.base + learning.words
    assert all(t.base >= end or t.base + t.pitch * t.rows * t.columns <= latent.base for t in others)
    assert AcceleratorConfig.from_json(c.to_json()) == c
    assert not any(step.logits for step in c.program) and c.program[-1].result


@pytest.mark.parametrize("config, line", [
    ({"max_classes": 9}, "--max-classes 9: the model knows 10 classes, expected at least as many"),
    ({"max_classes": 200}, "--max-classes 200: weights and counters need 32,400 rows of the banks and an exemplar 9, the features leave "
     "14,812 of 16,384; what fits: --max-classes 91"),
    ({"slots": 9999}, "--exemplars 9999: 1,357 fit beside the features and 16 classes; expected at most 1,357, or fewer --max-classes")])
def test_impossible_plans(network, config, line):
    with pytest.raises((UsageError, FitError)) as refusal:
        accelerator(network, **config)
    assert str(refusal.value) == line


def test_exemplars_leave_inference_as_fast(network):
    planned = accelerator(network)
    plain = plan_accelerator(network, ICE40, outputs=4)
    assert planned.frame_without_learning == plain.frame and planned.rejected_shape is None
    beside = plain.frame.total - plain.frame.layers["logits"].total
    assert planned.frame.total - planned.frame.layers[cycles.LOGITS].total <= beside
    more = accelerator(network, slots=planned.config.learning.slots + 1)
    assert more.frame.total - more.frame.layers[cycles.LOGITS].total > beside
    many, one = accelerator(network, slots=1300), accelerator(network, slots=1)
    assert one.exemplar_cycles == 0 and many.frame_with_one_exemplar == one.frame
    assert many.exemplar_cycles == many.frame.total - one.frame.total > 0


@pytest.mark.parametrize("enough, most, cost, chosen", [
    (160, 400, lambda n: max(0, n - 300), 300),  # free up to there
    (160, 200, lambda n: 0, 200),  # all that fit are free
    (160, 800, lambda n: 10 * n, 400),  # bearable: half of the free rows
    (160, 800, lambda n: 20 * n, 249),  # bearable to a tenth
    (160, 800, lambda n: 90 * n, 160),  # enough, whatever it costs
    (500, 400, lambda n: n, 200)])  # enough do not fit
def test_how_many_exemplars(enough, most, cost, chosen):
    def plan_with(slots):
        if slots > most:
            raise FitError("")
        slots = slots or most // 2
        frame = cycles.PassCycles(0, 50_000 + cost(slots) + 7, {cycles.LOGITS: cycles.LayerCycles(other=7)})
        return SimpleNamespace(frame=frame, config=SimpleNamespace(learning=SimpleNamespace(slots=slots)))

    plain = cycles.PassCycles(0, 50_000 + 3, {"last": cycles.LayerCycles(reads=3)})
    assert choose_exemplars(plan_with, plain, "last", enough).config.learning.slots == chosen


def test_the_shape_that_a_learner_leaves_no_luts_for(network):
    learn = Head.of(network.topology), LearnConfig(16, 300)
    planned = plan_accelerator(network, ICE40, learn=learn)
    assert planned.config.outputs == 4 and planned.rejected_shape[0] == (4, 16, 8)
    assert planned.rejected_shape[1].startswith("the engine needs about ") and "gives 3,350 to it" in planned.rejected_shape[1]


def test_start_reads_leave_room_for_replay_and_bias_words_for_prototypes(network):
    """On a UP5K; place and route of replay with bias words wanted 5,483 of 5,280 cells, that with start reads fits."""
    network = with_thresholds(network)
    replay, prototypes = (Head.of(network.topology), LearnConfig(16, 0)), (
        Head.of_latent(network.topology), LearnConfig(16, 0, rule="prototypes", counter_bits=4))
    assert plan_accelerator(network, ICE40, learn=replay).config.start_reads
    words = replace(ICE40, starts=("word",))
    with pytest.raises(FitError, match="gives 3,350 to it; use --learn prototypes$"):
        plan_accelerator(network, words, learn=replay)
    config = plan_accelerator(network, words, learn=prototypes).config
    assert config.thresholds and not config.start_reads


def test_the_classifier_stays_out_of_the_stream(network):
    c = accelerator(network).config
    plain = plan_accelerator(network, ICE40, outputs=4).config
    assert sum(t.words for t in plain.transfers) - sum(t.words for t in c.transfers) == -(-10 // 4) * 72
