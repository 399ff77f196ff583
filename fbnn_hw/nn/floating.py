"""The floating-point baselines of the paper (section `NND`): the same topology with float weights, batch norm and ReLU."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..ir.models import vgg
from ..ir.network import LATENT, Topology
from .encode import check, encode
from .layers import moved

BITS_OF_A_FLOAT = 32


class FloatNet(nn.Module):
    """A topology with float weights.  rgb: the input is RGB in -1..1, otherwise the thermometer code.

    forward(images): uint8 RGB (N, 3, S, S) -> logits (N, classes); `logits` is the same, alpha is 1.  `dtype`: of the layers' arithmetic,
    float32 or bfloat16; the weights are float32.
    """

    alpha = 1.0

    def __init__(self, topology: Topology, rgb: bool) -> None:
        super().__init__()
        self.topology, self.rgb, self.dtype = topology, rgb, torch.float32
        shapes, self.layers, self.norms = topology.verify(), nn.ModuleDict(), nn.ModuleDict()
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

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            return self._forward(images).float()

    def _forward(self, images):
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

    logits = forward

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
