"""The learners that on-chip learning is compared with."""

from functools import partial

import numpy as np
import pytest
import torch

from fbnn_hw.ir.models import vgg
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train.chip_study import dense_head
from fbnn_hw.train.comparators import DiagonalDiscriminant, LowRankDiscriminant, NearestClassMean, StreamingDiscriminant
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.gradients import AdamReplay, AsymmetricReplay, ElasticWeights, GenerativeMemory, GreedyDumb, WithoutForgetting, adam_bits
from fbnn_hw.train.learner import Problem


@pytest.fixture(scope="module")
def tasks():
    """Three tasks of two classes, latents of 64 bits around random prototypes."""
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 2, (6, 64), np.uint8)
    labels = [np.repeat([c, c + 1], 100) for c in (0, 2, 4)]
    return [(prototypes[y] ^ (rng.random((200, 64)) < 0.25), y) for y in labels]


TOPOLOGY = vgg("tiny", tuple("abcdef"), width=1 / 16, latent=64, hidden=16)


def problem(topology=TOPOLOGY, buffer_bits=60 * 64, epochs=30):
    """Six classes in latents of 64 bits, and a network of random weights."""
    torch.manual_seed(0)
    return Problem(6, (), 64, buffer_bits, TrainConfig(epochs=epochs, lr=1e-2, c=1.0), True, lambda: FBNN(topology))


@pytest.mark.parametrize("kind, topology", [
    (NearestClassMean, TOPOLOGY), (StreamingDiscriminant, TOPOLOGY), (DiagonalDiscriminant, TOPOLOGY), (LowRankDiscriminant, TOPOLOGY),
    (AdamReplay, dense_head(TOPOLOGY, 1)), (AdamReplay, TOPOLOGY), (GreedyDumb, TOPOLOGY),
    (partial(GenerativeMemory, width=4), TOPOLOGY)],
    ids=["nearest-mean", "lda", "diagonal", "low rank", "adam dense", "adam skip", "gdumb", "gbm"])
def test_they_learn_task_after_task(kind, topology, tasks):
    learner = kind(problem(topology))
    for latents, labels in tasks:
        learner.learn(latents, labels)
        assert (learner.classify(latents) == labels).mean() > 0.8
    found = np.concatenate([learner.classify(latents) for latents, _ in tasks])
    assert (found == np.concatenate([y for _, y in tasks])).mean() > 0.8


def test_streaming_lda_is_the_pooled_covariance(tasks):
    learner = StreamingDiscriminant(problem(), shrinkage=1e-12)
    for latents, labels in tasks:
        learner.learn(latents, labels)
    x, y = np.concatenate([t[0] for t in tasks]) * 2.0 - 1, np.concatenate([t[1] for t in tasks])
    means = np.stack([x[y == c].mean(0) for c in range(6)])
    covariance = np.mean([np.outer(v, v) for v in x - means[y]], 0)
    rows = means @ np.linalg.inv(covariance)
    learner.classify(x.astype(np.int8).clip(0).astype(np.uint8))
    assert np.allclose(learner.ready[0], rows) and np.allclose(learner.ready[1], (rows * means).sum(1) / 2)


def test_a_discriminant_of_full_rank_is_the_one_of_all_covariances(tasks):
    """Also where a class comes again, with other samples."""
    full, low, diagonal = (kind(problem(), **more) for kind, more in (
        (StreamingDiscriminant, {}), (LowRankDiscriminant, {"rank": 64}), (DiagonalDiscriminant, {})))
    rng = np.random.default_rng(3)
    again = rng.integers(0, 2, (50, 64), np.uint8), np.repeat([1, 4], 25)
    for latents, labels in [*tasks, again]:
        for learner in (full, low, diagonal):
            learner.learn(latents, labels)
    means = full.means()
    assert np.allclose(low.covariance(means), full.covariance(means), atol=1e-4)
    assert np.allclose(diagonal.covariance(means), np.diag(full.covariance(means).diagonal()))
    assert np.allclose(low.scores(again[0]), full.scores(again[0]), atol=1e-2)


def test_directions_are_those_of_the_largest_spread(tasks):
    learner = LowRankDiscriminant(problem(), rank=3)
    learner.learn(*tasks[0])
    x = tasks[0][0] * 2.0 - 1
    centred = np.concatenate([x[tasks[0][1] == c] - x[tasks[0][1] == c].mean(0) for c in (0, 1)])
    largest = np.linalg.svd(centred, compute_uv=False)[:3]
    assert np.allclose(np.linalg.norm(learner.directions, axis=1), largest, rtol=1e-4)
    assert np.allclose(learner.covariance(learner.means()).diagonal(), (centred ** 2).sum(0) / len(centred), atol=1e-5)


