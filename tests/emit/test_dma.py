"""`generate --wrapper wishbone-dma` and `axi-lite-dma`: images by a stream beside the registers."""

import random

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.machine.registers import BY_NAME
from fbnn_hw.reference import inference
from tests import strategies
from tests.emit.bus import Bus
from tests.emit.test_registers import BIT, LOST, OK, PIXELS, STATUS, UNFIT, hexes


@pytest.fixture(scope="module", params=["wishbone-dma", "axi-lite-dma"])
def streamed(request, tmp_path_factory):
    """(design, whether its bus is AXI): it learns, so that a result can be learned that DMA brought."""
    made = design.generate(strategies.smallest_learner(), "ice40", out=tmp_path_factory.mktemp("dma"), learn=True, max_classes=4,
                           exemplars=3, wrapper=request.param)
    return made, request.param.startswith("axi")


def cut(image, count):
    """An image, uint8 (3, S, S), of which only the first bytes came."""
    flat = image.transpose(1, 2, 0).reshape(-1).copy()
    flat[count:] = 0
    return flat.reshape(*image.shape[1:], 3).transpose(2, 0, 1)


def logits(made, images):
    latents = inference.layers(made.network, np.stack(images))["latent"].reshape(len(images), -1)
    return made.learner().logits(latents).tolist()


def test_images_by_a_stream(streamed):
    """Several packets at once, of all lengths; each result in its order is the reference's, and says whether its packet was right."""
    made, axi = streamed
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw, size = random.Random(seed), made.config.image_bytes
    images = strategies.images(seed, 8, made.config.size)
    lengths = [size, draw.randrange(1, size), size, size + draw.randrange(1, 2 * size), size, 1, size - 1, size]
    with Bus(made, axi) as bus:
        assert bus.ask("identify")[0] == OK
        for data, length in zip(made.pixels(images), lengths):
            packet = (data + bytes(draw.randrange(256) for _ in range(max(0, length - size))))[:length]
            bus.ask("send", 1, packet.hex())
        for expected, length in zip(logits(made, [cut(image, length) for image, length in zip(images, lengths)]), lengths):
            failed, answer, _, _, *seen = bus.ask("classify", 0)
            assert (failed, answer, seen) == (OK if length == size else LOST, expected.index(max(expected)), expected)
        assert bus.read(BY_NAME["IMAGES"].offset) == len(images)
        assert bus.read(STATUS) & 0xFFFF == 0


def test_the_other_way_is_refused(streamed):
    made, axi = streamed
    [image] = hexes(made, strategies.images(1, 1, made.config.size))
    with Bus(made, axi) as bus:
        assert bus.ask("identify")[0] == OK and bus.ask("classify", 0, image)[0] == UNFIT
        assert bus.write(PIXELS, 1) < 10 and not bus.read(STATUS) & (BIT["LOST"] | BIT["INSIDE"] | BIT["ROOM"])  # no such register
        bus.ask("send", 1, image)
        assert bus.ask("classify", 0)[0] == OK and bus.ask("learn", 2) == [OK] and bus.read(STATUS) >> 16 == 3
    assert "| PIXELS |" not in (made.folder / "registers.md").read_text()


def test_a_packet_without_an_end_and_a_restart(streamed):
    """INSIDE while an image waits for its rest; a restart forgets what had come of it, and nothing else waits for it."""
    made, axi = streamed
    images = strategies.images(2, 2, made.config.size)
    first, second = hexes(made, images)
    with Bus(made, axi) as bus:
        assert bus.ask("identify")[0] == OK
        bus.ask("send", 0, first[:100])
        bus.ask("clocks", 2000)  # the boot image is loaded, then the bytes are taken
        assert bus.read(STATUS) & (BIT["INSIDE"] | BIT["DONE"]) == BIT["INSIDE"] and bus.ask("set", 40, 0, 0)
        assert bus.ask("classify", 0)[0] == 1 and bus.ask("set", 0, 0, 0)
        assert bus.ask("restart") == [OK] and not bus.read(STATUS) & BIT["INSIDE"]
        bus.ask("send", 1, second)
        [expected] = logits(made, [images[1]])
        assert bus.ask("classify", 0)[4:] == expected


def test_many_results(streamed):
    made, axi = streamed
    images = strategies.images(5, 4, made.config.size)
    with Bus(made, axi) as bus:
        assert bus.ask("identify")[0] == OK
        for image in hexes(made, images):
            bus.ask("send", 1, image)
        assert bus.ask("classify_many", 4) == [OK, *(row.index(max(row)) for row in logits(made, images))]
