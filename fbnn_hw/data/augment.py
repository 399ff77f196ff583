"""Flip, translation and contrast (paper, section `eval_methodo`), batched on the device of the images, on RGB bytes."""

import torch


def augment(images, generator, shift=4, contrast=0.2):
    """uint8 (N, C, H, W) -> the same, each image on its own: mirrored or not, moved by up to `shift` pixels (the border is
    repeated), contrast scaled by 1 - contrast .. 1 + contrast around its mean."""
    n, channels, height, width = images.shape
    device = images.device

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, device=generator.device).to(device)

    offset = (uniform(2, n, 1) * (2 * shift + 1)).long() - shift
    rows = (torch.arange(height, device=device) + offset[0]).clamp_(0, height - 1)
    columns = (torch.arange(width, device=device) + offset[1]).clamp_(0, width - 1)
    columns = torch.where(uniform(n, 1) < 0.5, columns.flip(1), columns)
    at = (rows[:, :, None] * width + columns[:, None, :]).view(n, 1, -1).expand(-1, channels, -1)
    out = images.flatten(2).gather(2, at).view(images.shape).float()
    if contrast:
        mean = out.mean((1, 2, 3), keepdim=True)
        out = (out - mean) * (1 + contrast * (2 * uniform(n, 1, 1, 1) - 1)) + mean
    return out.round_().clamp_(0, 255).to(torch.uint8)
