"""A trained `Trainer` as a checkpoint: the weights of its best epoch and a record of how they came about."""

import importlib.metadata
import math
import platform
from dataclasses import asdict
from pathlib import Path

import torch

from ..nn.network import export
from . import metrics
from .offline import predict


def hardware(device="cpu"):
    """Return the name of the GPU, or of the CPU."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


BFLOAT16 = {"avx512_bf16", "amx_bf16", "avx_ne_convert"}
"""Linux's names of what x86 processors have for bfloat16."""


def emulates_bfloat16():
    """Return whether the CPU is an x86 without arithmetic of bfloat16; False where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), None)
    return bool(flags) and BFLOAT16.isdisjoint(flags)


def surroundings(device="cpu"):
    """Return versions, hardware and threads: a result depends on them as on its flags."""
    names = ("fbnn-hw", "torch", "numpy")
    versions = {name: importlib.metadata.version(name) for name in names}
    return {"versions": {**versions, "python": platform.python_version()}, "hardware": hardware(device), "threads": torch.get_num_threads()}


def describe(trainer, meta=None, test=None):
    """The training record, a dict of plain values.

    meta: what the trainer cannot know, such as `command` and `data`; its keys come first and win.
    test: what `test_score` returned, or None.
    """
    last = trainer.history[-1] if trainer.history else None
    record = {
        **(meta or {}), "epochs": trainer.epoch, "best_epoch": trainer.best_epoch,
        "finished": trainer.finished,
        "train_accuracy": last and last["train_accuracy"],
        "validation_accuracy": trainer.best_score if len(trainer.held_labels) else None, "validation_images": len(trainer.held_labels),
        "test_accuracy": test[0] / test[1] if test else None, "test_images": test[1] if test else 0,
        "test_dispersion": test[2] if test else None,
        "train_images": len(trainer.labels), "seconds": round(sum(epoch["seconds"] for epoch in trainer.history), 1),
        "hardware": hardware(trainer.device), "device": trainer.device.type, "threads": torch.get_num_threads(),
        "torch": str(torch.__version__), "seed": trainer.config.seed, "config": asdict(trainer.config), **(meta or {})}
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in record.items()}


def network(trainer, meta=None, test=None):
    """The `ir.network.Network` of the best epoch so far, with the record of `describe`.

    The trainer is not changed.  It may be between epochs, or have just resumed; so a training state
    alone gives a checkpoint.
    """
    with best(trainer) as model:
        return export(model, describe(trainer, meta, test))


def test_score(trainer, images, labels, progress=lambda iterable, **kw: iterable):
    """Test the best epoch on images, uint8 tensor (N, 3, S, S), with labels, int64 tensor (N,).

    Returns (images that are right, N, dispersion over the classes).  Of several classes with the
    largest logit, the lowest counts.
    """
    with best(trainer) as model:
        logits = predict(model, images, progress=progress)
    matrix = metrics.confusion(labels.numpy(), logits.argmax(1).numpy(), logits.shape[1])
    return int(matrix.trace()), len(labels), metrics.score(matrix, range(len(matrix)))["d"]


class best:
    """Context: the trainer's model with the weights of the best epoch."""

    def __init__(self, trainer):
        self.trainer = trainer

    def __enter__(self):
        model = self.trainer.model
        self.now = {k: v.detach().clone() for k, v in model.state_dict().items()}
        if self.trainer.best is not None:
            model.load_state_dict(self.trainer.best)
        self.training = model.training
        return model.eval()

    def __exit__(self, *error):
        self.trainer.model.load_state_dict(self.now)
        self.trainer.model.train(self.training)
