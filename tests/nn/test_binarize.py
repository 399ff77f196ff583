"""Values and gradients of the binary arithmetic, against the formulas of the paper written out."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.nn import binarize
from fbnn_hw.nn.network import FBNN, export, load
from fbnn_hw.reference import inference
from tests import strategies


def grad_of(output, inputs, seed=0):
    """Gradients of <output, random> and that random tensor."""
    upstream = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))
    return torch.autograd.grad(output, inputs, upstream), upstream


def pm(*shape, seed=0):
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


def test_weight_is_the_sign_with_plus_one_at_both_zeros():
    proxy = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 2.0, -2.0])
    assert binarize.weight(proxy).tolist() == [1, 1, 1, -1, 1, -1]
    assert bits.to_bits(proxy.numpy()).tolist() == [1, 1, 1, 0, 1, 0]


def test_weight_gradient_passes_on_minus_one_to_one_ends_included():
    proxy = torch.tensor([-1.001, -1.0, -0.5, -0.0, 0.0, 1.0, 1.001], requires_grad=True)
    (grad,), upstream = grad_of(binarize.weight(proxy), [proxy])
    assert torch.equal(grad, upstream * torch.tensor([0, 1, 1, 1, 1, 1, 0]))


@pytest.mark.parametrize("stride, groups, kernel", [(1, 1, 3), (1, 2, 3), (2, 1, 3), (2, 4, 1), (1, 4, 1)])
def test_product_is_the_odd_integer_and_its_gradient_that_of_scale_times_dot(stride, groups, kernel):
    x, w = pm(2, 8, 6, 6).requires_grad_(), pm(4, 8 // groups, kernel, kernel, seed=1).requires_grad_()
    scale, bias = 0.37, 1 - 2 * torch.tensor([0.0, 3, -2, 1])
    y = binarize.product(x, w, scale, bias, stride, groups)
    dot = F.conv2d(x, w, stride=stride, groups=groups)
    assert torch.equal(y, 2 * (dot - torch.tensor([0.0, 3, -2, 1])[:, None, None]) + 1)
    found, _ = grad_of(y, [x, w])
    expected, _ = grad_of(scale * dot, [x, w])
    for a, b in zip(found, expected):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("outputs, groups", [(4, 1), (8, 8), (4, 4), (16, 8)])
def test_a_layer_that_reads_its_whole_map_is_the_convolution(outputs, groups, dtype):
    """Dense and depthwise layers have ways of their own in float32.  Sums are whole, so values are equal; gradients but for rounding."""
    x, random = pm(5, 8, 6, 6).to(dtype).requires_grad_(), torch.Generator().manual_seed(2)
    proxy = torch.randn(outputs, 8 // groups, 6, 6, generator=random).requires_grad_()
    bias = 1 - 2 * torch.arange(outputs).float()
    y = binarize.product(x, proxy, 0.25, bias, 1, groups)
    dot = F.conv2d(x.float(), binarize.weight(proxy), groups=groups)
    assert y.shape == (5, outputs, 1, 1) and torch.equal(y.float(), 2 * dot + bias[:, None, None])
    found, _ = grad_of(y.float(), [x, proxy])
    expected, _ = grad_of(0.25 * dot, [x, proxy])
    for a, b in zip(found, expected):
        assert (a - b).abs().max() < (1e-5 if dtype == torch.float32 else 0.02) * b.abs().max()


@pytest.mark.parametrize("K", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("fan_in", [1, 2, 16, 27, 49, 576, 1152])
def test_sign_gradient_passes_exactly_where_scale_times_dot_is_at_most_one(fan_in, K):
    dot = torch.arange(-fan_in, fan_in + 1, 2, dtype=torch.float32)
    y = (2 * dot + 1).requires_grad_()
    out = binarize.sign(y, K / math.sqrt(fan_in))
    assert torch.equal(out, torch.where(dot >= 0, 1.0, -1.0))
    (grad,), upstream = grad_of(out, [y])
    inside = torch.tensor([(K * int(d)) ** 2 <= fan_in * (1 + 1e-9) for d in dot])
    assert torch.equal(grad, upstream * inside)


def test_sign_with_a_frame():
    y = (pm(2, 3, 4, 4) * 5).requires_grad_()
    out = binarize.sign(y, 0.1, pad=1)
    assert torch.equal(out, F.pad(y.detach().sign(), (1,) * 4, value=bits.PADDING))
    (grad,), upstream = grad_of(out, [y])
    assert torch.equal(grad, upstream[:, :, 1:-1, 1:-1])


def literal(model, images):
    """The network as the paper writes it: sign(S * conv(x)), pooling before the sign, alpha at the end, by autograd alone."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u):
            ctx.save_for_backward(u)
            return torch.where(u >= 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx, grad):
            return grad * (ctx.saved_tensors[0].abs() <= 1 + 1e-6)

    topology, values = model.topology, {}
    weight = {name: Sign.apply(layer.proxy) for name, layer in model.layers.items()}

    def scale(fan_in):
        return model.K / math.sqrt(fan_in)

    for o in topology.ops:
        x = [values[i] for i in o.inputs]
        match o.kind:
            case "thermometer":
                y = model.encode(images)[:, :, 1:-1, 1:-1]
            case "conv":
                y = F.conv2d(F.pad(x[0], (1,) * 4, value=-1.0), weight[o.name], groups=o.groups) * scale(weight[o.name][0].numel())
                y = y if o.name in ("conv2", "conv4", "conv6") else Sign.apply(y)
            case "maxpool":
                y = Sign.apply(F.max_pool2d(x[0], 2))
            case "gap":
                y = Sign.apply(x[0].sum((2, 3), keepdim=True) * scale(x[0][0, 0].numel()))
            case "depthwise":
                y = Sign.apply((x[0] * weight[o.name][:, 0]).sum((2, 3), keepdim=True) * scale(x[0][0, 0].numel()))
            case "concat":
                y = torch.cat(x, 1)
            case "duplicate":
                y = x[0].repeat_interleave(2, 1)
            case "dense":
                dot = F.conv2d(x[0], weight[o.name], groups=o.groups)
                y = dot if o.logits else Sign.apply(dot * scale(weight[o.name][0].numel()))
        values[o.name] = y
    classes = len(topology.classes)
    return y.flatten(1) / math.sqrt(5 * weight["logits"][0].numel() * classes)


