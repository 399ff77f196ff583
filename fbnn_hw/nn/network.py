"""The trainable twin of a topology: one torch module per op that has weights, interpreted in the order of the ops.

Every binary weight has a float `proxy`; the forward pass uses its sign.  Scales (paper, eq. `scaling-factor`) and alpha
(eq. `output_scaled`) exist here alone and vanish at export.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..base import bits
from ..base.errors import InputError
from ..ir.network import LATENT, Network, Shape, Topology
from ..ir.ops import BYTE, INPUTS
from . import binarize
from .encode import first_map, levels
from .layers import moved
from .norm import MOMENTUM, Norm

BYTE_SPREAD = math.sqrt((BYTE + 1) ** 2 / 3 - 1 / 3)
"""Standard deviation of 2 u - 255 for evenly distributed bytes u; that of bits is 1."""

NORMED = ("conv", "dense")
"""Kinds of layers that may have batch norm: those whose thresholds have hardware.

Layers after the latent have none, because they may go on learning without it.
"""


class _Signed(nn.Module):
    """A part that ends in a sign, after its `scale` or its batch norm `norm`.  `bias` is 1 - 2 * threshold."""

    norm: Norm | None
    bias: torch.Tensor
    scale: float
    limit: float
    estimator = "clip"

    def _end(self, channels, norm=False):
        self.norm = Norm(channels) if norm else None
        self.register_buffer("bias", torch.ones(channels), persistent=False)
        self.rounded = True  # bfloat16 has the bias whole

    @property
    def factor(self):
        """Factor from the gradient of u to that of the dot product; batch norm takes the true derivative of y = 2 * dot + bias."""
        return self.scale if self.norm is None else 2.0

    def threshold(self):
        """The least dot product that gives +1, as floats (channels,)."""
        return (1 - self.bias) / 2 if self.norm is None else self.norm.threshold(self.largest)

    @torch.no_grad()
    def fix(self, threshold):
        """Set the threshold, integers (channels,), of a part without batch norm."""
        self.bias.copy_(1 - 2 * torch.as_tensor(threshold))
        self.rounded = torch.equal(self.bias, self.bias.bfloat16().float())

    @torch.no_grad()
    def refresh(self, dtype=torch.float32):
        """Compute `bias` from the norm.  In training it is rounded to `dtype`, since it is then only a point near the threshold."""
        if self.norm is not None:
            bias, self.rounded = 1 - 2 * self.threshold(), self.training
            self.bias.copy_(bias.to(dtype) if self.training else bias)

    def sign(self, y, pad=0, binary=True):
        """Bits, or clamp(u, -1, 1) if not `binary`, of y = 2 * dot + bias, or of the largest of several."""
        if self.norm is not None:
            return self.norm.sign(y, self.bias, self.limit, pad, binary, self.estimator)
        if binary:
            return binarize.sign(y, self.scale, self.limit, pad, self.estimator)
        u = (y - self.bias[:, None, None]) / 2 * self.scale
        return (y + (u - y).detach()).clamp(-1, 1)  # the value of u; the gradient that y takes is that of u already


class BinaryLayer(_Signed):
    """Proxies of one op's weights: a convolution, or a dense or depthwise layer seen as one.

    proxy: (out, in / groups, kernel, kernel).  Output u = scale * dot with scale = K / sqrt(fan_in), seen by the forward
    pass as the odd integer 2 * (dot - threshold) + 1.  Where the input is bytes (`of_bytes`), scale is smaller by `BYTE_SPREAD`.
    width: a proxy's gradient passes where |proxy| <= width.
    """

    width = 1.0

    def __init__(self, layer: Any, input_shape: Shape, K: float = 1.0, limit: float = 1.0, norm: bool = False,
                 of_bytes: bool = False) -> None:
        super().__init__()
        shape = layer.weight_shape(input_shape)
        self.kind, self.shape = layer.kind, shape
        if layer.kind == "depthwise":
            shape, self.groups = (shape[0], 1, *shape[1:]), shape[0]
        else:
            shape, self.groups = (*shape, 1, 1)[:4], layer.groups
        self.fan_in = layer.fan_in(input_shape)
        self.logits = getattr(layer, "logits", False)
        self.largest, self.spread = self.fan_in * (BYTE if of_bytes else 1), BYTE_SPREAD if of_bytes else 1
        self.scale, self.limit = K / math.sqrt(self.fan_in) / self.spread, limit
        self.stride = getattr(layer, "stride", 1)
        self.proxy = nn.Parameter(torch.empty(shape))
        nn.init.xavier_uniform_(self.proxy)
        self._end(shape[0], norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind != "conv":
            x = x.to(self.proxy.dtype)
        self.refresh(x.dtype)
        if self.logits:  # the true derivative of y = 2 dot + 1
            return (binarize.product(x, self.proxy, 2.0, self.bias, rounded=self.rounded, width=self.width) - 1) / 2
        return binarize.product(x, self.proxy, self.factor, self.bias, self.stride, self.groups, self.rounded, self.width)

    @property
    def typical(self) -> float:
        """Mean size of a fresh proxy: half of the bound of Xavier's distribution."""
        return math.sqrt(6 / (self.fan_in + self.proxy.shape[0])) / 2


