"""The samples of a learner, in the form that the memorizer stores: levels of images (native), or cached latents."""

import hashlib
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import files
from ..base.errors import InputError
from ..base.progress import silent
from ..data.augment import augment, warp
from ..ir.network import LATENT, Topology
from ..nn import encode, head
from ..nn.network import export
from .config import TrainConfig
from .memorizer import BitCode, LevelCode


class Native:
    """Samples are uint8 levels (N, planes, S, S).  The whole network trains, on augmented levels."""

    batch = 250

    def __init__(self, topology: Topology) -> None:
        self.first = topology[topology.ops[0].name]
        self.planes = self.first.planes
        self.code = LevelCode(self.planes, self.first.size)

    def form(self, images: np.ndarray, model: Any = None, progress: Callable = silent) -> torch.Tensor:
        parts = [encode.levels(torch.from_numpy(images[i:i + 1000]), self.first).to(torch.uint8)
                 for i in range(0, len(images), 1000)]
        return torch.cat(parts) if parts else torch.zeros((0, *self.code.shape), dtype=torch.uint8)

    def augment(self, samples: torch.Tensor, recipe: TrainConfig, generator: torch.Generator,
                mirrored: torch.Tensor | None) -> torch.Tensor:
        """Mirror and shift, exact on levels; contrast of each plane around its mean; a warp rounds to the nearest level.

        recipe: `TrainConfig`.  mirrored: bool (N,), drawn if None.
        """
        if recipe.warp:
            samples = warp(samples, generator, recipe.warp)
        moved = augment(samples, generator, recipe.shift, 0, mirrored).float()
        if not recipe.contrast:
            return moved.to(torch.uint8)
        drawn = torch.rand(len(samples), 1, 1, 1, generator=generator, device=generator.device).to(samples.device)
        factor = 1 - recipe.contrast + 2 * recipe.contrast * drawn
        mean = moved.mean((2, 3), keepdim=True)
        top = torch.tensor(self.planes, device=samples.device)[:, None, None] - 1.0
        return torch.minimum(((moved - mean) * factor + mean).round_().clamp_min_(0), top).to(torch.uint8)

    def logits(self, model: Any, samples: torch.Tensor) -> torch.Tensor:
        return model.run(model.first_map(samples.to(torch.int32))).flatten(1)


class Latents:
    """Samples are uint8 bits (N, latent).  The classifier trains, and the feature extractor is frozen.  Raises as `head.verify`."""

    batch = 5000

    def __init__(self, topology: Topology, cache: Path | None = None) -> None:
        head.verify(topology)
        self.code = BitCode(topology.shapes[LATENT][0])
        self.heads = {o.name for o in topology.head}
        self.cache = cache

    @torch.no_grad()
    def form(self, images: np.ndarray, model: Any, progress: Callable = silent) -> torch.Tensor:
        """Latents of RGB images, computed once: `cache` is a folder of earlier ones, or None.

        Where the folder cannot be written, the latents are computed again by the next run.
        """
        path = self.cache and self.cache / f"{self._key(images, model)}.latents"
        if path and (packed := self._cached(path, len(images))) is not None:
            return torch.from_numpy(np.unpackbits(packed, axis=1, count=self.code.bits, bitorder="little"))
        device = next(model.parameters()).device
        latents = torch.cat([(model.latent(torch.from_numpy(images[i:i + 250]).to(device)) > 0).to(torch.uint8).cpu()
                             for i in progress(range(0, len(images), 250), desc="latents")])
        if path:
            packed = np.packbits(latents.numpy(), axis=1, bitorder="little").tobytes()
            with suppress(InputError):
                files.write(path, hashlib.sha256(packed).digest() + packed)
        return latents

    def _cached(self, path, count):
        """Read packed latents from a file of the cache; None where it is missing or damaged."""
        width, digest = -(-self.code.bits // 8), hashlib.sha256()
        try:
            data = files.read(path, digest.digest_size + count * width, "packed latents")
        except InputError:
            return None
        packed = data[digest.digest_size:]
        digest.update(packed)
        whole = len(packed) == count * width and data[:digest.digest_size] == digest.digest()
        return np.frombuffer(packed, np.uint8).reshape(count, width) if whole else None

    def _key(self, images, model):
        """Return the name of the cached latents: a digest of the feature extractor and of the images."""
        network = export(model)
        digest = hashlib.sha256(json.dumps([o.to_dict() for o in model.topology.ops if o.name not in self.heads]).encode())
        for name, weights in network.weights.items():
            if name not in self.heads:
                digest.update(np.packbits(weights).tobytes())
        for name, thresholds in network.thresholds.items():
            digest.update(f"{name} {thresholds.tolist()}".encode())
        digest.update(f"{images.shape} {zlib.crc32(np.ascontiguousarray(images))}".encode())
        return digest.hexdigest()[:32]

    def augment(self, samples: torch.Tensor, recipe: TrainConfig, generator: torch.Generator,
                mirrored: torch.Tensor | None) -> torch.Tensor:
        return samples

    def logits(self, model: Any, samples: torch.Tensor) -> torch.Tensor:
        return head.logits(model, samples.float() * 2 - 1)
