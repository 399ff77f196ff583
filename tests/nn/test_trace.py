"""`fbnn_hw.export`: random modules of one's own against their checkpoints, and what is refused, with its line."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fbnn_hw
from fbnn_hw import nn as binary
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.ir import checkpoint
from fbnn_hw.nn import checkpoint as torch_checkpoint
from fbnn_hw.reference import inference
from tests import strategies

SIZE = 12


def unsettled(module, seed):
    """`module` with batch norms as after some training: gains of both signs, one of them 0, and statistics."""
    generator = torch.Generator().manual_seed(seed)
    for norm in module.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            with torch.no_grad():
                norm.weight.normal_(0, 1, generator=generator)
                norm.weight[-1] = 0
                norm.bias.normal_(0, 0.3, generator=generator)
                norm.running_mean.normal_(0, 0.5, generator=generator)
                norm.running_var.uniform_(0.2, 2, generator=generator)
    return module


def exported(module, folder, images=None, count=6, **options):
    """The `Imported` of a module, after its checkpoint was read and its logits were compared on images that export did not see."""
    example = torch.from_numpy(strategies.images(0, 2, SIZE)) if images is None else images[:2]
    imported = fbnn_hw.export(module, example, folder / "m.pt", **options)
    network = checkpoint.read(folder / "m.pt")
    other = torch.from_numpy(strategies.images(9, count, SIZE)) if images is None else images
    with torch.no_grad():
        theirs = module.eval()(other).double().numpy()
    ours = inference.logits(network, other.expand(-1, 3, -1, -1).numpy())
    if imported.scale is None:
        assert (ours.argmax(1) == theirs.argmax(1)).all()
    else:
        assert np.abs((theirs - imported.shift) / imported.scale - ours).max() < 1e-3
    return imported


class Drawn(nn.Module):
    """A random network: an encoder, blocks in all orders of sum, norm, pooling and sign, branches, and an end."""

    def __init__(self, seed):
        super().__init__()
        self.rng = rng = np.random.default_rng(seed)
        self.input = [binary.Thermometer("tycc", 2), binary.Thermometer("trgb", 3), binary.Thermometer("grey", 4), binary.Binarize(99),
                      binary.Bits8(), binary.Bits8([min(p + (p >> 7), 255) for p in range(256)])][rng.integers(6)]
        of_bytes = isinstance(self.input, binary.Bits8)
        self.steps, channels, size = nn.ModuleList(), self.input.channels, SIZE
        for number in range(rng.integers(1, 4)):
            outputs, kernel = int(rng.choice([4, 6, 8])), int(rng.choice([1, 3, 3, 5]))
            groups = 1 if of_bytes and number == 0 else int(rng.choice([g for g in (1, 2) if channels % g == 0]))
            padding = "same" if rng.random() < 0.6 or kernel > size else 0
            stride = int(rng.choice([1, 1, 2]))
            value = -255 if of_bytes and number == 0 else -1
            conv = binary.BinaryConv2d(channels, outputs, kernel, stride, padding, groups, value)
            size = (size + (2 * (kernel // 2) if padding else 0) - kernel) // stride + 1
            norm = [nn.BatchNorm2d(outputs), nn.Identity(), nn.Sequential(nn.BatchNorm2d(outputs), nn.Hardtanh())][rng.integers(3)]
            order = rng.integers(4) if size >= 2 else 0
            pool, sign = nn.MaxPool2d(2), binary.Sign()
            self.steps.append(nn.Sequential(conv, *([norm, sign], [norm, sign, pool], [pool, norm, sign], [norm, pool, sign])[order]))
            channels, size = outputs, size // 2 if order else size
        self.end = int(rng.integers(5))
        self.branch = binary.BinaryConv2d(channels, channels, 3)
        self.learned = binary.LearnedPool2d(channels, size)
        self.sign, self.shuffle = binary.Sign(), nn.ChannelShuffle(2)
        features = {0: channels * size * size, 1: 2 * channels, 2: channels, 3: 3 * channels * size * size, 4: channels}[self.end]
        self.hidden = nn.Sequential(binary.BinaryLinear(features, 10), nn.BatchNorm1d(10), binary.Sign())
        self.logits = binary.BinaryLinear(10 if self.end != 4 else features, 5)

    def forward(self, images):
        x = self.input(images)
        for step in self.steps:
            x = step(x)
        if self.end == 0:
            x = x.flatten(1)
        elif self.end == 1:
            x = torch.cat([self.sign(x.mean((2, 3), keepdim=True)), self.sign(self.learned(x))], 1).flatten(1)
        elif self.end == 2:
            a, b = self.shuffle(x).chunk(2, 1)
            x = self.sign(F.adaptive_avg_pool2d(torch.cat([b, a], dim=1), 1)).view(x.shape[0], -1)
        elif self.end == 3:
            x = torch.flatten(torch.cat([x.repeat_interleave(2, 1), self.sign(self.branch(x))], 1), 1)
        else:
            return self.logits(x.mean((2, 3)))
        return self.logits(self.hidden(x)) * 0.25 + 3


@pytest.mark.parametrize("seed", range(24))
def test_random_modules(seed, tmp_path, capsys):
    torch.manual_seed(seed)
    imported = exported(unsettled(Drawn(seed), seed), tmp_path)
    assert imported.exact == "logits" and imported.scale > 0
    assert f"the module's logits are {imported.scale:.6g} times the integers" in capsys.readouterr().out


def small(*middle, inputs=4, **options):
    """A convolution of 4 channels, `middle`, and an end that fits."""
    body = nn.Sequential(binary.Thermometer("grey", 4), binary.BinaryConv2d(4, inputs, **options), *middle)
    with torch.no_grad():
        count = body(torch.zeros(2, 3, SIZE, SIZE, dtype=torch.uint8)).flatten(1).shape[1]
    return nn.Sequential(*body, nn.Flatten(), binary.BinaryLinear(count, 3))


def test_a_sign_after_a_pooling_that_falls_is_turned_where_it_must_be(tmp_path):
    """Inverted channels: their readers' weights flip; a padded reader and a second pooling take an upright map."""
    falling = nn.BatchNorm2d(4)
    falling.weight.data[:2] = -1
    falling.running_mean.data.uniform_(-1, 1)
    reader = [nn.MaxPool2d(2), falling, binary.Sign()]
    plain = exported(small(*reader, binary.BinaryConv2d(4, 4, padding=0), binary.Sign()), tmp_path)
    padded = exported(small(*reader, binary.BinaryConv2d(4, 4), binary.Sign()), tmp_path)
    pooled = exported(small(*reader, nn.MaxPool2d(2)), tmp_path)
    turned = [[op.name for op in imported.network.topology.ops if op.name.endswith("upright")] for imported in (plain, padded, pooled)]
    assert [len(names) for names in turned] == [0, 1, 1]
    assert any("turns 2 channels that fall after pooling" in part.note for part in padded.parts)


