"""Batch norm before each sign: its values and gradients, and the integer thresholds that it folds into."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.models import vgg
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.nn import binarize
from fbnn_hw.nn.network import FBNN, export, load
from fbnn_hw.nn.norm import Norm
from fbnn_hw.reference import inference
from tests import strategies

TINY = vgg("tiny", ("a", "b", "c"), width=1 / 16, size=16, latent=64, hidden=16)
BYTES = Topology("bytes", (
    op.Bits8("input", (), 9), op.Conv("conv1", ("input",), 16, 5), op.Conv("conv2", ("conv1",), 16, padding=0),
    op.MaxPool("pool", ("conv2",)), op.Flatten("flat", ("pool",)), op.Dense(LATENT, ("flat",), 32),
    op.Dense("logits", (LATENT,), 3, logits=True)), ("a", "b", "c"))
WIDE = vgg("wide", ("a", "b", "c"), width=1 / 2, size=8, latent=256, hidden=32)  # sums beyond what bfloat16 holds


def trained(topology=TINY, seed=0, steps=6, dtype=torch.float32, binary=True):
    """An FBNN with batch norm after some steps on random images, and the images."""
    torch.manual_seed(seed)
    model = FBNN(topology, c=1.0, norm="bn")
    model.dtype, model.binary = dtype, binary
    images = torch.from_numpy(strategies.images(seed, 24, topology.image_size))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-2)
    for _ in range(steps):
        loss = F.cross_entropy(model(images), torch.arange(24) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, images


def odd(*shape, seed=0):
    return torch.randint(-30, 30, shape, generator=torch.Generator().manual_seed(seed)).float() * 2 + 1


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("binary", [True, False])
def test_values_and_gradients_are_those_of_torchs_batch_norm(pad, binary):
    y, offset = odd(6, 3, 4, 4).requires_grad_(), torch.tensor([0.5, -0.2, 0.0], requires_grad=True)
    out, mean, inverse = binarize.norm_sign(y, offset, 0.8, pad, binary)
    u = F.batch_norm(y, None, None, None, offset, True, 0.1, binarize.NORM_EPS)
    value = torch.where(u >= 0, 1.0, -1.0) if binary else u.clamp(-1, 1)
    assert torch.equal(out, F.pad(value, (pad,) * 4, value=bits.PADDING))
    assert torch.allclose(mean, y.mean((0, 2, 3))) and torch.allclose(inverse, y.var((0, 2, 3), unbiased=False).rsqrt(), atol=1e-5)
    upstream = torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad(out, (y, offset), F.pad(upstream, (pad,) * 4))
    expected = torch.autograd.grad(u, (y, offset), upstream * (u.abs() < 0.8))
    for a, b in zip(found, expected):
        assert a.abs().sum() > 0 and torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("topology", [TINY, WIDE, BYTES], ids=["tiny", "wide", "bytes"])
@pytest.mark.parametrize("seed", range(3))
def test_the_exported_integers_are_the_model_in_evaluation(seed, topology, dtype):
    """Every layer of every image, by trained statistics and by random ones."""
    model, images = trained(topology, seed, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    for scale in (0, 3):
        for norm in model.norms().values():
            norm.mean += scale * 5 * torch.randn(norm.mean.shape, generator=generator)
            norm.offset.data += scale * torch.randn(norm.mean.shape, generator=generator)
        model.eval()
        network = export(model)
        assert set(network.thresholds) == {*(o.name for o in topology.ops if o.kind == "conv"), "latent"}, "none after the latent"
        values = inference.layers(network, images.numpy())
        with torch.no_grad():
            for o, y in model.activations(model.encode(images)):
                if o.kind in ("dense", "depthwise", "maxpool"):
                    y = y[:, :, 1:-1, 1:-1] if o.kind == "maxpool" and y.shape[-1] % 2 == 0 and o.name in model._framed else y
                    integers = values[o.name].reshape(len(images), -1)
                    integers = integers if o.name == "logits" else integers * 2.0 - 1
                    assert np.array_equal(integers, y.float().flatten(1).numpy()), o.name
        assert np.array_equal(inference.logits(network, images.numpy()), model.logits(images).detach().numpy())


def test_the_threshold_is_the_edge_of_the_normalised_value():
    """For every possible dot product, dot >= threshold says what (dot - mean) / sigma + offset >= 0 does; edges on whole numbers too."""
    norm = Norm(6)
    norm.mean[:] = torch.tensor([0.0, 3.0, -2.5, 7.25, 40.0, -40.0])
    norm.variance[:] = torch.tensor([1.0, 4.0, 9.0, 2.0, 1.0, 1.0])
    norm.offset.data[:] = torch.tensor([0.0, 0.5, -0.1, 1.0, 0.0, 0.0])
    dot = torch.arange(-16, 17, dtype=torch.float64)[:, None]
    u = (dot - norm.mean) / norm.variance.double().sqrt() + norm.offset.detach().double()
    assert torch.equal(dot >= norm.threshold(16), u >= 0)
    assert norm.threshold(16).tolist() == [0, 2, -2, 6, 17, -16]


def test_bfloat16_has_the_bits_of_float32_with_thresholds():
    network = strategies.vgg_network(0, width=1 / 2, latent=512, thresholds=1.0)
    rng = np.random.default_rng(0)
    for name in network.thresholds:
        network.thresholds[name] = rng.integers(-400, 400, network.thresholds[name].shape)
    images = torch.from_numpy(strategies.images(0, 3))
    whole, rounded = load(network), load(network)
    rounded.dtype = torch.bfloat16
    with torch.no_grad():
        pairs = zip(*(list(m.activations(m.encode(images))) for m in (whole, rounded)))
    for (o, y), (_, z) in pairs:
        y, z = (y.sign(), z.sign()) if o.name in whole._sign_after_pool else (y, z)
        assert torch.equal(y, z.float()), o.name


def test_bfloat16_trains_on_the_same_bits_but_at_the_edge():
    """Sums far from the edge are rounded, and move the batch's statistics a little; those near it are whole."""
    layer = FBNN(WIDE, norm="bn").layers["conv5"]
    generator = torch.Generator().manual_seed(0)
    share = torch.rand(16, 1, 1, 1, generator=generator)  # of +1 in an image, so that sums spread
    x = (torch.rand(16, layer.proxy.shape[1] * layer.groups, 8, 8, generator=generator) < share).float() * 2 - 1
    with torch.no_grad():
        layer.proxy += layer.proxy.abs().mean()
        whole = [layer.sign(layer(x)) for _ in range(3)][-1]
        y = layer(x.bfloat16())
        rounded = layer.sign(y)
    assert y.abs().max() > 256 and (whole != rounded.float()).float().mean() < 0.002


