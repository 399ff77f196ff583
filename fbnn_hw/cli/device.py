"""`fbnn-hw device`: a generated design with a camera, simulated among its parts."""

from pathlib import Path

from ..base import files
from ..base.errors import InputError, MismatchError, plural
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "simulate a design with a camera among sensor, buttons, LEDs, display and flash, and print what they say"
EXAMPLES = (
    ("fbnn-hw device --images pictures/", "the pictures of a folder come before the lens, one after the other; a learner is taught first"),
    ("fbnn-hw device --images pictures/ --script day.txt", "what happens is in a file, a time and an event a line"),
)
FRAME_SECONDS = 0.04
"""That a picture stays before the lens: more than a frame of either sensor."""
PRESS_SECONDS = 0.05
"""That a button is held, and let go, in a lesson: longer than it bounces and than it is looked at."""
PROGRAM_SECONDS, ERASE_SECONDS = 0.7e-3, 45e-3
"""Typical times of the flash's model for a page and a sector."""
START_SECONDS = 0.1
"""Within which a device has set up its sensor."""


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate --camera` wrote")
    parser.add_argument("--images", metavar="FOLDER", required=True,
                        help="pictures that come before the lens, FOLDER/cat/1.jpg or FOLDER/1.jpg; a script names them from there")
    parser.add_argument("--script", metavar="FILE",
                        help="a time in seconds and an event a line: show FILE, press BUTTON, release BUTTON, cut power, restore power, "
                        "stop sensor, start sensor, expect SIGN or CLASS, save FILE.pbm of the display (fbnn-hw help device.md)")
    parser.add_argument("--pictures", type=_common.count, default=2, metavar="N",
                        help="without a script: pictures of a class that are taught (default: 2)")
    parser.add_argument("--seed", type=_common.natural, default=1, metavar="N", help="of jitter and bouncing (default: 1)")


def run(args: Args, out: Output) -> None:
    from ..simulate.device.device import PS, SimulatedDevice, lines

    design = _common.design(args, out)
    simulated = SimulatedDevice(design, args.seed, out.note)
    events, names, end = _events(args, simulated, design)
    seen: list = []
    missed: list[str] = []
    with simulated as device:
        player = _Player(device, out, names or list(design.classes), seen, missed)
        for event in events:
            player.play(event)
        player.watch(max(device.now, end))
        faults, sensor, seconds = device.faults, device.sensor, device.now / PS
        display = lines(device.picture()) if device.config.display else None
    if display:
        out.text("", "display", *(f"  {line}" for line in display))
    out.text("", f"time     {seconds:.2f} s of the device, simulated at {36:g} MHz", f"sensor   {sensor}",
             *(f"fault    {what}, {count} times" for what, count in faults.items()))
    result = {"folder": design.folder, "seconds": seconds, "sensor": sensor, "faults": faults, "seen": seen, "missed": missed,
              "display": display}
    if missed:
        raise MismatchError(f"{args.script or args.images}: {len(missed)} {plural(len(missed), 'expectation')} not met; the first: "
                            f"{missed[0]}", result)
    out.result(result)


class _Player:
    """Lets events happen to a device, and prints what it shows."""

    def __init__(self, device, out, names, seen, missed):
        self.device, self.out, self.names, self.seen, self.missed = device, out, names, seen, missed
        self.held: set[str] = set()
        self.last = None

    def play(self, event):
        from ..simulate.device import device as simulated

        self.watch(event.ps)
        device, what, time = self.device, event.what, f"{event.ps / simulated.PS:8.3f} s"
        if event.event == "expect":
            if not simulated.shows(self.last, what, self.names):
                shown = simulated.words(self.last, self.names) if self.last else "nothing"
                self.missed.append(f"line {event.line}: at {time.strip()} it shows {shown}, expected {what}")
            return
        self.out.text(f"{time}  {event.event} {Path(what).name if isinstance(what, Path) else what}")
        if event.event == "show":
            device.show(_picture(what))
        elif event.event in ("press", "release"):
            (self.held.add if event.event == "press" else self.held.discard)(what)
            device.press(*sorted(self.held))
        elif event.event == "save":
            files.write(what, simulated.pbm(device.picture()))
        elif event.event in ("cut", "restore"):
            device.power(event.event == "restore")
        else:
            device.set("stopped", int(event.event == "stop"))

    def watch(self, ps):
        from ..simulate.device import device as simulated

        for one in self.device.until(ps):
            self.last = one
            text = simulated.words(one, self.names)
            self.seen.append({"seconds": one.ps / simulated.PS, "sign": one.sign, "value": one.value, "text": text})
            self.out.text(f"{one.ps / simulated.PS:8.3f} s      {text}")


def _picture(path):
    """uint8 RGB (3, H, W) of a file, its centre square."""
    from ..data import images
    from ..reference.camera import WINDOW

    return images.read(path, WINDOW, resize=True)[0]


def _events(args, device, design):
    """(events in time's order, names of the classes that are taught, if any, the time in ps until which the device is seen): of the script,
    or of the pictures."""
    from ..data import folder
    from ..simulate.device import script

    if args.script:
        if not Path(args.images).is_dir():
            raise InputError(f"--images {args.images}: is no folder, expected one with the pictures that the script names")
        return script.read(args.script, device.buttons, Path(args.images), bool(design.config.display)), None, 0
    pictures = folder.pictures(args.images)
    classes = list(dict.fromkeys(name for _, name in pictures if name is not None))
    events = _Events(START_SECONDS)
    learning = design.config.learning
    if not (learning and classes and not design.classes):
        for file, _ in pictures:
            events.add(0, "show", file)
            events.wait(2 * FRAME_SECONDS)
        return events.all, None, events.ps
    if len(classes) > learning.max_classes:
        raise InputError(f"{args.images}: has {len(classes)} classes, the design has room for {learning.max_classes}")
    for number, name in enumerate(classes):
        own = [file for file, of in pictures if of == name]
        if len(own) <= args.pictures:
            raise InputError(f"{args.images}: {len(own)} {plural(len(own), 'picture')} of {name}, expected more than the {args.pictures} "
                             "that are taught; give --pictures")
        if number:
            events.click("choose")
        events.add(0, "show", own[0])
        events.wait(FRAME_SECONDS)
        events.add(0, "press", "teach")
        for file in own[:args.pictures]:
            events.add(0, "show", file)
            events.wait(FRAME_SECONDS)
        events.wait(PRESS_SECONDS - FRAME_SECONDS)
        events.add(0, "release", "teach")
        events.wait(PRESS_SECONDS + _keeps(design.config))
    for name in classes:
        for file in [file for file, of in pictures if of == name][args.pictures:]:
            events.add(0, "show", file)
            events.wait(2 * FRAME_SECONDS)
    return events.all, classes, events.ps


def _keeps(config):
    """Seconds that a design with --keep takes to erase a slot, and to write and read it back; meanwhile it does not learn."""
    from ..machine.kept import SlotPlan
    from ..simulate.device.device import CLOCK_HZ

    if not config.keeps:
        return 0
    slot = SlotPlan(config.learning)
    return slot.sectors * ERASE_SECONDS + slot.pages * PROGRAM_SECONDS + slot.bytes * 100 / CLOCK_HZ  # of a byte 32 clocks twice, and more


class _Events:
    """Events one after the other."""

    def __init__(self, start):
        self.now, self.all = start, []

    @property
    def ps(self):
        from ..simulate.device.device import PS

        return round(self.now * PS)

    def add(self, seconds, event, what):
        from ..simulate.device.script import Event

        self.now += seconds
        self.all.append(Event(self.ps, event, what, len(self.all) + 1))

    def wait(self, seconds):
        self.now += seconds

    def click(self, button):
        self.add(0, "press", button)
        self.add(PRESS_SECONDS, "release", button)
        self.wait(PRESS_SECONDS)