def test_a_threshold_is_where_the_module_changes_its_sign(tmp_path):
    """A batch norm whose edge lies on a sum: in float32 it rounds to one side, and the checkpoint follows."""
    torch.manual_seed(1)
    norm = nn.BatchNorm2d(64)
    norm.weight.data = torch.rand(64) * 10 ** torch.linspace(-6, 6, 64)
    norm.running_var = torch.rand(64) * 10 ** torch.linspace(5, -5, 64)
    norm.running_mean = (torch.arange(64.0) - 32) / 6  # the sums, times 1 / sqrt(36)
    norm.bias.data.zero_()
    exported(small(norm, binary.Sign(), inputs=64), tmp_path, count=40)


class Called(nn.Module):
    """A function as a layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


RISING = (F.elu, F.selu, F.celu, F.softplus, F.softsign, F.logsigmoid, F.hardsigmoid, F.relu6, torch.tanh)


@pytest.mark.parametrize("layer", [nn.PReLU(4), nn.SELU(), nn.CELU(), nn.LogSigmoid(), *map(Called, RISING)],
                         ids=lambda layer: getattr(layer, "function", type(layer)).__name__)
def test_a_rising_function_before_a_sign_is_part_of_the_threshold(layer, tmp_path):
    torch.manual_seed(0)
    norms = [unsettled(nn.BatchNorm2d(4), seed) for seed in (1, 2)]
    norms[1].weight.data += 0.1  # one gain was 0
    exported(small(norms[0], layer, norms[1], binary.Sign()), tmp_path)


def test_images_scaled_by_the_module(tmp_path):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3])[:, None, None])
            self.body = nn.Sequential(binary.BinaryConv2d(3, 6, padding=0), nn.BatchNorm2d(6), binary.Sign(), nn.Flatten(),
                                      binary.BinaryLinear(600, 4))

        def forward(self, images):
            return F.log_softmax(self.body((images.float() / 255 - self.mean) / 0.25), 1)

    imported = exported(unsettled(Scaled(), 3), tmp_path)
    assert imported.exact == "classes" and imported.network.topology.ops[0].kind == "bits8"


def scaling(function):
    """A network whose first layer reads what `function` makes of the bytes."""
    torch.manual_seed(0)
    return nn.Sequential(Called(function), binary.BinaryConv2d(3, 6, padding=0), unsettled(nn.BatchNorm2d(6), 1), binary.Sign(),
                         nn.Flatten(), binary.BinaryLinear(600, 4))


@pytest.mark.parametrize("function", [
    lambda x: (x * 2).float() / 255 - 1, lambda x: (-x).float() / 255 - 1, lambda x: x.to(torch.int8).float() / 128,
    lambda x: x.type(torch.int16).neg().float(), lambda x: (x.float() / 255).type_as(torch.zeros(1)) - 0.5,
    lambda x: (x.bfloat16()).float() / 255], ids=["doubled", "negated", "int8", "int16", "float", "bfloat16"])
def test_bytes_are_computed_with_in_the_module_s_type(function, tmp_path):
    images = torch.from_numpy(strategies.images(9, 40, SIZE))
    exported(scaling(function), tmp_path, images)


@pytest.mark.parametrize("function, message", [
    (lambda x: (x.half() / 255 - 0.449) / 0.226, "the values of a pixel are no multiples of one step"),
    (lambda x: (x.bfloat16() / 255).float() - 0.5, "the values of a pixel are no multiples of one step")])
def test_bytes_in_types_that_round_are_refused(function, message, tmp_path):
    with pytest.raises(InputError, match=message):
        exported(scaling(lambda x: function(x).float()), tmp_path)


@pytest.mark.parametrize("factor", [-1, float("nan")])
def test_an_example_of_zeros_proves_something(factor, tmp_path):
    """A module that shows a trace another thing than it does with bright pixels."""
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = small(binary.Sign())

        def forward(self, images):
            y = self.body(images)
            return y if isinstance(y, torch.fx.Proxy) or images.max() < 200 else factor * y

    with pytest.raises(InputError, match="the module and its checkpoint differ on 8 of 8 random images; expected equal logits"):
        fbnn_hw.export(Late(), torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8), tmp_path / "m.pt")
    assert not (tmp_path / "m.pt").exists()


class Pooled(nn.Module):
    """A mean, or a sum, of a map of 9 pixels."""

    def __init__(self, mean):
        super().__init__()
        torch.manual_seed(5)
        self.mean, self.sign, self.body = mean, binary.Sign(), small(binary.Sign(), nn.MaxPool2d(2), nn.MaxPool2d(2), inputs=12)[:-2]
        self.hidden, self.logits = binary.BinaryLinear(12, 64), binary.BinaryLinear(64, 3)

    def forward(self, images):
        x = self.body(images)
        x = x.mean((2, 3)) if self.mean else x.sum((2, 3))
        return self.logits(self.sign(self.hidden(x)))


def test_where_the_module_rounds_is_told_with_its_line(tmp_path):
    """Means of 9 bits whose sum is 0 come to 1e-8 in float32; sums of bits are exact."""
    images = torch.from_numpy(strategies.images(4, 64, SIZE))
    assert not exported(Pooled(False), tmp_path, images).notes
    with pytest.raises(InputError) as error:
        fbnn_hw.export(nn.Sequential(Pooled(True)), images, tmp_path / "n.pt")
    source, first = inspect.getsourcelines(Pooled)
    line = first + next(i for i, text in enumerate(source) if "return self.logits" in text)
    assert str(error.value).startswith(f"tests/nn/test_trace.py:{line}, 0.sign (Sign): the threshold of 64 channels lies on a sum, where "
                                       "the source rounds and may give the other bit; the module and its checkpoint differ on ")
    assert "x.sum((2, 3)) in place of a mean" in str(error.value) and not (tmp_path / "n.pt").exists()


def test_bytes_are_padded_with_the_value_that_is_named(tmp_path):
    def network(**options):
        return nn.Sequential(binary.Bits8(), binary.BinaryConv2d(3, 16, **options), binary.Sign(), nn.Flatten(),
                             binary.BinaryLinear(1024, 3))

    images = torch.from_numpy(strategies.images(5, 6, 8))
    with pytest.raises(InputError, match=r"expected padding with -255 .*; fbnn_hw.nn.BinaryConv2d with pad_value=-255 does so\), or none$"):
        fbnn_hw.export(network(), images, tmp_path / "n.pt")
    fbnn_hw.export(network(pad_value=-255), images, tmp_path / "n.pt")


class Scaled(nn.Module):
    """A network that pads an image, as `scale` gives it, with a value."""

    def __init__(self, scale, channels, value):
        super().__init__()
        self.scale, self.conv = scale, binary.BinaryConv2d(channels, 4, pad_value=value)
        self.norm, self.sign, self.out = nn.BatchNorm2d(4), binary.Sign(), binary.BinaryLinear(4 * SIZE ** 2, 2)
        self.norm.bias.data.fill_(0.1)  # no sum lies on a threshold, where float32 rounds

    def forward(self, images):
        return self.out(self.sign(self.norm(self.conv(self.scale(images)))).flatten(1))


def settled_norm():
    norm = nn.BatchNorm2d(4)
    norm.running_var.fill_(2)
    return norm


@pytest.mark.parametrize("scale, channels, value", [
    (lambda x: x / 127.5 - 1, 1, "-1"), (lambda x: x / 127.5 - 1, 3, "-1"), (lambda x: (x / 255 - 0.5) / 0.3, 3, "-1.6666666"),
    (lambda x: (x / 255 - 0.5) / 0.3, 1, "-1.6666666"),
    (nn.Sequential(binary.Thermometer("grey", 4), binary.BinaryConv2d(4, 4), binary.Sign(), settled_norm()), 3, "-0.707105")])
def test_the_padding_that_a_refusal_names_is_taken(scale, channels, value, tmp_path):
    torch.manual_seed(0)
    inputs = 4 if isinstance(scale, nn.Module) else channels
    images = torch.from_numpy(strategies.images(5, 6, SIZE)[:, :channels].copy())
    with pytest.raises(InputError, match="pads with 0.5 a map of ") as error:
        fbnn_hw.export(Scaled(scale, inputs, 0.5), images, tmp_path / "m.pt")
    assert f"BinaryConv2d with pad_value={value} does so" in str(error.value) and f" that are {value} to " in str(error.value)
    exported(Scaled(scale, inputs, float(value)), tmp_path, images)


def test_no_padding_is_right_where_each_colour_has_its_mean(tmp_path):
    mean = torch.tensor([0.49, 0.48, 0.45]).view(1, 3, 1, 1)
    images = torch.from_numpy(strategies.images(5, 6, SIZE))
    with pytest.raises(InputError, match=r"the lowest value of a channel is -1\.96 to -1\.8; expected channels with one lowest value, so "
                                         "without a mean for each colour, and padding with that value; or no padding$"):
        fbnn_hw.export(Scaled(lambda x: (x / 255 - mean) / 0.25, 3, -1.96), images, tmp_path / "m.pt")


def test_an_encoder_that_is_called_twice_is_one_input(tmp_path):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.sign = binary.Thermometer("grey", 4), binary.Sign()
            self.one, self.other = binary.BinaryConv2d(4, 4), binary.BinaryConv2d(4, 4)
            self.out = binary.BinaryLinear(8 * SIZE ** 2, 2)

        def forward(self, x):
            one, other = (self.sign(layer(self.input(x))) for layer in (self.one, self.other))
            return self.out(torch.cat((one, other), 1).flatten(1))

    torch.manual_seed(0)
    assert [op.kind for op in exported(Parts(), tmp_path).network.topology.ops].count("thermometer") == 1


@pytest.mark.parametrize("stem, name", [("_x", "x"), (".-own", "own"), ("模", "imported"), ("模_2", "2"), ("a b", "a-b")])
def test_any_file_name_gives_a_name(stem, name, tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(binary.Binarize(), nn.Flatten(), binary.BinaryLinear(SIZE ** 2, 2))
    images = torch.from_numpy(strategies.images(5, 2, SIZE))
    assert fbnn_hw.export(network, images, tmp_path / f"{stem}.pt").network.topology.name == name


def test_what_a_pooling_does_is_told(tmp_path):
    network = nn.Sequential(binary.Binarize(), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten(), binary.BinaryLinear(16, 3))
    with pytest.raises(InputError, match="padding 0, dilation 1 and ceil_mode=True a map of 7x7, expected 2x2 blocks without padding,"):
        fbnn_hw.export(network, torch.from_numpy(strategies.images(5, 2, 7)), tmp_path / "m.pt")


def test_the_range_of_grey_values_is_told(tmp_path):
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = binary.BinaryLinear(SIZE ** 2, 2)

        def forward(self, x):
            return self.out((x / 255).flatten(1))

    torch.manual_seed(0)
    with pytest.raises(InputError, match="the last layer reads values of 0 to 1, which gives each class a bias"):
        fbnn_hw.export(Dense(), torch.from_numpy(strategies.images(5, 2, SIZE)[:, :1].copy()), tmp_path / "m.pt")


def test_grey_images(tmp_path):
    """One channel becomes three equal ones; zeros around images of 0 to 1 are bytes of 0."""
    torch.manual_seed(2)
    layer = nn.Conv2d(1, 6, 3, padding=1)
    layer.weight.data = layer.weight.data.sign() * 0.5
    body = nn.Sequential(layer, nn.BatchNorm2d(6), binary.Sign(), nn.Flatten(), binary.BinaryLinear(864, 4))

    class Grey(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, images):
            return self.body(images / 255.0)

    images = torch.from_numpy(strategies.images(5, 6, SIZE)[:, :1].copy())
    imported = exported(unsettled(Grey(), 3), tmp_path, images)
    assert "exact for pictures in which they are equal" in imported.notes[0]
    assert any(op.kind == "conv" and op.padding == "same" for op in imported.network.topology.ops)


def test_names(tmp_path, capsys):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.latent, self.logits = binary.Binarize(), binary.BinaryLinear(SIZE ** 2, 7), binary.BinaryLinear(7, 2)
            self.sign = binary.Sign()

        def forward(self, images):
            return self.logits(self.sign(self.latent(self.input(images).flatten(1))))

    imported = exported(Named(), tmp_path, classes=("cat", "dog"), name="own")
    topology = imported.network.topology
    assert topology.name == "own" and topology.classes == ("cat", "dog") and [o.name for o in topology.ops] == [
        "input", "input_flat", "latent", "logits"]
    assert imported.parts[1].source.startswith("tests/nn/test_trace.py:") and imported.parts[1].layers == ("latent",)
    out = capsys.readouterr().out
    assert out == (f"{tmp_path}/m.pt: 4 layers, 1,022 bits, 0.0 MMAC an image\n"
                   f"equal on all 2 images of the example: the module's logits are {7 ** -0.5:.6g} times the integers\n")


@pytest.mark.parametrize("function", [
    lambda x: x.repeat_interleave(dim=1, repeats=2), lambda x: torch.repeat_interleave(x, dim=1, repeats=2),
    lambda x: x.chunk(dim=1, chunks=2)[1], lambda x: torch.split(x, dim=1, split_size_or_sections=[1, 3])[1],
    lambda x: x.split(dim=1, split_size=3)[0], lambda x: x.flatten(end_dim=-1, start_dim=1)])
def test_keywords_in_any_order(function, tmp_path):
    torch.manual_seed(0)
    exported(small(binary.Sign(), Called(function)), tmp_path)
    with pytest.raises(InputError, match=r"flatten\(1\): one vector for each image"):
        fbnn_hw.export(nn.Sequential(binary.Binarize(), Called(lambda x: x.flatten(end_dim=1))), torch.zeros(1, 3, 8, 8, dtype=torch.uint8),
                       tmp_path / "n.pt")


@pytest.mark.parametrize("end, exact", [
    (lambda y: y, "logits"), (lambda y: y.argmax(1, keepdim=True), "classes"), (lambda y: y.argmax(1), "classes"),
    (lambda y: y.softmax(1), "classes"), (lambda y: F.log_softmax(y, dim=-3), "classes"),
    (lambda y: y.flatten(1).argmax(-1, True), "classes")])
def test_logits_of_one_pixel(end, exact, tmp_path):
    """A module that ends with a convolution gives (N, classes, 1, 1)."""
    torch.manual_seed(0)
    body = nn.Sequential(binary.Thermometer("grey", 4), binary.BinaryConv2d(4, 8), binary.Sign(), binary.LearnedPool2d(8, SIZE),
                         binary.Sign(), binary.BinaryConv2d(8, 5, 1))
    imported = fbnn_hw.export(nn.Sequential(body, Called(end)), torch.from_numpy(strategies.images(0, 12, SIZE)), tmp_path / "m.pt")
    with torch.no_grad():
        logits = body(torch.from_numpy(strategies.images(9, 12, SIZE))).flatten(1).numpy()
    ours = inference.logits(checkpoint.read(tmp_path / "m.pt"), strategies.images(9, 12, SIZE))
    assert imported.exact == exact and len({*ours.argmax(1)}) > 1
    assert (ours.argmax(1) == logits.argmax(1)).all()


def test_an_end_along_the_columns_of_logits_of_one_pixel_is_named(tmp_path):
    body = binary.Thermometer("grey", 4), binary.LearnedPool2d(4, SIZE), binary.Sign(), binary.BinaryConv2d(4, 5, 1)
    for end in (nn.Softmax(-1), Called(lambda y: y.argmax(-1)), Called(lambda y: y.log_softmax(2))):
        with pytest.raises(InputError, match=r"goes along dimension (-1|2) of \(N, 5, 1, 1\), expected 1, the logits of each image"):
            fbnn_hw.export(nn.Sequential(*body, end), torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")


@pytest.mark.parametrize("encoder", [binary.Thermometer("tycc", 4), binary.Thermometer("grey", 4), binary.Bits8(), binary.Binarize()])
def test_view_flattens_what_an_encoder_gives(encoder, tmp_path):
    """As it does what a convolution, a pooling and a sign make of it, also in training."""
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.conv, self.norm = encoder, binary.BinaryConv2d(encoder.channels, 4, padding=0), nn.BatchNorm2d(4)
            self.sign, self.out = binary.Sign(), binary.BinaryLinear(100, 3)

        def forward(self, images):
            x = self.sign(F.max_pool2d(self.norm(self.conv(self.input(images))), 2))
            return self.out(x.view(x.size(0), -1))

    images = torch.from_numpy(strategies.images(0, 2, SIZE))
    assert encoder(images).is_contiguous()
    module = Viewed()
    module(images).sum().backward()
    exported(module, tmp_path)


class Keywords(nn.Module):
    """A layer or function that is called with its operands by their names."""

    def __init__(self, call):
        super().__init__()
        self.call, self.input, self.conv, self.norm = call, binary.Thermometer("grey", 4), binary.BinaryConv2d(4, 4), nn.BatchNorm2d(4)
        self.sign, self.relu, self.wide = binary.Sign(), nn.ReLU(), binary.BinaryConv2d(8, 4)
        self.out = binary.BinaryLinear(4 * SIZE ** 2, 3)

    def forward(self, images):
        x = self.call(self, self.norm(input=self.conv(self.input(images))))
        return self.out(torch.flatten(input=x, start_dim=1))


@pytest.mark.parametrize("call", [
    lambda m, x: m.sign(x=x), lambda m, x: m.sign(m.relu(input=x)), lambda m, x: m.sign(F.hardtanh(input=x, min_val=-0.5)),
    lambda m, x: m.sign(torch.add(input=x, other=0.25)), lambda m, x: m.sign(torch.sub(input=0.25, other=x)),
    lambda m, x: m.sign(torch.mul(other=x, input=torch.tensor(-2.0))), lambda m, x: m.sign(x.add(other=0.25)),
    lambda m, x: m.sign(torch.add(x, other=0.25, alpha=2)), lambda m, x: m.sign(torch.clamp(input=x, min=-1, max=1)),
    lambda m, x: m.sign(m.wide(torch.cat(tensors=[m.sign(x), m.sign(x)], dim=1))),
    lambda m, x: m.sign(m.wide(torch.cat([m.sign(x), m.sign(x)], axis=1))),
    lambda m, x: torch.cat(torch.split(tensor=m.sign(x), split_size_or_sections=2, dim=1), axis=-3),
    lambda m, x: torch.cat(tensors=torch.chunk(input=m.sign(x), chunks=2, dim=1), dim=1),
    lambda m, x: torch.reshape(input=m.sign(x), shape=(x.size(dim=0), -1)), lambda m, x: m.sign(x).reshape(shape=(x.shape[0], -1))])
def test_operands_by_their_names(call, tmp_path):
    torch.manual_seed(0)
    exported(unsettled(Keywords(call), 0), tmp_path)


@pytest.mark.parametrize("call", [
    lambda x: F.max_pool2d(input=x, kernel_size=2), lambda x: F.adaptive_avg_pool2d(input=x, output_size=1),
    lambda x: x.mean(axis=(2, 3), keepdims=True), lambda x: torch.mean(input=x, dim=(2, 3), keepdim=True),
    lambda x: torch.sum(x, axis=(2, 3), keepdims=True)])
def test_operands_of_poolings_by_their_names(call, tmp_path):
    torch.manual_seed(0)
    exported(small(binary.Sign(), Called(call), binary.Sign()), tmp_path)


def test_numbers_and_text_of_numpy_and_torch_become_plain(tmp_path):
    """They are equal to Python's, but no reader of checkpoints knows them."""
    class Typed(nn.Module):
        def __init__(self, encoder, stride):
            super().__init__()
            self.input, self.sign = encoder, binary.Sign()
            self.conv = binary.BinaryConv2d(int(encoder.channels), np.int64(4), np.int64(3), stride, 0)
            self.logits = binary.BinaryLinear(int(8 * len(range(0, SIZE - 2, int(stride))) ** 2), 3)

        def forward(self, images):
            x = self.sign(self.conv(self.input(images)))
            return self.logits(x.repeat_interleave(2, 1).flatten(1))

    tables = (np.arange(256), torch.arange(256), list(np.arange(256)))
    for encoder in (binary.Thermometer(np.str_("grey"), np.int64(4)), binary.Binarize(np.uint8(99)), *map(binary.Bits8, tables)):
        imported = exported(Typed(encoder, np.int64(2)), tmp_path, classes=np.array(["a", "b", "c"]), name=np.str_("own"))
        assert imported.network.topology.classes == ("a", "b", "c")
    assert exported(Typed(encoder, 1), tmp_path, classes=torch.arange(3)).network.topology.classes == ("0", "1", "2")
    assert exported(Typed(encoder, 1), tmp_path, classes=list(np.array(["x", "y", "z"]))).network.topology.classes == ("x", "y", "z")


