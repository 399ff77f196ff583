"""A device with a link: a computer classifies, teaches and reads what is learned, beside the camera and the buttons."""

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import shipped
from fbnn_hw.link.chip import ChipState
from fbnn_hw.link.client import Client
from fbnn_hw.machine import protocol
from fbnn_hw.reference import camera, inference
from fbnn_hw.simulate.device.device import PS, SimulatedDevice
from tests.device.pictures import MS, SETS_UP

CLASSES = 3
CLOCK_HZ = 24_000_000
"""At which a frame of an HM01B0 takes a third of the clocks of an OV7670's."""
LINK = {"timeout_bits": 16, "called_bits": 19, "result_bits": 20}
"""A host's pause within a message, that after its last one, the wait for a result: 3, 22, 44 ms, so that tests simulate less."""


def noise(count):
    return np.random.default_rng(1).integers(0, 256, (count, 3, 8, 8), np.uint8).repeat(16, 2).repeat(16, 3)


class DeviceLine:
    """The link of a simulated device as a `link.client.Transport`: a wait is one of the device's own time."""

    path = "the simulated device"

    def __init__(self, device):
        self.device = device

    def write(self, data, timeout):
        self.device.send(data)

    def read(self, timeout):
        device, end = self.device, self.device.now + round(timeout * PS)
        while not device.received and device.now < end:
            device.until(min(end, device.now + PS // 1000))
        data = bytes(device.received)
        device.received.clear()
        return data

    def discard(self):
        self.read(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """tiny.pt that learns three classes before an HM01B0 and keeps them."""
    return design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path_factory.mktemp("link"), learn="nearest-mean",
                           max_classes=CLASSES, unknown=True, forget=True, keep=True, camera="hm01b0", weights="flash", outputs=4)


def test_a_computer_beside_the_camera(made):
    """Frames of host and camera have the reference's logits; a host's lesson is one of the device, is kept, and the buttons go on."""
    pictures = noise(CLASSES)
    seen = camera.through(pictures, True)
    latents = inference.latents(made.network, seen)
    learner = made.learner()
    with SimulatedDevice(made, seed=4, link=LINK, clock_hz=CLOCK_HZ) as device:
        client = Client(DeviceLine(device), wait_s=0.4, ready_s=600)
        device.show(pictures[0])
        device.until(SETS_UP)
        assert device.following()[0][:0] == []  # the camera alone
        identity = client.identify()
        assert identity.config == protocol.config_mark(made.config.id) and client.status().camera
        assert made.model_mark == identity.model.hex()
        client.wait_ready()
        for label in (0, 1):  # what the camera sees, and an image of the host's own
            if label:
                result = client.classify(made.pixels(seen[1:2])[0], latent=True)
            else:
                result = client.see(latent=True)
            assert result.logits == tuple(learner.logits(latents[label:label + 1])[0].tolist())[:label]
            client.learn(label)
            learner.learn(latents[label:label + 1], [label])
        client.asks_unknown = True
        result = client.see()
        assert result.logits == tuple(learner.logits(latents[:1])[0].tolist()) and result.index == 0
        assert client.status().cycles < made.estimate["cycles"]
        chip = ChipState(made.config.learning, made.learner(), client.peek, client.poke)
        assert chip.snapshot() == learner.snapshot()
        # The link is silent: the device keeps what it was taught, and looks again.
        signs = []
        while not any(one.sign == "kept" for one in signs):
            signs += device.until(device.now + 4 * MS)
        assert signs[0].sign in ("linked", "keeping")
        device.show(pictures[1])
        device.following()
        assert device.following()[0][:2] == learner.logits(latents[1:2])[0].tolist()
        with pytest.raises(InputError, match="no image was classified"):
            client.wait_ready()
            client.learn(0)
        # A snapshot restored by the host is what the camera's images meet.
        client.wait_ready()
        chip.restore(made.learner().snapshot())
        assert client.learned()[0] == 0
        # And a sensor that stops gives no answer.
        device.set("stopped", 1)
        client.retries = 0
        with pytest.raises(InputError, match="no result came in time"):
            client.see()
        device.set("stopped", 0)
        device.press("teach")
        while not any(one.sign == "learning" for one in device.until(device.now + 4 * MS)):
            pass
        assert not device.faults


@pytest.mark.slow
def test_a_design_that_does_not_learn(tmp_path):
    """A damaged image resets its accelerator, which loads its weights again; then camera and host get their answers as before."""
    found = design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path, camera="ov7670", weights="flash", outputs=4)
    pictures = noise(2)
    seen = camera.through(pictures, False)
    expected = [tuple(row) for row in inference.logits(found.network, seen).tolist()]
    with SimulatedDevice(found, seed=5, link=LINK | {"called_bits": 20, "result_bits": 22}) as device:
        client = Client(DeviceLine(device), wait_s=0.4, ready_s=600)
        device.show(pictures[0])
        device.until(SETS_UP)
        client.wait_ready()
        assert client.see().logits == expected[0]
        image = found.pixels(seen[1:])[0]
        assert client.classify(image).logits == expected[1]
        request = bytearray(protocol.encode(protocol.Opcode.CLASSIFY, image, 77))
        request[-1] ^= 1
        device.send(bytes(request))
        device.until(device.now + 10 * MS)
        client.wait_ready()
        assert client.status().errors == 1
        assert client.see().logits == expected[0] and client.classify(image).logits == expected[1]
        device.until(device.now + 40 * MS)
        assert tuple(device.following()[0]) == expected[0] and not device.faults
