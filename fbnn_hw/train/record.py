"""A trained `Trainer` as a checkpoint: the weights of its best epoch and a record of how they came about."""

import importlib.metadata
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..base.progress import silent
from ..ir.network import Network
from ..nn.network import export
from . import metrics
from .offline import Trainer, predict


def hardware(device: str | torch.device = "cpu") -> str:
    """Return the name of the GPU, or of the CPU."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _cpuinfo(key):
    """What Linux says of the first core under `key`; "" where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


BFLOAT16 = {"avx512_bf16", "amx_bf16", "avx_ne_convert"}
"""Linux's names of what x86 processors have for bfloat16."""


def emulates_bfloat16() -> bool:
    """Return whether the CPU is an x86 without arithmetic of bfloat16; False where the system does not say."""
    flags = _cpuinfo("flags").split()
    return bool(flags) and BFLOAT16.isdisjoint(flags)


def surroundings(device: str | torch.device = "cpu") -> dict[str, Any]:
    """Return versions, hardware and threads: a result depends on them as on its flags."""
    names = ("fbnn-hw", "torch", "numpy")
    versions = {name: importlib.metadata.version(name) for name in names}
    return {"versions": {**versions, "python": platform.python_version()}, "hardware": hardware(device), "threads": torch.get_num_threads()}


def describe(trainer: Trainer, meta: dict[str, Any] | None = None, test: tuple[int, int, float | None] | None = None) -> dict[str, Any]:
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


def network(trainer: Trainer, meta: dict[str, Any] | None = None, test: tuple[int, int, float | None] | None = None) -> Network:
    """The `ir.network.Network` of the best epoch so far, with the record of `describe`.

    The trainer is not changed.  It may be between epochs, or have just resumed; so a training state
    alone gives a checkpoint.
    """
    with best(trainer) as model:
        return export(model, describe(trainer, meta, test))


def test_score(trainer: Trainer, images: torch.Tensor, labels: torch.Tensor,
               progress: Callable = silent) -> tuple[int, int, float | None]:
    """Test the best epoch on images, uint8 tensor (N, 3, S, S), with labels, int64 tensor (N,).

    Returns (images that are right, N, dispersion over the classes).  Of several classes with the
    largest logit, the lowest counts.
    """
    with best(trainer) as model:
        logits = predict(model, images, progress=progress)
    matrix = metrics.confusion(labels.numpy(), logits.argmax(1).numpy(), logits.shape[1])
    return int(matrix.trace()), len(labels), metrics.score(matrix, range(len(matrix)))["d"]


@contextmanager
def best(trainer: Trainer) -> Iterator[Any]:
    """Context: the trainer's model with the weights of the best epoch, in evaluation."""
    model, training = trainer.model, trainer.model.training
    now = {k: v.detach().clone() for k, v in model.state_dict().items()}
    try:
        if trainer.best is not None:
            model.load_state_dict(trainer.best)
        yield model.eval()
    finally:
        model.load_state_dict(now)
        model.train(training)
