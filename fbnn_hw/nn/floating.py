"""Float networks: the baselines of the paper (section `NND`), with batch norm and ReLU, and a teacher, airbench.

The baselines have the topology of a binary network.  airbench (Jordan, arXiv 2404.00498) has 94 % of CIFAR-10 there after ten epochs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..ir.models import vgg
from ..ir.network import LATENT, Topology
from .encode import check, encode
from .layers import moved

BITS_OF_A_FLOAT = 32
WIDTHS = (64, 256, 256)
PATCH = 2
WHITENING_EPS = 5e-4
LOGIT_SCALE = 1 / 9


class _Floating(nn.Module):
    """forward(images): uint8 RGB (N, 3, S, S) -> logits (N, classes); `logits` is the same, alpha is 1.

    `dtype`: of the layers' arithmetic, float32 or bfloat16; the weights are float32.
    """

    alpha = 1.0

    def __init__(self, topology):
        super().__init__()
        self.topology, self.dtype = topology, torch.float32

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            return self._logits(images).float()

    def _logits(self, images):
        raise NotImplementedError

    logits = forward


class FloatNet(_Floating):
    """A topology with float weights.  rgb: the input is RGB in -1..1, otherwise the thermometer code."""

    def __init__(self, topology: Topology, rgb: bool) -> None:
        super().__init__(topology)
        self.rgb, shapes, self.layers, self.norms = rgb, topology.verify(), nn.ModuleDict(), nn.ModuleDict()
        if rgb:
            shapes[topology.ops[0].name] = (3, *shapes[topology.ops[0].name][1:])
        o: Any
        for o in topology.ops:
            if o.kind not in ("conv", "depthwise", "dense"):
                continue
            (channels, height, _), = (shapes[i] for i in o.inputs)
            if o.kind == "depthwise":
                self.layers[o.name] = nn.Conv2d(channels, channels, height, groups=channels, bias=False)
            else:
                kernel, stride = getattr(o, "kernel", 1), getattr(o, "stride", 1)
                last = getattr(o, "logits", False)
                self.layers[o.name] = nn.Conv2d(channels, o.out_channels, kernel, stride, getattr(o, "frame", 0), groups=o.groups,
                                                bias=last)
                if last:
                    continue
            self.norms[o.name] = nn.BatchNorm2d(shapes[o.name][0])

    def _logits(self, images):
        check(images)
        first, values = self.topology.ops[0], {}
        values[first.name] = images.float() / 127.5 - 1 if self.rgb else encode(images, first)
        for o in self.topology.ops[1:]:
            x = values[o.inputs[0]]
            match o.kind:
                case "conv" | "depthwise" | "dense":
                    y = self.layers[o.name](x)
                    y = self.norms[o.name](y).relu() if o.name in self.norms else y
                case "maxpool":
                    y = nn.functional.max_pool2d(x, 2)
                case "gap":
                    y = x.mean((2, 3), keepdim=True)
                case _:
                    y = moved(o, *(values[i] for i in o.inputs))
            values[o.name] = y
        return y.flatten(1)

    def parameters_count(self) -> int:
        """Weights, without the batch norms and the offset of the logits."""
        return sum(values.numel() for name, values in self.layers.named_parameters() if name.endswith("weight"))


def fpnn_p(name: str, topology: Topology) -> FloatNet:
    """Return the float network with as many weights as `topology`, and so 32 times its bits."""
    return FloatNet(Topology(name, topology.ops, topology.classes), rgb=False)


def fpnn_b(name: str, topology: Topology, classes: Sequence[str]) -> FloatNet:
    """Return a float network with at most the bits of the binary VGG-like `topology`.

    Filters, latent and hidden neurons are scaled down alike.
    """
    budget = topology.weight_bits() / BITS_OF_A_FLOAT
    filters, latent = topology["conv1"].out_channels, topology[LATENT].out_channels
    hidden = topology["hidden"].out_channels
    share = 1 / math.sqrt(BITS_OF_A_FLOAT)
    while True:
        network = FloatNet(vgg(name, classes, width=max(1, round(filters * share / 4)) * 4 / 128, size=topology.image_size,
                            latent=max(1, round(latent * share / 8)) * 8, hidden=max(1, round(hidden * share / 2)) * 2), rgb=True)
        if network.parameters_count() <= budget:
            return network
        share *= 0.98


@dataclass(frozen=True)
class Outline:
    """The part of a topology that a run records, for a network that has none."""

    name: str
    classes: tuple
    image_size: int


class Airbench(_Floating):
    """Whitened 2x2 patches, three groups of two 3x3 convolutions with batch norm and GELU, and a linear layer.

    `whiten` sets the first layer, which does not train, from images.
    """

    whitening: torch.Tensor

    def __init__(self, name: str, classes: Sequence[str], size: int) -> None:
        super().__init__(Outline(name, tuple(classes), size))
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

    def _logits(self, images):
        x = scaled(images).contiguous(memory_format=torch.channels_last)
        x = self.groups(nn.functional.conv2d(x, self.whitening, self.bias))
        return self.linear(x.amax((2, 3))).float() * LOGIT_SCALE


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
