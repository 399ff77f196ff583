"""Class-incremental sequences through whole accelerators that learn: images in, classes and logits out, bit for bit the reference's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw import Design
from fbnn_hw.design.facts import read
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT
from fbnn_hw.machine.protocol import Command
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.report.design import summary
from tests import strategies
from tests.quick import quick
from tests.rtl import whole
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

CASES = {
    # Tables and some weights in SPRAM, loaded by the stream; start reads.
    "spram": (topology(8, 3, conv(16), POOL, GAP, dense(64, name=LATENT)), whole.target(
        "ice40-spram", weights=("stream",), ring_words=64, bank_words=900, encoder_bits=2, starts=("read",)),
        LearnConfig(6, 10, temperature=5)),
    # Tables that the learner writes from the memory of weights; a hidden layer, copies, options of the rule that are not the default;
    # thresholds, and a fan-in of the classes for which there are no start reads.
    "memory": (topology(
        8, 2, conv(16), POOL, GAP, dense(32, name=LATENT), dense(16, name="hidden"), (op.Concat, {"inputs": (LATENT, "hidden")}),
        (op.Duplicate, {"times": 2})), whole.target(starts=("read",)), LearnConfig(
            5, 7, counter_bits=5, temperature=8, thinning=1, replays=3, prototype=2, confidence=1)),
    # Lists of reads: a stride, a shuffle, narrow groups, a hidden layer; tables in SPRAM.
    "lists": (topology(
        8, 3, conv(24, stride=2), (op.Shuffle, {"groups": 3}), conv(20, groups=4), GAP, dense(32, name=LATENT), dense(16, name="hidden"),
        (op.Concat, {"inputs": (LATENT, "hidden")})), whole.target(
            "ice40-spram", weights=("stream",), ring_words=64, bank_words=700, encoder_bits=2), LearnConfig(6, 10, temperature=5)),
}


def requests(source, count, known, limit):
    """What is asked after each frame: (Command or -1, label, count), all of it legal."""
    asked = []
    for frame in range(count):
        kind = source.choice([Command.LEARN] * 6 + [Command.STORE, Command.REHEARSE, -1])
        label = int(source.integers(0, known))
        if kind == Command.LEARN and known < limit and frame % 4 == 0:
            label, known = known, known + 1
        asked.append((kind, label, int(source.integers(0, 9))))
    return asked


@pytest.mark.parametrize("name", quick(CASES, "memory"))
def test_every_bit_of_a_sequence(name, tmp_path):
    shape, part, config = CASES[name]
    network = strategies.on_engine(strategies.fill(shape, 5, thresholds=name != "lists"))
    network = replace(network, thresholds={layer: values for layer, values in network.thresholds.items() if layer != "hidden"})
    design = whole.Design(network, part, (4, 16, 4), tmp_path, strategies.images(1, 3, 8), learn=(Head.of(shape), config))
    planned = design.plan.config
    assert planned.lists == (name == "lists") and planned.thresholds == (name != "lists") and planned.start_reads == (name == "spram")
    design.check_cycles()
    shown = summary(read(Design(design.folder)))
    assert shown["layers"][-1]["layer"] == "logits" and shown["layers"][-1]["cycles"] == design.known["layers"][-1]["cycles"]

    source = np.random.default_rng(3)
    count, shipped = 60, len(shape.classes)
    asked = requests(source, count, shipped, config.max_classes)
    centres = strategies.images(4, config.max_classes, 8)
    mixed = source.random((count, 3, 8, 8)) < 0.6
    images = np.where(mixed, centres[[label for _, label, _ in asked]], strategies.images(5, count, 8))
    np.savez(design.folder / "frames.npz", images=images, **dict(zip(("asked", "labels", "counts"), np.array(asked).T)))
    whole.bench.write_images(design.folder, images)
    ran = design.built.run("sim.cocotb_learning_frames", directory=design.folder, search=[design.folder], arguments=whole.RANDOM)
    assert not ran.failed, ran.failed
    found = json.loads((design.folder / "learning.json").read_text())
    assert found["known"] == config.max_classes and found["evictions"] > 10 and found["updates"] > 20, found
