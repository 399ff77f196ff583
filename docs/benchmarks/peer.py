"""Latent replay here beside experience replay in Avalanche (https://avalanche.continualai.org), for docs/cil.md, as Markdown.

    python -m pip install -e '.[peer]'
    python docs/benchmarks/peer.py FE.pt [--scenario NAME] [--data-dir DIR] [--images N] [--buffer-mb X] [--epochs N] [--seeds N]

Both learn the same latents with the same classifier from the same weights: Adam, cosine rate, batch 64, cross-entropy of the classes seen
so far, no validation split, the same number of exemplars.  Three rows, for what they differ in is how a batch is made:

- here: batches of 64 from the new task and the buffer together;
- Avalanche, its batches: `Naive` with `ReplayPlugin` and `ClassBalancedBuffer`, which puts 64 exemplars beside 64 new samples;
- Avalanche, our batches: its buffer and training loop, batches of 64 from the two together.
"""

import argparse
import warnings

import numpy as np
import torch
from torch.utils.data import DataLoader

from fbnn_hw.base import files
from fbnn_hw.data import datasets
from fbnn_hw.nn import head
from fbnn_hw.train import metrics, scenarios, start
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.incremental import Incremental

METRICS = ("a_old", "a_new", "a_final", "d_final")


def here(learner):
    """Metrics after the last task, and samples of each class in the buffer."""
    final = learner.run()["final"]
    return {name: final[name] for name in METRICS}, np.bincount(learner.memory.labels).tolist()


def avalanche(learner, joint):
    """The same of Avalanche on the samples of `learner`, an `Incremental` that has not run.  joint: our batches."""
    from avalanche.benchmarks.scenarios.supervised import class_incremental_benchmark
    from avalanche.benchmarks.utils import concat_datasets
    from avalanche.benchmarks.utils.classification_dataset import _make_taskaware_tensor_classification_dataset as dataset
    from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin, SupervisedPlugin
    from avalanche.training.storage_policy import ClassBalancedBuffer
    from avalanche.training.supervised import Naive

    recipe, tasks = learner.recipe, learner.tasks

    class Classifier(torch.nn.Module):
        """Float logits of the classes seen so far."""

        def __init__(self):
            super().__init__()
            self.network, self.seen = learner.model, 0

        def forward(self, latent):
            return head.logits(self.network, latent)[:, :self.seen] * learner.alpha(self.seen)

    class Protocol(SupervisedPlugin):
        """Classes seen, batches if joint, a new Adam and its cosine rate, as `Incremental` does at each task."""

        def before_training_exp(self, strategy, **kwargs):
            model.seen = learner.seen(strategy.experience.current_experience)
            if joint:
                both = concat_datasets([strategy.adapted_dataset, replay.storage_policy.buffer])
                strategy.dataloader = DataLoader(both, recipe.batch, shuffle=True, collate_fn=both.collate_fn)
            strategy.optimizer = torch.optim.Adam(trained, recipe.lr)
            self.rate = torch.optim.lr_scheduler.CosineAnnealingLR(strategy.optimizer, recipe.epochs * len(strategy.dataloader))

        def after_training_iteration(self, strategy, **kwargs):
            self.rate.step()

    def samples(bits, labels):
        return dataset(bits.float() * 2 - 1, torch.as_tensor(labels), targets=labels.tolist())

    torch.manual_seed(recipe.seed)
    model, trained = Classifier(), learner.trainable()
    order = [c for task in tasks for c in task]
    streams = class_incremental_benchmark({
        "train": samples(learner.train_samples, learner.train_labels), "test": samples(learner.test_samples, learner.test_labels)},
        class_order=order, num_classes_per_exp=[len(task) for task in tasks])
    replay = ReplayPlugin(learner.memory.slots, storage_policy=ClassBalancedBuffer(learner.memory.slots))
    strategy = Naive(model=model, optimizer=torch.optim.Adam(trained, recipe.lr), train_mb_size=recipe.batch, train_epochs=recipe.epochs,
                     plugins=[replay, Protocol()], evaluator=EvaluationPlugin(loggers=[]))
    for experience in streams.train_stream:
        strategy.train(experience)
    last = len(tasks) - 1
    scores = metrics.evaluate(learner.confusion(learner.test_samples, learner.test_labels, last), tasks, last)
    kept = np.bincount([int(y) for y in replay.storage_policy.buffer.targets])
    return {name: scores[name[2:]][name[0]] for name in METRICS}, kept.tolist()


ROWS = {"here": here, "Avalanche, its batches": lambda learner: avalanche(learner, False),
        "Avalanche, our batches": lambda learner: avalanche(learner, True)}


def compare(make, seeds):
    """{row: ([metrics of each seed], exemplars of each class)}; make(seed) -> a fresh `Incremental`."""
    found = {}
    for name, learn in ROWS.items():
        runs = [learn(make(seed)) for seed in range(seeds)]
        found[name] = [scores for scores, _ in runs], runs[-1][1]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("init", metavar="FE.pt")
    parser.add_argument("--scenario", default="cifar10-4+3x2")
    parser.add_argument("--data-dir")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--buffer-mb", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    origin = start.read(args.init)
    data = scenarios.get(args.scenario).data
    train, test = (datasets.load(data, args.data_dir, split) for split in ("train", "test"))
    train = train.thinned(args.images)

    def make(seed):
        recipe = TrainConfig(epochs=args.epochs, lr=1e-3, schedule="cosine", patience=0, validation=0.0, c=1.0, seed=seed)
        return Incremental(CilConfig(args.scenario, buffer_mb=args.buffer_mb, recipe=recipe), train, test, origin,
                           cache=files.cache_folder() / "latents")

    print(f"| | {' | '.join(METRICS)} | exemplars of each class |\n|---|{'---|' * (len(METRICS) + 1)}")
    for name, (runs, kept) in compare(make, args.seeds).items():
        cells = []
        for metric in METRICS:
            mean, deviation = metrics.mean_and_deviation([run[metric] for run in runs])
            scale, digits = (1, 3) if metric.startswith("d_") else (100, 1)
            cells.append(f"{mean * scale:.{digits}f}" + ("" if deviation is None else f" +- {deviation * scale:.{digits}f}"))
        print(f"| {name} | {' | '.join(cells)} | {min(kept)} to {max(kept)} |", flush=True)


if __name__ == "__main__":
    main()
