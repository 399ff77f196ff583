"""Binary arithmetic that can be trained: sign with a clipped straight-through estimator (paper, eqs. `sign`, `clip_id`).

A layer with scale S computes u = S * dot and sends on sign(u).  Its gradient passes where
|u| <= limit.

Forward, u is never formed.  The convolution has weights +-2 and a bias, so it gives the odd integer
y = 2 * (dot - threshold) + 1, and sign(dot - threshold) is clamp(y, -1, 1).  That takes one pass, is
exact in float32 below 2^24, and gives sign(0) = +1.  In bfloat16 it is exact too: sums are formed in
float32, and an odd integer that is rounded to 8 bits keeps its sign, and below 256 its value.

Backward, the gradient is that of u.  `product` multiplies S into the small weight tensor in place
of the large activations.

With batch norm, y has the threshold of the running statistics subtracted, so that sums near the
edge stay whole in bfloat16.  `norm_sign` normalises y by the statistics of the batch.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F

from .. import bits

NORM_EPS = 4e-5
"""`norm_sign` adds this to the variance of y = 2 * dot + bias, which is 1e-5 for the dot products."""


class _Weight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, proxy, limit):
        ctx.save_for_backward(proxy)
        ctx.limit = limit
        return torch.where(proxy >= 0, 1.0, -1.0).to(proxy.dtype)

    @staticmethod
    def backward(ctx, grad):
        (proxy,) = ctx.saved_tensors
        return grad * (proxy.abs() <= ctx.limit), None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, scale, stride, groups):
        ctx.save_for_backward(x, weight)
        ctx.scale, ctx.stride, ctx.groups = scale, stride, groups
        rounded = bias.to(x.dtype)
        y = F.conv2d(x, (weight * 2).to(x.dtype), rounded, stride=stride, groups=groups)
        rest = bias - rounded
        if rest.any():  # both terms are whole near 0, so that the sum has the right sign
            y += rest.to(x.dtype)[:, None, None]
        return y if y.device.type == "cpu" else y.round_()  # cuDNN may choose a Winograd algorithm, whose transforms round

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, (weight * ctx.scale).to(x.dtype), None, (ctx.stride,) * 2, (0, 0), (1, 1), False, (0, 0), ctx.groups,
            (ctx.needs_input_grad[0], ctx.needs_input_grad[1], False))
        return grad_x, None if grad_weight is None else grad_weight.to(weight.dtype) * ctx.scale, None, None, None, None


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, reach, pad):
        ctx.save_for_backward(y)
        ctx.reach, ctx.pad = reach, pad
        return _framed(y, pad, partial(torch.clamp, y, -1, 1))

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        pad = ctx.pad
        if pad:
            grad = grad[:, :, pad:-pad, pad:-pad]
        # y is odd and hardtanh's bounds are open: -reach <= dot <= reach
        return torch.ops.aten.hardtanh_backward(grad, y, -2 * ctx.reach, 2 * ctx.reach + 2), None, None


class _NormSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, offset, limit, pad, binary):
        u, mean, inverse = torch.native_batch_norm(y, torch.ones_like(offset), offset, None, None, True, 0.0, NORM_EPS)
        ctx.save_for_backward(y, u, mean, inverse)
        ctx.limit, ctx.pad = limit, pad
        ctx.mark_non_differentiable(mean, inverse)
        ctx.set_materialize_grads(False)
        fill = partial(torch.copysign, torch.ones((), dtype=y.dtype, device=y.device), u) if binary else partial(torch.clamp, u, -1, 1)
        return _framed(u, pad, fill), mean, inverse

    @staticmethod
    def backward(ctx, grad, *_):
        y, u, mean, inverse = ctx.saved_tensors
        pad = ctx.pad
        if pad:
            grad = grad[:, :, pad:-pad, pad:-pad]
        grad = torch.ops.aten.hardtanh_backward(grad, u, -ctx.limit, ctx.limit)
        grad_y, _, grad_offset = torch.ops.aten.native_batch_norm_backward(
            grad, y, torch.ones_like(mean), None, None, mean, inverse, True, NORM_EPS, (True, True, True))
        return grad_y, grad_offset, None, None, None


def _framed(y, pad, fill):
    """Make a map like y, which fill(out=map) writes, with `pad` pixels of -1 on each side.

    The map lies channels last.  Without padding it lies in memory as y does.
    """
    if not pad:
        out = torch.empty_like(y)
        fill(out=out)
        return out
    n, c, h, w = y.shape
    out = torch.empty((n, c, h + 2 * pad, w + 2 * pad), dtype=y.dtype, device=y.device, memory_format=torch.channels_last)
    for edge in (out[:, :, :pad], out[:, :, -pad:], out[..., :pad], out[..., -pad:]):
        edge.fill_(bits.PADDING)
    fill(out=out[:, :, pad:-pad, pad:-pad])
    return out


def weight(proxy, limit=1.0):
    """sign(proxy) in {-1, +1}; its gradient passes where |proxy| <= limit."""
    return _Weight.apply(proxy, limit)


def product(x, weight, scale, bias=None, stride=1, groups=1):
    """y = 2 * dot + bias of a convolution without padding.

    x (N, C, H, W) and weight (O, C / groups, k, k) in {-1, +1}; bias (O,) = 1 - 2 * threshold, all ones if None.  y has the type of x;
    where that is bfloat16, y beyond 256 is rounded.
    The gradient that arrives is taken as that of u = scale * dot.
    """
    if bias is None:
        bias = weight.new_ones(weight.shape[0])
    return _Product.apply(x, weight, bias, scale, stride, groups)


def sign(y, scale=1.0, limit=1.0, pad=0):
    """clamp(y, -1, 1) of odd integers y = 2 * dot + 1, with `pad` pixels of -1 on each side.

    The gradient passes where |scale * dot| <= limit, both ends included (paper, eq. `clip_id`).
    """
    return _Sign.apply(y, reach(scale, limit), pad)


def norm_sign(y, offset, limit=1.0, pad=0, binary=True):
    """Return (sign(u), mean, 1 / sigma) of u = (y - mean) / sigma + offset.

    mean and sigma are those of y (N, C, H, W) over the batch and the map.  sign(u) has `pad` pixels of -1 on
    each side, and its gradient passes where |u| < limit.  Without `binary`, clamp(u, -1, 1) takes its place.
    offset, mean and 1 / sigma: (C,) float32.
    """
    return _NormSign.apply(y, offset, limit, pad, binary)


def reach(scale, limit):
    """The largest integer dot product with |scale * dot| <= limit."""
    return math.floor(limit / scale * (1 + 1e-9))  # 1 / (1 / sqrt(49)) must not become 6
