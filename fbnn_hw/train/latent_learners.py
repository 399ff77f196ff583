"""The learners beside which on-chip learning stands: float STE-Adam with a replay buffer, nearest class mean, streaming LDA.

All learn the same latents, uint8 bits (N, latent).  Each has `learn(latents, labels)` for a task,
`classify(latents)`, and `memory_bits` for everything that it keeps between samples.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from .. import bits
from ..ir import ops as op
from ..ir.network import LATENT, Topology
from ..nn import head, losses
from ..nn.network import FBNN
from .memorizer import BitCode, Memorizer
from .start import classifier

FLOAT_BITS = 32
ADAM_BITS = 3 * FLOAT_BITS
"""Bits that training keeps for a weight: a proxy and its two moments."""


def dense_head(topology, copies):
    """The topology with one dense layer after the latent.  copies: how often the layer reads each bit."""
    extractor, last = topology.ops[:-len(topology.head)], topology.ops[-1]
    if copies == 1:
        return Topology(topology.name, (*extractor, replace(last, inputs=(LATENT,))), topology.classes)
    twice = op.Duplicate("latent_twice", (LATENT,), copies)
    return Topology(topology.name, (*extractor, twice, replace(last, inputs=(twice.name,))), topology.classes)


def train(parameters, loss, count, epochs, batch, lr, generator):
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

    def __init__(self, topology, proxies, capacity_bits, seed, epochs=10, batch=64, lr=1e-3, c=1.0):
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
    def memory_bits(self):
        return adam_bits(self.model.topology) + self.memory.capacity_bits

    def learn(self, latents, labels):
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
    def classify(self, latents):
        return head.logits(self.model, torch.from_numpy(latents).float() * 2 - 1)[:, :self.seen].argmax(1).numpy()


def adam_bits(topology):
    """Bits of the proxies and moments of the layers after the latent."""
    shapes = topology.weight_shapes()
    return ADAM_BITS * sum(math.prod(shapes[name]) for name in classifier(topology))


class NearestMean:
    """The class whose mean latent (of +-1, in float) is nearest.  Keeps a sum of 16 bits for each class and latent bit."""

    def __init__(self, latent, classes):
        self.sums, self.counts = np.zeros((classes, latent)), np.zeros(classes, np.int64)

    @property
    def memory_bits(self):
        return 16 * self.sums.size

    def learn(self, latents, labels):
        for c in np.unique(labels):
            self.sums[c] += bits.from_bits(latents[labels == c]).sum(0, np.int64)
            self.counts[c] += int((labels == c).sum())

    def means(self):
        seen = int(np.flatnonzero(self.counts).max()) + 1
        return self.sums[:seen] / np.maximum(self.counts[:seen, None], 1)

    def scores(self, latents):
        means = self.means()
        return bits.from_bits(latents, np.float64) @ means.T - (means ** 2).sum(1) / 2

    def classify(self, latents):
        return self.scores(latents).argmax(1)


class StreamingLda(NearestMean):
    """Linear discriminant analysis with one covariance, updated sample by sample (Hayes and Kanan 2020).

    Here the covariance comes from the sums over a task, which gives the same value.  The learner keeps
    half of a symmetric float matrix, and the means.
    """

    def __init__(self, latent, classes, shrinkage=1e-2):
        super().__init__(latent, classes)
        self.products, self.shrinkage = np.zeros((latent, latent)), shrinkage

    @property
    def memory_bits(self):
        latent = len(self.products)
        return FLOAT_BITS * (self.sums.size + latent * (latent + 1) // 2)

    def learn(self, latents, labels):
        super().learn(latents, labels)
        for i in range(0, len(latents), 5000):
            x = bits.from_bits(latents[i:i + 5000], np.float32)
            self.products += x.T @ x
        self.ready = None

    def scores(self, latents):
        means = self.means()
        if self.ready is None:
            weighted = means * self.counts[:len(means), None]
            covariance = (self.products - means.T @ weighted) / self.counts.sum()
            covariance = (1 - self.shrinkage) * covariance + self.shrinkage * np.eye(len(covariance))
            rows = np.linalg.solve(covariance, means.T).T
            self.ready = rows, (rows * means).sum(1) / 2
        rows, bias = self.ready
        return bits.from_bits(latents, np.float64) @ rows.T - bias
