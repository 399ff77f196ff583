"""A strategy of one's own for `cil`: of each class it keeps one latent.  Run as a program it learns the package's pictures.

    python docs/examples/own_strategy.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from fbnn_hw.data import datasets
from fbnn_hw.train.learner import Learner
from fbnn_hw.train.scenarios import Scenario


class Medoid(Learner):
    """Of each class the sample with the least Hamming distance to its own class; the answer is the class of the nearest sample."""

    def __init__(self, problem):
        super().__init__(problem)
        self.kept = np.zeros((problem.classes, problem.latent), np.uint8)
        self.seen = 0

    def learn(self, latents, labels):
        for c in np.unique(labels):
            own = latents[labels == c]
            self.kept[c] = own[(own @ (own.mean(0) - 0.5)).argmax()]
        self.seen = max(self.seen, int(labels.max()) + 1)

    def scores(self, latents):
        return -np.stack([(latents != kept).sum(1) for kept in self.kept[:self.seen]], 1)

    @property
    def memory_bits(self):
        return self.kept.size


def read(dataset, places, split):
    """Two thirds of the 300 pictures in the package for training, the others for the test."""
    pictures = datasets.load("fixture")
    chosen = (np.arange(len(pictures.labels)) % 3 == 2) == (split == "test")
    return datasets.Images(pictures.images[chosen], pictures.labels[chosen], pictures.classes, pictures.source)


datasets.DATASETS["thirds"] = datasets.Dataset("thirds", size=32, classes=10, archive=None, read=read)
THIRDS = Scenario("thirds", data="thirds", pretrain_data="thirds", base=4, tasks=3, per_task=2)

if __name__ == "__main__":
    here = Path(__file__)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "fbnn_hw", "cil", "--scenario", f"{here.stem}:THIRDS", "--init", "0.5mb-fe4.pt",
                        "--strategy", f"{here.stem}:Medoid", "--out", f"{folder}/medoid.json"],
                       env=os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path[1:]])}, check=True)
