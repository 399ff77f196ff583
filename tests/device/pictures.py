"""Pictures through sensor, front end and accelerator, each with a timing of its own: the logits are the reference's.

    python -m tests.device.pictures 1000 1        pictures, seed
"""

import random
import sys
import tempfile

from fbnn_hw import design
from fbnn_hw.ir import shipped
from fbnn_hw.reference import camera, inference
from fbnn_hw.simulate.device.device import PS, SimulatedDevice
from tests import strategies

MS = PS // 1000
SETS_UP = 35 * MS
"""Within which a sensor has its registers."""


def made(out, **options):
    """(tiny.pt with an OV7670, its network).  options: of `generate`."""
    network = shipped.load("tiny.pt")
    return design.generate(network, "ice40", camera="ov7670", out=out, **options), network


def check(device, network, count, seed):
    """So many pictures, one a frame -> images that were torn."""
    source, torn = random.Random(seed), 0
    print(f"seed {seed}")
    device.until(SETS_UP)
    device.following()
    for number in range(count):
        picture = strategies.images(source.randrange(1 << 30), 1, 128)
        device.set("jitter", source.randrange(6000))
        device.set("blanking", source.randrange(60))
        device.show(picture[0])
        logits, more = device.following()
        torn += more
        expected = inference.logits(network, camera.through(picture, False))[0].tolist()
        assert logits == expected, f"picture {number} of seed {seed}: {logits}, expected {expected}"
    assert not device.faults, device.faults
    return torn


def main():
    count, seed = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        found, network = made(folder)
        with SimulatedDevice(found, seed=seed, note=print) as device:
            torn = check(device, network, count, seed)
            print(f"{count} pictures, seed {seed}, {device.now / PS:.1f} s of the device: all logits are the reference's; {torn} torn")


if __name__ == "__main__":
    main()
