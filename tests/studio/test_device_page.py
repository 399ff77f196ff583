"""The page of a simulated device, in Chromium, before a device that notes what it is told; and what the line takes and says."""

import json
import time

import numpy as np
import pytest
from PIL import Image

from fbnn_hw import design as designs
from fbnn_hw.base.errors import InputError, ToolError
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.machine import device as tables
from fbnn_hw.machine.kept import SlotMemory, SlotPlan
from fbnn_hw.machine.protocol import Space, config_mark
from fbnn_hw.reference import camera
from fbnn_hw.simulate.device.device import PS, Seen
from fbnn_hw.simulate.device.watched import POWER, PRESS, SHOW, Watched, facts
from fbnn_hw.studio import page as pages
from tests import strategies


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """A small `Design` with a camera that keeps what it learns."""
    network = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("seeing"), camera="ov7670", learn="nearest-mean", max_classes=12,
                            forget=True, unknown=True, keep=True, weights="flash")


class Noting:
    """A device that shows a class once it was shown a picture, learns while teach is held, and notes all that it is told."""

    def __init__(self, design):
        found = tables.has(design.config.learning, True)
        self.signs = tables.of_design(tables.SIGNS, found)
        self.buttons = tuple(name for name, needs in tables.BUTTONS.items() if needs in found)
        self.now, self.sensor, self.faults, self.images, self.told, self.broken = 0, "320 x 240 RGB565", {"PCLK": 2}, [], [], False
        slot = SlotPlan(design.config.learning)
        memory = SlotMemory(slot)
        memory.poke(Space.SCALARS, 0, [3])
        whole = memory.pack(config_mark(design.config.id), bytes.fromhex(design.model_mark), 5)
        self._slots = [whole, whole[:2] + b"\0" + whole[3:], b"\xff" * slot.bytes]
        self._next = []

    def slots(self):
        return self._slots

    def show(self, picture):
        self.told.append(("show", picture))
        self._next = [Seen(self.now, "class", 10, {})]
        self.images.append((self.now, False, [3, 41, -5]))

    def press(self, *names):
        self.told.append(("press", names))
        self._next = [Seen(self.now, *(("learning", 1) if "teach" in names else ("class", 1)), {})]

    def power(self, on):
        self.told.append(("power", on))
        self._next = [] if on else [Seen(self.now, "no power", None, {})]

    def until(self, ps):
        time.sleep(0.05)  # a simulation takes 0.3 s; a browser that is told more than it can paint shows the past
        if self.broken:
            raise ToolError("the simulated device in build has ended; give the command again")
        seen, self._next, self.now = self._next, [], ps
        return seen


def after(line, count=2):
    """The state of a line some messages on: what it was told before has happened."""
    messages = []
    while len(messages) < count + 1:  # one may have been made before
        if message := line.read(10):
            messages.append(json.loads(message))
    return messages[-1]


def test_the_line_of_a_device(seeing):
    device = Noting(seeing)
    with Watched(seeing, device).opened() as line:
        picture = strategies.images(1, 1, camera.WINDOW)[0]
        first = after(line)
        assert first["text"] == "starting" and first["view"] is None and first["faults"] == {"PCLK": 2}
        assert first["slots"] == ["state 5, 3 classes", "a state that was undone", "no state"]
        line.write(bytes([SHOW]) + picture.transpose(1, 2, 0).tobytes(), 1)
        state = after(line)
        view = camera.through(picture[None], False)[0]
        assert (state["text"], state["score"]) == ("class 10", 41) and state["view"] == view.transpose(1, 2, 0).ravel().tolist()
        line.write(bytes([PRESS, 0b101]), 1)
        assert after(line)["text"] == "learning 1"
        line.write(bytes([POWER, 0]), 1)
        state = after(line)
        assert state["sign"] == "no power" and state["seconds"] == pytest.approx(device.now / PS, abs=0.05)
        for message in (b"", b"\x07", bytes([PRESS]), bytes([SHOW, 1, 2])):
            with pytest.raises(InputError, match="the page sent .* no message"):
                line.write(message, 1)
        assert [what for what, _ in device.told] == ["show", "press", "power"] and (device.told[0][1] == picture).all()
        assert device.told[1:] == [("press", (device.buttons[0], device.buttons[2])), ("power", False)]
        device.broken = True
        with pytest.raises(InputError, match="has ended; give the command again"):
            while True:
                line.read(10)


LATE = """window.WebSocket = class extends WebSocket {
  get readyState() { return window.line_is_open ? super.readyState : WebSocket.CONNECTING; }
  set onopen(tell) {
    window.open_line = () => {
      window.line_is_open = true;
      if (super.readyState === WebSocket.OPEN) tell();
      else this.addEventListener("open", tell);
    };
  }
};"""
"""A line that opens when the test says so: what was chosen before is not lost."""


def test_the_page_of_a_device(context, served, seeing, tmp_path):
    expect = pytest.importorskip("playwright.sync_api").expect
    expect.set_options(timeout=60_000)
    device = Noting(seeing)
    watched = Watched(seeing, device)

    def opened():
        with watched.opened() as line:
            yield line

    page = context.new_page()
    page.add_init_script(LATE)
    page.goto(served(pages.write_device(seeing, facts(seeing, device)), opened).address)
    expect(page.locator("#sign")).to_have_text("starting")
    colours = np.zeros((128, 128, 3), np.uint8)
    colours[:, :, 0], colours[:64, :, 1] = 200, 90
    Image.fromarray(colours).save(tmp_path / "red.png")
    page.set_input_files("#files", [tmp_path / "red.png"])
    expect(page.locator("#strip button")).to_have_count(1)
    assert not device.told
    page.evaluate("open_line()")
    expect(page.locator("#sign")).to_have_text("class 10")
    assert (device.told[-1][1] == colours.transpose(2, 0, 1)).all()
    lit = "[...document.querySelectorAll('#number .led')].map((led) => led.dataset.does)"
    assert page.evaluate(lit) == ["on", "off", "on", "off"]  # 10, the highest bit first
    assert page.locator("#meaning").text_content() == "the answer" and page.locator("#ready").get_attribute("data-does") == "on"
    assert page.locator("#slots li").all_text_contents()[0] == "state 5, 3 classes"
    assert page.locator("#faults").text_content() == "PCLK, 2 times"
    teach = page.locator("#button-teach")
    teach.hover()
    page.mouse.down()
    expect(page.locator("#sign")).to_have_text("learning 1")
    assert page.locator("#flag").get_attribute("data-does") == "fast"
    page.mouse.up()
    expect(page.locator("#sign")).to_have_text("class 1")
    teach.focus()
    page.keyboard.down("Space")
    expect(page.locator("#sign")).to_have_text("learning 1")
    page.keyboard.up("Space")
    assert [told for told in device.told if told[0] == "press"][:2] == [("press", ("teach",)), ("press", ())]
    page.locator("#power").click()
    expect(page.locator("#sign")).to_have_text("no power")
    assert page.locator("#meaning").text_content() == "nothing is powered"
    shown = len(device.told)  # before the click: of a camera whose picture stays the page may send one
    page.locator("#camera").click()
    expect(page.locator("#camera")).to_have_text("Stop the camera")
    for _ in range(600):
        if len(device.told) > shown:
            break
        page.wait_for_timeout(100)
    assert device.told[-1][0] == "show" and device.told[-1][1].std() > 0
    device.broken = True
    expect(page.locator("#trouble")).to_contain_text("has ended")
