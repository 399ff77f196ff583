"""The parts around a device as models: camera sensors, flash, buttons, display.

The models are C++ and stand once in fbnn_hw/simulate/device: the simulated device includes them, since a frame of the sensor is 1.2
million clocks of the design, and the benches here step them through ctypes, by the compiler that the device needs anyway.
"""

import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np

from fbnn_hw.base import files
from fbnn_hw.base.errors import ToolError
from fbnn_hw.simulate import simulator
from fbnn_hw.simulate.device.device import SOURCES

FUNCTIONS_IN_C = Path(__file__).with_name("parts.cpp")
OPTIONS = "-std=gnu++17", "-O2", "-shared", "-fPIC", f"-I{SOURCES}"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
FUNCTIONS = {"new": (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64), "delete": (None, ctypes.c_void_p),
             "at": (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32),
             "run": (None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p),
             "power": (None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int),
             "value": (ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_char_p),
             "memory": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)),
             "text": (ctypes.c_char_p, ctypes.c_void_p), "faults": (ctypes.c_char_p, ctypes.c_void_p)}


@functools.cache
def library():
    """The compiled models, kept in the user's cache until a source changes.  Raises ToolError where there is no compiler."""
    compiler = ["g++"] if shutil.which("g++") else [sys.executable, "-m", "ziglang", "c++"]
    key = simulator._hash([*compiler, *OPTIONS, *(path.read_text() for path in (FUNCTIONS_IN_C, *sorted(SOURCES.glob("*.h"))))])
    path = files.cache_folder() / "parts" / f"{key[:16]}{SUFFIX}"
    if not path.is_file():
        simulator.check_tools("the models of parts")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            done = subprocess.run([*compiler, *OPTIONS, str(FUNCTIONS_IN_C), "-o", str(made)], capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                raise ToolError(f"{compiler[-1]} failed on {FUNCTIONS_IN_C}: {(done.stderr.splitlines() or ['no message'])[0]}")
            made.replace(path)
    found = ctypes.CDLL(str(path))
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(found, f"part_{name}")
        function.restype, function.argtypes = result, arguments
    return found


class Part:
    """A model.  `part["name"]` is an option or what it can be asked for, as the C++ lists them; all are whole numbers.

    seed: of all that is random in it.  options: values to begin with.
    KIND: its name in C++.  INPUTS, OUTPUTS: {pin: (lowest bit, bits)}; inputs that are not given keep their level, at first IDLE's.
    """

    KIND = ""
    INPUTS: dict = {}
    OUTPUTS: dict = {}
    IDLE: dict = {}

    def __init__(self, seed=0, **options):
        self._library = library()
        self._part = self._library.part_new(self.KIND.encode(), seed)
        self._pins = 0
        self._outputs = namedtuple("Outputs", self.OUTPUTS)
        self._set(self.IDLE)
        for name, value in options.items():
            self[name] = value

    def __del__(self):
        if hasattr(self, "_part"):
            self._library.part_delete(self._part)

    def _set(self, levels):
        for name, level in levels.items():
            low, bits = self.INPUTS[name]
            self._pins = self._pins & ~(((1 << bits) - 1) << low) | level << low

    def at(self, ps, **levels):
        """Set inputs at a time in picoseconds, which never falls -> a named tuple of the outputs."""
        self._set(levels)
        word = self._library.part_at(self._part, ps, self._pins)
        return self._outputs(*(word >> low & (1 << bits) - 1 for low, bits in self.OUTPUTS.values()))

    def run(self, ps, step, **levels):
        """Set inputs, arrays of one length, every `step` picoseconds from a time on -> a named tuple of arrays of the outputs."""
        words = np.full(len(next(iter(levels.values()))), self._pins, np.uint32)
        for name, level in levels.items():
            low, bits = self.INPUTS[name]
            words = words & ~np.uint32((1 << bits) - 1 << low) | np.asarray(level).astype(np.uint32) << low
        out = np.empty_like(words)
        self._library.part_run(self._part, ps, step, len(words), words.ctypes.data, out.ctypes.data)
        self._pins = int(words[-1])
        return self._outputs(*(out >> low & (1 << bits) - 1 for low, bits in self.OUTPUTS.values()))

    def power(self, ps, on):
        """Switch its supply on or off."""
        self._library.part_power(self._part, ps, on)

    def _value(self, name):
        found = self._library.part_value(self._part, name.encode())
        if not found:
            raise KeyError(f"{self.KIND} has no {name}")
        return found

    def __getitem__(self, name):
        return self._value(name)[0]

    def __setitem__(self, name, value):
        self._value(name)[0] = value

    def memory(self, which=0, dtype=np.uint8):
        """A memory of the model as an array, which changes it."""
        size = ctypes.c_uint64()
        place = self._library.part_memory(self._part, which, size)
        array = np.frombuffer((ctypes.c_uint8 * size.value).from_address(place), dtype)
        array.flags.writeable = True
        return array

    @property
    def faults(self):
        """{what the data sheet forbids: how often it was done}"""
        lines = self._library.part_faults(self._part).decode().splitlines()
        return {what: int(count) for count, what in (line.split(" ", 1) for line in lines)}

    def __str__(self):
        return self._library.part_text(self._part).decode()


class Flash(Part):
    """A W25Q128JV.  memory(0): its 16 MiB.  memory(1, "u4"): how often each sector was erased."""

    KIND = "flash"
    INPUTS = {"select_n": (0, 1), "clk": (1, 1), "io": (4, 4), "enable": (8, 4)}
    OUTPUTS = {"io": (0, 4), "driven": (4, 4)}
    IDLE = {"select_n": 1}


class Sensor(Part):
    """memory(0): the scene.  memory(1): the registers.  str() says what they ask for."""

    INPUTS = {"xclk": (0, 1), "sioc": (1, 1), "siod": (2, 1)}
    OUTPUTS = {"data": (0, 8), "pclk": (8, 1), "href": (9, 1), "vsync": (10, 1), "pulls": (11, 1)}
    IDLE = {"sioc": 1, "siod": 1}


class Ov7670(Sensor):
    """An OV7670 before a scene of 320 x 240."""

    KIND = "ov7670"
    INPUTS = Sensor.INPUTS | {"reset_n": (3, 1), "pwdn": (4, 1)}
    IDLE = Sensor.IDLE | {"reset_n": 1}

    def show(self, picture):
        """Put a picture before the lens, from the next frame on -> its RGB565 words, (240, 320), of which bytes give the high bits.

        picture: these words, or the bytes of one in RGB, (240, 320, 3).
        """
        if picture.ndim == 3:
            red, green, blue = np.moveaxis(picture.astype(np.uint16), 2, 0)
            picture = red >> 3 << 11 | green >> 2 << 5 | blue >> 3
        self.memory(dtype="<u2")[:] = picture.reshape(-1)
        return picture


class Hm01b0(Sensor):
    """A HM01B0, grey, before a scene of 324 x 324; 244 rows of it, from the 40th on, where its registers ask for QVGA."""

    KIND = "hm01b0"

    def show(self, picture):
        """Put the bytes of a grey picture, (324, 324), before the lens."""
        self.memory()[:] = picture.reshape(-1)


class Buttons(Part):
    """Up to 32 buttons that bounce.  part["pressed"]: a bit each."""

    KIND = "buttons"
    OUTPUTS = {"levels": (0, 32)}


class Ssd1306(Part):
    """A display of 128 x 64.  memory(0): its GDDRAM."""

    KIND = "ssd1306"
    INPUTS = {"scl": (0, 1), "sda": (1, 1)}
    OUTPUTS = {"pulls": (0, 1)}
    IDLE = {"scl": 1, "sda": 1}

    def picture(self):
        """What one sees, (64, 128) of bool, on a module that is upright with A1 and C8, as nearly all are; dark without charge pump."""
        if not (self["on"] and self["pump"]):
            return np.zeros((64, 128), bool)
        memory = np.unpackbits(self.memory().reshape(8, 128, 1), axis=2, bitorder="little").transpose(0, 2, 1).reshape(64, 128) > 0
        rows = np.arange(64)
        seen = memory[(rows + self["start"] + self["offset"]) % 64] | bool(self["all"])
        seen = (seen ^ bool(self["inverted"])) & (rows < self["rows"])[:, None]
        return seen[:: 1 if self["flipped"] else -1, :: 1 if self["mirrored"] else -1]
