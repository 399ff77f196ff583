"""RGB bytes -> the first map, on the device of the images.  The integers are those of `fbnn_hw.reference.encode`.

Stored as levels, a TYCC pixel is 5 + 4 + 4 = 13 bits, a TRGB pixel 3 * 7 = 21 (paper, section `key_cil`).
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from ..base import bits
from ..base.errors import InputError
from ..ir.ops import BYTE, YCC


@cache
def _integers(values, device):
    """int32 tensor of a tuple.  Kept, since a copy to a GPU makes it wait."""
    return torch.tensor(values, dtype=torch.int32, device=device)


def check(images: torch.Tensor) -> None:
    """Refuse what is no images, uint8 (N, 3, H, W) or grey (N, 1, H, W)."""
    if not isinstance(images, torch.Tensor):
        raise InputError(f"images: found {type(images).__name__}, expected a uint8 tensor (N, 3, S, S); torch.from_numpy makes one")
    if images.dtype != torch.uint8:
        raise InputError(f"images: found {str(images.dtype).removeprefix('torch.')}, expected bytes, uint8 of 0 to 255; take torchvision's "
                         "PILToTensor in place of ToTensor, or (255 * images).round().to(torch.uint8) of floats from 0 to 1")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InputError(f"images: found shape {tuple(images.shape)}, expected (N, 3, S, S), or grey (N, 1, S, S)")


def levels(images: torch.Tensor, op: Any) -> torch.Tensor:
    """uint8 RGB (N, 3, H, W) -> int32 levels (N, P, H, W) for the input `op`, plane p in 0..op.planes[p] - 1.

    Raises InputError for other images.
    """
    check(images)
    if op.kind == "bits8":
        return _integers(op.table, images.device)[images.long()]
    x, sizes = images.to(torch.int32), _integers(op.planes, images.device)
    if op.kind == "binarize" or op.encoder != "trgb":
        r, g, b = x.unbind(1)
        x = torch.stack([((kr * r + kg * g + kb * b + rounding) >> 8) + offset for kr, kg, kb, rounding, offset in YCC[:len(sizes)]], 1)
    return (x >= op.threshold).to(torch.int32) if op.kind == "binarize" else (x * sizes[:, None, None]) >> 8


def first_map(levels: torch.Tensor, op: Any, pad: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the output of the input `op` for its levels (N, P, H, W), of `dtype` (N, C, H + 2 pad, W + 2 pad).

    The values are {-1, +1}, or -255..255 of `Bits8`.  The `pad` pixels on each side are -1 or -255.
    """
    if op.kind == "thermometer":
        return thermometer(levels, op, pad, dtype)
    top = BYTE if op.kind == "bits8" else 1
    y = F.pad((levels * 2 - top).to(dtype), (pad,) * 4, value=bits.PADDING * top)
    return y.contiguous(memory_format=torch.channels_last)


def thermometer(levels: torch.Tensor, op: Any, pad: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`first_map` of a thermometer, channels last in memory.

    Channel k of a plane is +1 iff level >= k.  So channel 0 of a plane is +1 in the image and -1 around it.
    """
    rows = F.pad(levels, (pad,) * 4, value=-1) + 1  # row 0 of a table is all -1: outside the image
    parts = []
    for plane, size in enumerate(op.planes):
        table = torch.ones(size, size, dtype=dtype, device=levels.device).tril_().mul_(2).sub_(1)
        table = torch.cat([table.new_full((1, size), -1), table])
        parts.append(F.embedding(rows[:, plane].long(), table))
    return torch.cat(parts, -1).permute(0, 3, 1, 2)


def encode(images: torch.Tensor, op: Any) -> torch.Tensor:
    """uint8 RGB (N, 3, H, W) -> float32 output (N, C, H, W) of the input `op`."""
    return first_map(levels(images, op), op)
