"""The whole simulated device: pictures come through sensor, front end and accelerator, buttons teach, and a sensor that stops is told."""

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.ir import shipped
from fbnn_hw.reference import camera
from fbnn_hw.simulate.device.device import STEP, Seen, SimulatedDevice, lines, pbm, scene, shows, words
from tests import strategies
from tests.device import pictures
from tests.device.drawing import drawn
from tests.device.parts import Hm01b0, Ov7670
from tests.device.pictures import MS

FRAME = 34 * MS


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """tiny.pt with an OV7670 and a display, and its network."""
    found, network = pictures.made(tmp_path_factory.mktemp("device"), display="ssd1306", pixels=4, lanes=16, outputs=4)
    return SimulatedDevice(found, seed=3), network


def test_logits_are_those_of_the_reference(plain):
    """Each whole image has the logits of the picture that is before the lens, whatever the timing of the sensor; torn ones are known."""
    simulated, network = plain
    with simulated as device:
        pictures.check(device, network, 2, 5)
        assert device.sensor == "320 x 240 RGB565, PCLK 12.00 MHz, 30.0 frames/s"
        # A torn frame: its image is dropped, and the answer stays.
        first = len(device.images)
        device.set("torn", 640 * 120 + 11)
        seen = device.until(device.now + 2 * FRAME)
        assert [torn for _, torn, _ in device.images[first:]].count(True) == 1 and not seen
        # A sensor that stops: the answer goes out.
        device.set("stopped", 1)
        seen, until = [], device.now + 140 * MS
        while not seen and device.now < until:
            seen = device.until(device.now + STEP)
        assert [one.sign for one in seen] == ["no camera"] and seen[0].value is None and seen[0].lit["number"] == 0
        device.set("stopped", 0)
        assert [one.sign for one in device.until(device.now + 2 * FRAME)][-1] == "class"


def test_a_display_shows_what_leds_and_logits_say(plain):
    """In its words, its number, and a bar for the largest logit; it is plugged in late, and pulled out for a while."""
    simulated, network = plain
    signs = {sign.name: sign for sign in simulated.signs}
    with simulated as device:
        device.set("absent", 1, "display")
        device.until(pictures.SETS_UP)
        device.following()
        device.set("absent", 0, "display")
        for number in range(3):
            if number == 2:  # a display that has lost all
                device.set("absent", 1, "display")
                device.until(device.now + 2 * FRAME)
                device.set("on", 0, "display")
                device.set("absent", 0, "display")
            device.show(strategies.images(40 + number, 1, 128)[0])
            device.following()
            logits, _ = device.following()
            device.until(device.now + 2 * FRAME)  # an image of the same picture has the same logits
            largest = max(logits)
            score = max(0, largest) >> simulated.config.score_bits - 7
            expected = drawn(signs["class"], logits.index(largest), score, 1)
            assert (device.picture() == expected).all(), "\n".join(lines(device.picture()))
            assert pbm(expected) == b"P4\n128 64\n" + np.packbits(~expected).tobytes()
        device.set("stopped", 1)
        device.until(device.now + 200 * MS)
        assert (device.picture() == drawn(signs["no camera"], 0, 0)).all()
        assert not device.faults, device.faults


def test_no_display_is_asked_for_nothing(tmp_path):
    with pytest.raises(UsageError, match="--display ssd1306: hangs on the wires of a sensor, expected --camera ov7670 or hm01b0"):
        design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path, display="ssd1306")


@pytest.mark.parametrize("sensor, part", [("ov7670", Ov7670), ("hm01b0", Hm01b0)])
def test_the_scene_is_where_the_window_looks(sensor, part):
    """The window that the front end sees of the model's scene is the reference's of the picture."""
    picture = strategies.images(5, 1, 128)[0]
    whole = scene(sensor, picture)
    part().show(whole)  # it has the size of the model's scene
    grey = sensor == "hm01b0"
    expected = (camera.to_grey if grey else camera.to_rgb565)(picture[None])[0]
    top, left = (40 + 58, 98) if grey else (56, 96)
    assert (whole[top:top + 128, left:left + 128] == expected).all() and np.count_nonzero(whole) <= expected.size


def test_a_design_without_a_camera(tmp_path):
    made = design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path)
    with pytest.raises(UsageError, match="has no camera, expected a design of fbnn-hw generate --camera"):
        SimulatedDevice(made)


def test_what_is_shown_in_words():
    one = Seen(0, "class", 1, {})
    assert words(one, ["cat", "dog"]) == "class dog" and shows(one, "dog", ["cat", "dog"]) and shows(one, "1") and not shows(one, "unknown")
    assert not shows(None, "unknown") and words(Seen(0, "learning", 4, {})) == "learning 4"
    with pytest.raises(InputError, match="expect cow: expected a sign .*, or a class by its name or number"):
        shows(one, "cow", ["cat"])
