"""The start of a run: a topology, proxies and batch norm, from a checkpoint, a training state, or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..base import bits, files
from ..base.errors import InputError
from ..ir import checkpoint
from ..ir.network import LATENT, Topology
from ..ir.plain import plain_tree
from ..nn.network import FBNN, export
from . import offline


@dataclass(frozen=True)
class Start:
    """What a run begins with."""

    topology: Topology
    proxies: dict  # {layer name: float tensor}; empty for a random start
    training: dict  # the training record of the checkpoint
    source: str = "random weights"  # where it comes from, in words
    sha256: str = ""  # of the file, or ""
    thresholds: dict = field(default_factory=dict)  # {op name: integer array}, as in `ir.network.Network`
    best: dict | None = None  # state dict of a network with batch norm that has these bits and thresholds, or None
    note: str = ""  # what a user is told where the proxies are no more than the bits of a file; else ""

    def describe(self) -> dict[str, Any]:
        """Return what a run that goes on from this start records of it.  Raises InputError where no checkpoint could hold it."""
        record = {"source": self.source, "sha256": self.sha256, "training": self.training}
        try:
            plain_tree({"training": {"init": record}}, "")
        except InputError as error:
            raise InputError(f"{self.source}: {error}; a file of the same weights without its training record has room") from None
        return record

    def verify_classifier(self) -> None:
        """Raises InputError where layers after the latent, which are to learn, have thresholds."""
        if fixed := sorted(self.thresholds.keys() & set(classifier(self.topology))):
            raise InputError(f"{self.source}: has thresholds in {', '.join(fixed)}, which do not train; expected none after the latent")


def read(path: str | Path) -> Start:
    """The `Start` of a checkpoint.

    A training state of the same name and the same bits may lie beside it (.state).  Then the proxies
    are the best ones of that state, with their batch norm.  Else they are the bits times a constant.
    Raises InputError where the file is no checkpoint, or has no latent.
    """
    path = Path(path)
    network = checkpoint.read(path)
    if not network.topology.head:
        raise InputError(f"{path}: has no layer named {LATENT} before its last, expected a feature extractor that ends in one")
    proxies = {}
    model = FBNN(network.topology)
    for name, layer in model.layers.items():
        values = torch.from_numpy(bits.from_bits(network.weights[name])).reshape(layer.proxy.shape)
        proxies[name] = values * layer.typical
    state = path.with_suffix(".state")
    source, best, note = "bits", _best(state, network), f"{path.name}: no training state with its bits in {state}; starts from the bits"
    if best is not None:
        proxies, source, note = {name: best[f"layers.{name}.proxy"] for name in proxies}, "proxies", ""
    digest = files.sha256_of(path)
    normed = best if best and any(".norm." in key for key in best) else None
    return Start(network.topology, proxies, network.training, f"{path.name} ({source})", digest, network.thresholds, normed, note)


def _best(path, network):
    """Return the model's state dict at the best epoch of the training state `path`.

    None where the file is missing, is something else, or has other bits or thresholds than `network`.
    """
    if not path.is_file():
        return None
    try:
        best = offline.read(path)["best"]
        model = FBNN(network.topology, norm="bn" if any(".norm." in key for key in best) else "scales")
        model.load_state_dict(best)
        same = export(model)
    except Exception:  # a file can be wrong in any way
        return None
    equal = all((same.weights[name] == bits).all() for name, bits in network.weights.items()) and same.thresholds.keys() == \
        network.thresholds.keys() and all((same.thresholds[name] == values).all() for name, values in network.thresholds.items())
    return best if equal else None


def with_classes(topology: Topology, classes: Sequence[str]) -> Topology:
    """The topology with other classes, and as many logits."""
    last: Any = topology.ops[-1]
    return Topology(topology.name, (*topology.ops[:-1], replace(last, out_channels=len(classes))), tuple(classes))


def classifier(topology: Topology) -> list[str]:
    """Names of the layers with weights after the latent: they are what latent replay trains."""
    weighted = topology.weight_shapes()
    return [o.name for o in topology.head if o.name in weighted]


def further(start: Start, topology: Topology, seed: int, options: dict[str, Any]) -> FBNN:
    """Make an FBNN of `topology` that goes on from `start`.  Raises InputError where layers or classes differ.

    With options["norm"] "bn" the network has batch norm, as `make` says.  With "scales", scales take the
    place of the batch norm of `start` (`to_scales`).  Thresholds without batch norm are then refused,
    because nothing would train them.
    """
    if (start.topology.ops, start.topology.classes) != (topology.ops, topology.classes):
        raise InputError(f"--init {start.source}: not {topology.name} with the {len(topology.classes)} classes "
                         f"{', '.join(topology.classes[:3])}..., expected the same layers and classes")
    normed = options.get("norm") == "bn"
    if start.thresholds and start.best is None and not normed:
        raise InputError(f"--init {start.source}: has thresholds in {', '.join(start.thresholds)}, and no state with their batch norm; "
                         f"expected --norm bn")
    start = replace(start, topology=topology)
    if start.best is None or normed:
        return make(start, topology.classes, True, seed, options)
    return to_scales(make(start, topology.classes, True, seed, {**options, "norm": "bn"}))


def make(start: Start, classes: Sequence[str], retained: bool, seed: int, options: dict[str, Any]) -> FBNN:
    """Make an FBNN for `classes` with the weights of `start`.

    retained: keep the classifier, whose first rows are those of the pre-training's classes (RPT); else it
    is random (FPT).  options: as of `FBNN`.  With batch norm that of `start` goes on; where it has none,
    the first batch turns its thresholds into offsets.  Without batch norm the thresholds stay.
    """
    topology = with_classes(start.topology, classes)
    torch.manual_seed(seed)
    model = FBNN(topology, **options)
    heads = set(classifier(topology))
    with torch.no_grad():
        for name, proxy in start.proxies.items():
            if name not in heads:
                model.layers[name].proxy.copy_(proxy)
            elif retained:
                rows = min(len(proxy), len(model.layers[name].proxy))
                model.layers[name].proxy[:rows] = proxy[:rows]
        model.fix(start.thresholds)
    for name, norm in model.norms().items():
        if start.best is not None:
            norm.load_state_dict({key: start.best[f"layers.{name}.norm.{key}"] for key in norm.state_dict()})
        elif start.proxies:
            norm.target = torch.as_tensor(start.thresholds.get(name, 0), dtype=torch.float32).expand_as(norm.mean)
    return model


@torch.no_grad()
def to_scales(model: FBNN) -> FBNN:
    """FBNN without batch norm that starts where `model`, which has it, ended: the last of the paper's stages (section `bg`).

    It has the proxies, and in each normalised layer the median of 1 / sigma as the scale.  Offsets and means are discarded.
    """
    plain = FBNN(model.topology, K=model.K, limit=model.limit)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".norm." not in k})
    plain.alpha = model.alpha
    for name, norm in model.norms().items():
        plain.layers[name].scale = max(norm.variance.rsqrt().median().item(), 1e-6)
    return plain