@pytest.mark.parametrize("classes", [2, 10, 37])
def test_whole_network_has_the_outputs_and_gradients_of_the_paper(classes):
    torch.manual_seed(classes)
    model = FBNN(strategies.vgg_network(classes, classes=classes, width=1 / 8).topology)
    images = torch.from_numpy(strategies.images(1, 4))
    parameters = dict(model.named_parameters())
    found, _ = grad_of(model(images), list(parameters.values()))
    expected, _ = grad_of(literal(model, images), list(parameters.values()))
    assert torch.allclose(model(images), literal(model, images))
    for name, a, b in zip(parameters, found, expected):
        assert a.abs().sum() > 0 and torch.allclose(a, b, atol=1e-5 * float(b.abs().max())), name


@pytest.mark.parametrize("seed", range(30))
def test_bfloat16_has_the_bits_of_float32(seed):
    """Random topologies, every intermediate; a wide one whose sums exceed what bfloat16 holds exactly."""
    network = (strategies.vgg_network(seed, width=1 / 2, latent=512) if seed == 0 else strategies.network(seed, thresholds=0.0)
               if seed < 10 else strategies.network_2(seed))
    model, rounded = load(network), load(network)
    rounded.dtype = torch.bfloat16
    images = torch.from_numpy(strategies.images(seed, 3, network.topology.image_size))
    with torch.no_grad():
        whole, found = ([(o, y) for o, y in m.activations(m.encode(images))] for m in (model, rounded))
    for (o, y), (_, z) in zip(whole, found):
        if o.name in model._sign_after_pool:  # sums, rounded beyond 256
            y, z = y.sign(), z.sign()
        assert torch.equal(y, z.float()), o.name
    assert found[0][1].dtype == torch.bfloat16 and found[-1][1].dtype == torch.float32


