"""res3mb, batch norm folded and replaced, floating-point baselines."""

import numpy as np
import pytest
import torch

from fbnn_hw.data import datasets
from fbnn_hw.ir import models
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import floating
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.reference import inference
from fbnn_hw.train import start
from tests import strategies

TINY = models.vgg("tiny", ("a", "b", "c"), width=1 / 16, size=16, latent=64, hidden=16)


def test_res3mb_is_as_large_as_designed():
    topology = models.build("res3mb", 50)
    shapes = topology.verify()
    assert topology.weight_bits() == 2_955_264
    assert shapes["stem"] == (64, 64, 64) and shapes["s3b4_shuffle"] == (512, 8, 8) and shapes[LATENT] == (1024, 1, 1)
    assert sum(o.kind == "shuffle" for o in topology.ops) == 17
    assert 13 * 128 ** 2 / 1024 == 208  # native sample in latents


def test_res3mb_in_torch_and_in_integers():
    torch.manual_seed(1)
    topology = models.build("res3mb", 5, size=32)
    model = FBNN(topology).eval()
    images = strategies.images(0, 2, 32)
    with torch.no_grad():
        found = model.logits(torch.from_numpy(images)).numpy()
    assert np.array_equal(found, inference.logits(export(model), images)) and len(np.unique(found)) > 3


def trained(model, images, steps=4, rate=3e-2):
    optimizer = torch.optim.Adam(model.parameters(), rate)
    labels = torch.arange(len(images)) % 3
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def test_scales_take_the_place_of_batch_norm():
    torch.manual_seed(0)
    model = FBNN(TINY, norm="bn")
    classes = [datasets.load("tiny").select((f"pattern{c}",)).first(8) for c in range(3)]
    images = torch.from_numpy(np.stack([c.images for c in classes], 1).reshape(24, 3, 16, 16))  # labelled 0, 1, 2, 0, ... by `trained`
    trained(model.train(), images)
    plain = start.to_scales(model)
    assert plain.layers["conv3"].scale == pytest.approx((1 / model.layers["conv3"].norm.variance.sqrt()).median().item())
    assert not export(plain).thresholds and plain.layers["logits"].scale == model.layers["logits"].scale
    before = trained(plain, images, 1, 1e-2)
    assert all(layer.proxy.grad.any() for layer in plain.layers.values())
    assert trained(plain, images, 60, 1e-2) < before


def test_floating_baselines():
    binary = models.build("3mb", 100)
    p, b = floating.fpnn_p("p", binary), floating.fpnn_b("b", binary, binary.classes)
    assert p.parameters_count() == binary.weight_bits() == 2_966_528
    assert 0.8 * binary.weight_bits() < 32 * b.parameters_count() <= binary.weight_bits() and b.rgb and not p.rgb
    images = torch.from_numpy(strategies.images(1, 24, 16))
    for net in (floating.fpnn_p("p", TINY), floating.FloatNet(TINY, rgb=True)):
        first = trained(net.train(), images, 1)
        assert trained(net, images, 10) < first and net(images).shape == (24, 3)
