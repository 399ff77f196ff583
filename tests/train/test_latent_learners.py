"""The learners that on-chip learning is compared with."""

import numpy as np
import pytest
import torch

from fbnn_hw.ir.models import vgg
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train.chip_study import dense_head
from fbnn_hw.train.comparators import AdamReplay, NearestClassMean, StreamingDiscriminant, adam_bits
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.learner import Problem


@pytest.fixture(scope="module")
def tasks():
    """Three tasks of two classes, latents of 64 bits around random prototypes."""
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 2, (6, 64), np.uint8)
    labels = [np.repeat([c, c + 1], 100) for c in (0, 2, 4)]
    return [(prototypes[y] ^ (rng.random((200, 64)) < 0.25), y) for y in labels]


TOPOLOGY = vgg("tiny", tuple("abcdef"), width=1 / 16, latent=64, hidden=16)


def problem(topology=TOPOLOGY, buffer_bits=60 * 64):
    """Six classes in latents of 64 bits, and a network of random weights."""
    torch.manual_seed(0)
    return Problem(6, (), 64, buffer_bits, TrainConfig(epochs=30, lr=1e-2, c=1.0), True, lambda: FBNN(topology))


@pytest.mark.parametrize("kind, topology", [
    (NearestClassMean, TOPOLOGY), (StreamingDiscriminant, TOPOLOGY), (AdamReplay, dense_head(TOPOLOGY, 1)), (AdamReplay, TOPOLOGY)],
    ids=["nearest-mean", "streaming-lda", "adam dense", "adam skip"])
def test_they_learn_task_after_task(kind, topology, tasks):
    learner = kind(problem(topology))
    for latents, labels in tasks:
        learner.learn(latents, labels)
        assert (learner.classify(latents) == labels).mean() > 0.8
    found = np.concatenate([learner.classify(latents) for latents, _ in tasks])
    assert (found == np.concatenate([y for _, y in tasks])).mean() > 0.8


def test_streaming_lda_is_the_pooled_covariance(tasks):
    learner = StreamingDiscriminant(problem(), shrinkage=0)
    for latents, labels in tasks:
        learner.learn(latents, labels)
    x, y = np.concatenate([t[0] for t in tasks]) * 2.0 - 1, np.concatenate([t[1] for t in tasks])
    means = np.stack([x[y == c].mean(0) for c in range(6)])
    covariance = np.mean([np.outer(v, v) for v in x - means[y]], 0)
    rows = means @ np.linalg.inv(covariance)
    learner.classify(x.astype(np.int8).clip(0).astype(np.uint8))
    assert np.allclose(learner.ready[0], rows) and np.allclose(learner.ready[1], (rows * means).sum(1) / 2)


def test_memory():
    assert adam_bits(dense_head(TOPOLOGY, 1)) == 96 * 6 * 64 and adam_bits(dense_head(TOPOLOGY, 2)) == 96 * 6 * 128
    assert adam_bits(TOPOLOGY) == 96 * (16 * 64 + 6 * 160)
    assert NearestClassMean(problem()).memory_bits == 16 * 6 * 64
    assert StreamingDiscriminant(problem()).memory_bits == 32 * (6 * 64 + 64 * 65 // 2)
    assert AdamReplay(problem(dense_head(TOPOLOGY, 1), 100)).memory_bits == 96 * 384 + 100
