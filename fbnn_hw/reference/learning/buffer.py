"""The replay buffer: slots of a latent and a label, filled in order, then always full, with equal shares of the classes."""

from ...base import bits

EMPTY = -1
"""Label of a slot that was never filled.  The hardware has none: it never reads such a slot."""


class ReplayBuffer:
    """Exemplars in the first `used` slots.  The other slots are never read.

    labels: class of each slot.  samples: latent of each slot, an integer.  counts: exemplars of each class.
    pick: the `Lfsr` that draws.
    """

    def __init__(self, slots, latent, max_classes, pick):
        self.slots, self.latent, self.pick = slots, latent, pick
        self.index_bits = max(1, (slots - 1).bit_length())
        self.counts = [0] * max_classes
        self.clear()

    def clear(self):
        self.used = 0
        self.labels = [EMPTY] * 2 ** self.index_bits
        self.counts = [0] * len(self.counts)
        self.samples = [0] * self.slots

    @property
    def latents(self):
        """Latents of the used slots, uint8 bits (used, latent)."""
        return bits.from_integers(self.samples[:self.used], self.latent)

    def restore(self, labels, latents):
        self.clear()
        self.used = len(labels)
        self.labels[:self.used] = labels
        for label in labels:
            self.counts[label] += 1
        self.samples[:self.used] = bits.to_integers(latents)

    def remove(self, label):
        """Take the exemplars of a class out; the others move down and keep their order."""
        keep = [slot for slot in range(self.used) if self.labels[slot] != label]
        labels, samples = ([values[slot] for slot in keep] for values in (self.labels, self.samples))
        self.clear()
        self.used = len(keep)
        self.labels[:self.used], self.samples[:self.used] = labels, samples
        for kept in labels:
            self.counts[kept] += 1

    def draw(self, label):
        """A random slot of class `label`: draws words until one fits.  The class must have an exemplar."""
        labels = self.labels
        while True:
            for slot in self.pick.words(self.index_bits):
                if labels[slot] == label:
                    return slot

    def draw_any(self):
        """A random used slot: draws words until one fits.  There must be an exemplar."""
        while True:
            slot = self.pick.word(self.index_bits)
            if slot < self.used:
                return slot

    def store(self, sample, label):
        """Put a sample into the next free slot, or in the place of a random one of the fullest class.

        The fullest class is `label` itself where it is among the fullest, else the lowest of them.
        """
        if self.used < self.slots:
            slot = self.used
            self.used += 1
        else:
            most = max(self.counts)
            fullest = label if self.counts[label] == most else self.counts.index(most)
            slot = self.draw(fullest)
            self.counts[fullest] -= 1
        self.labels[slot] = label
        self.counts[label] += 1
        self.samples[slot] = sample
        return slot
