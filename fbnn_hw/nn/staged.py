"""Batch norm for the multi-stage protocol and for table 1 (paper, sections `bg` and `key_cil`): conv -> batch norm -> maxpool -> sign.

`fold` turns a trained one into a plain FBNN with integer thresholds that gives the same bits; `to_scales` into one without thresholds
whose scales come from the batch norm, to be trained further.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .. import bits
from . import binarize
from .network import FBNN


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, limit):
        ctx.save_for_backward(u)
        ctx.limit = limit
        return torch.where(u >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return grad * (u.abs() <= ctx.limit), None


class NormedFBNN(FBNN):
    """FBNN with a batch norm, gain and offset included, after each convolution, depthwise and dense layer but the logits.

    activations: "binary", or "float" for the first stage of the paper's multi-stage training, which has clamp(u, -1, 1) for sign(u).
    """

    def __init__(self, topology, activations="binary", **options):
        super().__init__(topology, **options)
        self.binary = activations == "binary"
        self.norms = nn.ModuleDict({n: nn.BatchNorm2d(layer.proxy.shape[0]) for n, layer in self.layers.items() if not layer.logits})

    def _output(self, o, *inputs):
        x, pad = inputs[0], int(o.name in self._framed)
        if o.kind == "gap" and not self.binary:
            return (x.sum((2, 3), keepdim=True) * self.pools[o.name].scale).clamp(-1, 1)
        if o.name not in self.norms and not (o.kind == "maxpool" and o.inputs[0] in self._sign_after_pool):
            return super()._output(o, *inputs)
        if o.kind == "maxpool":
            u = F.max_pool2d(x, 2)
        else:
            layer = self.layers[o.name]
            if o.kind == "conv" and o.kernel == 3 and o.inputs[0] not in self._framed:
                x = F.pad(x, (1,) * 4, value=bits.PADDING)
            dot = (binarize.product(x, layer.weight, 2.0, None, layer.stride, layer.groups) - 1) / 2
            u = self.norms[o.name](dot * layer.scale)
            if o.name in self._sign_after_pool:
                return u
        y = _Sign.apply(u, self.limit) if self.binary else u.clamp(-1, 1)
        return F.pad(y, (pad,) * 4, value=bits.PADDING) if pad else y


def _upright(model, name):
    """(proxy with the channels of negative gain turned over, |gain|, mean, variance + eps, offset) of a layer."""
    norm, layer = model.norms[name], model.layers[name]
    turn = torch.where(norm.weight < 0, -1.0, 1.0)
    proxy = torch.where(layer.proxy >= 0, layer.proxy.clamp_min(1e-12), layer.proxy) * turn[:, None, None, None]  # a 0 must turn too
    return proxy, norm.weight.abs(), norm.running_mean * turn, norm.running_var + norm.eps, norm.bias


@torch.no_grad()
def fold(model):
    """FBNN with thresholds that gives the bits of `model` in evaluation.

    gain * (scale * dot - mean) / sigma + offset >= 0 becomes dot >= threshold; a channel of negative gain has its weights turned over.
    """
    plain = FBNN(model.topology, K=model.K, limit=model.limit)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("norms.")})
    for name in model.norms:
        layer = plain.layers[name]
        proxy, gain, mean, variance, offset = (v.double() for v in _upright(model, name))
        layer.proxy.copy_(proxy)
        edge = (mean - offset * variance.sqrt() / gain) / layer.scale
        edge = torch.where(gain > 0, edge, torch.where(offset >= 0, -math.inf, math.inf))  # no gain: the offset's sign alone
        threshold = edge.clamp(-layer.fan_in, layer.fan_in + 1).ceil()
        layer.bias.copy_(1 - 2 * threshold)
    return plain


@torch.no_grad()
def to_scales(model):
    """FBNN that starts where `model` ended: its proxies, channels of negative gain turned over, and per layer the scale times the median
    of |gain| / sigma; offsets and means are discarded (paper, section `bg`)."""
    plain = FBNN(model.topology, K=model.K, limit=model.limit)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("norms.")})
    plain.alpha = model.alpha
    for name in model.norms:
        proxy, gain, _, variance, _ = _upright(model, name)
        plain.layers[name].proxy.copy_(proxy)
        plain.layers[name].scale *= max((gain / variance.sqrt()).median().item(), 1e-6)
    return plain
