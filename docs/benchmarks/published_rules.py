"""Published rules of binary learning in the study of docs/results/learner.md, each with the chip's buffer, samples and replays.

    python docs/benchmarks/published_rules.py [--data-dir DIR] [--seeds 5] [--only TEXT]

Counters of 8 bits behind every weight, the extractor 0.5mb-fe4.pt, 1000 samples of each class, one thread.
"""

import argparse
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np

from fbnn_hw.base import bits
from fbnn_hw.ir.shipped import resolve
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.reference.learning.rules import Metaplastic, metaplastic_table
from fbnn_hw.train.chip_study import Study, StudyOptions
from fbnn_hw.train.metrics import mean_and_deviation
from fbnn_hw.train.scenarios import SCENARIOS

HEAD = Head(1024)


class Prototypes(Learner):
    """Layers of binary neurons below a fixed binary classifier; counters of `counter_bits` behind every weight move by one for a sample
    whose score does not lead the best other one by `margin` times the neurons of the layer it is read from.

    neurons: of each layer.  group: of the neurons of a group that are on the wrong side of their target, the one nearest to the right side
    learns.  reinforcement: then each counter moves away from zero with this probability times sqrt(2 / (pi fan_in)).

    chain False: every layer has a classifier of its own and takes its row as target.  Colombo, Pittorino and Roveri 2025, "Training
    multi-layer binary neural networks with random local binary error signals", arXiv 2412.00119.

    chain True: the last layer alone has one; a layer below takes as target sign(W^T (gate * target)) of the layer above, where the gate is
    1 for neurons with |dot| <= `gate` fan_in.  Colombo et al. 2025, "BEP: a binary error propagation algorithm for binary neural networks
    training", arXiv 2512.04189.

    The reinforcement is Baldassi's, J. Stat. Phys. 136 (2009) 902.  Samples come one by one, where the papers sum over batches.
    """

    def __init__(self, config, neurons, seed, chain=False, margin=0.25, group=16, reinforcement=0.0, gate=0.05):
        super().__init__(HEAD, config)
        rng = self.rng = np.random.default_rng(seed)
        self.chain, self.margin, self.group, self.reinforcement, self.gate = chain, margin, group, reinforcement, gate
        fans = (HEAD.latent, *neurons[:-1])
        self.hidden = [rng.choice(np.array([-0.5, 0.5], np.float32), (n, fan)) for n, fan in zip(neurons, fans)]
        self.weights = [np.sign(h) for h in self.hidden]
        self.classifiers = [rng.choice(np.array([-1, 1], np.float32), (config.max_classes, n)) for n in neurons]
        counted = sum(h.size for h in self.hidden) * config.counter_bits
        fixed = sum(p.size for p in (self.classifiers[-1:] if chain else self.classifiers))
        self.memory_bits = config.ledger(HEAD)["total_bits"] - config.ledger(HEAD)["output_counter_bits"] + counted + fixed

    def logits(self, latents):
        x = bits.from_bits(latents, np.float32)
        for w in self.weights:
            x = np.where(x @ w.T >= 0, np.float32(1), np.float32(-1))
        return (x @ self.classifiers[-1][:self.known].T).astype(np.int32)

    def _present(self, x, label):
        inputs, dots = [bits.from_bits(bits.from_integers([x], HEAD.latent)[0], np.float32)], []
        for w in self.weights:
            dots.append(w @ inputs[-1])
            inputs.append(np.where(dots[-1] >= 0, np.float32(1), np.float32(-1)))
        self.presented[label] += 1  # what `least` picks by
        targets = [None] * len(dots)
        for n in reversed(range(len(dots))):
            if self.chain and n < len(dots) - 1:
                above = targets[n + 1]
                if above is not None:
                    open_ = np.abs(dots[n + 1]) <= self.gate * len(inputs[n + 1])
                    targets[n] = np.where((above * open_) @ self.weights[n + 1] >= 0, np.float32(1), np.float32(-1))
                continue
            scores = self.classifiers[n][:self.known] @ inputs[n + 1]
            others = np.delete(scores, label)
            if len(others) and scores[label] - others.max() < self.margin * len(dots[n]):
                targets[n] = self.classifiers[n][label]
        for n, target in enumerate(targets):
            if target is not None:
                self._update(n, inputs[n], dots[n], target)
        self.updates += any(t is not None for t in targets)

    def _update(self, n, x, dots, target):
        wrong = (dots >= 0) != (target > 0)
        far = np.where(wrong, np.abs(dots), np.inf).reshape(-1, self.group)
        rows = far.argmin(1) + np.arange(len(far)) * self.group
        rows = rows[wrong[rows]]
        hidden, high = self.hidden[n], 2 ** (self.config.counter_bits - 1) - 0.5
        hidden[rows] = np.clip(hidden[rows] + target[rows, None] * x, -high, high)
        self.weights[n][rows] = np.sign(hidden[rows])
        if self.reinforcement:
            flat = hidden.reshape(-1)
            chosen = self.rng.integers(0, flat.size, self.rng.binomial(
                flat.size, self.reinforcement * math.sqrt(2 / (math.pi * hidden.shape[1]))))
            flat[chosen] = np.clip(flat[chosen] + np.sign(flat[chosen]), -high, high)


