"""The simulated device: a generated design with a camera, compiled by Verilator, among the models of its parts."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...base import files
from ...base.errors import InputError, ToolError, UsageError
from ...machine import device
from ...machine.kept import SlotPlan
from ...reference import camera
from ...rtl.camera.sensors import SENSORS
from ...rtl.qspi_flash import FlashChip
from ...rtl.verilog import convert
from .. import simulator, virtual

SOURCES = Path(__file__).parent
"""The models of the parts, in C++."""
CLOCK_HZ = 36_000_000
LEVEL = "-O1"
"""Options of the C++ compiler, whatever others take: a frame of the sensor is more than a million clocks."""
PS = 10 ** 12
"""Picoseconds of a second."""
STEP = PS // 500
"""Far shorter than the time from an image's answer to the next frame of the sensor."""
SCENES = {"ov7670": (240, 320), "hm01b0": (324, 324)}
"""{sensor: rows and columns of the scene before its model}"""
TOP = {"ov7670": 0, "hm01b0": 40}
"""{sensor: the scene's row with which a frame begins}"""


@dataclass(frozen=True)
class Seen:
    """What the LEDs began to say."""

    ps: int  # when
    sign: str  # of `machine.device.SIGNS`, or "no power"
    value: int | None  # the number that it shows, or None
    lit: dict  # {LED: whether it was lit then}, the number's as bits


def scene(sensor, picture):
    """The scene of a sensor's model, in whose middle the camera window sees a picture: RGB565 words or grey bytes.

    picture: uint8 RGB (3, H, W), shown as `reference.camera` shows it.
    """
    grey = SENSORS[sensor].grey
    window = (camera.to_grey if grey else camera.to_rgb565)(picture[None])[0]
    around = np.zeros(SCENES[sensor], window.dtype)
    top = TOP[sensor] + (SENSORS[sensor].height - camera.WINDOW) // 2
    left = (SENSORS[sensor].width - camera.WINDOW) // 2
    around[top:top + camera.WINDOW, left:left + camera.WINDOW] = window
    return around.astype(around.dtype.newbyteorder("<"))


