"""The classifier after the latent as matrix products.

Its integers and gradients are those of `FBNN.classify_latent`, some ten times faster on a CPU.  The
copies that `duplicate` makes are never stored: a dense layer that reads them adds up their weights.
"""

import torch
import torch.nn.functional as F

from ..base.errors import InputError
from ..ir.network import LATENT, Topology
from . import binarize
from .layers import moved
from .network import FBNN

KINDS = ("concat", "dense", "duplicate", "shuffle", "slice")
"""Of the layers that `logits` knows."""


def verify(topology: Topology) -> None:
    """Raises InputError where `logits` does not know a layer after the latent, or an input of one: another layer, a map, bytes."""
    known = {LATENT, *(o.name for o in topology.head)} - topology.byte_maps()
    for o in topology.head:
        if o.kind not in KINDS or not known.issuperset(o.inputs):
            raise InputError(f"layer {o.name}: is after the latent and a {o.kind} of {', '.join(o.inputs)}, expected {', '.join(KINDS)} "
                             f"of {LATENT}, a vector of bits, and of layers after it; cil --replay native takes any network")


def logits(model: FBNN, latent: torch.Tensor) -> torch.Tensor:
    """Integer logits (N, classes) of latents (N, D) in {-1, +1}, by the layers of `model` after the latent."""
    values = {LATENT: (latent, 1)}  # (values without copies, number of copies)
    for o in model.topology.head:
        x, times = values[o.inputs[0]]
        match o.kind:
            case "duplicate":
                y = x, times * o.times
            case "dense":
                layer = model.layers[o.name]
                proxy = layer.proxy.flatten(1)
                if proxy.shape[1] % times:  # a group ends between two copies
                    x, times = x.repeat_interleave(times, 1), 1
                weight = binarize.weight(proxy, times=times)
                parts = [F.linear(a, w) for a, w in zip(x.chunk(o.groups, 1), weight.chunk(o.groups, 0))]
                dot = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
                if not layer.logits:
                    dot = binarize.scaled(binarize.weight(dot, binarize.reach(layer.scale, layer.limit)), layer.scale)
                y = dot, 1
            case _:
                y = moved(o, *(v.repeat_interleave(n, 1) if n > 1 else v for v, n in (values[i] for i in o.inputs))), 1
        values[o.name] = y
    return y[0]
