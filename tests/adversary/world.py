"""The good input that all cases begin with, made once."""

import os
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.cli import main
from fbnn_hw.fpga import unpacked
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import strategies
from tests.foreign import finn_folder
from tests.fpga import nextpnr
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

from .states import TRAIN


class World:
    """root: a folder for all of it."""

    def __init__(self, root):
        self.root = Path(root)

    def prepare(self):
        """Make what is used by several threads."""
        for name in ("tiny", "designs", "taught", "training", "finn", "onnx"):
            getattr(self, name)

    @cached_property
    def tiny(self):
        """A checkpoint for pictures of 32 x 32 pixels."""
        return self._saved("tiny.pt", strategies.vgg_network(1))

    @cached_property
    def small(self):
        """One for 8 x 8 pixels, with a latent."""
        layers = topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT))
        return self._saved("small.pt", strategies.on_engine(strategies.fill(layers, 5)))

    def _saved(self, name, network):
        checkpoint.save(self.root / name, network)
        return self.root / name

    @cached_property
    def learner(self):
        """The `Design` of `small`, which learns."""
        from fbnn_hw.ir.shipped import load

        return design.generate(load(str(self.small)), "ice40", out=self.root / "rtl_out", learn=True, max_classes=4, exemplars=6, outputs=4)

    @cached_property
    def sixteen(self):
        """A checkpoint for pictures of 16 x 16 pixels and two classes, with a latent."""
        layers = topology(16, 2, conv(16), POOL, GAP, dense(32, name=LATENT))
        return self._saved("sixteen.pt", strategies.on_engine(strategies.fill(layers, 6)))

    @cached_property
    def wide(self):
        """A `Design` of `tiny`, for pictures of 32 x 32 pixels, whose weights come from a flash."""
        from fbnn_hw.ir.shipped import load

        return design.generate(load(str(self.tiny)), "ice40", out=self.root / "rtl_out")

    @cached_property
    def ready(self):
        """`learner` in another folder, its virtual board compiled: what is interrupted there is the lesson."""
        from fbnn_hw.ir.shipped import load

        made = design.generate(load(str(self.small)), "ice40", out=self.root / "ready", learn=True, max_classes=4, exemplars=6, outputs=4)
        virtual.VirtualBoard(made.folder)
        return made

    @cached_property
    def plain(self):
        """A `Design` that does not learn, the smallest there is."""
        return design.generate(strategies.smallest(), "ice40", out=self.root / "rtl_out")

    @cached_property
    def few(self):
        """A `Design` that synthesis and place and route are soon done with."""
        return design.generate(strategies.smallest(), "ice40", outputs=4, out=self.root / "few")

    @cached_property
    def built(self):
        """A `Design` whose build is there, made by tools that are scripts."""
        made = design.generate(strategies.smallest(), "ice40", outputs=4, out=self.root / "built")
        nextpnr.install(self.root / "tools", nextpnr.reached(60))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(self.root / "tools"), prepend=os.pathsep)
            patch.setattr(unpacked, "icebox", lambda: None)  # the scripts write no bitstream
            assert main(["build", str(made.folder), "--board", "icebreaker", "--native"]) == 0
        return made

    @property
    def designs(self):
        return self.learner.folder, self.plain.folder

    @cached_property
    def taught(self):
        """(names, snapshot) of a learner that was taught a class."""
        learner = self.learner.learner()
        images = strategies.images(3, 6, 8)
        latents = inference.layers(self.learner.network, images)[LATENT].reshape(6, -1)
        learner.learn(latents, [0, 1, 2, 2, 0, 1])
        return [*self.learner.classes, "new"][:learner.known], learner.snapshot()

    @cached_property
    def finn(self):
        """A folder of FINN's parameters."""
        folder = finn_folder.with_classes(self.root / "finn", "0123456789")
        finn_folder.lfc(folder, np.random.default_rng(5))
        return folder

    @cached_property
    def onnx(self):
        """A QONNX file of a convolution, a hidden layer and logits."""
        from tests.foreign import test_qonnx

        nodes, constants = test_qonnx.two_steps(test_qonnx.STEP, {"s": [1.0], "c": np.ones((1, 4, 1, 1))}, [("Add", ["a0", "c"], "a", {})])
        return test_qonnx.model(self.root / "net.onnx", nodes, constants)

    @cached_property
    def training(self):
        """Folder of a training that ended."""
        folder = self.root / "training"
        folder.mkdir()
        words = [*TRAIN]
        words[-1] = str(folder / words[-1])
        assert main(words) == 0
        return folder
