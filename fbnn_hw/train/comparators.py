"""Learners of the field that answer by statistics of the latents, without a training by gradients: means, discriminants, exemplars.

Those that train the classifier are in `gradients`.  `cil` has the learners of `learner.BUILT_IN`, `chip_study` some of them.
"""

from typing import Any

import numpy as np
import torch

from ..base import bits
from ..base.errors import UsageError, whole
from .learner import Learner, Problem
from .memorizer import check_room, fitting, shares

FLOAT_BITS = 32


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


class DiagonalDiscriminant(NearestClassMean):
    """Linear discriminant analysis whose covariance is diagonal: each bit is weighed by its inverse variance within the classes.

    A bit of +-1 has the square 1, so the variances follow from the sums, and nothing else is kept.
    shrinkage: the share of the identity in the covariance.
    """

    def __init__(self, problem: Problem, shrinkage: float = 1e-2) -> None:
        super().__init__(problem)
        if not 0 < shrinkage <= 1:
            raise UsageError(f"--knob shrinkage={shrinkage:g}: expected above 0, at most 1")
        self.shrinkage = shrinkage
        self.ready: Any = None

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        super().learn(latents, labels)
        self.ready = None

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.ready = None

    def _variances(self, means):
        counts = self.counts[:len(means)]
        return 1 - counts @ means ** 2 / counts.sum()

    def covariance(self, means: np.ndarray) -> np.ndarray:
        """Within the classes, about `means` (C, latent), float64 (latent, latent)."""
        return np.diag(self._variances(means))

    def scores(self, latents: np.ndarray) -> np.ndarray:
        if self.ready is None:
            means = self.means()
            covariance = (1 - self.shrinkage) * self.covariance(means) + self.shrinkage * np.eye(means.shape[1])
            rows = np.linalg.solve(covariance, means.T).T
            self.ready = rows, (rows * means).sum(1) / 2
        rows, bias = self.ready
        return bits.from_bits(latents, np.float64) @ rows.T - bias


class StreamingDiscriminant(DiagonalDiscriminant):
    """Streaming linear discriminant analysis with one covariance (Hayes and Kanan 2020); no exemplars.

    Here the covariance comes from the sums over a task, which gives the same value as one sample after the
    other.  The learner keeps half of a symmetric float matrix, and the means.
    """

    kept = ("sums", "counts", "products")

    def __init__(self, problem: Problem, shrinkage: float = 1e-2) -> None:
        super().__init__(problem, shrinkage)
        self.products = np.zeros((problem.latent, problem.latent))

    @property
    def memory_bits(self) -> int:
        latent = len(self.products)
        return FLOAT_BITS * (self.sums.size + latent * (latent + 1) // 2)

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        super().learn(latents, labels)
        for i in range(0, len(latents), 5000):
            x = bits.from_bits(latents[i:i + 5000], np.float32)
            self.products += x.T @ x

    def covariance(self, means: np.ndarray) -> np.ndarray:
        return (self.products - means.T @ (means * self.counts[:len(means), None])) / self.counts.sum()


class LowRankDiscriminant(DiagonalDiscriminant):
    """Linear discriminant analysis whose covariance is the sum of `rank` directions and of a diagonal.

    After each task the directions are those of the largest spread within the classes, by a singular value
    decomposition of those kept and of the task's samples (incremental PCA, Ross et al. 2008).  The diagonal
    brings each bit to its own variance.
    """

    kept = ("sums", "counts", "directions")

    def __init__(self, problem: Problem, shrinkage: float = 1e-2, rank: int = 32) -> None:
        super().__init__(problem, shrinkage)
        if not whole(rank, 1) or rank > problem.latent:
            raise UsageError(f"--knob rank={rank}: expected a whole number from 1 to {problem.latent}, the bits of the latent")
        self.directions = np.zeros((rank, problem.latent), np.float32)

    @property
    def memory_bits(self) -> int:
        return 16 * self.sums.size + FLOAT_BITS * self.directions.size

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        scatter = self.directions.T.astype(np.float64) @ self.directions
        for c in np.unique(labels):
            x = bits.from_bits(latents[labels == c], np.float32)
            mean = x.mean(0, dtype=np.float64)
            scatter += (x - mean).T.astype(np.float64) @ (x - mean)
            if before := self.counts[c]:  # a class that comes again: its two means differ
                apart = mean - self.sums[c] / before
                scatter += before * len(x) / (before + len(x)) * np.outer(apart, apart)
        super().learn(latents, labels)
        values, vectors = np.linalg.eigh(scatter)
        largest = slice(-1, -len(self.directions) - 1, -1)
        self.directions = (np.sqrt(values[largest].clip(0))[:, None] * vectors.T[largest]).astype(np.float32)

    def covariance(self, means: np.ndarray) -> np.ndarray:
        spread = self.directions.T.astype(np.float64) @ self.directions / self.counts.sum()
        return spread + np.diag((self._variances(means) - spread.diagonal()).clip(0))


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
