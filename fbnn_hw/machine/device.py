"""What a device without a computer shows and does: its buttons, its signs, and the state machine between camera and accelerator.

`rtl.device_top` is built from these tables, `simulate.device` says what they mean, and docs/device.md and
docs/device-hardware.md repeat them.  On a display a sign has its name.
"""

from dataclasses import dataclass

CAMERAS = "ov7670", "hm01b0"
"""The sensors that a design can have; `rtl.camera.sensors` knows them."""
DISPLAYS = "ssd1306",
"""The displays; `rtl.camera.display` knows them."""
BUTTONS = {"teach": "learn", "choose": "learn", "forget": "forget", "undo": "keep"}
"""{button: what a design must have for it to do something}"""
NUMBER_LEDS = 4
"""LEDs that show a class's number in binary, the lowest bit first."""
SENSOR_PINS = "pclk", "href", "vsync", "xclk", "sioc", "siod", "reset", "pwdn"
"""Pins of a camera's module beside its data lines."""
DATA_PINS = 8
STRAPPED = "reset", "pwdn"
"""Those that may be tied to a level beside the FPGA."""
OFF, ON, SLOW, FAST = "off", "on", "slow", "fast"
"""What an LED does; slow and fast are its blinking, once and eight times in 2^9 ticks."""


@dataclass(frozen=True)
class Sign:
    """What the LEDs say.  The first sign of `SIGNS` whose condition holds is shown.

    number, flag, ready, fault: what these LEDs do.
    """

    name: str
    meaning: str
    value: str = ""  # whose number the LEDs of the number show, "answer" or "choice"; "" where they are dark
    number: str = OFF
    flag: str = OFF
    ready: str = OFF
    fault: str = OFF
    needs: str = ""  # what a design must have for the sign


SIGNS = (
    Sign("wrong flash", "the flash holds no weights of this design", fault=ON),
    Sign("starting", "weights come from the flash, tables are made, the sensor gets its registers"),
    Sign("keeping", "what was learned is written to the flash, or read from it", ready=FAST, needs="keep"),
    Sign("linked", "a computer has asked for something within the last second", flag=SLOW, ready=ON, needs="link"),
    Sign("no camera", "no sensor's frame has begun for some 0.1 s", fault=SLOW),
    Sign("not kept", "the flash is worn or not there: what was learned goes with the power", ready=SLOW, fault=FAST, needs="keep"),
    Sign("full", "the class that is taught has no room", value="choice", number=ON, flag=FAST, fault=FAST, needs="learn"),
    Sign("learning", "teach is held: each image is learned as the class that is chosen", value="choice", number=ON, flag=FAST, ready=ON,
         needs="learn"),
    Sign("choosing", "choose was pressed: the class that teach and forget are for", value="choice", number=SLOW, ready=ON, needs="learn"),
    Sign("kept", "what was learned lies in the flash", ready=SLOW, needs="keep"),
    Sign("waiting", "no image has an answer yet", ready=ON),
    Sign("unknown", "the image is of no class that it knows", flag=ON, ready=ON, needs="learn"),
    Sign("class", "the answer", value="answer", number=ON, ready=ON),
)


@dataclass(frozen=True)
class Step:
    """From `state`, where `condition` holds and no earlier one of the state does, to `then`.  needs: as of `Sign`."""

    state: str
    condition: str
    then: str
    needs: str = ""


STEPS = (
    Step("START", "ready", "LOOK"),
    Step("LOOK", "image", "SEE"),
    Step("LOOK", "wish", "HOLD", "learn"),
    Step("LOOK", "called", "LINK", "link"),
    Step("HOLD", "image", "SEE", "learn"),  # it began in the clock before, and has to be taken
    Step("HOLD", "undo", "UNDO", "keep"),
    Step("HOLD", "forget", "FORGET", "forget"),
    Step("HOLD", "taught", "KEEP", "learn"),
    Step("HOLD", "nothing", "LOOK", "learn"),
    Step("SEE", "torn", "LOOK"),
    Step("SEE", "lesson", "LEARN", "learn"),
    Step("SEE", "answer", "LOOK"),
    Step("LEARN", "taken", "WAIT", "learn"),
    Step("WAIT", "rests", "LOOK", "learn"),
    Step("FORGET", "last", "SHRINK", "forget"),
    Step("FORGET", "marked", "KEEP", "forget"),
    Step("SHRINK", "fewer", "KEEP", "forget"),
    Step("KEEP", "kept", "LOOK", "learn"),
    Step("UNDO", "restored", "LOOK", "keep"),
    Step("LINK", "changed", "KEEP", "linked lessons"),
    Step("LINK", "silent", "LOOK", "link"),
)


def has(learning, keeps=False, link=False):
    """What a design has of "learn", "forget", "keep" and "link", and "", which every one has.  learning: its LearnPlan or None.

    A learner with a replay buffer cannot forget by itself, since the exemplars of a class lie anywhere in the buffer.
    """
    found = {""} | ({"learn"} if learning else set()) | ({"forget"} if learning and learning.forget and learning.adds else set())
    found |= ({"link"} | ({"linked lessons"} if learning else set())) if link else set()
    return found | ({"keep"} if learning and keeps else set())


def buttons(found):
    """Names of the buttons that a design has.  found: as `has` gives it."""
    return tuple(button for button, needs in BUTTONS.items() if needs in found)


def of_design(table, found):
    """The rows of a table, each with `needs`, that a design has."""
    return tuple(row for row in table if row.needs in found)
