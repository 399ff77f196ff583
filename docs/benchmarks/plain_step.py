"""The training step beside the same network written plainly in PyTorch, in one run; prints JSON.

    python docs/benchmarks/plain_step.py --model 3mb --steps 6

Three networks take turns, a step each: ours; the same binary network of torch.nn layers, with sign and straight-through estimator written
the direct way, scales on the activations and the thermometer by comparison; and that one with float weights and ReLU instead of signs.
The first two give the same logits, bit for bit, which is checked.  A step is augmentation, encoding, forward, loss, backward and Adam.
Times are CPU seconds of the process (wall seconds on a GPU), medians over the steps.  With --precision bfloat16 ours has its maps in
bfloat16, with the same logits still, and the other two run under torch.autocast.  With --norm bn all three have batch norm before each
sign of a convolution or dense layer in the place of the scales, ours with a gain of 1, the others torch.nn.BatchNorm2d; logits are not
compared then, for a sum at the very edge of a batch's statistics falls either way.
"""

import argparse
import json
import platform
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fbnn_hw.data.augment import augment
from fbnn_hw.ir.models import MODELS, build
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train import record


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class Plain(nn.Module):
    """The layers of a VGG-like topology in the order of the paper's figure.  binary: signs; otherwise float weights and ReLU.
    norm: batch norm in the place of the scales."""

    def __init__(self, topology, c, binary, norm=False):
        super().__init__()
        self.binary, self.levels = binary, topology.ops[0].levels
        shapes = topology.shapes
        of = {o.name: o for o in topology.ops}
        self.convs = nn.ModuleList(
            nn.Conv2d(shapes[of[f"conv{i}"].inputs[0]][0], of[f"conv{i}"].out_channels, 3, groups=of[f"conv{i}"].groups, bias=False)
            for i in range(1, 7))
        channels, size, _ = shapes["pool3"]
        self.depthwise = nn.Conv2d(channels, channels, size, groups=channels, bias=False)
        latent, hidden = of[LATENT].out_channels, of["hidden"].out_channels
        self.latent = nn.Linear(2 * channels, latent, bias=False)
        self.hidden = nn.ModuleList(nn.Linear(latent, hidden // 2, bias=False) for _ in range(2))
        self.out = nn.Linear(2 * (latent + hidden), len(topology.classes), bias=False)
        widths = [*(conv.out_channels for conv in self.convs), latent, *(layer.out_features for layer in self.hidden)]
        self.norms = nn.ModuleList((nn.BatchNorm2d if i < len(self.convs) else nn.BatchNorm1d)(w) for i, w in enumerate(widths) if norm)
        self.alpha = 1 / (c * self.out.in_features * self.out.out_features) ** 0.5

    def weight(self, layer):
        return Sign.apply(layer.weight) if self.binary else layer.weight

    def act(self, x, fan_in, norm=None):
        """norm: number of the layer among those with batch norm."""
        if self.norms and norm is not None:
            x, fan_in = self.norms[norm](x), 1
        return Sign.apply(x * fan_in ** -0.5) if self.binary else F.relu(x)

    def encode(self, images):
        r, g, b = images.int().unbind(1)
        y = (77 * r + 150 * g + 29 * b + 128) >> 8
        cb = 128 + ((-43 * r - 85 * g + 128 * b + 127) >> 8)
        cr = 128 + ((128 * r - 107 * g - 21 * b + 127) >> 8)
        n = self.levels
        planes = [(y * (2 * n)) >> 8, (cb * n) >> 8, (cr * n) >> 8]
        bits = [p[:, None] >= torch.arange(k, device=p.device)[:, None, None] for p, k in zip(planes, (2 * n, n, n))]
        return torch.cat(bits, 1).float() * 2 - 1

    def forward(self, images):
        x = self.encode(images)
        for i, conv in enumerate(self.convs):
            x = F.conv2d(F.pad(x, (1, 1, 1, 1), value=-1.0 if self.binary else 0.0), self.weight(conv), groups=conv.groups)
            if i % 2:
                x = F.max_pool2d(x, 2)
            x = self.act(x, conv.weight[0].numel(), i)
        pooled = self.act(x.sum((2, 3)), x.shape[2] * x.shape[3])
        picked = F.conv2d(x, self.weight(self.depthwise), groups=x.shape[1])
        x = torch.cat([pooled, self.act(picked, self.depthwise.weight[0].numel()).flatten(1)], 1)
        z = self.act(F.linear(x, self.weight(self.latent)), x.shape[1], len(self.convs))
        halves = z.repeat_interleave(2, 1).chunk(2, 1)
        h = torch.cat([self.act(F.linear(a, self.weight(layer)), a.shape[1], len(self.convs) + 1 + i)
                       for i, (a, layer) in enumerate(zip(halves, self.hidden))], 1)
        return F.linear(torch.cat([z, h], 1).repeat_interleave(2, 1), self.weight(self.out)) * self.alpha

    @torch.no_grad()
    def copy(self, model):
        """Take the proxies of an FBNN."""
        layers = {**{f"conv{i + 1}": conv for i, conv in enumerate(self.convs)}, "depthwise": self.depthwise, LATENT: self.latent,
                  "logits": self.out}
        for name, layer in layers.items():
            layer.weight.copy_(model.layers[name].proxy.reshape(layer.weight.shape))
        for layer, proxy in zip(self.hidden, model.layers["hidden"].proxy.flatten(1).chunk(2)):
            layer.weight.copy_(proxy)


def measure(name, batch, steps, device="cpu", c=1.0, precision="float32", norm="scales"):
    torch.manual_seed(0)
    topology = build(name)
    ours, plain, floating = FBNN(topology, c=c, norm=norm), *(Plain(topology, c, binary, norm == "bn") for binary in (True, False))
    plain.copy(ours)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (batch, 3, 32, 32), dtype=np.uint8)).to(device)
    labels = torch.from_numpy(rng.integers(0, 10, batch)).to(device)
    nets = {"ours": ours.to(device), "plain": plain.to(device), "float": floating.to(device)}
    with torch.no_grad():
        same = bool(torch.equal((ours(images) / ours.alpha).round(), (plain(images) / plain.alpha).round()))
    ours.dtype = getattr(torch, precision)
    optimizers = {key: torch.optim.Adam(net.parameters(), 1e-3) for key, net in nets.items()}
    generator, seconds = torch.Generator().manual_seed(0), {key: [] for key in nets}

    def now():
        if device == "cuda":
            torch.cuda.synchronize()
            return time.monotonic()
        return time.process_time()

    for step in range(steps + 1):
        order = list(nets)[step % 3:] + list(nets)[:step % 3]
        for key in order:
            began = now()
            with torch.autocast(device, torch.bfloat16, enabled=key != "ours" and precision == "bfloat16"):
                loss = F.cross_entropy(nets[key](augment(images, generator)), labels)
            optimizers[key].zero_grad(set_to_none=True)
            loss.backward()
            optimizers[key].step()
            if step:  # the first one warms up
                seconds[key].append(now() - began)
    median = {key: statistics.median(values) for key, values in seconds.items()}
    ratios = {key: statistics.median(o / p for o, p in zip(seconds["ours"], seconds[key])) for key in ("plain", "float")}
    return {"model": name, "precision": precision, "norm": norm, "batch": batch, "steps": steps, "device": device,
            "threads": torch.get_num_threads(), "hardware": record.hardware(device), "torch": torch.__version__,
            "python": platform.python_version(), "same_logits": None if norm == "bn" else same,
            "seconds_per_step": {key: round(value, 4) for key, value in median.items()},
            "images_per_second": {key: round(batch / value, 1) for key, value in median.items()},
            "ours_over_plain": round(ratios["plain"], 3), "ours_over_float": round(ratios["float"], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=[name for name in MODELS if name.endswith("mb") and name != "res3mb"], default="3mb")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--norm", choices=("scales", "bn"), default="scales")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps(measure(args.model, args.batch, args.steps, args.device, precision=args.precision, norm=args.norm), indent=1))


if __name__ == "__main__":
    main()