def metaplastic(n):
    """The reference's rule of that name for m = 1/n; its own m is 1/64."""
    return Metaplastic(metaplastic_table(8, Decimal(128) / n))


def own(rule=None, **options):
    """The chip's learner, with another rule if one is given."""
    def make(config, seed):
        learner = Learner(HEAD, replace(config, **options))
        if rule:
            learner.rule = rule
        learner.memory_bits = learner.config.ledger(HEAD)["total_bits"]
        return learner
    return make


def prototypes(*neurons, **options):
    return lambda config, seed: Prototypes(config, neurons, seed, **options)


VARIANTS = {
    "gumbel": own(),
    **{f"metaplastic steps, m = 1/{n}": own(metaplastic(n)) for n in (64, 32, 128)},
    **{f"local errors, {n} neurons": prototypes(n) for n in (128, 512)},
    "local errors, 128 and 128 neurons": prototypes(128, 128),
    "local errors, 128 neurons, groups of 4": prototypes(128, group=4),
    "local errors, 128 neurons, margin 0.5": prototypes(128, margin=0.5),
    "local errors, 128 neurons, reinforcement 0.5": prototypes(128, reinforcement=0.5),
    "error propagation, 128 and 128 neurons, gate 0.2": prototypes(128, 128, chain=True, gate=0.2),
    "error propagation, 128 and 128 neurons, gate 0.05": prototypes(128, 128, chain=True, gate=0.05),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--samples", type=int, default=1000, help="of each class")
    parser.add_argument("--only", default="", help="variants with one of these texts, A;B;..., in their name")
    parser.add_argument("--validate", action="store_true", help="as chip-cil --validate")
    args = parser.parse_args()
    study = Study(SCENARIOS["cifar10-4+3x2"], resolve("0.5mb-fe4.pt"), LearnConfig(10, 1000), HEAD,
                  StudyOptions(args.data_dir, args.samples, validate=args.validate, detail=lambda line: None))
    print("| rule | a_final % | d_final | memory Mb | updates a sample |\n" + "|---" * 5 + "|")
    for name, make in VARIANTS.items():
        if not any(part in name for part in args.only.split(";")):
            continue
        a, d, updates = [], [], 0
        for seed in range(args.first, args.first + args.seeds):
            streams = study.streams(seed)
            learner = make(LearnConfig(10, 1000, replays=4, thinning=0, seed=seed + 1), seed)
            final = study.learn(name, learner, streams)["tasks"][-1]["final"]
            a.append(final["a"])
            d.append(final["d"])
            updates += learner.updates / sum(len(labels) for _, labels in streams)
        (a_mean, a_deviation), (d_mean, d_deviation) = mean_and_deviation(a), mean_and_deviation(d)
        row = (name, f"{100 * a_mean:.1f} +- {100 * (a_deviation or 0):.1f}", f"{d_mean:.2f} +- {d_deviation or 0:.2f}",
               f"{learner.memory_bits / 1e6:.2f}", f"{updates / args.seeds:.1f}")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
