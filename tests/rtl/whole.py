"""Whole accelerators in Verilator: build one from a network, run it, compare every layer."""

import json
from dataclasses import replace
from itertools import islice

from fbnn_hw.compile.plan import plan
from fbnn_hw.design import output
from fbnn_hw.simulate import simulator
from fbnn_hw.simulate.bench import bench
from fbnn_hw.simulate.expected import bench_images, expected_layers
from fbnn_hw.targets import TARGETS

RANDOM = ("+spram-random", "+verilator+rand+reset+2", "+verilator+seed+3")
"""Memories and whatever has no reset value begin at random."""


def target(technology="wrapper", **changes):
    """A part of the test's own: memories of any size unless stated."""
    return replace(TARGETS["generic"], technology=technology, **changes)


class Design:
    """plan, known (estimate.json), folder, and runs of the simulation built there."""

    def __init__(self, network, part, shape, root, images, learn=None, options=()):
        self.network, self.images = network, images
        self.plan = plan(network, part, *shape, learn)
        self.folder = output.write(self.plan, network, part, root, images).folder
        self.known = json.loads((self.folder / "estimate.json").read_text())
        names = ("testbench.v", "accelerator.v", "parameters.vh", "SB_SPRAM256KA.v")
        self.built = simulator.build([self.folder / n for n in names if (self.folder / n).exists()], "testbench", self.folder / "sim_build",
                                     options=options)
        layers = json.loads((self.folder / "layout.json").read_text())["layers"]
        self.expected = expected_layers(network, images, layers)

    def run(self, stall=False, latent=False, reset=0, random=True):
        """Simulate all images; asserts that every bit, logit and class is the reference's; returns bench.Run."""
        bench.write_images(self.folder, bench_images(self.images, self.network, self.plan.config))
        limit = 20 * (self.known["first_cycles"] + len(self.images) * self.known["cycles"]) + 5000
        done = self.built.run("bench", directory=self.folder, search=[self.folder], arguments=RANDOM if random else (), env={
            "BENCH_IMAGES": len(self.images), "BENCH_STALL": int(stall), "BENCH_LATENT": int(latent), "BENCH_CYCLES": limit,
            "BENCH_RESET": reset})
        assert not done.failed, done.failed
        found = bench.compare(self.folder, self.expected)
        bench.remove_dumps(self.folder)
        assert not found.differences, "\n".join(found.differences)
        return found

    def check_cycles(self):
        """`run` without pauses; the cycles of all frames are the estimate's."""
        found = self.run()
        assert [found.first, *found.periods] == list(islice(bench.expected_cycles(self.known), len(self.images)))
        return found
