"""Where a class-incremental run starts: a topology and proxies, from a checkpoint, a training state, or nothing."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from .. import bits
from ..errors import InputError
from ..ir import checkpoint
from ..ir.network import LATENT, Topology
from ..nn.network import FBNN
from .offline import STATE_FORMAT


@dataclass(frozen=True)
class Start:
    """proxies: {layer name: float tensor}, empty for a random start.  training: the record of the checkpoint.  sha256: of the file."""

    topology: Topology
    proxies: dict
    training: dict
    source: str = "random weights"
    sha256: str = ""

    def describe(self):
        """For the record of a run that goes on from here."""
        return {"source": self.source, "sha256": self.sha256, "training": self.training}


def read(path):
    """`Start` of a checkpoint.  The proxies are its bits times a constant, unless a training state of the same bits lies beside it
    (same name, .state): then they are that state's best ones."""
    path = Path(path)
    network = checkpoint.read(path)
    if LATENT not in network.topology:
        raise InputError(f"{path}: has no layer named {LATENT}, expected a feature extractor that ends in one")
    if network.thresholds:
        raise InputError(f"{path}: has thresholds in {', '.join(network.thresholds)}, expected a network without; thresholds do not train")
    proxies = {}
    model = FBNN(network.topology)
    for name, layer in model.layers.items():
        values = torch.from_numpy(bits.from_bits(network.weights[name])).reshape(layer.proxy.shape)
        proxies[name] = values * (6 / (layer.fan_in + layer.proxy.shape[0])) ** 0.5 / 2  # half of Xavier's bound: its mean size
    source = "bits"
    kept = _state_proxies(path.with_suffix(".state"))
    if kept and kept.keys() == proxies.keys() and all(
            kept[n].shape == p.shape and torch.equal(kept[n] >= 0, p >= 0) for n, p in proxies.items()):
        proxies, source = kept, "proxies"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Start(network.topology, proxies, network.training, f"{path.name} ({source})", digest)


def _state_proxies(path):
    """{layer: proxy} of the best epoch of a training state, or None where there is no such file or it is something else."""
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        if state["format"] != STATE_FORMAT or not state["best"]:
            return None
        return {key.split(".")[1]: value for key, value in state["best"].items() if key.endswith(".proxy") and key.startswith("layers.")}
    except Exception:  # a file can be wrong in any way
        return None


def with_classes(topology, classes):
    """The topology with other classes, and as many logits."""
    *rest, last = topology.ops
    return Topology(topology.name, (*rest, replace(last, out_channels=len(classes))), tuple(classes))


def classifier(topology):
    """Names of the layers with weights after the latent: they are what latent replay trains."""
    names = [o.name for o in topology.ops]
    after = set(names[names.index(LATENT) + 1:])
    return [name for name in topology.weight_shapes() if name in after]


def further(start, topology, seed, options):
    """FBNN of `topology` that goes on from `start`; raises InputError where layers or classes differ."""
    if (start.topology.ops, start.topology.classes) != (topology.ops, topology.classes):
        raise InputError(f"--init {start.source}: not {topology.name} with the {len(topology.classes)} classes "
                         f"{', '.join(topology.classes[:3])}..., expected the same layers and classes")
    return make(start, topology.classes, True, seed, options)


def make(start, classes, retained, seed, options):
    """FBNN for `classes` with the weights of `start`.

    retained: keep the classifier, its first rows being those of the pre-training's classes (RPT); otherwise it is random (FPT).
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
    return model
