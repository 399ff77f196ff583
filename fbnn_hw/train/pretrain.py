"""Pre-training of a feature extractor: alpha * CCE + beta * Barlow Twins + gamma * L_FR (paper, section `pt`, eq. `sup_ssl_reg_loss`).

A fourth term, decorrelate * `nn.losses.decorrelation`, is ours.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..base.errors import InputError, UsageError
from ..data.augment import strong
from ..data.datasets import Images
from ..data.images import scale
from ..ir.models import AIRBENCH, FLOATING, build
from ..ir.network import LATENT
from ..nn import floating, losses
from ..nn.network import FBNN
from . import offline, start
from .config import TrainConfig
from .offline import Trainer

PROJECTOR_NEURONS = 2048


@dataclass(frozen=True)
class Objective:
    """alpha, beta, gamma, decorrelate: weights of the terms.  features: L_FR "printed" or "intended", see `nn.losses`."""

    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 0.0
    features: str = "intended"
    decorrelate: float = 0.0

    @property
    def of_latents(self) -> bool:
        """Whether a term needs the latents."""
        return bool(self.beta or self.gamma or self.decorrelate)

    def verify(self) -> None:
        for name in ("alpha", "beta", "gamma", "decorrelate"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"--{name} {getattr(self, name)}: expected 0 or more")
        if not (self.alpha or self.of_latents):
            raise UsageError("--alpha, --beta, --gamma and --decorrelate are all 0, expected one that is not")
        if self.features not in losses.FEATURES:
            raise UsageError(f"--features {self.features}: expected one of {', '.join(losses.FEATURES)}")


def projector(latent: int) -> nn.Sequential:
    """Two dense layers of 2048 neurons, each with batch norm and ReLU, in float."""
    blocks = [(nn.Linear(inputs, PROJECTOR_NEURONS), nn.BatchNorm1d(PROJECTOR_NEURONS), nn.ReLU())
              for inputs in (latent, PROJECTOR_NEURONS)]
    return nn.Sequential(*(layer for block in blocks for layer in block))


def tensors(images: Images, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`Images` -> (uint8 tensor (N, 3, size, size), int64 labels (N,))."""
    images = images.scaled(size)
    return torch.from_numpy(images.images), torch.from_numpy(images.labels)


class Pretrainer(Trainer):
    """`Trainer` with all terms.  unlabeled: uint8 images of any size for the terms without labels; the labelled ones if None."""

    def __init__(self, model: FBNN, images: torch.Tensor, labels: torch.Tensor, config: TrainConfig, objective: Objective,
                 unlabeled: Any = None, **options: Any) -> None:
        objective.verify()
        super().__init__(model, images, labels, config, **options)
        self.objective, self.unlabeled, self.free = objective, None, None
        if unlabeled is not None:
            self.unlabeled = torch.as_tensor(unlabeled)
            self.free = {"images": len(self.unlabeled), "crc32": zlib.crc32(self.unlabeled.contiguous().numpy().data)}
        self.projector = None
        if objective.beta:
            self.projector = projector(model.topology.shapes[LATENT][0]).to(self.device).train()
            self.optimize([*model.parameters(), *self.projector.parameters()])

    def state(self) -> dict[str, Any]:
        return {**super().state(), "objective": asdict(self.objective), "activations": self._activations(), "unlabeled": self.free,
                "projector": self.projector and self.projector.state_dict()}

    def _activations(self):
        return "float" if self.ends_binary is False else "binary"

    def _take_up(self, state):
        if self.ends_binary is not None and state["activations"] != self._activations():
            raise UsageError(f"{self.state_path}: was started with --activations {state['activations']}; resume with the same flags")
        if {"decorrelate": 0.0, **state["objective"]} != asdict(self.objective):  # states to 0.3.0 lack that term
            raise UsageError(f"{self.state_path}: was started with other weights of the terms; resume with the same flags")
        if state["unlabeled"] != self.free:
            raise UsageError(f"{self.state_path}: was started with other unlabelled images; resume with the same --unlabeled")
        super()._take_up(state)
        if self.projector is not None:
            self.projector.load_state_dict(state["projector"])

    def _forward(self, images):
        if not self.objective.of_latents:
            return super()._forward(images)
        latent, logits = self.model.latent_and_logits(images)
        return logits * self.model.alpha, latent

    def _with_terms(self, loss, latent, images, index):
        loss, free = self.objective.alpha * loss, images
        if not self.objective.of_latents:
            return loss
        if self.unlabeled is not None:
            unlabeled_index = torch.randint(len(self.unlabeled), (len(index),), generator=self.generator)
            free = torch.from_numpy(scale(self.unlabeled[unlabeled_index].numpy(), images.shape[-1])).to(self.device)
            index = unlabeled_index % len(self.turns)
        if self.unlabeled is not None and (self.objective.gamma or self.objective.decorrelate):
            latent = self._forward(self._augmented(free, index))[1]
        if self.objective.gamma:
            loss = loss + self.objective.gamma * losses.FEATURES[self.objective.features](latent)
        if self.objective.decorrelate and len(free) > 1:  # a batch of one has no correlation
            loss = loss + self.objective.decorrelate * losses.decorrelation(latent)
        if self.objective.beta and len(free) > 1:
            views = torch.cat([strong(free, self.generator), strong(free, self.generator)])
            first, second = self.projector(self._forward(views)[1]).chunk(2)
            loss = loss + self.objective.beta * losses.barlow_twins(first, second)
        return loss


