"""Batch norm of dot products before each sign, with a gain of 1, so that it folds into integer thresholds."""

import torch
import torch.nn.functional as F
from torch import nn

from ..base import bits
from . import binarize

MOMENTUM = 0.1


class Norm(nn.Module):
    """u = (dot - mean) / sigma + offset of `channels` channels; the offsets train.

    In evaluation sign(u) is dot >= `threshold()`, in integers: what is exported is what is evaluated.  `mean` and `variance` are running
    averages of the batches' statistics; the first batch sets them, and with momentum 0 they are the averages since `steps` was 0.
    `target`: thresholds that the first batch in training turns into offsets, or None.  It stays where it was made when the module moves.
    """

    mean: torch.Tensor
    variance: torch.Tensor
    steps: torch.Tensor
    target: torch.Tensor | None

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.momentum, self.target = MOMENTUM, None

    @torch.no_grad()
    def threshold(self, largest: int) -> torch.Tensor:
        """Return the least dot product in -largest..largest with u >= 0, by the running statistics.

        float32 integers (channels,); largest + 1 where there is none.
        """
        if self.target is not None and not self.steps:
            return self.target.to(self.mean.device)
        edge = self.mean.double() - self.offset.double() * self.variance.double().sqrt()
        return edge.ceil().clamp(-largest, largest + 1).float()

    def sign(self, y: torch.Tensor, bias: torch.Tensor, limit: float, pad: int, binary: bool, estimator: str = "clip") -> torch.Tensor:
        """sign(u), or clamp(u, -1, 1), of y = 2 * dot + bias (N, channels, H, W), framed by `pad` pixels of -1.

        In training u is that of the batch, whose statistics go into the running ones.
        """
        if not self.training:
            return binarize.sign(y, pad=pad) if binary else F.pad(self._clamped(y, bias), (pad,) * 4, value=bits.PADDING)
        if self.target is not None:
            self._adopt(y, bias)
        out, mean, inverse = binarize.norm_sign(y, self.offset, limit, pad, binary, estimator)
        with torch.no_grad():
            self.steps += 1
            share = self.steps.float().reciprocal().clamp_min(self.momentum)
            self.mean.lerp_((mean - bias) / 2, share)
            self.variance.lerp_(inverse.square().reciprocal() / 4, share)
        return out

    def _clamped(self, y, bias):
        shape = (-1, 1, 1)
        dot = (y - bias.view(shape)) / 2
        return ((dot - self.mean.view(shape)) / self.variance.sqrt().view(shape) + self.offset.view(shape)).clamp(-1, 1).to(y.dtype)

    @torch.no_grad()
    def _adopt(self, y, bias):
        if not self.steps:
            _, mean, inverse = binarize.norm_sign(y, self.offset)
            self.offset.copy_(((mean - bias) / 2 - (self.target.to(y.device) - 0.5)) * inverse * 2)
        self.target = None
