"""The whole board with its weights in an SDRAM, in simulation: filled from the flash, read in time, filled anew after an aborted image."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.data import datasets
from fbnn_hw.design import output
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from fbnn_hw.targets import TARGETS
from tests import strategies, virtual_boards
from tests.quick import quick

WAIT_S = 300


@pytest.mark.parametrize("target, ratio", quick([("ecp5-25f", 2), ("ecp5-25f", 4), ("gowin", 1)], ("gowin", 1)))
def test_the_board(target, ratio, tmp_path, monkeypatch):
    network = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    part = replace(TARGETS[target], blocks=16)  # some of the weights are resident, the others come with each frame
    planned = plan(network, part, 4, 16, 4, weights="sdram")
    config, images = planned.config, datasets.load("fixture").first(2).images
    assert (config.beat_bits, config.burst) == ({"ecp5-25f": 16, "gowin": 32}[target], 8)
    folder = output.write(planned, network, part, tmp_path / "rtl_out", images).folder
    manifest, estimate = (json.loads((folder / f"{name}.json").read_text()) for name in ("manifest", "estimate"))
    assert manifest["frame_bytes"] and estimate["flash_bits_per_cycle"] is None
    assert estimate["sdram_bits_per_cycle"] == config.beat_bits * 8 / 9
    data = [np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes() for image in images]
    expected = inference.logits(network, images).tolist()
    monkeypatch.setattr(virtual, "FLASH_RATIO", ratio)
    virtual_boards.impatient(monkeypatch, 16)
    with virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
        client = Client(port, WAIT_S, WAIT_S)
        client.wait_ready()
        answers = list(client.classify_all(data))
        assert [list(result.logits) for result, _ in answers] == expected
        # Without the link, which waits for the line, a frame takes as long as estimated, less the loading and the logits.
        assert all(0.9 * (estimate["cycles"] - estimate["load_cycles"]) < status.cycles < estimate["cycles"] for _, status in answers[1:])
        port.write(protocol.encode(protocol.Opcode.CLASSIFY | protocol.LOGITS, data[0])[:1000], 5)  # cut short
        while not protocol.Decoder().feed(port.read(WAIT_S)):
            pass
        client.wait_ready()
        assert list(client.classify(data[1]).logits) == expected[1]
        assert board.faults() == "" and board.close() == 0
