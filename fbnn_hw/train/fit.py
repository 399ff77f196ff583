"""One training: the optimizer, its rate, the steps of an epoch, and the best one.  Offline and incremental training use it."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from ..nn import losses
from .config import TrainConfig

HELD = {"clipped": 1.0, "pulled": 0.01}
"""Share of what proxies have beyond +-1 that each step takes off, by `TrainConfig.proxies`."""


def scheduler(optimizer: torch.optim.Optimizer, config: TrainConfig, steps: int) -> Any:
    """The scheduler of the learning rate, a `torch.optim.lr_scheduler`, for epochs of `steps` steps.

    "cosine": the rate rises during the epochs of the warm-up, then falls to 0 step by step; that of a cycle, where there are restarts.
    "plateau": it halves after more than 5 epochs without a lower validation loss.
    """
    rates, warm = torch.optim.lr_scheduler, config.warmup * steps
    if config.schedule == "plateau":
        return rates.ReduceLROnPlateau(optimizer, factor=0.5, patience=5)
    cosine = rates.CosineAnnealingLR(optimizer, config.cycle * steps - warm)
    return rates.SequentialLR(optimizer, [rates.LinearLR(optimizer, 1 / (warm + 1), 1, warm), cosine], [warm]) if warm else cosine


class Fit:
    """One training of `parameters`, all of `model` or some, by the recipe `config` on `count` samples.

    steps: of an epoch.  With batch norm a last batch of one sample is left out.
    epoch, step: whole epochs done, and steps of the current one.
    best, best_score, best_epoch: state dict, score and number of the epoch with the highest score; those of
    the last epoch where there is no validation.
    ends_binary: False for the paper's first stage, whose activations stay float; None for a model that is float.
    """

    def __init__(self, model: Any, parameters: Iterable[torch.nn.Parameter], config: TrainConfig, count: int,
                 generator: torch.Generator) -> None:
        """generator: of the ties and of what a subclass draws."""
        self.model, self.config, self.generator = model, config, generator
        self.steps = count // config.batch + (count % config.batch > (config.norm == "bn"))
        self.optimize(parameters)
        self.epoch, self.step, self.best_epoch, self.best_score = 0, 0, 0, -math.inf
        self.best: dict[str, torch.Tensor] | None = None
        self.average = [values.clone() for values in self._averaged()] if config.ema else None
        self.turns = torch.rand(count, generator=torch.Generator().manual_seed(config.seed)) < 0.5
        self.ends_binary = getattr(model, "binary", None)
        # loss, samples and right ones of the epoch so far; kept on the device, so that no step waits for it
        self.sums = torch.zeros(3, dtype=torch.float64, device=next(model.parameters()).device)

    def optimize(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Start the optimizer and its rate anew, for `parameters`."""
        self.parameters = list(parameters)
        self.optimizer = torch.optim.AdamW(self.parameters, self.config.lr, weight_decay=self.config.decay, fused=True)
        self.scheduler = scheduler(self.optimizer, self.config, self.steps)

    def restart(self) -> None:
        """Begin a cycle of --restarts: the rate as in SGDR (Loshchilov and Hutter, arXiv 1608.03983, eq. 5, its cycles of equal length),
        the optimizer without a past, and proxies that are their bits.  To do it twice is to do it once."""
        self.model.to_bits()
        self.optimize(self.parameters)
        for values, now in zip(self.average or (), self._averaged()):
            values.copy_(now)

    @property
    def finished(self) -> bool:
        """True once all epochs are done, or `patience` epochs have passed without a better one."""
        patience, since = self.config.patience, max(self.best_epoch, self.config.float_epochs)
        return self.epoch >= self.config.epochs or bool(patience and self.epoch - since >= patience)

    def train(self, order: torch.Tensor, step: Callable[[torch.Tensor], None], bar: Callable[..., Iterable[int]]) -> None:
        """The steps of an epoch that are left.

        order: of the samples, int64.  step(index): one step on the samples at `index`, with `update`.
        bar(range, initial, total): the same range, with a progress bar.
        """
        if self.ends_binary is not None:
            self.model.binary = self.epoch >= self.config.float_epochs and self.ends_binary
        if self.epoch and not self.step and self.epoch % self.config.cycle == 0:
            self.restart()
        self.model.train()
        for number in bar(range(self.step, self.steps), initial=self.step, total=self.steps):
            step(order[number * self.config.batch:(number + 1) * self.config.batch])

    def mirrored(self, index: torch.Tensor) -> torch.Tensor | None:
        """Which of the samples at `index` are mirrored in this epoch, bool; None where the augmentation draws it."""
        if self.config.augment and self.config.mirror == "random":
            return None
        if self.config.augment and self.config.mirror == "alternating":
            return self.turns.to(index.device)[index] ^ bool(self.epoch % 2)
        return torch.zeros(len(index), dtype=torch.bool, device=index.device)

    def draw_ties(self) -> None:
        """Before a step: draw what its dot products of 0 become."""
        if self.config.ties == "random":
            self.model.draw_ties(self.generator)

    def distilled(self, loss: torch.Tensor, logits: torch.Tensor, taught: torch.Tensor,
                  weights: torch.Tensor | None = None) -> torch.Tensor:
        """The loss with the share of a teacher whose logits are `taught`.  weights: as of `losses.distillation`."""
        soft = losses.distillation(logits, taught, self.config.temperature, weights)
        return (1 - self.config.distil) * loss + self.config.distil * soft

    def update(self, loss: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor) -> None:
        """One step of the optimizer and, with cosine, of the rate; the samples with their `logits` and `labels` join the epoch's sums."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.config.schedule == "cosine":
            self.scheduler.step()
        if self.config.centre:
            self.model.centre()
        if self.config.proxies in HELD:
            self.model.hold(HELD[self.config.proxies])
        if self.config.ties == "random":
            self.model.draw_ties()
        self._follow()
        self.step += 1
        self.sums[0] += loss.detach().double() * len(labels)
        self.sums[1] += len(labels)
        self.sums[2] += (logits.argmax(1) == labels).sum()

    def means(self) -> dict[str, float]:
        """{"train_loss", "train_accuracy"} of the epoch so far."""
        total, count, correct = self.sums.tolist()
        return {"train_loss": total / count, "train_accuracy": correct / count}

    def _averaged(self):
        """The tensors of the model whose moving average is kept, --ema."""
        return [*(p.detach() for p in self.model.parameters()), *(b for b in self.model.buffers() if b.is_floating_point())]

    def _follow(self):
        """Move the averages towards the model.  The first ones forget sooner."""
        if self.average:
            steps = self.epoch * self.steps + self.step
            torch._foreach_lerp_(self.average, self._averaged(), 1 - min(self.config.ema, (1 + steps) / (10 + steps)))

    @contextmanager
    def judged(self, batches: Iterable[torch.Tensor], logits: Callable | None = None) -> Iterator[None]:
        """Within it the model is what the recipe judges and keeps, in evaluation; training then goes on with the model as it was.

        Where the recipe asks for them, it has the averaged proxies, and statistics estimated on
        `batches`, of which those of one sample are left out.  logits: as of `FBNN.estimate`.
        """
        model, now = self.model, {k: v.clone() for k, v in self.model.state_dict().items()}
        try:
            for values, average in zip(self._averaged(), self.average or ()):
                values.copy_(average)
            if self.config.norm == "bn" and self.config.statistics:
                model.estimate((batch for batch in batches if len(batch) > 1), logits)
            model.eval()
            yield
        finally:
            model.load_state_dict(now)

    def keep(self, model: Any, score: float | None) -> None:
        """Keep a copy of the weights of `model` if this epoch is the best so far and has binary activations.

        score: higher is better; None without validation, which makes each epoch the best so far.
        """
        if self.epoch >= self.config.float_epochs and (score is None or score > self.best_score):
            self.best_score, self.best_epoch = -math.inf if score is None else score, self.epoch + 1
            self.best = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}

    def end_epoch(self, began: float, loss: float | None) -> dict[str, Any]:
        """End an epoch; returns its record, a dict of number, rate and seconds.

        began: its start by `time.monotonic`.  loss: on the validation split, or None without one.
        """
        if self.config.schedule == "plateau" and loss is not None:
            self.scheduler.step(loss)
        self.epoch, self.step = self.epoch + 1, 0
        self.sums.zero_()
        return {"epoch": self.epoch, "lr": float(self.optimizer.param_groups[0]["lr"]), "seconds": round(time.monotonic() - began, 2)}

    def state(self) -> dict[str, Any]:
        """Plain values and tensors, which `restore` takes."""
        return {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(), "epoch": self.epoch,
                "step": self.step, "best_epoch": self.best_epoch, "best_score": self.best_score, "best": self.best,
                "average": self.average}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned.  Damaged values raise KeyError, ValueError, TypeError or another error."""
        self.optimizer.load_state_dict(state["optimizer"])
        for key, value in self.scheduler.state_dict().items():
            if isinstance(value, int | float) and not isinstance(state["scheduler"][key], int | float):
                raise TypeError("a rate's count that is no number")
        self.scheduler.load_state_dict(state["scheduler"])
        for key in ("epoch", "step", "best_epoch", "best_score", "best"):
            setattr(self, key, state[key])
        if any(type(count) is not int or count < 0 for count in (self.epoch, self.best_epoch)):
            raise ValueError("epochs that are no counts")
        if not isinstance(self.best_score, int | float):
            raise TypeError("a score that is no number")
        if self.average:
            for values, saved in zip(self.average, state["average"], strict=True):
                values.copy_(saved)


def fits(model: Any, weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether a state dict has the names and shapes of the one of `model`."""
    return {k: v.shape for k, v in weights.items()} == {k: v.shape for k, v in model.state_dict().items()}


def check_records(records: Any, *names: str) -> None:
    """Raise KeyError, TypeError or ValueError unless `records` is a list of dicts with numbers under `names`."""
    if not isinstance(records, list):
        raise TypeError("records that are no list")
    if not all(isinstance(record[name], int | float) for record in records for name in names):
        raise ValueError("a record without a number")
