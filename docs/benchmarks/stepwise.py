"""A training that counts steps and goes on from its state: what extractor.py and characters.py have in common."""

import math
import signal
import time

import torch

from fbnn_hw.nn import checkpoint


class Stepwise:
    """One training of a number of steps.

    A subclass makes its parts, calls this constructor, and has `_step`, which trains one step and adds its figures to `sums`.

    path: of the state, which holds all that the training needs to go on; where it is there, the training is taken up from it.  kind,
    version: of the state.  parts: {key in the state: module or optimizer}.  figures: names of what `sums` adds up.  often: after so many
    steps their means are printed.
    """

    def __init__(self, path, kind, version, parts, seed, figures, often):
        self.path, self.kind, self.version, self.parts, self.figures, self.often = path, kind, version, parts, figures, often
        self.generator = torch.Generator().manual_seed(seed)
        self.step, self.seconds, self.sums = 0, 0.0, torch.zeros(len(figures))
        if path.is_file():
            state = checkpoint.state(path, kind, version)
            with checkpoint.taking_up(path):
                for name, part in parts.items():
                    part.load_state_dict(state[name])
                self.generator.set_state(state["rng"])
                self.step, self.seconds = state["step"], state["seconds"]

    def save(self):
        checkpoint.store(self.path, {
            "format": self.kind, "version": self.version, **{name: part.state_dict() for name, part in self.parts.items()},
            "rng": self.generator.get_state(), "step": self.step, "seconds": self.seconds})

    def run(self, every=300):
        """Train to the last step; save every so many seconds, and when interrupted."""
        saved = time.monotonic()
        self.model.train()
        try:
            while self.step < self.steps:
                began = time.monotonic()
                self._step()
                self.step, self.seconds = self.step + 1, self.seconds + time.monotonic() - began
                if self.step % self.often == 0:
                    print(f"step {self.step}/{self.steps}, {self.seconds:.0f} s, {', '.join(self.figures)}:",
                          " ".join(f"{value / self.often:.3f}" for value in self.sums), flush=True)
                    self.sums.zero_()
                if time.monotonic() - saved > every:
                    self.save()
                    saved = time.monotonic()
            self._end()
        finally:
            self.save()

    def _end(self):
        """What is left to do after the last step."""

    def run_until_interrupted(self):
        """`run`; returns whether it came to its end.  Both signals interrupt: a shell's background jobs ignore the first."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        try:
            self.run()
        except KeyboardInterrupt:
            return False
        return True

    def _update(self, loss, rate, warmup):
        """One step of the optimizer, whose rate rises for `warmup` steps and falls as a cosine to 0 at the last one."""
        rate *= min((self.step + 1) / warmup, 0.5 + 0.5 * math.cos(math.pi * self.step / self.steps))
        for group in self.parts["optimizer"].param_groups:
            group["lr"] = rate
        self.parts["optimizer"].zero_grad(set_to_none=True)
        loss.backward()
        self.parts["optimizer"].step()
