"""One training's course: the optimizer, its rate, the epochs done and the best one.  Offline and incremental training use it."""

import math
import time

import torch


def scheduler(optimizer, config, steps):
    """The scheduler of the learning rate, a `torch.optim.lr_scheduler`, for epochs of `steps` steps.

    "cosine": the rate rises during the epochs of the warm-up, then falls to 0 step by step.
    "plateau": it halves after more than 5 epochs without a lower validation loss.
    """
    rates, warm = torch.optim.lr_scheduler, config.warmup * steps
    if config.schedule == "plateau":
        return rates.ReduceLROnPlateau(optimizer, factor=0.5, patience=5)
    cosine = rates.CosineAnnealingLR(optimizer, config.epochs * steps - warm)
    return rates.SequentialLR(optimizer, [rates.LinearLR(optimizer, 1 / (warm + 1), 1, warm), cosine], [warm]) if warm else cosine


class Course:
    """One training of `parameters` by the recipe `config`, in epochs of `steps` steps.

    epoch: whole epochs done.  best, best_score, best_epoch: state dict, score and number of the epoch with
    the highest score; those of the last epoch where there is no validation.
    """

    def __init__(self, parameters, config, steps):
        self.config, self.steps = config, steps
        self.optimize(parameters)
        self.epoch, self.best_epoch, self.best_score, self.best = 0, 0, -math.inf, None

    def optimize(self, parameters):
        """Start the optimizer and its rate anew, for `parameters`."""
        self.optimizer = torch.optim.AdamW(parameters, self.config.lr, weight_decay=self.config.decay, fused=True)
        self.scheduler = scheduler(self.optimizer, self.config, self.steps)

    @property
    def finished(self):
        """True once all epochs are done, or `patience` epochs have passed without a better one."""
        patience, since = self.config.patience, max(self.best_epoch, self.config.float_epochs)
        return self.epoch >= self.config.epochs or bool(patience and self.epoch - since >= patience)

    def update(self, loss):
        """One step of the optimizer and, with cosine, of the rate."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.config.schedule == "cosine":
            self.scheduler.step()

    def keep(self, model, score):
        """Keep a copy of the weights of `model` if this epoch is the best so far.

        score: higher is better; None without validation, which makes each epoch the best so far.
        """
        if score is None or score > self.best_score:
            self.best_score, self.best_epoch = -math.inf if score is None else score, self.epoch + 1
            self.best = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}

    def end_epoch(self, began, loss):
        """End an epoch; returns its record, a dict of number, rate and seconds.

        began: its start by `time.monotonic`.  loss: on the validation split, or None without one.
        """
        if self.config.schedule == "plateau" and loss is not None:
            self.scheduler.step(loss)
        self.epoch += 1
        return {"epoch": self.epoch, "lr": float(self.optimizer.param_groups[0]["lr"]), "seconds": round(time.monotonic() - began, 2)}

    def state(self):
        """Plain values and tensors, which `restore` takes."""
        return {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(), "epoch": self.epoch,
                "best_epoch": self.best_epoch, "best_score": self.best_score, "best": self.best}

    def restore(self, state):
        """Take up what `state` returned.  Damaged values raise KeyError, ValueError, TypeError or another error."""
        self.optimizer.load_state_dict(state["optimizer"])
        for key, value in self.scheduler.state_dict().items():
            if isinstance(value, int | float) and not isinstance(state["scheduler"][key], int | float):
                raise TypeError("a rate's count that is no number")
        self.scheduler.load_state_dict(state["scheduler"])
        for key in ("epoch", "best_epoch", "best_score", "best"):
            setattr(self, key, state[key])
        if any(type(count) is not int or count < 0 for count in (self.epoch, self.best_epoch)):
            raise ValueError("epochs that are no counts")
        if self.best_score is None:  # in the first states, without validation
            self.best_score = -math.inf
        if not isinstance(self.best_score, int | float):
            raise TypeError("a score that is no number")


def fits(model, weights):
    """Whether a state dict has the names and shapes of the one of `model`."""
    return {k: v.shape for k, v in weights.items()} == {k: v.shape for k, v in model.state_dict().items()}


def check_records(records, *names):
    """Raise KeyError, TypeError or ValueError unless `records` is a list of dicts with numbers under `names`."""
    if not isinstance(records, list):
        raise TypeError("records that are no list")
    if not all(isinstance(record[name], int | float) for record in records for name in names):
        raise ValueError("a record without a number")
