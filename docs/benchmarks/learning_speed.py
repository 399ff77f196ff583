"""Presentations and updates of the reference learner per second of CPU time, one thread, as JSON.

    OPENBLAS_NUM_THREADS=1 python docs/benchmarks/learning_speed.py

One dense layer of 1024 bits, 10 classes, 1000 exemplars, the default's replays;
samples are their class's pattern with 42 % of the bits flipped.
"""

import json
import time

import numpy as np

from fbnn_hw.reference.learning import Head, LearnConfig, Learner

CLASSES, LATENT, SAMPLES, FLIPPED = 10, 1024, 3000, 0.42


def measure(rule):
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, 2 * SAMPLES)])
    patterns = rng.integers(0, 2, (CLASSES, LATENT), np.uint8)
    latents = patterns[labels] ^ (rng.random((len(labels), LATENT)) < FLIPPED)
    learner = Learner(Head(LATENT), LearnConfig(CLASSES, 1000, rule=rule))
    learner.learn(latents[:SAMPLES], labels[:SAMPLES])
    presentations, updates, start = learner.presentations, learner.updates, time.process_time()
    learner.learn(latents[SAMPLES:], labels[SAMPLES:])
    seconds = time.process_time() - start
    return {"rule": rule, "presentations_per_second": round((learner.presentations - presentations) / seconds),
            "updates_per_second": round((learner.updates - updates) / seconds)}


if __name__ == "__main__":
    for rule in ("gumbel", "margin"):
        print(json.dumps(measure(rule)), flush=True)
