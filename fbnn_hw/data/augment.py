"""Augmentation of RGB bytes, batched on the device of the images.

`augment` is that of the paper's section `eval_methodo`, `strong` that of its section `pt`; `warp` is ours.  `cutout` and `mix` are those of
other papers, which they name.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F


def augment(images, generator, shift=4, contrast=0.2, mirrored=None):
    """Mirror, shift and change the contrast of each image on its own, uint8 (N, C, H, W) -> the same.

    shift: most pixels by which an image moves, the border repeated.  contrast: it is scaled by
    1 - contrast .. 1 + contrast around the image's mean.  mirrored: bool (N,), drawn if None.
    """
    n, channels, height, width = images.shape
    device = images.device

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, device=generator.device).to(device)

    offset = (uniform(2, n, 1) * (2 * shift + 1)).long() - shift
    rows = (torch.arange(height, device=device) + offset[0]).clamp_(0, height - 1)
    columns = (torch.arange(width, device=device) + offset[1]).clamp_(0, width - 1)
    mirrored = uniform(n) < 0.5 if mirrored is None else mirrored
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    at = (rows[:, :, None] * width + columns[:, None, :]).view(n, 1, -1).expand(-1, channels, -1)
    out = images.flatten(2).gather(2, at).view(images.shape).float()
    if contrast:
        mean = out.mean((1, 2, 3), keepdim=True)
        out = (out - mean) * (1 + contrast * (2 * uniform(n, 1, 1, 1) - 1)) + mean
    return out.round_().clamp_(0, 255).to(torch.uint8)


def warp(images, generator, most):
    """Turn, scale and shear each image on its own, uint8 (N, C, H, W) -> the same.

    The linear map around the centre is the identity, with each of its four entries moved by up to `most`.
    The border is repeated.
    """
    theta = torch.zeros(len(images), 2, 3, device=images.device)
    moved = (2 * torch.rand(len(images), 2, 2, generator=generator, device=generator.device) - 1) * most
    theta[:, :, :2] = torch.eye(2, device=images.device) + moved.to(images.device)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    out = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return out.round_().clamp_(0, 255).to(torch.uint8)


GREY = 128
"""What `cutout` fills a square with, the middle byte."""


def cutout(images, generator, side):
    """Make a square of each image grey, uint8 (N, C, H, W) -> the same (DeVries and Taylor, arXiv 1708.04552, section 3.2).

    Its centre is any pixel, so that a part of it may lie outside.  side: in pixels.
    """
    n, _, height, width = images.shape

    def inside(length):
        first = torch.randint(length, (n, 1), generator=generator, device=generator.device).to(images.device) - side // 2
        place = torch.arange(length, device=images.device)
        return (place >= first) & (place < first + side)

    square = inside(height)[:, None, :, None] & inside(width)[:, None, None, :]
    return images.masked_fill(square, GREY)


def mix(images, generator, mixup=0.0, cutmix=0.0):
    """Mix each image of a batch with another one, its partner; uint8 (N, C, H, W) -> (the same, partner (N,) int64, share).

    mixup: share * image + (1 - share) * partner, with a share of Beta(mixup, mixup) (Zhang et al., arXiv 1710.09412, eq. 1).
    cutmix: a box of 1 - share of the area is the partner's, with a share of Beta(cutmix, cutmix); its centre is any pixel, and what lies
    outside counts as the image's (Yun et al., arXiv 1905.04899, eqs. 1 and 2).
    share: a float, one for the batch; the loss is share * loss(own label) + (1 - share) * loss(partner's label).
    """
    n, _, height, width = images.shape
    where = generator.device
    partner = torch.randperm(n, generator=generator, device=where).to(images.device)
    draws = np.random.default_rng(torch.randint(2 ** 62, (), generator=generator, device=where).item())
    share = float(draws.beta(mixup or cutmix, mixup or cutmix))
    if mixup:
        return images.float().lerp(images[partner].float(), 1 - share).round_().to(torch.uint8), partner, share
    (top, bottom), (left, right) = (_side(length, draws.integers(length), math.sqrt(1 - share)) for length in (height, width))
    out = images.clone()
    out[:, :, top:bottom, left:right] = images[partner, :, top:bottom, left:right]
    return out, partner, 1 - (bottom - top) * (right - left) / (height * width)


def _side(length, centre, share):
    """(first, end) of a side of a box: `share` of `length` around `centre`, what is inside."""
    half = int(length * share) // 2
    return max(int(centre) - half, 0), min(int(centre) + half, length)


YCC = ((0.299, 0.587, 0.114), (-0.169, -0.331, 0.5), (0.5, -0.419, -0.081))


def strong(images, generator, crop=0.3, color=0.4, hue=0.1, grey=0.2):
    """Transform images for the self-supervised term, uint8 RGB (N, 3, H, W) -> the same: T_p and T_c of the paper.

    Each image on its own is cropped to `crop` to 1 of its area and stretched to the whole; it is mirrored
    or not; brightness, contrast and saturation are scaled by 1 - color .. 1 + color; the hue is turned by
    up to `hue` of a circle; it becomes grey with probability `grey`.
    """
    n, device = len(images), images.device

    def uniform(low, high):
        return (low + (high - low) * torch.rand(n, generator=generator, device=generator.device)).to(device)

    side = uniform(crop, 1).sqrt()
    theta = torch.zeros(n, 2, 3, device=device)
    theta[:, 0, 0] = side * torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    theta[:, 1, 1] = side
    theta[:, 0, 2], theta[:, 1, 2] = uniform(-1, 1) * (1 - side), uniform(-1, 1) * (1 - side)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    x = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    x = x * uniform(1 - color, 1 + color).view(n, 1, 1, 1)
    mean = x.mean((1, 2, 3), keepdim=True)
    x = (x - mean) * uniform(1 - color, 1 + color).view(n, 1, 1, 1) + mean
    to = torch.tensor(YCC, device=device)
    turn, saturation = uniform(-hue, hue) * 2 * math.pi, uniform(1 - color, 1 + color) * (uniform(0, 1) >= grey)
    change = torch.zeros(n, 3, 3, device=device)
    change[:, 0, 0] = 1
    change[:, 1, 1] = change[:, 2, 2] = saturation * turn.cos()
    change[:, 1, 2], change[:, 2, 1] = -saturation * turn.sin(), saturation * turn.sin()
    x = torch.einsum("nij,njhw->nihw", to.inverse() @ change @ to, x)
    return x.round_().clamp_(0, 255).to(torch.uint8)
