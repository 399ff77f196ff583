"""Learners of the field that train the classifier by gradients, on the same latents and, where they rehearse, in the same bits.

Those that answer by statistics are in `comparators`.  Rates fall by a cosine; the last epoch is kept.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..base.errors import UsageError, whole
from ..ir.network import Topology
from ..nn import head, losses
from ..nn.network import FBNN
from . import start
from .comparators import FLOAT_BITS
from .learner import Learner, Problem
from .memorizer import BitCode, Memorizer, check_room, fitting

LOGIT_BITS = 16
"""A logit that DER++ keeps: an integer as the network gives it, |logit| <= fan-in < 2^15."""
ADAM_BITS = 3 * FLOAT_BITS
"""Bits that training keeps for a weight: a proxy and its two moments."""
FISHER_SAMPLES = 500
EM_STEPS = 20


class Trained(Learner):
    """The binary classifier, which Adam trains through its float proxies, by a straight-through estimator.

    kept: names of what a state has beside the network and the generator: tensors and numbers.
    """

    kept: tuple[str, ...] = ("seen",)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.recipe, self.epochs, self.seen = problem.recipe, problem.recipe.epochs, 0
        self.begin()
        self.generator = torch.Generator().manual_seed(self.recipe.seed)

    def begin(self) -> None:
        """A classifier with the weights of the start."""
        self.model = self.problem.network()
        layers = [self.model.layers[name] for name in start.classifier(self.model.topology)]
        self.parameters = [p for layer in layers for p in layer.parameters()]
        self.fan_in, self.device = layers[-1].fan_in, self.parameters[0].device

    def tensors(self, latents: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples on the device.  Their classes are then among those seen."""
        self.seen = max(self.seen, int(labels.max(initial=-1)) + 1)
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

    def _scaled(self, logits):
        """The logits of the classes seen, times alpha (paper, eq. `output_scaled`)."""
        return logits[:, :self.seen] / math.sqrt(self.recipe.c * self.fan_in * self.seen)

    def _drawn(self, count):
        """Numbers of a batch of `count` exemplars."""
        return torch.randint(count, (self.recipe.batch,), generator=self.generator)

    @torch.no_grad()
    def scores(self, latents: np.ndarray) -> np.ndarray:
        return self._logits(torch.from_numpy(latents).to(self.device))[:, :self.seen].cpu().numpy()

    def network(self) -> FBNN:
        return self.model

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "rng": self.generator.get_state(), **{name: getattr(self, name) for name in self.kept}}

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.generator.set_state(state["rng"])
        for name in self.kept:
            value, own = state[name], getattr(self, name)
            setattr(self, name, fitting(value, own, rows=True).to(self.device) if isinstance(own, torch.Tensor) else int(value))


