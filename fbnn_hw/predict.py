"""Integer logits of a network, by torch or by the integer reference; both give the same."""

import numpy as np

from . import bits
from .errors import InputError
from .ir.network import LATENT
from .progress import silent

BATCH = 100


def integer_logits(network, images, backend="reference", latent=False, progress=silent):
    """Classify images in integers.

    Parameters
    ----------
    network : ir.network.Network
    images : uint8 array (N, 3, S, S)
        RGB.
    backend : str
        "torch" or "reference"; both give the same.
    latent : bool
        Return the latents, too.
    progress : callable
        Makes a progress bar, as tqdm does.

    Returns
    -------
    tuple
        Logits, int32 (N, classes), and latents, uint8 bits (N, bits), or None.

    Raises
    ------
    InputError
        A latent is asked of a network that has none.
    """
    if latent and LATENT not in network.topology:
        raise InputError(f"model {network.topology.name}: has no layer named {LATENT}, expected one with --latent")
    batches = [images[i:i + BATCH] for i in range(0, len(images), BATCH)]
    outputs = _by_torch if backend == "torch" else _by_reference
    parts = list(outputs(network, progress(batches, desc=backend), latent))
    return (np.concatenate([logits for logits, _ in parts]).astype(np.int32),
            np.concatenate([bits for _, bits in parts]) if latent else None)


def _by_reference(network, batches, latent):
    from .reference import inference

    last = network.topology.ops[-1].name
    for images in batches:
        if latent:
            layers = inference.layers(network, images)
            yield layers[last], layers[LATENT].reshape(len(images), -1)
        else:
            yield inference.logits(network, images), None


def _by_torch(network, batches, latent):
    import torch

    from .nn.network import load

    model = load(network).eval()
    with torch.no_grad():
        for images in batches:
            features = None
            for op, output in model.activations(model.encode(torch.from_numpy(images))):
                if latent and op.name == LATENT:
                    features = bits.to_bits(output.flatten(1).numpy())
            yield output.flatten(1).numpy(), features
