"""Energy of a frame and of a lesson, estimated: the events of a simulation, times the energy of each event."""

from ..base.errors import UsageError
from ..base.progress import silent
from ..machine.line import BITS_A_BYTE
from ..rtl.duty_cycle import QUIET_BITS, check_wakes
from ..rtl.qspi_flash import FlashChip
from ..rtl.uart import divider
from ..targets import target as find_target
from ..targets.power import BY_NAME, CAMERAS, CONSTANTS, Bounds
from . import activity as activities

KIND = "estimated: counted in a simulation of the netlist, times constants with bounds; nothing was measured on a board"
FRAMES = 10
"""Pictures of the lesson in the report."""
NOTHING = Bounds(0, 0, 0)
PEER = {"name": "TinBiNN", "part": "iCE40UP5K", "mw": 5.0, "source": "arXiv 1903.06630, its title"}


def estimate(design, images, *, clock_hz=None, baud=None, rates=(1.0, 10.0), activity=None, progress=silent, note=None):
    """The content of `fbnn-hw energy --json`, a dict, of a `Design` on images, uint8 RGB (N, 3, S, S).

    clock_hz: Hz (None: what estimate.json quotes).  baud: bits/s of the line (None: the default of the boards at that clock).
    rates: frames/s at which the average power is wanted.  activity: an `Activity` instead of a simulation.
    Raises UsageError if no board of that clock has such a line, or the design has none, and what `activity.measure` raises.
    """
    clock_hz = clock_hz or design.estimate["clock_hz"]
    sensor = CAMERAS[design.config.camera] if design.config.camera else None
    if sensor:
        if baud:
            raise UsageError(f"{design.folder}: has a camera and no link, expected no --baud")
    else:
        baud = baud or find_target(design.estimate["target"]).baud(clock_hz, design.config.sleeps)
        clocks = divider(clock_hz, baud)
        if design.config.sleeps:
            check_wakes(clocks)
    counted = activity or activities.measure(design, images, progress=progress, note=note)
    first, frame = (_frame(counted, line, compute, clock_hz, baud) for line, compute in (counted.first, (counted.line, counted.compute)))
    compute = _stretch(counted, counted.compute, clock_hz)
    always = always_on(design.config.weights == "stream")
    waiting = Bounds.total(list(energies(counted, counted.waiting, clock_hz).values())) * clock_hz
    sleep = _sleep(waiting, clock_hz, baud) if design.config.sleeps else None
    report = {
        "kind": KIND, "folder": str(design.folder), "part": design.estimate["part"], "images": counted.images, "clock_hz": clock_hz,
        "baud": baud, "first_frame": first, "frame": frame, "compute": compute,
        "static_mw": {name: milli(power) for name, power in always.items()},
        "waiting_mw": milli(waiting + Bounds.total(list(always.values()))),
        **({"asleep_mw": milli(sleep[0]), "nap_mj": milli(sleep[1])} if sleep else {}),
        **({"camera": {"name": sensor.name, "mw": milli(sensor.bounds), "kind": sensor.kind, "source": sensor.source}} if sensor else {}),
        "rates": [_rate(rate, frame, waiting, always, sleep, sensor) for rate in rates],
        **_lesson(design, counted, frame, clock_hz, baud), "peer": PEER,
        "constants": [{"name": c.name, **c.bounds.values(), "unit": c.unit, "kind": c.kind, "source": c.source} for c in CONSTANTS]}
    return report


def _frame(counted, line, compute, clock_hz, baud):
    """`_stretch` of one frame: its bytes on a line of `baud` and its computing, as they were counted."""
    bytes_of = stretched(counted, line, counted.line_bytes, clock_hz, baud) if baud else line
    return _stretch(counted, activities.Counts().add(bytes_of).add(compute), clock_hz)


def milli(bounds):
    """Convert Bounds in J or W to {"low", "typical", "high"} in mJ or mW."""
    return (bounds * 1e3).values()


def stretched(counted, counts, size, clock_hz, baud):
    """Convert counts of `size` bytes on the simulated line to counts on a line of `baud`.

    The cycles that a slower line adds, and a faster one saves, count as waiting.
    """
    more = BITS_A_BYTE * size * (clock_hz / baud - counted.clocks)
    return activities.Counts().add(counts).add(counted.waiting, more)


