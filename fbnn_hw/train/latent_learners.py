"""The learners beside which on-chip learning stands: float STE-Adam with a replay buffer, nearest class mean, streaming LDA.

All learn the same latents, uint8 bits (N, latent).  Each has `learn(latents, labels)` for a task,
`classify(latents)`, and `memory_bits` for everything that it keeps between samples.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..base import bits
from ..ir import ops as op
from ..ir.network import LATENT, Topology
from ..nn import head, losses
from ..nn.network import FBNN
from .memorizer import BitCode, Memorizer, fitting
from .start import classifier

FLOAT_BITS = 32
ADAM_BITS = 3 * FLOAT_BITS
"""Bits that training keeps for a weight: a proxy and its two moments."""


def dense_head(topology: Topology, copies: int) -> Topology:
    """The topology with one dense layer after the latent.  copies: how often the layer reads each bit."""
    extractor, last = topology.ops[:-len(topology.head)], topology.ops[-1]
    if copies == 1:
        return Topology(topology.name, (*extractor, replace(last, inputs=(LATENT,))), topology.classes)
    twice = op.Duplicate("latent_twice", (LATENT,), copies)
    return Topology(topology.name, (*extractor, twice, replace(last, inputs=(twice.name,))), topology.classes)


def train(parameters: Iterable[torch.nn.Parameter], loss: Callable[[torch.Tensor, int], torch.Tensor], count: int, epochs: int, batch: int,
          lr: float, generator: torch.Generator) -> None:
    """Adam on `count` samples, with a rate that falls from `lr` to 0 by a cosine.

    loss(index, epoch): of the samples at `index`, which the generator draws.
    """
    optimizer = torch.optim.Adam(parameters, lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * math.ceil(count / batch))
    for epoch in range(epochs):
        for index in torch.randperm(count, generator=generator).split(batch):
            value = loss(index, epoch)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            schedule.step()


class AdamReplay:
    """Binary weights that Adam trains through their float proxies, by a straight-through estimator.

    The new task's samples and those of the buffer are trained together.  All classes seen are weighted by
    their inverse frequency.
    proxies: {layer: float tensor} at the start; a layer that is missing starts at random.
    capacity_bits: of the `Memorizer`, labels not counted.
    """

    def __init__(self, topology: Topology, proxies: dict[str, torch.Tensor], capacity_bits: int, seed: int, epochs: int = 10,
                 batch: int = 64, lr: float = 1e-3, c: float = 1.0) -> None:
        torch.manual_seed(seed)
        self.model = FBNN(topology, c=c)
        learning = classifier(topology)
        self.layers = [self.model.layers[name] for name in learning]
        with torch.no_grad():
            for name in proxies.keys() & learning:
                self.model.layers[name].proxy.copy_(proxies[name])
        self.memory = Memorizer(capacity_bits, BitCode(topology.shapes[LATENT][0]), seed)
        self.epochs, self.batch, self.lr, self.c, self.seen = epochs, batch, lr, c, 0
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def memory_bits(self) -> int:
        return adam_bits(self.model.topology) + self.memory.capacity_bits

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        stored, stored_labels = self.memory.samples()
        x = torch.from_numpy(np.concatenate([latents, stored]))
        y = torch.from_numpy(np.concatenate([labels, stored_labels]).astype(np.int64))
        self.seen = max(self.seen, int(y.max()) + 1)
        weights = losses.inverse_frequency(torch.bincount(y, minlength=self.seen).clamp_min(1))
        alpha = 1 / math.sqrt(self.c * self.layers[-1].fan_in * self.seen)

        def loss(index, _):
            logits = head.logits(self.model, x[index].float() * 2 - 1)[:, :self.seen]
            return losses.cross_entropy(logits * alpha, y[index], weights)

        train([p for layer in self.layers for p in layer.parameters()], loss, len(y), self.epochs, self.batch, self.lr, self.generator)
        self.memory.update(latents, labels)

    @torch.no_grad()
    def classify(self, latents: np.ndarray) -> np.ndarray:
        return head.logits(self.model, torch.from_numpy(latents).float() * 2 - 1)[:, :self.seen].argmax(1).numpy()


def adam_bits(topology: Topology) -> int:
    """Bits of the proxies and moments of the layers after the latent."""
    shapes = topology.weight_shapes()
    return ADAM_BITS * sum(math.prod(shapes[name]) for name in classifier(topology))


class NearestMean:
    """The class whose mean latent (of +-1, in float) is nearest.  Keeps a sum of 16 bits for each class and latent bit."""

    kept: tuple[str, ...] = ("sums", "counts")

    def __init__(self, latent: int, classes: int) -> None:
        self.sums, self.counts = np.zeros((classes, latent)), np.zeros(classes, np.int64)

    @property
    def memory_bits(self) -> int:
        return 16 * self.sums.size

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        for c in np.unique(labels):
            self.sums[c] += bits.from_bits(latents[labels == c]).sum(0, np.int64)
            self.counts[c] += int((labels == c).sum())

    def means(self) -> np.ndarray:
        seen = int(np.flatnonzero(self.counts).max()) + 1
        return self.sums[:seen] / np.maximum(self.counts[:seen, None], 1)

    def scores(self, latents: np.ndarray) -> np.ndarray:
        means = self.means()
        return bits.from_bits(latents, np.float64) @ means.T - (means ** 2).sum(1) / 2

    def classify(self, latents: np.ndarray) -> np.ndarray:
        return self.scores(latents).argmax(1)

    def state(self) -> dict[str, Any]:
        """What `restore` takes, {name: tensor}."""
        return {name: torch.from_numpy(getattr(self, name)) for name in self.kept}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.kept:
            setattr(self, name, fitting(state[name].numpy(), getattr(self, name)))


class StreamingLda(NearestMean):
    """Linear discriminant analysis with one covariance, updated sample by sample (Hayes and Kanan 2020).

    Here the covariance comes from the sums over a task, which gives the same value.  The learner keeps
    half of a symmetric float matrix, and the means.
    """

    kept = ("sums", "counts", "products")

    def __init__(self, latent: int, classes: int, shrinkage: float = 1e-2) -> None:
        super().__init__(latent, classes)
        self.products, self.shrinkage = np.zeros((latent, latent)), shrinkage
        self.ready: Any = None

    @property
    def memory_bits(self) -> int:
        latent = len(self.products)
        return FLOAT_BITS * (self.sums.size + latent * (latent + 1) // 2)

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        super().learn(latents, labels)
        for i in range(0, len(latents), 5000):
            x = bits.from_bits(latents[i:i + 5000], np.float32)
            self.products += x.T @ x
        self.ready = None

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.ready = None

    def scores(self, latents: np.ndarray) -> np.ndarray:
        means = self.means()
        if self.ready is None:
            weighted = means * self.counts[:len(means), None]
            covariance = (self.products - means.T @ weighted) / self.counts.sum()
            covariance = (1 - self.shrinkage) * covariance + self.shrinkage * np.eye(len(covariance))
            rows = np.linalg.solve(covariance, means.T).T
            self.ready = rows, (rows * means).sum(1) / 2
        rows, bias = self.ready
        return bits.from_bits(latents, np.float64) @ rows.T - bias
