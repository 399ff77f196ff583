"""A simulated device behind a page: the picture before its lens, its buttons and LEDs, what it sees, and the flash in which it keeps.

The page and the device exchange messages over the server's line.  The page sends a byte that says what, and operands:

    show       the picture that comes before the lens, row by row, red, green, blue, `camera.WINDOW` pixels a side
    press      a byte with a bit for each button that is held, in the order of the design's
    power      1: on, 0: off

The device sends `Watched.state` as JSON after each `STEP`.
"""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.errors import FbnnError, InputError
from ...machine.kept import SlotMemory, SlotPlan
from ...machine.protocol import Space
from ...reference import camera
from ...rtl.camera.sensors import SENSORS
from .device import PS, SimulatedDevice, words

SHOW, PRESS, POWER = range(3)
"""What a message of the page says, in its first byte."""
STEP = PS // 200
"""Time between two messages of the device: some 0.3 s of an idle core."""


def facts(design, device: SimulatedDevice) -> dict[str, Any]:
    """What the page has to know of a design with a camera, and of its simulated device, as plain values."""
    signs = [{name: getattr(sign, name) for name in ("name", "meaning", "number", "flag", "ready", "fault")} for sign in device.signs]
    return {"design": design.folder.name, "sensor": design.config.camera, "keeps": design.config.keeps, "signs": signs,
            "window": camera.WINDOW, "buttons": list(device.buttons), "messages": {"show": SHOW, "press": PRESS, "power": POWER}}


class Watched:
    """The line between a page and a device, as the server takes it (`link.client.Transport`).  Time goes on while the line is open."""

    def __init__(self, design, device: SimulatedDevice) -> None:
        self.design, self.device, self._plan = design, device, SlotPlan(design.config.learning)
        self._asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._told: queue.Queue[bytes] = queue.Queue(1)
        self._trouble: FbnnError | None = None
        self._ended = threading.Event()
        self._seen: dict[str, Any] = {"sign": "starting", "text": "starting", "value": None, "view": None, "score": None}

    @contextmanager
    def opened(self) -> Iterator["Watched"]:
        """The line for one page."""
        self._ended.clear()
        thread = threading.Thread(target=self._go_on, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def write(self, data: bytes, timeout: float) -> None:
        """Take a message of the page.  Raises InputError where it is none."""
        sizes = {SHOW: 3 * camera.WINDOW ** 2, PRESS: 1, POWER: 1}
        if not data or sizes.get(data[0]) != len(data) - 1:
            raise InputError(f"the page sent {len(data)} bytes that are no message, expected a picture, buttons or power; load it again")
        self._asked.put(bytes(data))

    def read(self, timeout: float) -> bytes:
        """The next message of the device, or none within `timeout` seconds.  Raises InputError where it has ended."""
        if self._trouble:
            raise InputError(str(self._trouble))
        try:
            return self._told.get(timeout=timeout)
        except queue.Empty:
            return b""

    def _go_on(self):
        try:
            while not self._ended.is_set():
                while not self._asked.empty():
                    self._do(*np.split(np.frombuffer(self._asked.get(), np.uint8), [1]))
                self._step()
                told = json.dumps(self.state()).encode()
                while not self._ended.is_set():
                    try:
                        self._told.put(told, timeout=0.1)
                        break
                    except queue.Full:  # the page takes its time
                        pass
        except FbnnError as error:
            self._trouble = error

    def _do(self, what, operand):
        if what == SHOW:
            picture = operand.reshape(camera.WINDOW, camera.WINDOW, 3).transpose(2, 0, 1)
            self.device.show(picture)
            view = camera.through(picture[None], SENSORS[self.design.config.camera].grey)[0]
            self._seen["view"] = view.transpose(1, 2, 0).ravel().tolist()
        elif what == PRESS:
            self.device.press(*(name for bit, name in enumerate(self.device.buttons) if operand[0] >> bit & 1))
        else:
            self.device.power(bool(operand[0]))

    def _step(self):
        for one in self.device.until(self.device.now + STEP):
            self._seen |= {"sign": one.sign, "text": words(one), "value": one.value}
        if self.device.images:
            _, torn, logits = self.device.images[-1]
            self._seen["score"] = None if torn or not logits else max(logits)
            self.device.images.clear()

    def state(self) -> dict[str, Any]:
        """What the page shows: seconds since power-up; sign, text, value of `Seen`; score, the largest logit; view, what the camera's path
        makes of the picture, 32 x 32 pixels of red, green and blue; sensor; faults; slots, what each flash slot has."""
        slots = list(map(self._slot, self.device.slots())) if self.design.config.keeps else []
        return self._seen | {"seconds": self.device.now / PS, "sensor": self.device.sensor, "faults": self.device.faults, "slots": slots}

    def _slot(self, data):
        """What a flash slot has, in words."""
        try:
            memory, sequence = SlotMemory.unpack(self._plan, data, *self.design.marks)
        except InputError as error:
            return str(error).removeprefix("slot: ").partition(",")[0]
        return f"state {sequence}, {memory.peek(Space.SCALARS, 0, 1)[0]} classes"