class SimulatedDevice:
    """A device at work: a context manager around its program.

    design: design.Design with a camera.  seed: of all that is random in the parts.  note: called with a line before it compiles.  link:
    options of a `DeviceTop` with a link, beside its speed, or None.  clock_hz: of the design, by default CLOCK_HZ.

    Raises UsageError for a design without a camera, InputError for a folder that lacks a file, ToolError where a tool fails.
    """

    clock_hz: float
    offset = virtual.OFFSET
    arguments: tuple = ()
    """More ones of the program."""
    module = "device_top"
    """That the program runs."""
    options: tuple = ()
    """More ones of Verilator."""

    def __init__(self, design, seed=1, note=None, build_dir=None, link=None, clock_hz=None):
        from ...rtl.board_top import keep_room
        from ...rtl.device_top import DeviceTop

        self.clock_hz = clock_hz or CLOCK_HZ
        self._open(design, seed, note, build_dir or design.folder / f"sim_build_device{'_link' * (link is not None)}")
        if self.config.weights != "stream":
            simulator.write(self.build_dir / "weights.hex", design.read("weights.hex").decode())
        self.keep_base = keep_room(self.config, self.offset)[0] if self.config.keeps else None
        options = {} if link is None else {"model": bytes.fromhex(design.model_mark), "clocks": virtual.CLOCKS, **link}
        top = DeviceTop(self.config, clock_hz=self.clock_hz, chip=FlashChip(), offset=self.offset, keep_base=self.keep_base, **options)
        self.top, self.signs, self.buttons = top, top.signs, top.buttons
        source = simulator.write(self.build_dir / "device_top.v", convert(top, "device_top"))
        self._sources = [source, *virtual.accelerator_sources(design.folder.absolute())]

    def _open(self, design, seed, note, build_dir):
        """What any simulated device of a design has."""
        simulator.check_tools("the simulated device")
        self.config, self.seed = design.config, seed
        if not self.config.camera:
            raise UsageError(f"{design.folder}: has no camera, expected a design of fbnn-hw generate --camera")
        if self.config.way not in ("memory", "stream"):
            raise UsageError(f"{design.folder}: has its weights in {self.config.way}, expected them on the chip or in a flash")
        self.build_dir = Path(build_dir).absolute()
        self.build_dir.mkdir(parents=True, exist_ok=True)
        self.flash = "-"
        if self.config.weights == "stream":
            self.flash = "flash.bin"
            files.write(self.build_dir / self.flash, virtual.flash_image(design.folder))
        self._note, self.received = note, bytearray()  # from the link
        self._process = self._folder = None
        self.images: list[tuple[int, bool, list[int]]] = []
        self.now, self.faults, self.sensor, self._shown = 0, {}, "", None

    def __enter__(self):
        program = virtual.verilate(self._sources, self.build_dir, [self.build_dir], LEVEL, self._note, module=self.module,
                                   options=(*self.options, "-CFLAGS", f"-I{SOURCES}"), driver=SOURCES / "device.cpp",
                                   title="the simulated device", headers=sorted(SOURCES.glob("*.h")))
        self._folder = tempfile.TemporaryDirectory()
        arguments = [str(round(PS / self.clock_hz)), self.config.camera, str(self.seed), self.flash, str(self.offset), *self.arguments]
        self._process = subprocess.Popen([str(program), *arguments], cwd=self.build_dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)
        return self

    def __exit__(self, *failure):
        self._process.stdin.close()
        self._process.stdout.close()
        if failure[0] is not None:
            self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _line(self):
        """The next line of the program that is no byte from the link."""
        while (line := self._process.stdout.readline()).startswith("byte "):
            self.received.append(int(line.split()[1], 16))
        return line

    def _tell(self, line):
        try:
            print(line, file=self._process.stdin, flush=True)
        except OSError:
            raise ToolError(f"the simulated device in {self.build_dir} has ended; give the command again") from None

    def show(self, picture):
        """Put a picture, uint8 RGB (3, H, W), before the lens; a frame shows it from its start on."""
        path = Path(self._folder.name) / "scene.bin"
        path.write_bytes(scene(self.config.camera, picture).tobytes())
        self._tell(f"show {path}")
        self.until(self.now)  # so that the file has been read

    def press(self, *buttons):
        """Hold these buttons, and no others.  Raises UsageError for one that the design does not have."""
        for button in buttons:
            if button not in self.buttons:
                raise UsageError(f"button {button}: expected {' or '.join(self.buttons) or 'none'}, which the design has")
        self._tell(f"press {sum(1 << self.buttons.index(button) for button in buttons)}")

    def power(self, on):
        """Switch the device on or off."""
        self._tell(f"power {int(on)}")

    def send(self, data):
        """Send bytes over the link."""
        self._tell(f"line {virtual.CLOCKS} {data.hex()}")

    def set(self, name, value, part="sensor"):
        """Set an option of the model of a part: such as "stopped" of the sensor, "worn" of the flash, "absent" of the display."""
        self._tell(f"{part} {name} {value}")

    def room(self):
        """The bytes of the flash from the first of the slots on in which a design with a keeper has what it learned."""
        slot, path = SlotPlan(self.config.learning), Path(self._folder.name) / "slots.bin"
        self._tell(f"read {self.keep_base} {4 * slot.room} {path}")
        self.until(self.now)  # so that the file has been written
        return path.read_bytes()

    def slots(self):
        """The bytes of the three slots."""
        slot, room = SlotPlan(self.config.learning), self.room()
        return [room[place:place + slot.bytes] for place in slot.places(0)]

    def picture(self):
        """What one sees on the display: bool (64, 128), upright."""
        path = Path(self._folder.name) / "picture"
        self._tell(f"seen {path}")
        self.until(self.now)  # so that the file has been written
        return (np.frombuffer(path.read_bytes(), np.uint8) == ord("1")).reshape(64, 128)

    def until(self, ps):
        """Go on to a time -> list of `Seen`.

        `images` has of each image when its class came, whether it was torn, and its logits.  `faults` are {what a data sheet forbids: how
        often} since power-up, `sensor` is what the sensor was set to.
        """
        self._tell(f"until {ps}")
        seen, words, top = [], self._line().split(), 1 << self.config.score_bits - 1
        while words and words[0] in ("at", "image"):
            time, sign, *numbers = words[1:]
            if words[0] == "image":
                self.images.append((int(time), sign == "1", [(int(logit) ^ top) - top for logit in numbers]))
                words = self._line().split()
                continue
            one = self._seen(int(time), sign, *map(int, numbers))
            if (one.sign, one.value) != self._shown:  # another answer behind a sign is not seen
                seen.append(one)
            self._shown = one.sign, one.value
            words = self._line().split()
        if not words:
            raise ToolError(f"the simulated device in {self.build_dir} has ended; give the command again")
        self.now, self.sensor = int(words[1]), self._line().strip()
        self.faults = {}
        while line := self._line().strip():
            _, count, what = line.split(" ", 2)
            self.faults[what] = int(count)
        return seen

    def following(self):
        """(logits of the next image that is whole, how many before it were torn)."""
        torn = 0
        while True:
            before = len(self.images)
            while len(self.images) == before:
                self.until(self.now + STEP)
            _, broken, logits = self.images[before]
            if not broken:
                return logits, torn
            torn += 1

    def _seen(self, ps, sign, answer, choice, number, flag, ready, fault):
        lit = {"number": number, "flag": flag, "ready": ready, "fault": fault}
        if sign == "-":
            return Seen(ps, "no power", None, lit)
        found = self.signs[int(sign)]
        return Seen(ps, found.name, {"answer": answer, "choice": choice, "": None}[found.value], lit)


def lines(picture):
    """The picture of a display as 32 lines of text: each letter is four of its pixels, which are alike in all that it shows."""
    return ["".join(" #"[lit] for lit in row).rstrip() for row in picture[::2, ::2].astype(int)]


def pbm(picture):
    """The picture of a display as a file, in whose form a 1 is dark."""
    return b"P4\n%d %d\n" % picture.shape[::-1] + np.packbits(~picture, axis=1).tobytes()


def words(seen, classes=()):
    """What a `Seen` says in words.  classes: names of the first classes."""
    if seen.value is None:
        return seen.sign
    name = classes[seen.value] if seen.value < len(classes) else str(seen.value)
    return f"class {name}" if seen.sign == "class" else f"{seen.sign} {name}"


def shows(seen, what, classes=()):
    """Whether a `Seen` says what a script expects: a sign, or a class by its name or number."""
    if seen is None:
        return False
    names = {sign.name for sign in device.SIGNS} | {"no power"}
    if what in names:
        return seen.sign == what
    number = classes.index(what) if what in classes else int(what) if what.isdecimal() else None
    if number is None:
        raise InputError(f"expect {what}: expected a sign ({', '.join(sorted(names))}), or a class by its name or number")
    return seen.sign == "class" and seen.value == number
