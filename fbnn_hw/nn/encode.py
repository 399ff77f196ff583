"""RGB bytes -> thermometer code, on the device of the images.  The integers are those of `fbnn_hw.reference.encode`.

Stored as levels, a TYCC pixel is 5 + 4 + 4 = 13 bits, a TRGB pixel 3 * 7 = 21 (paper, section `key_cil`).
"""

import torch
import torch.nn.functional as F

from ..ir.ops import planes

YCC = ((77, 150, 29, 128, 0), (-43, -85, 128, 127, 128), (128, -107, -21, 127, 128))
"""Y, Cb, Cr = ((r R + g G + b B + rounding) >> 8) + offset; each stays within 0..255 without clamping."""


def levels(images, encoder, count):
    """uint8 RGB (N, 3, H, W) -> int32 levels (N, 3, H, W), plane p in 0..planes[p] - 1."""
    x = images.to(torch.int32)
    if encoder == "tycc":
        r, g, b = x.unbind(1)
        x = torch.stack([((kr * r + kg * g + kb * b + rounding) >> 8) + offset for kr, kg, kb, rounding, offset in YCC], 1)
    sizes = torch.tensor(planes(encoder, count), dtype=torch.int32, device=x.device)
    return (x * sizes[:, None, None]) >> 8


def thermometer(levels, encoder, count, pad=0, dtype=torch.float32):
    """Levels (N, 3, H, W) -> {-1, +1} of `dtype` (N, C, H + 2 pad, W + 2 pad): channel k of a plane is +1 iff level >= k, so
    channel 0 of a plane is +1 in the image and -1 in the frame of `pad` pixels around it.  Channels last in memory."""
    rows = F.pad(levels, (pad,) * 4, value=-1) + 1  # row 0 of a table is all -1: outside the image
    parts = []
    for plane, size in enumerate(planes(encoder, count)):
        table = torch.ones(size, size, dtype=dtype, device=levels.device).tril_().mul_(2).sub_(1)
        table = torch.cat([table.new_full((1, size), -1), table])
        parts.append(F.embedding(rows[:, plane].long(), table))
    return torch.cat(parts, -1).permute(0, 3, 1, 2)


def encode(images, encoder, count):
    """uint8 RGB (N, 3, H, W) -> {-1, +1} float32 (N, C, H, W)."""
    return thermometer(levels(images, encoder, count), encoder, count)