class Pool(_Signed):
    """Sum over the map as the odd integer 2 * (sum - threshold) + 1, scaled like a layer of fan-in H * W."""

    def __init__(self, input_shape: Shape, K: float = 1.0, limit: float = 1.0) -> None:
        super().__init__()
        self.scale, self.limit = K / math.sqrt(input_shape[1] * input_shape[2]), limit
        self._end(input_shape[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum((2, 3), keepdim=True, dtype=self.bias.dtype)
        return total.detach() + self.bias[:, None, None] + binarize.scaled(total, self.scale)  # the gradient of u = scale * sum


class FBNN(nn.Module):
    """The trainable fully-binary network of a `Topology`.

    forward(images): uint8 RGB (N, 3, S, S) -> float (N, classes), the logits times alpha.  `logits`
    gives the integers.

    Parameters
    ----------
    topology : ir.network.Topology
    K : float
        Constant of the scale K / sqrt(fan-in).
    c : float
        Constant of alpha = 1 / sqrt(c * fan_in * classes), which is smaller by `BYTE_SPREAD` where
        the logits are sums of bytes.
    limit : float
        Width of the straight-through estimator.
    norm : str
        "scales", or "bn" for a batch norm (`norm.Norm`) in the layers of `NORMED`.  `export` makes
        integer thresholds of the batch norm.

    Attributes
    ----------
    dtype : torch.dtype
        Of the maps between convolutions and of their gradients, float32 or bfloat16.  With bfloat16
        bits, logits and proxies are those of float32, and gradients are rounded.  So are the sums
        that the statistics of a batch norm come from, except near the threshold.
    binary : bool
        False in the first stage of a multi-stage training, which has clamp(u, -1, 1) in place of
        sign(u); with norm "bn" alone.
    """

    def __init__(self, topology: Topology, K: float = 1.0, c: float = 5.0, limit: float = 1.0, norm: str = "scales") -> None:
        super().__init__()
        self.topology, self.K, self.limit, self.norm, self.binary, self.dtype = topology, K, limit, norm, True, torch.float32
        shapes = topology.verify()
        weighted = [topology[name] for name in topology.weight_shapes()]
        byte_maps, self._latent_shape = topology.byte_maps(), shapes.get(LATENT)
        before = topology.ops[:len(topology.ops) - len(topology.head)]
        normed = {o.name for o in before if norm == "bn" and o.kind in NORMED and not getattr(o, "logits", False)}
        self.layers: Any = nn.ModuleDict({o.name: BinaryLayer(o, topology.input_shapes(o)[0], K, limit, o.name in normed,
                                                              not byte_maps.isdisjoint(o.inputs)) for o in weighted})
        self.pools: Any = nn.ModuleDict({o.name: Pool(topology.input_shapes(o)[0], K, limit)
                                         for o in topology.ops if o.kind == "gap"})
        last: Any = self.layers[topology.ops[-1].name]
        self.alpha = 1 / math.sqrt(c * last.fan_in * (len(topology.classes) or 1)) / last.spread
        readers = {o.name: [r for r in topology.ops if o.name in r.inputs] for o in topology.ops}
        self._last_reader = {name: ops[-1].name for name, ops in readers.items() if ops}
        inner = [o for o in topology.ops if o.name != LATENT]  # what `latent` hands out is whole bits without a frame
        # conv -> scale -> maxpool -> sign: the gradient goes to the largest dot product.  The bits equal the OR of the signs.
        self._sign_after_pool = {o.name for o in inner if o.kind == "conv" and [r.kind for r in readers[o.name]] == ["maxpool"]}
        # A map read by nothing but padded convolutions of one frame is produced with it in place: {op name: pixels}
        frames = {name: {getattr(r, "frame", 0) for r in ops} for name, ops in readers.items()}
        self._framed = {o.name: max(frames[o.name]) for o in inner
                        if o.kind in (*INPUTS, "conv", "maxpool") and len(frames[o.name]) == 1 and 0 not in frames[o.name]}
        self._top = {o.name: BYTE if o.name in byte_maps else 1 for o in topology.ops}

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return self.first_map(levels(images, self.topology.ops[0]))

    def first_map(self, levels: torch.Tensor) -> torch.Tensor:
        """The input map of levels (N, P, S, S), which `nn.encode.levels` made of images."""
        first = self.topology.ops[0]
        # on a GPU PyTorch rounds a sum to bfloat16 before it adds the bias, so that bits near a threshold could be others
        dtype = self.dtype if self.training or levels.device.type == "cpu" else torch.float32
        return first_map(levels, first, self._framed.get(first.name, 0), dtype)

    def activations(self, x: torch.Tensor, start: str | None = None, stop: str | None = None) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yield (op, output) in order, from op `start` (the input if None), whose output is x, to op `stop`."""
        ops = self.topology.ops
        first = 0 if start is None else next(i for i, o in enumerate(ops) if o.name == start)
        values = {ops[first].name: x}
        yield ops[first], x
        for o in ops[first + 1:]:
            values[o.name] = y = self._output(o, *(values[i] for i in o.inputs))
            for name in o.inputs:
                if self._last_reader[name] == o.name:
                    values.pop(name, None)
            yield o, y
            if o.name == stop:
                return

    def _output(self, o, *inputs):
        x, pad = inputs[0], self._framed.get(o.name, 0)
        match o.kind:
            case "conv":
                if o.frame and o.inputs[0] not in self._framed:
                    x = F.pad(x, (o.frame,) * 4, value=bits.PADDING * self._top[o.inputs[0]])
                layer = self.layers[o.name]
                y = layer(x)
                return y if o.name in self._sign_after_pool else layer.sign(y, pad, self.binary)
            case "depthwise" | "dense":
                layer = self.layers[o.name]
                return layer(x) if layer.logits else layer.sign(layer(x), binary=self.binary)
            case "maxpool":
                y = F.max_pool2d(x, 2)
                if o.inputs[0] in self._sign_after_pool:
                    return self.layers[o.inputs[0]].sign(y, pad, self.binary)
                return F.pad(y, (pad,) * 4, value=bits.PADDING) if pad else y
            case "flatten":
                return x.flatten(1)[:, :, None, None]
            case "gap":
                layer = self.pools[o.name]
                return layer.sign(layer(x), binary=self.binary)
            case _:
                return moved(o, *inputs)

    @torch.no_grad()
    def draw_ties(self, generator: torch.Generator | None = None) -> None:
        """Set the result of a dot product of 0 until the next call.

        With a generator it is +1 or -1, drawn for each channel; without one it is +1.  The logits do not
        change.  The estimator's window moves by one step of the dot product.  Only for networks without
        thresholds.
        """
        for layer in (*self.layers.values(), *self.pools.values()):
            if not getattr(layer, "logits", False):
                drawn = 1.0 if generator is None else torch.randint(2, layer.bias.shape, generator=generator) * 2.0 - 1
                layer.bias.copy_(torch.as_tensor(drawn))

    def fix(self, thresholds: Mapping[str, Any]) -> None:
        """Set thresholds, {op name: integers (channels,)}, of ops without batch norm."""
        for name, values in thresholds.items():
            (self.layers if name in self.layers else self.pools)[name].fix(values)

    def norms(self) -> dict[str, Norm]:
        """{op name: `Norm`} of the ops that have one."""
        return {name: layer.norm for name, layer in self.layers.items() if layer.norm is not None}

    @torch.no_grad()
    def estimate(self, batches: Iterable[torch.Tensor], logits: Callable[[torch.Tensor], Any] | None = None) -> None:
        """Set the running statistics to the averages over `batches`, with the weights as they are.

        batches: an iterable of uint8 images (N, 3, S, S), or of what `logits` takes.  logits: a function
        that passes a batch through this network; `self.logits` by default.
        """
        training = self.training
        self.train()
        for norm in self.norms().values():
            norm.momentum, norm.steps[...] = 0.0, 0
        for batch in batches:
            (logits or self.logits)(batch)
        for norm in self.norms().values():
            norm.momentum = MOMENTUM
        self.train(training)

    @torch.no_grad()
    def centre(self) -> None:
        """Subtract from the proxies of each output channel their mean, in the layers that train."""
        for layer in self.layers.values():
            if layer.proxy.requires_grad:
                layer.proxy -= layer.proxy.mean((1, 2, 3), keepdim=True)

    def learn_by(self, estimator: str, proxies: str) -> None:
        """Set how gradients pass.  estimator: of the signs, one of `binarize.ESTIMATORS`.  proxies: "open" and "pulled" have no mask."""
        for part in (*self.layers.values(), *self.pools.values()):
            part.estimator = estimator
        for layer in self.layers.values():
            layer.width = math.inf if proxies in ("open", "pulled") else 1.0

    @torch.no_grad()
    def hold(self, share: float) -> None:
        """Take off `share` of what proxies have beyond +-1, in the layers that train."""
        for layer in self.layers.values():
            if layer.proxy.requires_grad:
                layer.proxy.lerp_(layer.proxy.clamp(-1, 1), share)

    @torch.no_grad()
    def to_bits(self) -> None:
        """Set each proxy to its sign times the mean size of a fresh one, in the layers that train.  The network stays the same."""
        for layer in self.layers.values():
            if layer.proxy.requires_grad:
                layer.proxy.copy_(binarize.signs(layer.proxy, layer.typical))

    def run(self, x: torch.Tensor, start: str | None = None, stop: str | None = None) -> torch.Tensor:
        return deque(self.activations(x, start, stop), maxlen=1).pop()[1]

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Integer logits (N, classes), exact in float32."""
        return self.run(self.encode(images)).flatten(1)

    def latent(self, images: torch.Tensor) -> torch.Tensor:
        """The latent in {-1, +1}, (N, latent)."""
        return self.run(self.encode(images), stop=LATENT).flatten(1)

    def latent_and_logits(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`latent` and `logits` of one pass; in training both have gradients."""
        for o, y in self.activations(self.encode(images)):
            if o.name == LATENT:
                latent = y.flatten(1)
        return latent, y.flatten(1)

    def classify_latent(self, latent: torch.Tensor) -> torch.Tensor:
        """Integer logits of the classifier alone; latent (N, latent) in {-1, +1}."""
        return self.run(latent.unflatten(1, self._latent_shape), start=LATENT).flatten(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits(images) * self.alpha


def export(model: FBNN, training: dict[str, Any] | None = None) -> Network:
    """The bits and thresholds of a trained `FBNN`, as an `ir.network.Network`.

    training: the training record, a dict of plain values.  Raises InputError where a proxy is NaN or
    infinite, because its sign would mean nothing.
    """
    for kind, parts in (("proxy", {name: layer.proxy for name, layer in model.layers.items()}),
                        ("threshold", {name: norm.mean + norm.offset for name, norm in model.norms().items()})):
        for name, values in parts.items():
            if not values.isfinite().all():
                raise InputError(f"layer {name}: a {kind} is NaN or infinite, expected a finite number; training diverged, try a smaller "
                                 "--lr")
    weights = {name: bits.to_bits(layer.proxy.detach().cpu().numpy()).reshape(layer.shape) for name, layer in model.layers.items()}
    thresholds = {name: part.threshold().cpu().numpy().astype("int64") for name, part in [*model.layers.items(), *model.pools.items()]}
    thresholds = {name: values for name, values in thresholds.items() if values.any()}
    network = Network(model.topology, weights, thresholds, training or {})
    network.verify()
    return network


def load(network: Network, **options: Any) -> FBNN:
    """An `FBNN` with the bits of an `ir.network.Network`.

    Its proxies are the bits times a small constant, so that it can be trained further.  options: as of `FBNN`.
    """
    model = FBNN(network.topology, **options)
    with torch.no_grad():
        for name, layer in model.layers.items():
            values = torch.from_numpy(bits.from_bits(network.weights[name])).reshape(layer.proxy.shape)
            layer.proxy.copy_(values * layer.proxy.abs().mean())
        model.fix(network.thresholds)
        for name, norm in model.norms().items():
            norm.target = torch.from_numpy(network.thresholds[name]).float() if name in network.thresholds else torch.zeros_like(norm.mean)
    return model