def test_what_cannot_be_read_replaces_no_file(tmp_path):
    path, example = tmp_path / "m.pt", torch.from_numpy(strategies.images(0, 2, SIZE))
    good = exported(small(binary.Sign()), tmp_path).network
    before = path.read_bytes()
    encoder = binary.Binarize()
    encoder.threshold = 127.5
    half = nn.Sequential(encoder, binary.BinaryConv2d(1, 4), binary.Sign(), nn.Flatten(), binary.BinaryLinear(576, 3))
    with pytest.raises(InputError, match=r"^0 \(Binarize\): layer layer0: threshold is 127.5, expected an integer$"):
        fbnn_hw.export(half, example, path)
    with pytest.raises(InputError, match="names 'numpy._core.multiarray"):
        torch_checkpoint.save(path, replace(good, topology=replace(good.topology, classes=tuple(np.array(["a", "b", "c"])))))
    for arguments, message in (((path, 5), "classes: found 5, expected a list of names"), ((path, "abc"), "classes: found 'abc', expected"),
                               ((None, None), "path: found None, expected a file name")):
        with pytest.raises(UsageError, match=message):
            fbnn_hw.export(small(binary.Sign()), example, *arguments)
    assert path.read_bytes() == before


class Refused(nn.Module):
    """One thing that +1 and -1 cannot express, chosen by its name."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.input, self.sign = kind, binary.Thermometer("grey", 4), binary.Sign()
        self.conv, self.other, self.out = binary.BinaryConv2d(4, 4), binary.BinaryConv2d(4, 4), binary.BinaryLinear(4 * SIZE ** 2, 3)
        self.zeros, self.relu, self.real = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3)
        self.zeros.weight.data.sign_()
        self.norm, self.gelu, self.affine = nn.BatchNorm1d(3), nn.GELU(), nn.Linear(4 * SIZE ** 2, 3)
        self.affine.weight.data.sign_()
        self.norm.weight.data = torch.tensor([1.0, 2.0, 3.0])
        self.odd, self.second, self.diverged = binary.BinaryConv2d(6, 6, groups=3), binary.Binarize(), binary.BinaryConv2d(4, 4)
        self.diverged.weight.data.fill_(torch.nan)
        self.plain = [binary.BinaryConv2d(4, 4)]
        self.few, self.fewer = binary.BinaryLinear(4, 4), binary.BinaryLinear(4, 3)

    def forward(self, images):
        x = self.sign(self.conv(self.input(images)))
        if self.kind == "shortcut":
            x = self.sign(self.other(x) + x)  # line: shortcut
        elif self.kind == "product":
            x = self.sign(self.other(x)) * x  # line: product
        elif self.kind == "own sign":
            x = torch.where(self.other(x) >= 0, 1.0, -1.0)  # line: own sign
        elif self.kind == "dropout":
            x = F.dropout(x)  # line: dropout
        elif self.kind == "fails":
            x = self.sign(self.other(x.double()))  # line: fails
        elif self.kind == "sums in half":
            x = self.sign(self.other(x).to(torch.float16))  # line: sums in half
        elif self.kind == "relu":
            x = self.relu(self.other(x))  # line: relu
            x = self.sign(self.conv(x))
        elif self.kind == "zero padding":
            x = self.sign(self.zeros(x))  # line: zero padding
        elif self.kind == "float weights":
            x = self.sign(self.real(x))  # line: float weights
        elif self.kind == "gelu":
            x = self.sign(self.gelu(self.other(x)))  # line: gelu
        elif self.kind == "torch.sign":
            x = torch.sign(self.conv(x))  # line: torch.sign
        elif self.kind == "pool":
            x = self.sign(F.max_pool2d(self.other(x), 3))  # line: pool
        elif self.kind == "twice":
            y = self.conv(x)
            x = self.sign(y * y)  # line: twice
        elif self.kind == "statistics of a batch":
            y = self.other(x)
            x = self.sign(F.batch_norm(y, None, None, training=True))  # line: statistics of a batch
        elif self.kind == "plain list":
            x = self.sign(self.plain[0](x))  # line: plain list
        elif self.kind == "branch":
            x = x if x.sum() > 0 else -x  # line: branch
        elif self.kind == "position":
            x = self.sign(self.other(x) + torch.arange(12.0))  # line: position
        elif self.kind == "folded":
            x = self.sign(F.leaky_relu(self.other(x), -1.0) - 0.5)  # line: folded
        elif self.kind == "adaptive":
            x = self.sign(F.adaptive_max_pool2d(self.other(x), 2))  # line: adaptive
        elif self.kind == "reflected":
            x = F.pad(x, (1, 1, 1, 1), mode="reflect")  # line: reflected
        elif self.kind == "no operand":
            x = self.sign(self.other(x).add())  # line: no operand
        elif self.kind == "in its place":
            x = self.sign(self.other(x).add_(0.5))  # line: in its place
        elif self.kind == "groups":
            x = self.sign(self.odd(x))  # line: groups
        elif self.kind == "second encoder":
            x = torch.cat([x, self.second(images)], 1)[:, :4]  # line: second encoder
        elif self.kind == "diverged":
            x = self.sign(self.diverged(x))  # line: diverged
        elif self.kind == "no words":
            raise NotImplementedError  # line: no words
        elif self.kind == "bent":
            return self.fewer(self.sign(self.few(torch.tanh(x.mean((2, 3))))))  # line: bent
        x = x.flatten(1)
        if self.kind == "bias":
            return self.affine(x)  # line: bias
        if self.kind == "gain":
            return self.norm(self.out(x))  # line: gain
        if self.kind == "bent end":
            return torch.tanh(self.out(x))  # line: bent end
        if self.kind == "bits":
            return self.sign(self.out(x))
        if self.kind == "over the images":
            return self.out(x).softmax(0)  # line: over the images
        if self.kind == "two":
            return self.out(x), x
        return self.out(x)


@pytest.mark.parametrize("kind, what, way_out", [
    ("shortcut", "add: adds real numbers of two layers, a shortcut that +1 and -1 have no room for", "torch.cat of the two after their"),
    ("product", "mul: multiplies real numbers of two layers", "torch.cat of the two after their"),
    ("twice", "mul: takes the same values twice", "expected a function of one operand that rises or falls"),
    ("statistics of a batch", "batch_norm: takes the statistics of each batch in evaluation too", "expected training=self.training"),
    ("plain list", "cannot be traced by torch.fx (module is not installed as a submodule", "lists of layers in nn.ModuleList"),
    ("own sign", "ge: ge compares values", "expected fbnn_hw.nn.Sign() in the place"),
    ("dropout", "dropout: drops in evaluation too", "expected training=self.training"),
    ("fails", "the module cannot be run on the example (RuntimeError: ", "type"),
    ("sums in half", "to: casts to float16, which rounds or wraps", "expected float32"),
    ("relu", "relu (ReLU): gives real numbers to tests/nn/test_trace.py:", "expected +1 and -1, so a sign must come between them"),
    ("zero padding", "zeros (Conv2d): pads with 0 a map of bits that are -1 to 1", "value=-1)"),
    ("float weights", "real (Conv2d): the weights of output 0 have 36 values", "binarise them, as fbnn_hw.nn.BinaryConv2d"),
    ("gelu", "gelu (GELU): GELU has no counterpart among +1 and -1", "fbnn-hw help networks.md has the list"),
    ("torch.sign", "sign: the sign of 0 is 0, which channel ", "as fbnn_hw.nn.Sign"),
    ("pool", "max_pool2d: pools 3 by 3 with padding 0", "expected 2x2 blocks without padding"),
    ("branch", "cannot be traced by torch.fx", "expected a forward without branches on values"),
    ("position", "add: gives (4, 1, 12) for a value of each channel", "expected a function of each value alone"),
    ("folded", "sub: rises and falls with the sums of channel 0", "a function of single values that only rises or only falls"),
    ("adaptive", "adaptive_max_pool2d has no counterpart", "2x2 max pooling"),
    ("reflected", "pad: pads by mode 'reflect'", "expected 'constant'"),
    ("no operand", "add: cannot be read (TypeError: ", "expected the map as the first operand"),
    ("in its place", "add_: add_ changes a value in its place", "expected add"),
    ("groups", "odd (BinaryConv2d): layer odd: groups is 3", "expected a divisor of 4 inputs and 6 outputs"),
    ("second encoder", "second (Binarize): reads the picture in a second way", "expected one encoder"),
    ("diverged", "diverged (BinaryConv2d): a weight is NaN or infinite", "expected finite numbers"),
    ("no words", "cannot be traced by torch.fx (NotImplementedError)", "expected a forward without branches on values"),
    ("bent", "tanh: is not linear and gives real numbers to", "expected a sign between them"),
    ("bias", "affine (Linear): the logits have a bias for each class", "bias=False"),
    ("gain", "norm (BatchNorm1d): the logits have a gain for each class", "no batch norm after them"),
    ("bent end", "tanh: is no scale of the logits", "end with a softmax"),
    ("bits", "the output: the network ends with bits", "a dense layer without a sign"),
    ("over the images", "softmax: goes along dimension 0", "expected 1, the logits of each image"),
    ("two", "the output of the module is no tensor of its layers alone", "expected the logits"),
])
def test_what_is_refused_names_its_line(kind, what, way_out, tmp_path):
    torch.manual_seed(0)
    with pytest.raises(InputError) as error:
        fbnn_hw.export(Refused(kind), torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")
    message = str(error.value)
    assert what in message and way_out in message and "\n" not in message
    source, first = inspect.getsourcelines(Refused)
    lines = [first + i for i, text in enumerate(source) if text.endswith(f"# line: {kind}\n")]
    assert all(message.startswith(f"tests/nn/test_trace.py:{line}") for line in lines) and len(lines) == (kind not in ("bits", "two"))
    assert not (tmp_path / "m.pt").exists()


@pytest.mark.parametrize("example, text", [
    (torch.zeros(2, 3, 8, 8), "found float32 (2, 3, 8, 8)"), (torch.zeros(2, 3, 8, 9, dtype=torch.uint8), "found uint8 (2, 3, 8, 9)"),
    (np.zeros((2, 3, 8, 8), np.uint8), "found ndarray"), (torch.zeros(0, 3, 8, 8, dtype=torch.uint8), "found uint8 (0, 3, 8, 8)")])
def test_a_wrong_example(example, text, tmp_path):
    with pytest.raises(InputError, match="expected uint8 images") as error:
        fbnn_hw.export(nn.Identity(), example, tmp_path / "m.pt")
    assert text in str(error.value)


class Alike(binary.BinaryConv2d):
    """A class of one's own that computes as its parent."""


