"""The programs of docs/networks.md for weights that were trained elsewhere."""

import re
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import fbnn_hw
from fbnn_hw.reference import inference

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", re.search(r"^## Weights that were trained elsewhere$(.*?)^## ", PAGE, re.M | re.S)[1],
                      re.M | re.S)
NORM = "mean", "variance", "beta"


class _Ste(torch.autograd.Function):
    """A straight-through sign, as anybody writes it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0].abs() <= 1)


class Binary(nn.Module):
    def forward(self, x):
        return _Ste.apply(x)


class Conv(nn.Conv2d):
    def forward(self, x):
        return F.conv2d(x, _Ste.apply(self.weight))


class Dense(nn.Linear):
    def forward(self, x):
        return F.linear(x, _Ste.apply(self.weight))


class Scaled(nn.Module):
    def forward(self, images):
        return images.float() / 255


def block(inputs, outputs):
    return nn.Sequential(Conv(inputs, outputs, 3, bias=False), nn.BatchNorm2d(outputs), Binary())


def test_a_module_with_binary_layers_of_its_own(tmp_path):
    """Trained for some steps with a sign of its own; with `Sign` in its place its logits are the same."""
    torch.manual_seed(0)
    images, labels = torch.randint(256, (40, 3, 12, 12), dtype=torch.uint8), torch.randint(3, (40,))
    model = nn.Sequential(Scaled(), block(3, 16), block(16, 8), nn.Flatten(), Dense(8 * 8 * 8, 3, bias=False))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(model(images) / 20, labels).backward()
        optimizer.step()
    theirs = model.eval()(images)
    exec(PROGRAMS[0], found := {})
    made = fbnn_hw.export(found["with_signs"](model, Binary), images, tmp_path / "x.pt")
    assert torch.equal(model(images), theirs) and made.notes == ()
    ours = inference.logits(made.network, images.numpy())
    assert np.array_equal(ours * made.scale, theirs.detach().numpy())


def test_the_arrays_of_keras(tmp_path, monkeypatch):
    """The classes of the checkpoint are those of the same layers with channels last, which share no code with the page."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shapes = {"conv1": (3, 3, 3, 16), "conv2": (3, 3, 16, 24), "dense1": (7 * 7 * 24, 32), "dense2": (32, 5)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, channels, spread in (("norm1", 16, 3), ("norm2", 24, 12), ("norm3", 32, 34)):
        low, high = 0.5 * spread ** 2, 2 * spread ** 2
        values = rng.normal(0, spread / 2, channels), rng.uniform(low, high, channels), rng.normal(0, 0.3, channels)
        arrays |= {f"{name}_{part}": value.astype(np.float32) for part, value in zip(NORM, values)}
    np.savez("theirs.npz", **arrays)
    torch.manual_seed(0)
    exec(PROGRAMS[1], found := {})
    images = found["images"].numpy()

    def conv(x, name):
        kernel = np.where(arrays[name] >= 0, 1.0, -1.0)
        return np.einsum("nyxcij,ijco->nyxo", np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2)), kernel)

    def bits(x, name):
        mean, variance, beta = (arrays[f"{name}_{part}"].astype(np.float64) for part in NORM)
        return np.where((x - mean) / np.sqrt(variance + 1e-3) + beta >= 0, 1.0, -1.0)

    x = bits(conv(images.transpose(0, 2, 3, 1) / 127.5 - 1, "conv1"), "norm1")
    x = conv(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-1), "conv2")
    x = bits(x.reshape(len(x), 7, 2, 7, 2, -1).max((2, 4)), "norm2").reshape(len(x), -1)
    x = bits(x @ np.where(arrays["dense1"] >= 0, 1, -1), "norm3") @ np.where(arrays["dense2"] >= 0, 1, -1)
    ours = inference.logits(fbnn_hw.load("moved.pt"), images)
    assert np.array_equal(ours, x) and len(np.unique(x.argmax(1))) > 1