def device(name: str) -> torch.device:
    """The `torch.device` of --device auto, cpu or cuda.  Raises UsageError for cuda where torch finds no GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here, expected one; use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def make(name: str, classes: Sequence[str], size: int, config: TrainConfig, encoder: str = "tycc", init: start.Start | Path | None = None,
         activations: str = "binary", **shape: Any) -> Any:
    """The model to pre-train: a named FBNN, or a floating-point baseline.

    name: a model of `fbnn-hw train --model`, or a baseline.  size: pixels a side of an image.
    encoder: as of `nn.layers.Thermometer`.
    init: the weights to begin with: a `Start`, or the checkpoint of an earlier stage with batch norm, whose
    state lies beside it.  With `config.norm` "bn" that batch norm is kept; with "scales", scales take its place.
    activations: "binary", or "float" for the first of the paper's three stages (`nn.network.FBNN.binary`).
    shape: `latent`, `pooling` and `depth` as of `ir.models.build`; by default those of the model.
    Raises UsageError where the options do not fit the model, InputError where the state beside `init` is
    missing or of another network.
    """
    torch.manual_seed(config.seed)
    norm = config.norm
    if name in (*FLOATING, AIRBENCH):
        if norm != "scales" or encoder != "tycc" or shape or init:
            raise UsageError(f"--model {name}: has its own batch norm, input and classifier, expected no --norm, --encoder, --latent, "
                             "--pooling, --depth and --init")
        if config.centre or config.ties != "up" or config.proxies != "masked" or config.estimator != "clip" or config.restarts:
            raise UsageError(f"--model {name}: has no signs, expected no --centre, --ties, --proxies, --estimator and --restarts")
        if name == AIRBENCH:
            return floating.Airbench(name, classes, size)
        kind, binary = FLOATING[name]
        topology = build(binary, classes, size=size)
        return floating.fpnn_p(name, topology) if kind == "p" else floating.fpnn_b(name, topology, classes)
    topology = build(name, classes, size=size, encoder=encoder, **shape)
    options: dict[str, Any] = dict(K=config.K, c=config.c, limit=config.limit, norm=norm)
    if activations == "float" and (norm != "bn" or init):
        raise UsageError("--activations float: is the first stage of three, expected --norm bn and no --init")
    if not init:
        model = FBNN(topology, **options)
        model.binary = activations == "binary"
        return model
    if isinstance(init, start.Start):
        return start.further(init, topology, config.seed, options)
    normed = FBNN(topology, **{**options, "norm": "bn"})
    path = init.with_suffix(".state")
    try:
        normed.load_state_dict(offline.read(path)["best"])
    except Exception as error:  # a file can be wrong in any way
        raise InputError(f"{path}: not the state of a stage with batch norm of {name} with {len(classes)} classes "
                         f"({type(error).__name__}), expected that of pretrain --norm bn") from None
    return normed if norm == "bn" else start.to_scales(normed)


def origin(path: str | Path) -> start.Start | Path:
    """Return the `Start` of the checkpoint `path`, or the path itself where a stage with float activations left a state alone."""
    path = Path(path)
    return start.read(path) if path.is_file() else path