class Halved(binary.BinaryConv2d):
    def forward(self, x):
        return super().forward(x) * 0.5


class Twice(Halved):
    def forward(self, x):
        return super().forward(x) * -1.5 + 0.3


class Moved(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x + 0.1) + 0.2


class Flipped(binary.Sign):
    def forward(self, x):
        return -super().forward(-x)


class Tripled(binary.BinaryLinear):
    def forward(self, x):
        return super().forward(x) * 3


def test_a_forward_that_calls_its_parent_s(tmp_path):
    """Each is read as its parent and what its own forward does beside it; the classes are afterwards as before."""
    torch.manual_seed(0)
    own = {cls: cls.forward for cls in (binary.BinaryConv2d, binary.Sign, nn.BatchNorm2d)}
    module = nn.Sequential(binary.Thermometer("grey", 4), Halved(4, 6), unsettled(Moved(6), 1), Flipped(), Twice(6, 4, padding=0),
                           binary.Sign(), nn.Flatten(), Tripled(400, 3))
    imported = exported(module, tmp_path)
    assert imported.scale == pytest.approx(3 / 20) and all(cls.forward is forward for cls, forward in own.items())
    assert [op.name for op in imported.network.topology.ops] == ["layer0", "layer1", "layer4", "layer4_flat", "logits"]
    assert {part.source: part.layers for part in imported.parts}["4 (Twice)"] == ("layer4",)


