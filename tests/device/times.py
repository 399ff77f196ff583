"""How long a device takes: until it looks after power-up, and to keep a lesson, at the flash's own times.

    python -m tests.device.times            the design of the ready image, at 36 MHz
"""

import sys
import tempfile

from fbnn_hw import design
from fbnn_hw.ir import shipped
from fbnn_hw.simulate.device.device import PS, SimulatedDevice
from tests import strategies

MS = PS // 1000
LESSON = 20


def until(device, *signs):
    """Go on until the device shows one of these signs -> when it began to."""
    while True:
        for one in device.until(device.now + 2 * MS):
            if one.sign in signs:
                return one.ps


def measure(device, maximum):
    """{what: ms}.  maximum: the flash takes the longest times of its data sheet."""
    device.set("maximum", int(maximum), "flash")
    device.show(strategies.images(1, 1, 128)[0])
    device.power(0)
    start = device.now
    device.power(1)
    found = {"ready": until(device, "waiting", "unknown", "class") - start}
    before = len(device.images)
    device.press("teach")
    while len(device.images) < before + LESSON:
        device.until(device.now + 2 * MS)
    device.press()
    start = device.now
    found[f"{LESSON} images kept"] = until(device, "kept") - start
    start = device.now
    device.power(0)
    device.power(1)
    found["ready with what it knows"] = until(device, "waiting", "unknown", "class") - start
    return {what: ps / MS for what, ps in found.items()}


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = design.generate(shipped.load(sys.argv[1] if sys.argv[1:] else "teach.pt"), "ice40", out=folder, learn="nearest-mean",
                               max_classes=16, unknown=True, forget=True, camera="ov7670", keep=True)
        with SimulatedDevice(made, note=print) as device:
            device.power(0)
            for maximum in (False, True):
                found = measure(device, maximum)
                print("longest" if maximum else "typical", {what: round(ms, 1) for what, ms in found.items()}, flush=True)


if __name__ == "__main__":
    main()