class Rehearsing(Trained):
    """A learner with the buffer of --strategy replay: as many exemplars of each class, drawn at random."""

    needs_buffer = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.memory = Memorizer(problem.buffer_bits, BitCode(problem.latent), problem.recipe.seed)

    @property
    def memory_bits(self) -> int:
        return self.memory.capacity_bits

    def state(self) -> dict[str, Any]:
        return {**super().state(), "memory": self.memory.state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.memory.restore(state["memory"])


class AdamReplay(Rehearsing):
    """The new task's samples and those of a buffer, trained together.  Classes seen are weighted by their inverse frequency."""

    @property
    def memory_bits(self) -> int:
        return adam_bits(self.model.topology) + self.memory.capacity_bits

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        x, y = self.tensors(*map(np.concatenate, zip((latents, labels), self.memory.samples())))
        weights = losses.inverse_frequency(torch.bincount(y, minlength=self.seen).clamp_min(1))
        self.train(len(y), lambda index, _: losses.cross_entropy(self._scaled(self._logits(x[index])), y[index], weights))
        self.memory.update(latents, labels)


def adam_bits(topology: Topology) -> int:
    """Bits of the proxies and moments of the layers after the latent."""
    shapes = topology.weight_shapes()
    return ADAM_BITS * sum(math.prod(shapes[name]) for name in start.classifier(topology))


class DarkReplay(Trained):
    """DER++ (Buzzega et al. 2020): a reservoir of exemplars, each with the logits that it had.

    Two terms join the loss of each step: alpha times the squared distance to the stored logits of a batch
    of exemplars, and beta times the cross-entropy of another batch.
    An exemplar takes the bits of its latent and LOGIT_BITS for each class.
    """

    needs_buffer = True
    kept = ("seen", "offered", "x", "y", "logits", "known")

    def __init__(self, problem: Problem, alpha: float = 0.5, beta: float = 0.5) -> None:
        super().__init__(problem)
        self.alpha, self.beta = alpha, beta
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

    def _past(self):
        """Return the two terms on exemplars.  Classes that were unknown when an exemplar was stored take no part."""
        first, second = self._drawn(len(self.y)), self._drawn(len(self.y))
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

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if len({len(part) for part in (self.x, self.y, self.logits, self.known)}) > 1:
            raise ValueError("parts of exemplars that are not equally many")


class AsymmetricReplay(Rehearsing):
    """ER-ACE (Caccia et al., arXiv 2104.05025, eq. 3): new samples compete with the classes of their batch alone, exemplars with all.

    A step takes a batch of each; the two losses are added.
    """

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        x, y = self.tensors(latents, labels)
        stored, known = self.tensors(*self.memory.samples())

        def loss(index, _):
            present = torch.isin(torch.arange(self.seen, device=self.device), y[index])
            value = losses.cross_entropy(self._scaled(self._logits(x[index])).masked_fill(~present, -torch.inf), y[index])
            if len(known):
                drawn = self._drawn(len(known))
                value = value + losses.cross_entropy(self._scaled(self._logits(stored[drawn])), known[drawn])
            return value

        self.train(len(y), loss)
        self.memory.update(latents, labels)


class GreedyDumb(Rehearsing):
    """GDumb (Prabhu et al., ECCV 2020): after each task the classifier starts anew and trains on the buffer alone.  Without CutMix."""

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        self.memory.update(latents, labels)
        x, y = self.tensors(*self.memory.samples())
        self.begin()
        self.train(len(y), lambda index, _: losses.cross_entropy(self._scaled(self._logits(x[index])), y[index]))


class ElasticWeights(Trained):
    """EWC (Kirkpatrick et al., arXiv 1612.00796, eq. 3): a weight is drawn to where it was after each task, by its importance there.

    strength: lambda.  The importance F is the diagonal of the Fisher information, from the classes that the
    classifier itself draws for some samples.  The sum over the tasks of F (w - w_t)^2 / 2 needs F and F w_t
    alone, each summed over the tasks.  Weights are the float proxies.
    """

    kept = ("seen", "importance", "drawn_to")

    def __init__(self, problem: Problem, strength: float = 100.0) -> None:
        super().__init__(problem)
        self.strength = strength
        self.importance = torch.zeros(sum(p.numel() for p in self.parameters), device=self.device)
        self.drawn_to = torch.zeros_like(self.importance)

    @property
    def memory_bits(self) -> int:
        return 2 * FLOAT_BITS * len(self.importance)

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        x, y = self.tensors(latents, labels)

        def loss(index, _):
            weights = torch.cat([p.flatten() for p in self.parameters])
            penalty = ((self.importance / 2 * weights - self.drawn_to) * weights).sum()
            return losses.cross_entropy(self._scaled(self._logits(x[index])), y[index]) + self.strength * penalty

        self.train(len(y), loss)
        importance = self._fisher(x[torch.randperm(len(x), generator=self.generator)[:FISHER_SAMPLES]])
        self.importance += importance
        self.drawn_to += importance * torch.cat([p.detach().flatten() for p in self.parameters])

    def _fisher(self, samples):
        """The mean over samples of the squared gradient of the log-likelihood of a class that the classifier draws."""
        total = torch.zeros_like(self.importance)
        for sample in samples:
            log_p = self._scaled(self._logits(sample[None])).log_softmax(1)[0]
            drawn = int(torch.multinomial(log_p.detach().exp().cpu(), 1, generator=self.generator))
            total += torch.cat([g.flatten() for g in torch.autograd.grad(log_p[drawn], self.parameters)]) ** 2
        return total / len(samples)


class WithoutForgetting(Trained):
    """LwF (Li and Hoiem, arXiv 1606.09282): on the new samples the classifier keeps the answers that it gave before the task.

    strength: of that term, the distillation of the earlier classes at `temperature`.  Nothing is kept between tasks.
    """

    def __init__(self, problem: Problem, strength: float = 1.0, temperature: float = 2.0) -> None:
        super().__init__(problem)
        if not temperature:
            raise UsageError("--knob temperature=0: expected a number above 0")
        self.strength, self.temperature = strength, temperature

    @property
    def memory_bits(self) -> int:
        return 0

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        before = self.seen
        x, y = self.tensors(latents, labels)
        with torch.no_grad():
            answers = self._scaled(self._logits(x))[:, :before]

        def loss(index, _):
            logits = self._scaled(self._logits(x[index]))
            value = losses.cross_entropy(logits, y[index])
            if before:
                value = value + self.strength * losses.distillation(logits[:, :before], answers[index], self.temperature)
            return value

        self.train(len(y), loss)


class GenerativeMemory(Trained):
    """Generative Binary Memory (Basso-Bert et al., arXiv 2503.10333): a Bernoulli mixture of each class draws what is rehearsed.

    As many components as fit the buffer are fitted by expectation maximisation.  A component is a probability
    for each bit and one for itself, each of `width` bits.  In each epoch every past class gets as many new
    pseudo-exemplars as the new task has samples of a class.
    """

    needs_buffer = True
    kept = ("seen", "mixtures", "counts")

    def __init__(self, problem: Problem, width: int = 8) -> None:
        super().__init__(problem)
        if not whole(width, 1) or width > 16:
            raise UsageError(f"--knob width={width}: expected a whole number from 1 to 16, the bits of a probability")
        self.width, size = width, width * (problem.latent + 1)
        check_room(problem.buffer_bits, size, problem.classes, "components")
        self.components = problem.buffer_bits // size // problem.classes
        self.mixtures = torch.zeros(problem.classes, self.components, problem.latent + 1, dtype=torch.int32, device=self.device)
        self.counts = torch.zeros(problem.classes, dtype=torch.int64, device=self.device)

    @property
    def memory_bits(self) -> int:
        return self.width * self.mixtures.numel()

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        past = self.counts.nonzero()[:, 0].tolist()
        x, y = self.tensors(latents, labels)
        fresh, each = len(y), int(y.bincount().max())
        y = torch.cat([y, torch.tensor(past, dtype=torch.int64, device=self.device).repeat_interleave(each)])
        drawn_in = -1

        def loss(index, epoch):
            nonlocal drawn_in, x
            if epoch > drawn_in:
                drawn_in, x = epoch, torch.cat([x[:fresh], *(self.draw(c, each) for c in past)])
            return losses.cross_entropy(self._scaled(self._logits(x[index])), y[index])

        self.train(len(y), loss)
        for c in y[:fresh].unique().tolist():
            own = torch.cat([x[:fresh][y[:fresh] == c], self.draw(c, int(self.counts[c]))])  # drawn where the class comes again
            self.mixtures[c] = self._fitted(own.float())
            self.counts[c] = len(own)

    def draw(self, c: int, count: int) -> torch.Tensor:
        """Pseudo-exemplars of a class, uint8 (count, latent)."""
        mixture = ((self.mixtures[c].double() + 0.5) / 2 ** self.width).cpu()
        which = torch.multinomial(mixture[:, -1], max(count, 1), replacement=True, generator=self.generator)[:count]
        return (torch.rand(count, mixture.shape[1] - 1, generator=self.generator) < mixture[which, :-1]).to(torch.uint8).to(self.device)

    def _fitted(self, x):
        """The mixture of samples, float bits (N, latent), as integers of `width` bits; it begins at samples drawn."""
        begin = x[torch.randint(len(x), (self.components,), generator=self.generator)]
        p, share = 0.25 + begin / 2, x.new_full((self.components,), 1 / self.components)
        for _ in range(EM_STEPS):
            likelihood = x @ p.log().T + (1 - x) @ (1 - p).log().T + share.log()
            belongs = likelihood.softmax(1)
            weight = belongs.sum(0)
            p, share = (belongs.T @ x + 1) / (weight[:, None] + 2), (weight + 1) / (weight + 1).sum()
        levels = torch.cat([p, share[:, None]], 1) * 2 ** self.width
        return levels.floor().clamp(0, 2 ** self.width - 1).int()
