"""Where the time of a training step goes: shares of the CPU time of whole steps, as JSON.

usage: python docs/benchmarks/train_step.py [--model 3mb] [--batch 64] [--steps 4] [--threads 1] [--precision bfloat16]

A step is what `Trainer` does: gather a batch of bytes, augment, encode, forward, loss, backward, Adam.  The shares are of
torch.profiler's self CPU time, which counts every operator once; they move less with the load of the machine than seconds do.
"""

import argparse
import json
import platform
import warnings

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fbnn_hw.ir.models import MODELS, build
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train import offline, record
from fbnn_hw.train.config import TrainConfig

CONVOLUTION = ("aten::mkldnn_convolution", "aten::convolution_backward", "aten::_slow_conv2d_forward", "aten::_slow_conv2d_backward",
               "aten::thnn_conv2d", "mkldnn_convolution_backward", "aten::_convolution", "aten::convolution", "aten::conv2d",
               "aten::convolution_overrideable", "aten::mkldnn_convolution_backward")
"""Operators whose own time is convolution arithmetic, with the layout changes that oneDNN makes inside them."""


def measure(name, batch, steps, precision):
    torch.manual_seed(0)
    config = TrainConfig(epochs=1, batch=batch, lr=1e-3, c=1.0, validation=0.0, schedule="cosine", patience=0, precision=precision)
    model = FBNN(build(name), K=config.K, c=config.c, limit=config.limit)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (batch * (steps + 1), 3, 32, 32), dtype=np.uint8))
    trainer = offline.Trainer(model, images, torch.from_numpy(rng.integers(0, 10, len(images))), config)
    order = torch.randperm(len(images))

    def marked(function, label):
        def run(*args, **kwargs):
            with record_function(label):
                return function(*args, **kwargs)

        return run

    offline.augment = marked(offline.augment, "fbnn: augment")
    model.encode = marked(model.encode, "fbnn: encode")
    trainer.optimizer.step = marked(trainer.optimizer.step, "fbnn: optimizer")
    trainer._train_step(order[:batch])
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for step in range(1, steps + 1):
            trainer._train_step(order[step * batch:(step + 1) * batch])
    events = profiler.key_averages()
    total = sum(e.self_cpu_time_total for e in events)
    own = {e.key: e.self_cpu_time_total / total for e in events}
    whole = {e.key: e.cpu_time_total / total for e in events}
    return {
        "model": name, "precision": precision, "batch": batch, "steps": steps, "threads": torch.get_num_threads(),
        "hardware": record.hardware(), "torch": torch.__version__, "python": platform.python_version(),
        "seconds_per_step": round(total / steps / 1e6, 3),
        "shares": {
            "convolution": round(sum(share for key, share in own.items() if key in CONVOLUTION), 4),
            **{key: round(whole.get(f"fbnn: {key}", 0.0), 4) for key in ("encode", "augment", "optimizer")}},
        "operators": {key: round(share, 4) for key, share in sorted(own.items(), key=lambda item: -item[1])[:12]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(MODELS), default="3mb")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")  # the scheduler does not recognise the optimizer's marked step
    print(json.dumps(measure(args.model, args.batch, args.steps, args.precision), indent=1))


if __name__ == "__main__":
    main()
