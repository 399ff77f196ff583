"""Replay of pseudo-exemplars, drawn from counters, beside replay of stored ones in as many bits (docs/results/learner.md).

    python docs/benchmarks/pseudo_exemplars.py [--data-dir DIR] [--seeds 5]

The extractor 0.5mb-fe4.pt, 1000 samples of each class, the chip's learner with its default rule and replays, one thread.
"""

import argparse

import numpy as np

from fbnn_hw.base import bits
from fbnn_hw.ir.shipped import resolve
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.train.chip_study import Study, StudyOptions
from fbnn_hw.train.metrics import mean_and_deviation
from fbnn_hw.train.scenarios import SCENARIOS

HEAD, CLASSES = Head(1024), 10
MEMORIES = {4: ((4, 1),), 8: ((8, 1), (4, 2)), 16: ((8, 2), (4, 4)), 32: ((8, 4), (4, 8))}
"""{exemplars of a class: ((bits of a counter, sets of counters of a class), ...) of as many bits, without labels}."""


class Tables:
    """Sets of counters in place of a buffer: generative memories of each class, after the sum of inputs that a binary memory keeps.

    A counter c of B bits stands for the probability (c + 1/2) / 2^B of a 1.  A 1 moves it up with the probability of a 0, and a 0 moves it
    down with that of a 1, so it comes to rest where the share of ones is.  A sample goes into the set that it fits best; the first ones
    begin a set each.
    """

    def __init__(self, width, sets, seed):
        self.width, self.sets, self.rng = width, sets, np.random.default_rng(seed)
        self.clear()

    def clear(self):
        self.counters = np.zeros((CLASSES, self.sets, HEAD.latent), np.int16)
        self.counts = [0] * CLASSES

    def _words(self):
        return self.rng.integers(0, 2 ** self.width, HEAD.latent)

    def store(self, sample, label):
        x = bits.from_integers([sample], HEAD.latent)[0].astype(bool)
        self.counts[label] += 1
        if self.counts[label] <= self.sets:
            quarter = 2 ** self.width // 4
            self.counters[label, self.counts[label] - 1] = np.where(x, 3 * quarter, quarter)
            return
        counters = self.counters[label]
        fits = np.where(x, counters, 2 ** self.width - 1 - counters).sum(1, dtype=np.int64)
        row, words = counters[fits.argmax()], self._words()
        row += x & (words > row)
        row -= ~x & (words < row)

    def draw(self, label):
        row = self.counters[label, self.rng.integers(min(self.counts[label], self.sets))]
        return bits.to_integers((self._words() <= row)[None])[0]


class PseudoLearner(Learner):
    """The chip's learner, which draws what it replays."""

    def __init__(self, config, width, sets):
        super().__init__(HEAD, config)
        self.buffer = Tables(width, sets, config.seed)

    def _replay(self):
        classes = [c for c in range(self.known) if self.buffer.counts[c]]
        if classes:
            label = min(classes, key=self.presented.__getitem__)
            self._present(self.buffer.draw(label), label)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1000, help="of each class")
    args = parser.parse_args()
    study = Study(SCENARIOS["cifar10-4+3x2"], resolve("0.5mb-fe4.pt"), LearnConfig(CLASSES, 1), HEAD,
                  StudyOptions(args.data_dir, args.samples, detail=lambda line: None))
    print("| bits of a class | what is replayed | a_final % | d_final |\n" + "|---" * 4 + "|")
    for exemplars, tables in MEMORIES.items():
        for table in (None, *tables):
            scores = {"a": [], "d": []}
            for seed in range(args.seeds):
                config = LearnConfig(CLASSES, 1 if table else CLASSES * exemplars, seed=seed + 1)
                learner = PseudoLearner(config, *table) if table else Learner(HEAD, config)
                learner.memory_bits = 0
                streams = study.streams(seed)
                final = study.learn("chip", learner, streams)["tasks"][-1]["final"]
                for key, values in scores.items():
                    values.append(final[key])
            (a, a_deviation), (d, d_deviation) = (mean_and_deviation(values) for values in scores.values())
            what = f"drawn, {table[1]} x {table[0]} bits" if table else f"stored, {exemplars}"
            cells = f"{100 * a:.1f} +- {100 * (a_deviation or 0):.1f} | {d:.2f} +- {d_deviation or 0:.2f}"
            print(f"| {exemplars * HEAD.latent:,} | {what} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
