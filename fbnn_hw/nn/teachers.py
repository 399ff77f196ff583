"""A float network that teaches: the layers of airbench (Jordan, arXiv 2404.00498), 94 % of CIFAR-10 there after ten epochs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .encode import check

WIDTHS = (64, 256, 256)
PATCH = 2
WHITENING_EPS = 5e-4
LOGIT_SCALE = 1 / 9


@dataclass(frozen=True)
class Outline:
    """The part of a topology that a run records, for a network that has none."""

    name: str
    classes: tuple
    image_size: int


class Airbench(nn.Module):
    """Whitened 2x2 patches, three groups of two 3x3 convolutions with batch norm and GELU, and a linear layer.

    forward(images): uint8 RGB (N, 3, S, S) -> logits (N, classes); `logits` is the same, alpha is 1.  `dtype`: of the layers' arithmetic,
    float32 or bfloat16; the weights are float32.  `whiten` sets the first layer, which does not train, from images.
    """

    alpha = 1.0
    whitening: torch.Tensor

    def __init__(self, name: str, classes: Sequence[str], size: int) -> None:
        super().__init__()
        self.topology, self.dtype = Outline(name, tuple(classes), size), torch.float32
        filters = 2 * 3 * PATCH ** 2
        self.register_buffer("whitening", torch.randn(filters, 3, PATCH, PATCH) / filters ** 0.5)
        self.bias = nn.Parameter(torch.zeros(filters))
        groups: list[nn.Module] = [nn.GELU()]
        channels = filters
        for width in WIDTHS:
            groups += [convolution(channels, width), nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.GELU(),
                       convolution(width, width), nn.BatchNorm2d(width), nn.GELU()]
            channels = width
        self.groups: Any = nn.Sequential(*groups).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.linear = nn.Linear(channels, len(classes), bias=False)

    @torch.no_grad()
    def whiten(self, images: torch.Tensor) -> None:
        """Filters that give the patches of `images`, uint8 (N, 3, S, S), unit variance and no correlation, and their negatives."""
        patches = nn.functional.unfold(scaled(images), PATCH).transpose(1, 2).reshape(-1, 3 * PATCH ** 2).double()
        values, vectors = torch.linalg.eigh(torch.cov(patches.T))
        filters = (vectors / (values + WHITENING_EPS).sqrt()).T.reshape(-1, 3, PATCH, PATCH)
        self.whitening.copy_(torch.cat([filters, -filters]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            x = scaled(images).contiguous(memory_format=torch.channels_last)
            x = self.groups(nn.functional.conv2d(x, self.whitening, self.bias))
            return self.linear(x.amax((2, 3))).float() * LOGIT_SCALE

    logits = forward


def scaled(images: torch.Tensor) -> torch.Tensor:
    """uint8 -> float32 in -2..2, about the mean and spread of natural images.  Raises InputError for other images."""
    check(images)
    return images.float() / 63.75 - 2


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """3x3, without bias; the first filters begin as the identity (a partial Dirac)."""
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:inputs])
    return layer
