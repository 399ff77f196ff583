"""Small networks in Brevitas, trained for some steps, and what its exporter and qonnx's executor make of them."""

import contextlib
import io
import logging

import brevitas.nn as qnn
import numpy as np
import torch
import torch.nn.functional as F
from brevitas.export import export_qonnx
from brevitas.quant.binary import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst
from brevitas.quant.fixed_point import Int8ActPerTensorFixedPoint
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from torch import nn

CLASSES, BATCH = 4, 20


def sign():
    return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)


def conv(inputs, outputs, kernel=3, **options):
    return qnn.QuantConv2d(inputs, outputs, kernel, bias=False, weight_quant=SignedBinaryWeightPerTensorConst, **options)


def linear(inputs, outputs, bias=False):
    return qnn.QuantLinear(inputs, outputs, bias=bias, weight_quant=SignedBinaryWeightPerTensorConst)


def bytes_():
    return qnn.QuantIdentity(act_quant=Int8ActPerTensorFixedPoint)


class Padded(nn.Module):
    """A frame of -1 around the map."""

    def forward(self, x):
        return F.pad(x, (1, 1, 1, 1), value=-1.0)


class Shuffled(nn.Module):
    """Channels of two groups in turn."""

    def forward(self, x):
        n, c, h, w = x.shape
        return x.reshape(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Centred(nn.Module):
    """Pixels of -1 to 1."""

    def forward(self, x):
        return 2 * x - 1


class Branches(nn.Module):
    """Two layers on one map, of which both signs and a quarter of the channels go on."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(bytes_(), conv(3, 8), nn.BatchNorm2d(8), sign())
        self.one = nn.Sequential(conv(8, 8, 1), nn.BatchNorm2d(8), sign())
        self.two = nn.Sequential(Padded(), conv(8, 8), nn.BatchNorm2d(8), sign())
        self.end = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), linear(20 * 7 * 7, 16), nn.BatchNorm1d(16), sign(), linear(16, CLASSES))

    def forward(self, x):
        x = self.stem(x)
        return self.end(torch.cat([self.one(x), self.two(x), x[:, 2:6]], 1))


ARCHITECTURES = {
    "dense": (1, 14, lambda: nn.Sequential(
        nn.Flatten(), Centred(), sign(), linear(196, 32, bias=True), nn.BatchNorm1d(32), sign(), linear(32, 24), nn.BatchNorm1d(24), sign(),
        linear(24, CLASSES))),
    "cnv": (3, 16, lambda: nn.Sequential(
        bytes_(), conv(3, 8), nn.BatchNorm2d(8), sign(), conv(8, 16), nn.MaxPool2d(2), nn.BatchNorm2d(16), sign(),
        conv(16, 16), nn.BatchNorm2d(16), sign(), nn.Flatten(), linear(256, 32), nn.BatchNorm1d(32), sign(), linear(32, CLASSES))),
    "groups": (3, 16, lambda: nn.Sequential(
        bytes_(), conv(3, 8, 5), nn.BatchNorm2d(8), sign(), Padded(), conv(8, 16, groups=2), nn.BatchNorm2d(16), sign(), nn.MaxPool2d(2),
        Shuffled(), conv(16, 16, 1, groups=4), nn.BatchNorm2d(16), nn.Hardtanh(), sign(), nn.Flatten(), linear(16 * 36, CLASSES))),
    "strided": (1, 16, lambda: nn.Sequential(
        conv(1, 8), nn.BatchNorm2d(8), sign(), Padded(), conv(8, 16, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.BatchNorm2d(16), sign(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(16, CLASSES))),
    "branches": (3, 16, Branches),
    "zeros": (3, 12, lambda: nn.Sequential(  # a picture of 0 to 1 padded with zeros, then two poolings
        conv(3, 12, padding=1), nn.BatchNorm2d(12), nn.MaxPool2d(2), sign(), Padded(), conv(12, 12), nn.BatchNorm2d(12), sign(),
        nn.MaxPool2d(2), conv(12, 16, 3), nn.BatchNorm2d(16), sign(), nn.Flatten(), linear(16, CLASSES))),
}
"""(colours, pixels a side, module) by name."""


def images(colours, size, count, seed):
    """uint8 images of a seed, (count, colours, size, size), and labels that can be learnt."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    y, x = np.mgrid[:size, :size] / size
    waves = np.stack([np.sin(6 * (k + 1) * (x * (k % 2) + y * (1 - k % 2))) for k in range(CLASSES)])
    pixels = 128 + 60 * waves[labels][:, None] * rng.uniform(0.5, 1, (count, colours, 1, 1))
    pixels = pixels + rng.normal(0, 40, (count, colours, size, size))
    return np.clip(pixels, 0, 255).astype(np.uint8), torch.from_numpy(labels)


def trained(name, steps=20, seed=0):
    """A module of `ARCHITECTURES` after some steps, in evaluation mode; a gain of its batch norms in four is negative."""
    torch.manual_seed(seed)
    colours, size, make = ARCHITECTURES[name]
    module = make()
    for norm in module.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            norm.weight.data[::4] *= -1
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    for step in range(steps):
        pixels, labels = images(colours, size, 40, seed + step)
        loss = F.cross_entropy(module(torch.from_numpy(pixels) / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return module.eval(), colours, size


def exported(module, colours, size, path):
    """Writes the QONNX file of Brevitas's exporter for batches of `BATCH`."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            export_qonnx(module, torch.zeros(BATCH, colours, size, size), export_path=str(path))
    finally:
        logging.disable(logging.NOTSET)


def executed(path, pixels, input_range=(0.0, 1.0)):
    """What qonnx's executor gives for uint8 images, float64 (N, ...).  input_range: None for an input that takes the bytes themselves."""
    model = ModelWrapper(str(path)).transform(InferShapes())
    name, shape = model.graph.input[0].name, model.get_tensor_shape(model.graph.input[0].name)
    given = pixels
    if input_range is not None:
        low, high = input_range
        given = np.float32(low + (high - low) / 255 * pixels.astype(np.float64))
    results = []
    for start in range(0, len(given), shape[0]):
        result = execute_onnx(model, {name: given[start:start + shape[0]].reshape(shape)})
        results.append(next(iter(result.values())))
    return np.concatenate(results).astype(np.float64)
