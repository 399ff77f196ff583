"""Binary arithmetic that can be trained: sign with a clipped straight-through estimator (paper, eqs. `sign`, `clip_id`).

A layer with scale S computes u = S * dot and sends on sign(u).  Its gradient passes where
|u| <= limit; with the estimator "polynomial" it is also times 2 - 2 |u| / limit (Bi-Real Net, arXiv 1808.00278, ApproxSign: 2 + 2u below
0, 2 - 2u above it).

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

import numpy as np
import torch
import torch.nn.functional as F

from ..base import bits

NORM_EPS = 4e-5
"""`norm_sign` adds this to the variance of y = 2 * dot + bias, which is 1e-5 for the dot products."""


class _Weight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, proxy, limit, times):
        ctx.save_for_backward(proxy)
        ctx.limit, ctx.times = limit, times
        binary = signs(proxy)
        return sum((binary[:, copy::times] for copy in range(1, times)), binary[:, ::times]) if times > 1 else binary

    @staticmethod
    def backward(ctx, grad):
        (proxy,) = ctx.saved_tensors
        return _inside(grad.repeat_interleave(ctx.times, 1) if ctx.times > 1 else grad, proxy, ctx.limit), None, None


def signs(x: torch.Tensor, size: float = 1, dtype: torch.dtype | None = None) -> torch.Tensor:
    """size * sign(x) as `dtype` (that of x), without a gradient; a zero of either sign gives +size.

    On a CPU a choice by comparison, `torch.where`, takes several times as long.
    """
    dtype = dtype or x.dtype
    return torch.copysign(x.new_full((), size, dtype=dtype), (x + 0.0).to(dtype))


def _inside(grad, proxy, limit):
    """grad where |proxy| <= limit, else 0."""
    beyond = float(np.nextafter(np.float32(limit), np.float32(np.inf)))  # hardtanh's bounds are open
    return torch.ops.aten.hardtanh_backward(grad, proxy, -beyond, beyond)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, proxy, bias, scale, stride, groups, rounded, width):
        twice = signs(proxy, 2, x.dtype)
        ctx.save_for_backward(x, proxy, twice)
        ctx.scale, ctx.stride, ctx.groups, ctx.width = scale, stride, groups, width
        product, ctx.gradients = _kernels(x, twice, groups)
        near = bias.to(x.dtype)
        y = product(x, twice, near, stride, groups)
        if not rounded and (rest := bias - near).any():  # both terms are whole near 0, so that the sum has the right sign
            y += rest.to(x.dtype)[:, None, None]
        return y if y.device.type == "cpu" else y.round_()  # cuDNN may choose a Winograd algorithm, whose transforms round

    @staticmethod
    def backward(ctx, grad):
        x, proxy, twice = ctx.saved_tensors
        grad_x, grad_weight = ctx.gradients(grad, x, twice * (ctx.scale / 2), ctx.stride, ctx.groups, ctx.needs_input_grad)
        if grad_weight is not None:
            grad_weight = _inside(grad_weight.to(proxy.dtype) * ctx.scale, proxy, ctx.width)
        return grad_x, grad_weight, None, None, None, None, None, None


def _kernels(x, weight, groups):
    """(product, gradients) of a layer: a product of matrices or of elements where it reads its whole map in float32.

    That takes a fraction of the time of the convolution, which it is otherwise.
    """
    if x.dtype == torch.float32 and x.shape[2:] == weight.shape[2:]:
        if groups == 1:
            return _dense, _dense_gradients
        if groups == len(weight) == x.shape[1]:
            return _depthwise, _depthwise_gradients
    return _convolution, _convolution_gradients


def _dense(x, weight, bias, stride, groups):
    return F.linear(x.flatten(1), weight.flatten(1), bias)[:, :, None, None]


def _dense_gradients(grad, x, weight, stride, groups, needed):
    grad = grad[:, :, 0, 0]
    grad_x = (grad @ weight.flatten(1)).view(x.shape) if needed[0] else None
    return grad_x, (grad.T @ x.flatten(1)).view(weight.shape) if needed[1] else None


def _depthwise(x, weight, bias, stride, groups):
    return (x * weight[:, 0]).sum((2, 3), keepdim=True) + bias[:, None, None]


def _depthwise_gradients(grad, x, weight, stride, groups, needed):
    return grad * weight[:, 0] if needed[0] else None, (grad * x).sum(0)[:, None] if needed[1] else None


def _convolution(x, weight, bias, stride, groups):
    return F.conv2d(x, weight, bias, stride=stride, groups=groups)


def _convolution_gradients(grad, x, weight, stride, groups, needed):
    return torch.ops.aten.convolution_backward(
        grad, x, weight, None, (stride,) * 2, (0, 0), (1, 1), False, (0, 0), groups, (*needed[:2], False))[:2]


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, reach, pad, slope):
        ctx.save_for_backward(y)
        ctx.reach, ctx.pad, ctx.slope = reach, pad, slope
        return _framed(y, pad, partial(torch.clamp, y, -1, 1))

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        grad = _unframed(grad, ctx.pad, y)
        if ctx.slope:  # y - 1 is 2 * dot
            return _polynomial(grad, (y - 1) * ctx.slope), None, None, None
        # y is odd and hardtanh's bounds are open: -reach <= dot <= reach
        return torch.ops.aten.hardtanh_backward(grad, y, -2 * ctx.reach, 2 * ctx.reach + 2), None, None, None


class _NormSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, offset, limit, pad, binary, estimator):
        u, mean, inverse = torch.native_batch_norm(y, torch.ones_like(offset), offset, None, None, True, 0.0, NORM_EPS)
        ctx.save_for_backward(y, u, mean, inverse)
        ctx.limit, ctx.pad, ctx.polynomial = limit, pad, binary and estimator == "polynomial"
        ctx.mark_non_differentiable(mean, inverse)
        ctx.set_materialize_grads(False)
        fill = partial(torch.copysign, torch.ones((), dtype=y.dtype, device=y.device), u) if binary else partial(torch.clamp, u, -1, 1)
        return _framed(u, pad, fill), mean, inverse

    @staticmethod
    def backward(ctx, grad, *_):
        y, u, mean, inverse = ctx.saved_tensors
        grad = _unframed(grad, ctx.pad, y)
        if ctx.polynomial:
            grad = _polynomial(grad, u * (2 / ctx.limit))
        else:
            grad = torch.ops.aten.hardtanh_backward(grad, u, -ctx.limit, ctx.limit)
        grad_y, _, grad_offset = torch.ops.aten.native_batch_norm_backward(
            grad, y, torch.ones_like(mean), None, None, mean, inverse, True, NORM_EPS, (True, True, True))
        return grad_y, grad_offset, None, None, None, None


def _polynomial(grad, twice):
    """grad times the derivative of ApproxSign.  twice: 2 u / limit."""
    return grad * (2 - twice.abs()).clamp_min_(0)


def _unframed(grad, pad, y):
    """The gradient of `_framed` without the frame.

    It lies in memory as y does, because operators that meet two orders take several times as long.
    """
    if pad:
        return grad[:, :, pad:-pad, pad:-pad]
    return grad.contiguous(memory_format=torch.channels_last) if y.is_contiguous(memory_format=torch.channels_last) else grad


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


def weight(proxy: torch.Tensor, limit: float = 1.0, times: int = 1) -> torch.Tensor:
    """sign(proxy) in {-1, +1}, each `times` neighbours of the second dimension added up.  The gradient passes where |proxy| <= limit."""
    return _Weight.apply(proxy, limit, times)


def scaled(y: torch.Tensor, scale: float) -> torch.Tensor:
    """y, with `scale` times its gradient."""
    return y.detach() + scale * (y - y.detach())


def product(x: torch.Tensor, proxy: torch.Tensor, scale: float, bias: torch.Tensor | None = None, stride: int = 1, groups: int = 1,
            rounded: bool = False, width: float = 1.0) -> torch.Tensor:
    """y = 2 * dot + bias of a convolution without padding, whose weights are `weight(proxy, width)`.

    x (N, C, H, W) in {-1, +1}, proxy (O, C / groups, k, k); bias (O,) = 1 - 2 * threshold, all ones if None.  y has the type of x;
    where that is bfloat16, y beyond 256 is rounded.
    The gradient that arrives is taken as that of u = scale * dot.
    rounded: the type of x is known to have the bias whole, so that a GPU need not wait for the answer.
    """
    if bias is None:
        bias = proxy.new_ones(proxy.shape[0])
    return _Product.apply(x, proxy, bias, scale, stride, groups, rounded, width)


ESTIMATORS = "clip", "polynomial"


def sign(y: torch.Tensor, scale: float = 1.0, limit: float = 1.0, pad: int = 0, estimator: str = "clip") -> torch.Tensor:
    """clamp(y, -1, 1) of odd integers y = 2 * dot + 1, with `pad` pixels of -1 on each side.

    The gradient passes where |scale * dot| <= limit, both ends included (paper, eq. `clip_id`), or is that of the polynomial.
    """
    return _Sign.apply(y, reach(scale, limit), pad, scale / limit if estimator == "polynomial" else None)


def norm_sign(y: torch.Tensor, offset: torch.Tensor, limit: float = 1.0, pad: int = 0,
              binary: bool = True, estimator: str = "clip") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (sign(u), mean, 1 / sigma) of u = (y - mean) / sigma + offset.

    mean and sigma are those of y (N, C, H, W) over the batch and the map.  sign(u) has `pad` pixels of -1 on
    each side, and its gradient passes where |u| < limit, or is that of the polynomial.  Without `binary`, clamp(u, -1, 1) takes its
    place, and the gradient passes in either case.
    offset, mean and 1 / sigma: (C,) float32.
    """
    return _NormSign.apply(y, offset, limit, pad, binary, estimator)


def reach(scale: float, limit: float) -> int:
    """The largest integer dot product with |scale * dot| <= limit."""
    return math.floor(limit / scale * (1 + 1e-9))  # 1 / (1 / sqrt(49)) must not become 6
