"""A buffer of one's own: of each class it keeps the samples nearest to the class's mean, where `Memorizer` draws them.

    python docs/examples/own_buffer.py

`MyReplay` of docs/strategies.md takes it where it makes its `Memorizer`, for latents and for images.  Run as a program it fills both
buffers with latents of the package's pictures, and asks how well the means of what was kept know the others.
"""

import numpy as np

import fbnn_hw
from fbnn_hw.data import datasets
from fbnn_hw.reference import inference
from fbnn_hw.train.memorizer import BitCode, Memorizer


class NearMean(Memorizer):
    """`self.rng` is for what you draw; a field of yours goes into `state` and `restore`."""

    def update(self, samples, labels):
        kept, kept_labels = self.samples()
        samples, labels = np.concatenate([kept, samples]), np.concatenate([kept_labels, labels])
        classes = np.unique(labels)
        places = []
        for c in classes:
            own = np.flatnonzero(labels == c)
            far = (samples[own] - samples[own].mean(0)) ** 2
            places.append(own[far.reshape(len(own), -1).sum(1).argsort(kind="stable")][:self.slots // len(classes)])
        places = np.concatenate(places)
        self.packed = np.packbits(self.code.to_bits(samples[places]), axis=1, bitorder="little")
        self.labels = labels[places]


def right(buffer, latents, labels):
    """How many latents lie nearest to the mean of their own class in the buffer."""
    kept, of = buffer.samples()
    means = np.stack([kept[of == c].mean(0) for c in np.unique(of)])
    nearest = ((latents[:, None] - means) ** 2).sum(2).argmin(1)
    return (nearest == labels).sum()


if __name__ == "__main__":
    pictures = datasets.load("fixture")
    latents = inference.latents(fbnn_hw.load("0.5mb.pt"), pictures.images)
    asked = np.arange(len(pictures.labels)) % 3 == 2
    for made in (Memorizer, NearMean):
        buffer = made(50 * 1024, BitCode(1024))
        for c in range(0, 10, 2):  # two classes a task
            task = ~asked & (pictures.labels // 2 == c // 2)
            buffer.update(latents[task], pictures.labels[task])
        found = right(buffer, latents[asked], pictures.labels[asked])
        print(f"{made.__name__}: {len(buffer)} latents kept, {found} of {asked.sum()} right")