def test_the_importance_of_a_weight_is_the_mean_squared_gradient(tasks):
    """EWC's Fisher information, of the exact sum over the classes that can be drawn."""
    learner = ElasticWeights(problem(dense_head(TOPOLOGY, 1)), strength=0.0)
    latents, labels = tasks[0]
    learner.learn(latents, labels)
    exact = torch.zeros_like(learner.importance)
    for sample in torch.from_numpy(latents):
        log_p = learner._scaled(learner._logits(sample[None])).log_softmax(1)[0]
        for c in range(2):
            gradient, = torch.autograd.grad(log_p[c], learner.parameters, retain_graph=True)
            exact += log_p[c].exp().detach() * gradient.flatten() ** 2 / len(latents)
    assert learner.importance.sum().item() == pytest.approx(exact.sum().item(), rel=0.3)
    weights = torch.cat([p.detach().flatten() for p in learner.parameters])
    assert torch.allclose(learner.drawn_to, learner.importance * weights) and learner.memory_bits == 2 * 32 * 6 * 64


@pytest.mark.parametrize("kind", [ElasticWeights, WithoutForgetting])
def test_a_strong_term_keeps_what_was_learned(kind, tasks):
    def on_the_first_task(strength):
        learner = kind(problem(epochs=10), strength=strength)
        for latents, labels in tasks[:2]:
            learner.learn(latents, labels)
        return (learner.classify(tasks[0][0]) == tasks[0][1]).mean()

    assert on_the_first_task(0.0) + 0.2 < on_the_first_task(1e4 if kind is ElasticWeights else 10.0)


def test_new_samples_of_er_ace_leave_other_classes_alone(tasks):
    """Without a buffer of the past the rows of earlier classes get no gradient."""
    learner = AsymmetricReplay(problem(dense_head(TOPOLOGY, 1)))
    learner.learn(*tasks[0])
    learner.memory.update = lambda *_: None
    learner.memory.labels, learner.memory.packed = learner.memory.labels[:0], learner.memory.packed[:0]
    before = learner.parameters[0].detach().clone()
    learner.learn(*tasks[1])
    assert torch.equal(learner.parameters[0][:2], before[:2]) and not torch.equal(learner.parameters[0][2:4], before[2:4])


def test_gdumb_is_its_buffer_alone(tasks):
    """What it was before leaves no trace but the exemplars: another past of as many steps, and the same buffer at the end."""
    scores = []
    for past in (tasks[0], tasks[2]):
        learner = GreedyDumb(problem(buffer_bits=6 * 64))
        learner.learn(*past)
        learner.memory.labels, learner.memory.packed = learner.memory.labels[:0], learner.memory.packed[:0]
        learner.memory.rng, learner.seen = np.random.default_rng(0), 0
        learner.learn(*tasks[1])
        scores.append(learner.scores(tasks[1][0]))
        assert sorted(learner.memory.labels) == [2, 2, 2, 3, 3, 3]
    assert np.array_equal(*scores)


def test_er_ace_keeps_the_past(tasks):
    """Better than a training on each task alone, which is that of no buffer."""
    learner = AsymmetricReplay(problem())
    for latents, labels in tasks:
        learner.learn(latents, labels)
    right = [(learner.classify(latents) == labels).mean() for latents, labels in tasks]
    assert min(right[:2]) > 0.9 and right[2] > 0.4


def test_a_mixture_finds_the_parts_of_a_class_and_draws_them():
    rng = np.random.default_rng(5)
    parts = rng.integers(0, 2, (2, 64), np.uint8)
    which = rng.integers(0, 2, 400)
    latents = parts[which] ^ (rng.random((400, 64)) < 0.1)
    learner = GenerativeMemory(problem(buffer_bits=2 * 6 * 8 * 65))
    assert learner.components == 2 and learner.memory_bits == 2 * 6 * 8 * 65
    learner.learn(latents, np.zeros(400, np.int64))
    drawn = learner.draw(0, 1000).numpy()
    distance = np.stack([(drawn != part).mean(1) for part in parts], 1)
    assert (distance.min(1) < 0.25).mean() > 0.95 and 0.3 < (distance.argmin(1) == 0).mean() < 0.7
    assert abs(drawn.mean(0) - latents.mean(0)).max() < 0.1


def test_memory():
    assert adam_bits(dense_head(TOPOLOGY, 1)) == 96 * 6 * 64 and adam_bits(dense_head(TOPOLOGY, 2)) == 96 * 6 * 128
    assert adam_bits(TOPOLOGY) == 96 * (16 * 64 + 6 * 160)
    assert NearestClassMean(problem()).memory_bits == 16 * 6 * 64
    assert StreamingDiscriminant(problem()).memory_bits == 32 * (6 * 64 + 64 * 65 // 2)
    assert AdamReplay(problem(dense_head(TOPOLOGY, 1), 100)).memory_bits == 96 * 384 + 100