class _Unread(TorchDispatchMode):
    """Raises where the host reads a value of a tensor, or makes one of its own: on a GPU it would wait, and no graph could hold it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function.name() not in ("aten::_local_scalar_dense", "aten::nonzero", "aten::lift_fresh", "aten::equal"), function.name()
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("norm, dtype", [("bn", torch.bfloat16), ("bn", torch.float32), ("scales", torch.bfloat16)])
def test_the_host_reads_nothing_in_a_training_step(norm, dtype):
    model = FBNN(strategies.vgg_network(0, width=1 / 4).topology, norm=norm)
    model.dtype = dtype
    images = torch.from_numpy(strategies.images(1, 8))

    def step():
        model(images).square().mean().backward()

    step()
    with _Unread():
        step()
    with pytest.raises(AssertionError, match="_local_scalar_dense"), _Unread():
        model.alpha * images.float().mean().item()


def test_bfloat16_has_the_gradients_of_float32_but_for_rounding():
    torch.manual_seed(0)
    model = FBNN(strategies.vgg_network(0, width=1 / 4).topology)
    images, parameters = torch.from_numpy(strategies.images(1, 8)), list(model.parameters())
    whole, _ = grad_of(model(images), parameters)
    model.dtype = torch.bfloat16
    found, _ = grad_of(model(images), parameters)
    for name, a, b in zip(dict(model.named_parameters()), whole, found):
        assert b.dtype == torch.float32 and (a - b).norm() < 0.01 * a.norm(), name


BYTES = Topology("bytes", (
    op.Bits8("input", (), 9), op.Conv("conv1", ("input",), 16, 5), op.Conv("conv2", ("conv1",), 16, padding=0),
    op.MaxPool("pool", ("conv2",)), op.Flatten("flat", ("pool",)), op.Dense(LATENT, ("flat",), 32),
    op.Dense("logits", (LATENT,), 3, logits=True)), ("a", "b", "c"))


def test_version_2_has_the_outputs_and_gradients_of_the_formulas():
    """Bytes, a frame of 2 around them, no padding, an odd map pooled, flatten; by autograd alone."""
    torch.manual_seed(1)
    model = FBNN(BYTES)
    images = torch.from_numpy(strategies.images(1, 4, 9))

    def sign(u):  # the gradient passes where |u| <= 1
        inside = torch.where(u.detach().abs() <= 1 + 1e-6, u, u.detach())
        return torch.where(u >= 0, 1.0, -1.0) + (inside - inside.detach())  # exactly 0: a tie stays a tie

    def reference(images):
        w = {name: sign(layer.proxy) for name, layer in model.layers.items()}
        x = F.pad(images * 2.0 - 255, (2,) * 4, value=-255.0)
        x = sign(F.conv2d(x, w["conv1"]) / math.sqrt(75) / math.sqrt((256 ** 2 - 1) / 3))
        x = sign(F.max_pool2d(F.conv2d(x, w["conv2"]) / math.sqrt(144), 2)).flatten(1)
        x = sign(x @ w["latent"].flatten(1).T / 12)
        return x @ w["logits"].flatten(1).T / math.sqrt(5 * 32 * 3)

    parameters = dict(model.named_parameters())
    found, _ = grad_of(model(images), list(parameters.values()))
    expected, _ = grad_of(reference(images), list(parameters.values()))
    assert torch.allclose(model(images), reference(images))
    for name, a, b in zip(parameters, found, expected):
        assert a.abs().sum() > 0 and torch.allclose(a, b, atol=1e-4 * float(b.abs().max())), name


def test_sums_of_bytes_are_scaled_to_unit_variance():
    model = FBNN(BYTES)
    images = torch.randint(256, (64, 3, 9, 9), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with torch.no_grad():
        layer = model.layers["conv1"]
        y = layer(model.encode(images))[:, :, 2:-2, 2:-2]  # outputs whose windows hold no frame
        assert 0.9 < float(((y - 1) / 2 * layer.scale).square().mean()) < 1.1


def test_logits_of_bytes():
    layers = (op.Bits8("input", (), 2), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, logits=True))
    network = strategies.fill(Topology("plain", layers, ("a", "b")), 3)
    model, images = load(network), strategies.images(2, 5, 2)
    values = (images.reshape(5, -1) * 2.0 - 255) @ bits.from_bits(network.weights["logits"], np.float64).T
    with torch.no_grad():
        assert model.logits(torch.from_numpy(images)).tolist() == values.tolist()
    assert model.alpha == pytest.approx(1 / math.sqrt(5 * 12 * 2) / math.sqrt((256 ** 2 - 1) / 3))


@pytest.mark.parametrize("seed", range(40))
def test_export_and_load_are_inverse_for_version_2(seed):
    network = strategies.network_2(seed)
    again = export(load(network))
    assert again.topology == network.topology
    assert all(np.array_equal(network.weights[name], again.weights[name]) for name in network.weights)
    nonzero = {name: values for name, values in network.thresholds.items() if values.any()}
    assert again.thresholds.keys() == nonzero.keys() and all(np.array_equal(nonzero[name], again.thresholds[name]) for name in nonzero)


@pytest.mark.parametrize("reader", [op.MaxPool("pool", (LATENT,)), op.Conv("next", (LATENT,), 4), op.Flatten("flat", (LATENT,))],
                         ids=lambda reader: reader.kind)
def test_a_latent_that_is_a_map(reader):
    layers = (op.Thermometer("input", (), "tycc", 6, 2), op.Conv(LATENT, ("input",), 5), reader, op.Gap("gap", (reader.name,)),
              op.Dense("logits", ("gap",), 2, logits=True))
    network = strategies.fill(Topology("map", layers, ("a", "b")), 1, 1.0)
    model, images = load(network), strategies.images(1, 4, 6)
    values = inference.layers(network, images)
    with torch.no_grad():
        latent = model.latent(torch.from_numpy(images))
        assert np.array_equal(latent.numpy(), values[LATENT].reshape(4, -1) * 2.0 - 1)
        assert np.array_equal(model.classify_latent(latent).numpy(), values["logits"])


def test_scales_and_alpha():
    model = FBNN(strategies.vgg_network(0, classes=100, width=1.0, latent=1024, hidden=128).topology, K=2.0, c=5.0)
    assert model.layers["conv1"].scale == 2 / math.sqrt(576) and model.layers["conv6"].scale == 2 / math.sqrt(1152)
    assert model.layers["depthwise"].scale == model.pools["gap"].scale == 2 / math.sqrt(16)
    assert model.alpha == 1 / math.sqrt(5 * 2304 * 100)


def test_dot_products_have_unit_variance_after_scaling():
    torch.manual_seed(0)
    x, w = pm(64, 64, 8, 8), pm(64, 64, 3, 3, seed=1)
    assert abs(F.conv2d(x, w).div(math.sqrt(576)).var().item() - 1) < 0.05


def test_duplicates_meet_in_one_group_so_that_two_weights_cancel():
    network = strategies.vgg_network(5)
    model = load(network)
    latent = pm(3, 64)
    weight = network.weights["hidden"]
    weight[:] = np.arange(weight.shape[1]) % 2  # the copies of an input get -1 and +1
    model = load(network)
    values = {o.name: y for o, y in model.activations(latent[:, :, None, None], start="latent")}
    assert (values["hidden"] == 1).all()  # every dot product is 0, and sign(0) = +1


def test_export_and_load_are_inverse_even_with_negative_zeros():
    model = FBNN(strategies.vgg_network(6).topology)
    with torch.no_grad():
        model.layers["conv1"].proxy.fill_(-0.0)
    network = export(model)
    assert (network.weights["conv1"] == 1).all() and network.thresholds == {}
    again = export(load(network))
    assert all(np.array_equal(network.weights[name], again.weights[name]) for name in network.weights)
    images = torch.from_numpy(strategies.images(2, 3))
    with torch.no_grad():
        assert torch.equal(model.logits(images), load(network).logits(images))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_diverged_training_is_not_exported(value):
    model = FBNN(strategies.vgg_network(6).topology)
    with torch.no_grad():
        model.layers["conv2"].proxy[0, 0, 0, 0] = value
    with pytest.raises(InputError) as error:
        export(model)
    assert str(error.value) == (
        "layer conv2: a proxy is NaN or infinite, expected a finite number; training diverged, try a smaller --lr")


def test_thresholds_survive_load_and_export():
    network = strategies.vgg_network(9, thresholds=1.0)
    again = export(load(network))
    for name in network.thresholds:
        assert np.array_equal(network.thresholds[name], again.thresholds.get(name, 0 * network.thresholds[name])), name


def test_latent_splits_the_network():
    model = load(strategies.vgg_network(11))
    images = torch.from_numpy(strategies.images(3, 5))
    with torch.no_grad():
        latent = model.latent(images)
        assert latent.shape == (5, 64) and set(latent.unique().tolist()) <= {-1.0, 1.0}
        assert torch.equal(model.classify_latent(latent), model.logits(images))


def test_moving_and_restoring_a_model_changes_nothing():
    model = FBNN(strategies.vgg_network(12).topology)
    images = torch.from_numpy(strategies.images(3, 2))
    other = FBNN(model.topology)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = model.logits(images)
        assert torch.equal(model.to("cpu").float().logits(images), expected)
        assert torch.equal(other.logits(images), expected)