class Tanh(torch.autograd.Function):
    """A sign with the gradient of tanh."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2)


def test_an_estimator_of_one_s_own(tmp_path):
    """The program of docs/training.md: a subclass of Sign, and one of a layer, whose gradients in training are another's."""
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8").split("## An estimator of your own")[1]
    own = {"Tanh": Tanh}
    exec(re.search("```python\n(.*?)```", page, re.S)[1], own)
    torch.manual_seed(0)
    module = nn.Sequential(binary.Thermometer("grey", 4), own["MyConv2d"](4, 6), own["MySign"](), nn.Flatten(),
                           binary.BinaryLinear(6 * SIZE ** 2, 3))
    images = torch.from_numpy(strategies.images(0, 2, SIZE))
    x = torch.full((3,), 2.0, requires_grad=True)
    module[2](x).sum().backward()
    assert x.grad == pytest.approx([1 - np.tanh(2.0) ** 2] * 3)  # which a Sign would not pass
    module(images).square().sum().backward()
    assert module[1].weight.grad.abs().sum() > 0
    exported(module, tmp_path)


class Functional(nn.Module):
    """Calls of torch.nn.functional, a layer used twice, names that no layer may have."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.add_module("the input", binary.Thermometer("grey", 4))
        self.add_module("Größe", nn.BatchNorm2d(6))
        self.conv, self.again = Alike(4, 6), nn.Sequential(nn.Sequential(Alike(6, 6), nn.Dropout()), nn.BatchNorm2d(6), binary.Sign())
        self.register_buffer("weight", torch.randn(6, 3, 3, 3).sign() * 0.5)
        self.register_buffer("last", torch.randn(3, 6 * (SIZE - 2) ** 2).sign())

    def forward(self, images):
        norm = self.Größe
        x = F.dropout(getattr(self, "the input")(images), training=self.training)
        x = F.batch_norm(self.conv(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
        x = self.again(self.again(torch.where(x >= 0, 1.0, -1.0) if self.training else self.again[2](x)))
        x = self.again[2](F.conv2d(x, self.weight, bias=torch.arange(6.0), groups=2))
        return F.linear(x.flatten(1), self.last)


def test_functional_calls_shared_layers_and_odd_names(tmp_path):
    module = unsettled(Functional(), 4)
    imported = exported(module, tmp_path)
    assert [op.kind for op in imported.network.topology.ops].count("conv") == 4
    fbnn_hw.export(nn.DataParallel(module), torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "w.pt", name="m")
    assert checkpoint.read(tmp_path / "w.pt").weights.keys() == imported.network.weights.keys()
    with pytest.raises(InputError, match="found a module that torch.jit compiled, expected the nn.Module that it was made from"):
        fbnn_hw.export(torch.jit.script(nn.Identity()), torch.zeros(1, 3, 8, 8, dtype=torch.uint8), tmp_path / "j.pt")


@pytest.mark.parametrize("sign", [
    lambda x: x + (x.sign() - x).detach(), lambda x: (torch.sign(x) - x).detach() + x,
    lambda x: x.clamp(-1, 1) + (x.sign() - x.clamp(-1, 1)).detach()])
def test_a_straight_through_sign_of_one_s_own_is_named(sign, tmp_path):
    module = unsettled(small(nn.BatchNorm2d(4), Called(sign)), 0)
    with pytest.raises(InputError, match=r"a straight-through sign of one's own; expected fbnn_hw\.nn\.Sign\(\) in its place"):
        fbnn_hw.export(module, torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")


def test_a_shortcut_of_a_sign_is_no_straight_through_sign(tmp_path):
    conv = binary.BinaryConv2d(4, 4)
    module = unsettled(small(nn.BatchNorm2d(4), Called(torch.sign), Shortcut(conv), binary.Sign()), 0)
    with pytest.raises(InputError, match="add: adds real numbers of two layers, a shortcut"):
        fbnn_hw.export(module, torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")


class Shortcut(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x) + x


@pytest.mark.parametrize("kind", ["half", "bfloat16"])
def test_a_module_that_rounds_sums_is_named(kind, tmp_path):
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.out = binary.Thermometer("tycc", 16), binary.BinaryLinear(64 * SIZE ** 2, 3)

        def forward(self, images):
            return self.out(getattr(self.input(images), kind)().flatten(1))

    with pytest.raises(InputError) as error:
        fbnn_hw.export(getattr(Cast(), kind)(), torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")
    name = {"half": "float16"}.get(kind, kind)
    assert str(error.value).startswith(f"Cast: is of {name}, which rounds sums (")
    assert str(error.value).endswith("expected float32, module.float()")


@pytest.mark.parametrize("change", [lambda x: F.hardtanh(x, inplace=True), lambda x: F.relu(x, True), nn.Hardtanh(inplace=True)])
def test_a_value_that_is_read_after_it_was_changed_in_its_place_is_named(change, tmp_path):
    class Alias(nn.Module):
        def __init__(self, late):
            super().__init__()
            self.late, self.input, self.conv, self.norm = late, binary.Thermometer("grey", 4), binary.BinaryConv2d(4, 4), nn.BatchNorm2d(4)
            self.sign, self.change, self.out = binary.Sign(), change, binary.BinaryLinear(8 * SIZE ** 2, 3)

        def forward(self, images):
            a = self.norm(self.conv(self.input(images)))
            b = self.sign(a - 0.5) if not self.late else None
            c = self.sign(self.change(a))
            return self.out(torch.cat([c, self.sign(a - 0.5) if self.late else b], 1).flatten(1))  # line: alias

    exported(unsettled(Alias(False), 0), tmp_path)
    with pytest.raises(InputError, match=r"changes norm in its place \(inplace=True\), which tests/nn/test_trace.py:\d+, sub reads after "
                                         "it; expected inplace=False"):
        fbnn_hw.export(unsettled(Alias(True), 0), torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")


def test_what_a_trace_does_not_show_is_named(tmp_path):
    """Hooks and a forward of an instance, of a layer and of the module itself."""
    def refusal(module):
        with pytest.raises(InputError) as error:
            fbnn_hw.export(module, torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")
        return str(error.value)

    hooked, prepared, shifted = (small(binary.Sign()) for _ in range(3))
    handle = hooked[1].register_forward_hook(lambda module, inputs, output: torch.where(output > 1, -output, output))
    assert refusal(hooked).startswith("1 (BinaryConv2d): has a forward hook, which may change what it gives, expected none; remove it")
    handle.remove()
    exported(hooked, tmp_path)
    prepared.register_forward_pre_hook(lambda module, inputs: (255 - inputs[0],))
    assert refusal(prepared).startswith("Sequential: has a forward hook")
    conv = shifted[1]
    conv.forward = lambda x: -binary.BinaryConv2d.forward(conv, x)
    assert refusal(shifted).startswith("1 (BinaryConv2d): has a forward of its own beside its class's, expected that of the class; put")
    del conv.forward
    shifted.forward = shifted[:2].forward
    assert refusal(shifted).startswith("Sequential: has a forward of its own")
    divided = small(binary.Sign(), nn.AvgPool2d(SIZE, divisor_override=3), binary.Sign())
    assert refusal(divided) == "3 (AvgPool2d): divides by 3 (divisor_override), expected a mean, or x.sum((2, 3))"


def test_what_was_trained_goes_on_training(tmp_path):
    module = small(nn.BatchNorm2d(4), binary.Sign()).train()
    module[2].eval()  # whose statistics stay as they are
    fbnn_hw.export(module, torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")
    assert [child.training for child in module.modules()] == [child is not module[2] for child in module.modules()]
    with pytest.raises(InputError, match=r"1 \(BinaryConv2d\): a weight is NaN or infinite"):
        module[1].weight.data[0] = torch.nan
        fbnn_hw.export(module, torch.from_numpy(strategies.images(0, 2, SIZE)), tmp_path / "m.pt")
    with pytest.raises(InputError, match="is a directory, expected a file name"):
        fbnn_hw.export(module, torch.zeros(1, 3, 8, 8, dtype=torch.uint8), tmp_path)


@pytest.mark.parametrize("make, line", [
    (lambda: binary.Thermometer("TYCC"), "layer Thermometer: encoder is 'TYCC', expected 'tycc', 'trgb' or 'grey'"),
    (lambda: binary.Thermometer("trgb", "8"), "layer Thermometer: levels is '8', expected 2 to 128 with trgb"),
    (lambda: binary.Binarize(300), "layer Binarize: threshold is 300, expected 1 to 255"),
    (lambda: binary.Bits8(5), "Bits8: table is 5, expected 256 integers from 0 to 255"),
    (lambda: binary.Bits8(range(255)), "layer Bits8: table is 255 values, expected 256"),
    (lambda: binary.BinaryConv2d(3, 4, groups=2), "BinaryConv2d: groups is 2, expected a divisor of 3 inputs and 4 outputs"),
    (lambda: binary.BinaryConv2d(3, 4, padding="valid"), "BinaryConv2d: padding is 'valid', expected 'same' or 0"),
    (lambda: binary.BinaryLinear(0, 4), "BinaryLinear: inputs is 0, expected a whole number from 1"),
    (lambda: binary.BinaryLinear(4, 4, groups=0), "BinaryLinear: groups is 0, expected a whole number from 1"),
    (lambda: binary.LearnedPool2d(4, 1.5), "LearnedPool2d: size is 1.5, expected a whole number from 1"),
])
def test_layers_that_no_network_has(make, line):
    """They are refused where they are made, not where the network is exported."""
    with pytest.raises(UsageError) as error:
        make()
    assert str(error.value) == line