def test_running_statistics():
    norm, bias = Norm(2), torch.tensor([1.0, -3.0])
    first, second = odd(8, 2, 3, 3), odd(8, 2, 3, 3, seed=1)
    norm.sign(first, bias, 1.0, 0, True)
    dot = (first - bias[:, None, None]) / 2
    assert torch.allclose(norm.mean, dot.mean((0, 2, 3))) and torch.allclose(norm.variance, dot.var((0, 2, 3), unbiased=False), rtol=1e-4)
    for _ in range(200):
        norm.sign(second, bias, 1.0, 0, True)
    assert torch.allclose(norm.mean, ((second - bias[:, None, None]) / 2).mean((0, 2, 3)))


def test_statistics_are_estimated_again():
    model, images = trained()
    model.estimate(images.split(8))
    once = {name: norm.mean.clone() for name, norm in model.norms().items()}
    model.estimate(images.split(8))
    for name, norm in model.norms().items():
        assert torch.allclose(norm.mean, once[name], atol=1e-5) and norm.steps == 3 and norm.momentum > 0, name
    with torch.no_grad():
        dots = model.layers["conv1"].eval()(model.encode(images))
        bias = model.layers["conv1"].bias
    assert torch.allclose(model.layers["conv1"].norm.mean, ((dots - bias[:, None, None]) / 2).mean((0, 2, 3)), atol=1e-4)


def test_float_activations_have_more_than_two_values_and_train():
    model, images = trained(binary=False, steps=1)
    values = {o.name: y for o, y in model.eval().activations(model.encode(images))}
    for name in ("pool1", "conv3", "gap", "depthwise", "latent", "hidden"):
        assert values[name].abs().max() <= 1 and len(values[name].unique()) > 2, name
    assert all(layer.proxy.grad.any() for layer in model.layers.values())


def test_thresholds_without_statistics_go_on_as_they_are():
    """A checkpoint whose state is gone: evaluation has its integers, and the first batch in training makes offsets that keep them."""
    model, images = trained(steps=12)
    model.estimate([images])
    network = export(model)
    again = load(network, norm="bn")
    with torch.no_grad():
        assert torch.equal(again.eval().logits(images), model.eval().logits(images))
        assert {k: v.tolist() for k, v in export(again).thresholds.items()} == {k: v.tolist() for k, v in network.thresholds.items()}
        assert torch.equal(again.train().logits(images), model.eval().logits(images))
    assert all(norm.target is None and norm.offset.any() for norm in again.norms().values())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_diverged_statistics_are_not_exported(value):
    model, _ = trained(steps=0)
    model.layers["conv2"].norm.mean[0] = value
    with pytest.raises(InputError) as error:
        export(model)
    assert str(error.value) == ("layer conv2: a threshold is NaN or infinite, expected a finite number; training diverged, "
                                "try a smaller --lr")