def energies(counted, counts, clock_hz):
    """{part: Bounds in J} of counted events, without static power."""
    use = BY_NAME
    parts = {"clock": use["clock"] * counts.cycles + use["flip_flop"] * (counts.cycles * sum(counted.flip_flops.values()))}
    for part, toggles in sorted(counts.toggles.items()):
        parts[part] = use["toggle"] * toggles + use["multiplier"] * counts.multiplies[part]
    parts["feature memory (SPRAM)"] = use["bank"] * sum(counts.banks.values())
    parts["block RAM"] = use["block"] * sum(counts.blocks.values())
    parts["pins of the flash"] = use["pin"] * counts.pins["flash_edges"]
    parts["pins of the line" if counted.line_bytes else "pins of the camera"] = use["pin"] * counts.pins["line_edges"]
    # Selected, a flash whose clock stands still draws something between nothing and what it draws for reading.
    reads, selected = counts.pins["flash_clocks"] / clock_hz, counts.pins["flash_selected"] / clock_hz
    parts["flash, reading"] = Bounds(use["flash_read"].low * reads, use["flash_read"].typical * reads, use["flash_read"].high * selected)
    return {name: energy for name, energy in parts.items() if energy.high}


def always_on(flash):
    """{part: Bounds in W} of the parts that draw the same power all the time.  flash: whether the design reads one."""
    parts = {"FPGA": BY_NAME["static"], "PLL": BY_NAME["pll"]}
    if flash:
        parts["flash, standby"] = BY_NAME["flash_standby"]
    return parts


def _stretch(counted, counts, clock_hz):
    """The object of the JSON for some cycles: time, energy of each part, energy in all."""
    parts = energies(counted, counts, clock_hz)
    return {"cycles": round(counts.cycles), "seconds": counts.cycles / clock_hz,
            "parts_mj": {name: milli(energy) for name, energy in parts.items()}, "total_mj": milli(Bounds.total(list(parts.values())))}


def bounds_of(values):
    """Inverse of `milli`: `Bounds` in J or W."""
    return Bounds(values["low"], values["typical"], values["high"]) * 1e-3


def _sleep(waiting, clock_hz, baud):
    """Return (Bounds in W of a board that sleeps, Bounds in J that falling asleep and waking up take beside a frame).

    The low bound assumes that the clock stops at its source.  In the typical and the high one, PLL and
    the net in front of the gate go on, as in `DutyCycle`.
    """
    use = BY_NAME
    source = use["clock"] * clock_hz + use["pll"]
    asleep = use["static"] + use["flash_asleep"] + Bounds(0, source.typical, source.high)
    wait = FlashChip().wait_s
    return asleep, (waiting + use["static"] + source) * (QUIET_BITS / baud + 2 * 2 ** (int(wait * clock_hz).bit_length()) / clock_hz)


def _rate(rate, frame, waiting, always, sleep, sensor):
    """Mean power at a number of frames/s.  `possible` is false where a frame takes longer than its share of a second."""
    share = min(1.0, rate * frame["seconds"])
    own = bounds_of(frame["total_mj"]) * rate
    constant = Bounds.total(list(always.values()))
    values = {"frames_per_second": rate, "possible": rate * frame["seconds"] <= 1,
              "clock_runs_mw": milli(own + waiting * (1 - share) + constant)}
    if sleep:
        asleep, nap = sleep
        values["sleeps_mw"] = milli(own + constant * share + nap * rate + asleep * (1 - share))
    if sensor:
        values["with_camera_mw"] = milli(bounds_of(values["clock_runs_mw"]) + sensor.bounds)
    return values


def _lesson(design, counted, frame, clock_hz, baud):
    """{"lesson": one sample learned, and a lesson of FRAMES pictures}; {} where the design does not learn."""
    if counted.lesson is None:
        return {}
    from ..machine.cycles import learn_cycles

    line = stretched(counted, activities.Counts(), counted.lesson_bytes, clock_hz, baud)
    cycles = learn_cycles(design.config)
    counts = activities.Counts().add(counted.lesson, cycles / counted.lesson.cycles).add(line)
    sample = _stretch(counted, counts, clock_hz)
    whole = (bounds_of(frame["total_mj"]) + bounds_of(sample["total_mj"])) * FRAMES
    return {"lesson": {"simulated_cycles": round(counted.lesson.cycles), "sample": sample, "pictures": FRAMES, "total_mj": milli(whole),
                       "seconds": FRAMES * (frame["seconds"] + sample["seconds"])}}


def groups(parts):
    """{group: Bounds in J} of `parts_mj`: accelerator, memories, flash, clock, and link, or camera with all that it has beside it."""
    names = {"clock": "clock", "feature memory (SPRAM)": "memories", "block RAM": "memories", "pins of the flash": "flash",
             "flash, reading": "flash", "reader": "flash", "image": "flash", "link": "link", "pins of the line": "link"}
    rest = "camera" if "camera" in parts else "link"
    result = {}
    for name, values in parts.items():
        group = "accelerator" if name.startswith("accelerator.") else names.get(name, rest)
        result[group] = result.get(group, NOTHING) + bounds_of(values)
    return result
