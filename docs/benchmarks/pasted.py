"""Pictures of things before a background, as a camera would see them: what docs/benchmarks/extractor.py trains on.

A sprite is a thing with its outline: uint8 (4, SIDE, SIDE), red, green, blue and opacity.  All functions work on batches of torch tensors
and draw from the generator that they are given.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw

SIDE, OUT = 64, 32
"""Pixels a side of a sprite and of the canvas on which it is pasted; of the picture that comes out."""


def shape(random):
    """A sprite of one to four overlapping ellipses, boxes and polygons in plain colours.  random: numpy's generator."""
    image = Image.new("RGBA", (2 * SIDE, 2 * SIDE))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(1, 5)):
        colour = (*random.integers(0, 256, 3).tolist(), 255)
        x, y = random.uniform(0.25, 0.75, 2) * 2 * SIDE
        a, b = random.uniform(0.1, 0.5, 2) * 2 * SIDE
        kind = random.integers(3)
        if kind == 2:
            angles = np.sort(random.uniform(0, 2 * math.pi, random.integers(3, 9)))
            draw.polygon([(x + a * math.cos(t), y + b * math.sin(t)) for t in angles], colour)
        else:
            (draw.ellipse, draw.rectangle)[kind]((x - a, y - b, x + a, y + b), colour)
    return fitted(image)


def fitted(image):
    """uint8 (4, SIDE, SIDE) of an RGBA picture: cut to what is opaque, scaled to the full side, centred."""
    image = image.crop(image.getchannel("A").getbbox())
    scale = SIDE / max(image.size)
    image = image.resize([max(1, round(n * scale)) for n in image.size], Image.Resampling.LANCZOS)
    square = Image.new("RGBA", (SIDE, SIDE))
    square.paste(image, [(SIDE - n) // 2 for n in image.size])
    return np.asarray(square).transpose(2, 0, 1)


def uniform(generator, low, high, *size):
    return low + (high - low) * torch.rand(*size, generator=generator)


def cut(photographs, half, power):
    """Sprites of photographs, uint8 (N, 3, S, S): the part of each inside |x / half[0]|^power + |y / half[1]|^power = 1, edges at 1.
    half (N, 2), power (N,): 2 makes an ellipse, 64 a box."""
    colours = F.interpolate(photographs.float(), (SIDE, SIDE), mode="bilinear", align_corners=False)
    at, power = torch.linspace(-1, 1, SIDE), power.view(-1, 1, 1)
    x, y = (at.view(1, 1, -1) / half[:, :1, None]).abs(), (at.view(1, -1, 1) / half[:, 1:, None]).abs()
    inside = x ** power + y ** power <= 1
    return torch.cat([colours, 255 * inside[:, None].float()], 1).to(torch.uint8)


def backgrounds(photographs, generator):
    """float (N, 3, SIDE, SIDE), 0 to 255: a part of each photograph, a texture, a gradient or a plain colour, by chance."""
    n = len(photographs)
    theta = torch.zeros(n, 2, 3)
    zoom = uniform(generator, 0.3, 1.6, n)  # above 1 the border is mirrored
    theta[:, 0, 0] = theta[:, 1, 1] = zoom
    theta[:, :, 2] = uniform(generator, -1, 1, n, 2) * 0.6
    out = F.grid_sample(photographs.float(), F.affine_grid(theta, [n, 3, SIDE, SIDE], align_corners=False), padding_mode="reflection",
                        align_corners=False)
    colour, other = uniform(generator, 0, 255, n, 3, 1, 1), uniform(generator, -90, 90, n, 3, 1, 1)
    texture = sum(weight * F.interpolate(torch.randn(n, 1, side, side, generator=generator), (SIDE, SIDE), mode="bilinear")
                  for side, weight in ((4, 0.6), (16, 0.5), (SIDE, 0.7)))
    angle = uniform(generator, 0, 2 * math.pi, n, 1, 1, 1)
    at = torch.linspace(-1, 1, SIDE)
    slope = angle.cos() * at + angle.sin() * at[:, None]
    kind = torch.rand(n, 1, 1, 1, generator=generator)
    out = torch.where(kind < 0.25, colour + other * texture, out)
    out = torch.where(kind < 0.12, colour + other * slope, out)
    return torch.where(kind < 0.05, colour.expand_as(out), out).clamp(0, 255)


def paste(sprites, behind, whole, generator):
    """uint8 pictures (N, 3, OUT, OUT) of sprites (N, 4, SIDE, SIDE) before backgrounds (N, 3, SIDE, SIDE), each in another place, size,
    angle and light.  whole: bool (N,), those that fill the picture and more."""
    n = len(sprites)
    angle, size = torch.randn(n, generator=generator) * 0.25, uniform(generator, 0.5, 1.05, n)
    angle, size = torch.where(whole, angle * 0.4, angle), torch.where(whole, 0.6 + size * 0.8, size)
    stretch = uniform(generator, 0.88, 1.13, n)
    theta = torch.stack([angle.cos() / stretch, angle.sin() / stretch, -angle.sin() * stretch, angle.cos() * stretch], 1).view(n, 2, 2)
    theta = theta / size.view(n, 1, 1)
    place = uniform(generator, -0.3, 0.3, n, 2, 1) * torch.where(whole, 0.3, 1.0).view(n, 1, 1)
    grid = F.affine_grid(torch.cat([theta, -theta @ place], 2), [n, 4, SIDE, SIDE], align_corners=False)
    layer = sprites.float()
    layer[:, :3] *= layer[:, 3:] / 255
    layer = F.grid_sample(layer, grid, align_corners=False)
    return lit(layer[:, :3] + behind * (1 - layer[:, 3:] / 255), generator)


def lit(canvas, generator):
    """uint8 (N, 3, OUT, OUT) of float (N, 3, SIDE, SIDE): other brightness, contrast, saturation and tint, blurred by half, with noise."""
    n = len(canvas)

    def draw(low, high, *size):
        return uniform(generator, low, high, n, *size or (1, 1, 1))

    x = canvas * draw(0.5, 1.35) * draw(0.92, 1.08, 3, 1, 1)
    mean, grey = x.mean((1, 2, 3), keepdim=True), x.mean(1, keepdim=True)
    x = mean + (grey + (x - grey) * draw(0.5, 1.3) - mean) * draw(0.8, 1.2)
    blurred = F.avg_pool2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), 5, 1)
    x = torch.lerp(x, blurred, draw(0, 1) * (draw(0, 1) < 0.4))
    x = F.avg_pool2d(x.clamp(0, 255), SIDE // OUT)
    return (x + torch.randn(x.shape, generator=generator) * draw(0, 6)).round_().clamp_(0, 255).to(torch.uint8)
