"""Learners of the field beside replay, on the same latents and, where they keep exemplars, in the same bits of memory.

`cil` has those of `learner.BUILT_IN`; beside on-chip learning stand `AdamReplay` and those without exemplars (`chip_study`).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..base import bits
from ..ir.network import Topology
from ..nn import head, losses
from ..nn.network import FBNN
from . import start
from .learner import Learner, Problem
from .memorizer import BitCode, Memorizer, check_room, fitting, shares

LOGIT_BITS = 16
"""A logit that DER++ keeps: an integer as the network gives it, |logit| <= fan-in < 2^15."""
FLOAT_BITS = 32
ADAM_BITS = 3 * FLOAT_BITS
"""Bits that training keeps for a weight: a proxy and its two moments."""


class NearestClassMean(Learner):
    """Nearest class mean (NCM): the class whose mean latent (of +-1, in float) is nearest.

    It keeps a sum of 16 bits for each class and latent bit, and no exemplars.
    """

    kept: tuple[str, ...] = ("sums", "counts")

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.sums, self.counts = np.zeros((problem.classes, problem.latent)), np.zeros(problem.classes, np.int64)

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

    def state(self) -> dict[str, Any]:
        return {name: torch.from_numpy(getattr(self, name)) for name in self.kept}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.kept:
            setattr(self, name, fitting(state[name].numpy(), getattr(self, name)))


class StreamingDiscriminant(NearestClassMean):
    """Streaming linear discriminant analysis with one covariance (Hayes and Kanan 2020); no exemplars.

    Here the covariance comes from the sums over a task, which gives the same value as one sample after the
    other.  The learner keeps half of a symmetric float matrix, and the means.
    """

    kept = ("sums", "counts", "products")

    def __init__(self, problem: Problem, shrinkage: float = 1e-2) -> None:
        super().__init__(problem)
        self.products, self.shrinkage = np.zeros((problem.latent, problem.latent)), shrinkage
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


class Icarl(Learner):
    """The classifier of iCaRL (Rebuffi et al. 2017) on a frozen extractor: the nearest mean of exemplars that herding chose.

    The exemplars of a class stay in the order in which they were chosen.  When its share shrinks, the
    first ones are kept.  iCaRL's distillation trains the extractor, so it is left out.
    """

    needs_buffer = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.exemplars: dict[int, np.ndarray] = {}
        check_room(problem.buffer_bits, problem.latent, problem.classes, "exemplars")
        self.slots = problem.buffer_bits // problem.latent

    @property
    def memory_bits(self) -> int:
        return self.slots * self.problem.latent

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        fresh = {int(c): latents[labels == c] for c in np.unique(labels)}
        available = {**{c: len(stored) for c, stored in self.exemplars.items()}, **{c: len(samples) for c, samples in fresh.items()}}
        classes = sorted(available)
        for c, share in zip(classes, shares([available[c] for c in classes], self.slots)):
            self.exemplars[c] = herded(fresh[c], share) if c in fresh else self.exemplars[c][:share]

    def scores(self, latents: np.ndarray) -> np.ndarray:
        means = np.zeros((max(self.exemplars) + 1, self.problem.latent))
        for c, stored in self.exemplars.items():
            means[c] = bits.from_bits(stored, np.float64).mean(0)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return bits.from_bits(latents, np.float64) @ means.T  # samples have one length, so the nearest is the most parallel

    def state(self) -> dict[str, Any]:
        return {str(c): torch.from_numpy(np.ascontiguousarray(stored)) for c, stored in self.exemplars.items()}

    def restore(self, state: dict[str, Any]) -> None:
        like = np.zeros((0, self.problem.latent), np.uint8)
        self.exemplars = {int(c): fitting(stored.numpy(), like, rows=True) for c, stored in state.items()}


def herded(samples: np.ndarray, count: int) -> np.ndarray:
    """Choose `count` samples by herding, uint8 bits (N, latent), in the order of their choice.

    Each sample brings the mean of those chosen nearest to the mean of all.
    """
    x = bits.from_bits(samples, np.float32)
    mean, total, available = x.mean(0), np.zeros(x.shape[1], np.float32), np.ones(len(x), bool)
    towards, order = x @ mean, []
    for k in range(1, min(int(count), len(x)) + 1):
        # |mean - (total + x) / k|^2 without what is the same for all x, since |x| is
        distance = np.where(available, (x @ total) / k - towards, np.inf)
        order.append(int(distance.argmin()))
        available[order[-1]] = False
        total += x[order[-1]]
    return samples[order]


class Trained(Learner):
    """The binary classifier, which Adam trains through its float proxies, by a straight-through estimator."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.model, self.recipe, self.epochs = problem.network(), problem.recipe, problem.recipe.epochs
        layers = [self.model.layers[name] for name in start.classifier(self.model.topology)]
        self.parameters = [p for layer in layers for p in layer.parameters()]
        self.fan_in, self.device = layers[-1].fan_in, self.parameters[0].device
        self.generator = torch.Generator().manual_seed(self.recipe.seed)
        self.seen = 0

    def tensors(self, latents: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples on the device.  Their classes are then among those seen."""
        self.seen = max(self.seen, int(labels.max()) + 1)
        return torch.from_numpy(latents).to(self.device), torch.from_numpy(np.asarray(labels, np.int64)).to(self.device)

    def train(self, count: int, loss: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        """Adam on `count` samples, with a rate that falls to 0 by a cosine.  loss(index, epoch): of those that the generator draws."""
        optimizer = torch.optim.Adam(self.parameters, self.recipe.lr, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs * math.ceil(count / self.recipe.batch))
        for epoch in range(self.epochs):
            for index in torch.randperm(count, generator=self.generator).split(self.recipe.batch):
                value = loss(index, epoch)
                optimizer.zero_grad(set_to_none=True)
                value.backward()
                optimizer.step()
                schedule.step()

    def _logits(self, latents):
        return head.logits(self.model, latents.float() * 2 - 1)

    @torch.no_grad()
    def scores(self, latents: np.ndarray) -> np.ndarray:
        return self._logits(torch.from_numpy(latents).to(self.device))[:, :self.seen].cpu().numpy()

    def network(self) -> FBNN:
        return self.model


class AdamReplay(Trained):
    """The new task's samples and those of a buffer, trained together.  Classes seen are weighted by their inverse frequency."""

    needs_buffer = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.memory = Memorizer(problem.buffer_bits, BitCode(problem.latent), problem.recipe.seed)

    @property
    def memory_bits(self) -> int:
        return adam_bits(self.model.topology) + self.memory.capacity_bits

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        x, y = self.tensors(*map(np.concatenate, zip((latents, labels), self.memory.samples())))
        weights = losses.inverse_frequency(torch.bincount(y, minlength=self.seen).clamp_min(1))
        alpha = 1 / math.sqrt(self.recipe.c * self.fan_in * self.seen)
        self.train(len(y), lambda index, _: losses.cross_entropy(self._logits(x[index])[:, :self.seen] * alpha, y[index], weights))
        self.memory.update(latents, labels)


def adam_bits(topology: Topology) -> int:
    """Bits of the proxies and moments of the layers after the latent."""
    shapes = topology.weight_shapes()
    return ADAM_BITS * sum(math.prod(shapes[name]) for name in start.classifier(topology))


class DarkReplay(Trained):
    """DER++ (Buzzega et al. 2020): a reservoir of exemplars, each with the logits that it had.

    Two terms join the loss of each step: alpha times the squared distance to the stored logits of a batch
    of exemplars, and beta times the cross-entropy of another batch.  alpha = beta = 0.5, not tuned.
    An exemplar takes the bits of its latent and LOGIT_BITS for each class.
    """

    needs_buffer = True
    alpha = beta = 0.5

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.exemplar_bits = problem.latent + LOGIT_BITS * problem.classes
        check_room(problem.buffer_bits, self.exemplar_bits, problem.classes, "exemplars")
        self.slots, self.offered = problem.buffer_bits // self.exemplar_bits, 0
        self.x = torch.zeros((0, problem.latent), dtype=torch.uint8, device=self.device)
        self.logits = torch.zeros((0, problem.classes), device=self.device)
        self.y = self.known = torch.zeros(0, dtype=torch.int64, device=self.device)

    @property
    def memory_bits(self) -> int:
        return self.slots * self.exemplar_bits

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        x, y = self.tensors(latents, labels)

        def loss(index, epoch):
            logits = self._logits(x[index])
            value = losses.cross_entropy(self._scaled(logits), y[index], None)
            if len(self.y):
                value = value + self._past()
            if not epoch:
                self._offer(x[index], y[index], logits.detach())
            return value

        self.train(len(y), loss)

    def _scaled(self, logits):
        return logits[:, :self.seen] / math.sqrt(self.recipe.c * self.fan_in * self.seen)

    def _past(self):
        """Return the two terms on exemplars.  Classes that were unknown when an exemplar was stored take no part."""
        first, second = (torch.randint(len(self.y), (self.recipe.batch,), generator=self.generator) for _ in range(2))
        scale = 1 / math.sqrt(self.recipe.c * self.fan_in * self.seen)
        mask = torch.arange(self.logits.shape[1], device=self.device)[None] < self.known[first][:, None]
        difference = (self._logits(self.x[first]) - self.logits[first]) * scale * mask
        distance = (difference ** 2).sum() / mask.sum()
        return self.alpha * distance + self.beta * losses.cross_entropy(self._scaled(self._logits(self.x[second])), self.y[second], None)

    def _offer(self, x, y, logits):
        """Offer samples to the reservoir: every sample of the stream stays with the same probability."""
        for i in range(len(y)):
            place = self.offered
            if self.offered >= self.slots:
                place = int(torch.randint(self.offered + 1, (), generator=self.generator))
            self.offered += 1
            if place >= self.slots:
                continue
            row = x[i:i + 1], y[i:i + 1], logits[i:i + 1], torch.tensor([self.seen], device=self.device)
            for name, value in zip(("x", "y", "logits", "known"), row):
                rows = getattr(self, name)
                if place < len(rows):
                    rows[place] = value[0]
                else:
                    setattr(self, name, torch.cat([rows, value]))

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "rng": self.generator.get_state(), "seen": self.seen, "offered": self.offered,
                "x": self.x, "y": self.y, "logits": self.logits, "known": self.known}

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.generator.set_state(state["rng"])
        self.seen, self.offered = state["seen"], state["offered"]
        for name in ("x", "y", "logits", "known"):
            setattr(self, name, fitting(state[name], getattr(self, name), rows=True).to(self.device))
        if len({len(part) for part in (self.x, self.y, self.logits, self.known)}) > 1:
            raise ValueError("parts of exemplars that are not equally many")
