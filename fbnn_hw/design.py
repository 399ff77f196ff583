"""A generated design: the folder that `generate` writes, opened and checked in one place."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from .base import files
from .base.errors import InputError, UsageError, is_name, nearest, show, whole
from .base.progress import silent
from .compile.config import AcceleratorConfig
from .ir import file as ir_file
from .protocol import DEFAULT_BAUD
from .targets import TARGETS

OUT = "rtl_out"
"""The folder that designs are written to.  It is searched where no design is named."""
EXAMPLE = "example"
"""A small design that is in git, in OUT; it is taken only where there is no other."""
LEARNERS = "replay", "prototypes", "means"
"""How a design may learn."""
INPUTS = "rgb", "levels"
"""What an accelerator takes of a pixel: its bytes, or the levels that its network makes of them."""
WRAPPERS = ("axi-stream",)
"""What can stand around an accelerator; emit.integration writes them."""
MOST_BYTES = 2 ** 28
MANIFEST_BYTES = 2 ** 20
"""Bounds on the files of a design, far above those of the largest network."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DIGEST = re.compile(r"[0-9a-f]{64}")
MARK = re.compile(r"[0-9a-f]{8}")
REQUIRED = ("accelerator.v", "bench.py", "config.json", "estimate.json", "golden.npz", "layout.json", "network.json", "parameters.vh",
            "simulator.py", "test_accelerator.py", "testbench.v", "weights.hex")
WRITTEN = "a folder that `fbnn-hw generate` wrote"
AGAIN = "expected what `fbnn-hw generate` wrote; generate the folder again"


class Design:
    """A generated folder, opened.  Each of its files has the hash that the manifest states.

    Parameters
    ----------
    folder : str or Path
        What `generate` wrote.

    Attributes
    ----------
    folder : Path
    manifest, estimate, layout : dict
        Contents of manifest.json, estimate.json and layout.json.
    config : compile.config.AcceleratorConfig
        What the hardware is built from.

    Raises
    ------
    InputError
        A file is missing, damaged or of another kind.
    """

    def __init__(self, folder: str | Path) -> None:
        if not isinstance(folder, str | Path):
            raise InputError(f"design {show(folder)}: expected a folder that `fbnn-hw generate` wrote, as text or as a Path")
        self.folder = Path(folder)
        self.manifest: dict = _manifest(self.folder / "manifest.json")
        self.check()
        self.config: AcceleratorConfig = self._config()
        if len(self.classes) != self.config.classes:
            raise InputError(f"{self.folder / 'manifest.json'}: {len(self.classes)} classes, expected the {self.config.classes} of "
                             "config.json; generate the folder again")
        self.estimate: dict = self._values("estimate.json", _estimate_fault)
        self.layout: dict = self._values("layout.json", lambda values: _layout_fault(values, self.config))

    def check(self) -> None:
        """Compare every file with its hash in the manifest.  Raises InputError at the first that differs."""
        for name, digest in self.manifest["files"].items():
            data = self.read(name)
            if sha256(data).hexdigest() != digest:
                raise InputError(f"{self.folder / name}: differs from what was generated, by its hash in manifest.json; "
                                 "generate the folder again")

    def read(self, name: str) -> bytes:
        """The bytes of one of its files.  Raises InputError where it is missing or too large."""
        if not (self.folder / name).exists():
            raise InputError(f"{self.folder / name}: not found, expected because manifest.json names it; generate the folder again")
        return files.read(self.folder / name, MOST_BYTES, "the file that `fbnn-hw generate` wrote")

    @cached_property
    def network(self):
        """Its `ir.network.Network`, with the weights.  Raises InputError where network.json is damaged."""
        path = self.folder / "network.json"
        return ir_file.loads(self.read(path.name).decode(errors="replace"), path)

    @property
    def target(self):
        """Its `targets.Target`: the part, and what the planner knows of it."""
        return TARGETS[self.estimate["target"]]

    @property
    def config_id(self) -> str:
        """The configuration id, 8 hexadecimal digits: it names the hardware, not the weights.  A board answers with it."""
        return self.manifest["config_id"]

    @property
    def model_mark(self) -> str:
        """The model mark, 8 hexadecimal digits: it names the network with its weights.  A board answers with it."""
        return self.manifest["ir_sha256"][:8]

    @property
    def classes(self) -> list[str]:
        """Names of the classes that the hardware knows after reset, in the order of the logits."""
        return self.manifest["classes"]

    def learner(self):
        """A new reference `Learner` in the state after reset.  Raises UsageError where the design does not learn."""
        from .emit.output import learner_of

        if self.config.learning is None:
            raise UsageError(f"{self.folder}: this design does not learn, expected one made with fbnn-hw generate --learn")
        return learner_of(self.network, self.config)

    def pixels(self, images) -> list[bytes]:
        """Images, uint8 RGB (N, 3, S, S), as the bytes that its accelerator takes at `pixels`.  Raises InputError for other arrays."""
        from .reference.encode import checked, to_bytes

        images = checked(images, self.config.size)
        op = self.network.topology.ops[0] if self.config.takes_levels else None
        return [row.tobytes() for row in to_bytes(images, op)]

    def simulate(self, images=None, *, stall=False, latent=False, netlist=False, waves=False, progress=silent, note=None):
        """Run the Verilog in Verilator and compare every layer of every image with the reference.

        Parameters
        ----------
        images : uint8 array (N, 3, S, S), optional
            RGB; by default the first two images that ship.
        stall : bool
            Pause every stream at random.
        latent : bool
            Read the latent out and compare it, too.
        netlist : bool
            Simulate the netlist after synthesis instead, of which logits and classes are compared.
        waves : bool or str
            Record a waveform of the first image; with the name of a layer or of an operation, of
            that layer alone.  The simulation then ends after the layer.
        progress : callable
            Makes a progress bar, as tqdm does.
        note : callable, optional
            Called with lines for the user.

        Returns
        -------
        emit.simulation.Simulation
            `equal` says whether all bits, and all cycles that must, were as expected.

        Raises
        ------
        InputError
            The images have another shape or type, or another program simulates this design.
        UsageError
            The options do not fit the design.
        ToolError
            A compiler is missing or fails.
        MismatchError
            The simulation does not end.
        """
        from .data.datasets import test_images
        from .emit import simulation

        images = test_images(self.config.size, 2) if images is None else images
        return simulation.simulate(self, images, stall=stall, latent=latent, netlist=netlist, waves=waves, progress=progress, note=note)

    def energy(self, images=None, *, clock_hz=None, baud=None, rates=(1.0, 10.0), progress=silent, note=None) -> dict:
        """Estimate the energy of a frame and of a lesson, from a simulation of the netlist.

        Parameters
        ----------
        images : uint8 array (N, 3, S, S), optional
            RGB; by default the first two images that ship.
        clock_hz : float, optional
            Clock of the design in Hz; by default that of its target.
        baud : int, optional
            Bits a second on the line; by default that of the part's boards at this clock.
        rates : sequence of float
            Frames a second for which the mean power is estimated.
        progress, note
            As of `simulate`.

        Returns
        -------
        dict
            The object that `fbnn-hw energy --json` prints, in mJ and mW, with low, typical and
            high bounds.

        Raises
        ------
        InputError, UsageError, ToolError, MismatchError
            As `simulate`; UsageError also for another part than an iCE40UP5K, and for a line that no
            board has at that clock.
        """
        from .data.datasets import test_images
        from .emit import energy

        images = test_images(self.config.size, 2) if images is None else images
        return energy.estimate(self, images, clock_hz=clock_hz, baud=baud, rates=rates, progress=progress, note=note)

    def _json(self, name):
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError):
            raise InputError(f"{self.folder / name}: not JSON, {AGAIN}") from None

    def _values(self, name, fault):
        values = self._json(name)
        if problem := fault(values):
            raise InputError(f"{self.folder / name}: {problem}, {AGAIN}")
        return values

    def _config(self):
        path = self.folder / "config.json"
        try:
            text = self.read(path.name).decode()
            if (frames := json.loads(text).get("frames", 1)) != 1:
                raise InputError(f"{path}: a design of {show(frames)} frames a pass, as version 0.2 made them, expected one; generate the "
                                 "folder again")
            config = AcceleratorConfig.from_json(text)
            sizes = config.pixels, config.lanes, config.outputs, config.size, config.result_classes
            if all(whole(size, 1, 2 ** 16) for size in sizes) and whole(config.classes) and config.program_words():
                return config
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError):
            pass
        raise InputError(f"{path}: damaged, {AGAIN}")


def _manifest(path):
    """The checked content of manifest.json."""
    try:
        values = json.loads(files.read(path, MANIFEST_BYTES, WRITTEN))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InputError(f"{path}: damaged, {AGAIN}")
    hashes, classes = values.get("files"), values.get("classes")
    if not (isinstance(hashes, dict) and all(FILE_NAME.fullmatch(name) and _matches(DIGEST, digest) for name, digest in hashes.items())):
        raise InputError(f"{path}: damaged list of files, {AGAIN}")
    if missing := [name for name in REQUIRED if name not in hashes]:
        raise InputError(f"{path}: names no {missing[0]}, {AGAIN}")
    if not (isinstance(classes, list) and all(map(is_name, classes))):
        raise InputError(f"{path}: damaged list of classes, {AGAIN}")
    if not _matches(MARK, values.get("config_id")) or values.get("ir_sha256") != hashes["network.json"]:
        raise InputError(f"{path}: damaged marks of configuration and model, {AGAIN}")
    return values


def _matches(pattern, value):
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _estimate_fault(values):
    """The fault of the content of estimate.json, in words, or ""."""
    if not isinstance(values, dict) or values.get("target") not in TARGETS:
        return "names no target"
    for name in ("cycles", "first_cycles", "load_cycles", "lut4"):
        if not whole(values.get(name), 0 if name in ("load_cycles", "lut4") else 1):
            return f"{name} is no count"
    passes, period = values.get("pass_cycles", [1]), values.get("pass_period", 1)  # folders of before 0.2.9 have neither
    if not isinstance(passes, list) or not passes or not all(map(whole, passes)) or not whole(period, 0, len(passes) + 1):
        return "pass_cycles are no counts"
    clock = values.get("clock_hz")
    if type(clock) not in (int, float) or not 0 < clock < 1e12:
        return "clock_hz is no frequency"
    layers = values.get("layers")
    if not isinstance(layers, list) or not all(isinstance(layer, dict) and isinstance(layer.get("layer"), str) for layer in layers):
        return "layers are not listed"
    return ""


def _layout_fault(values, config):
    """The fault of the content of layout.json, in words, or ""."""
    if not isinstance(values, dict):
        return "is no object"
    for name, expected in (("pixels", config.pixels), ("lanes", config.lanes), ("classes", config.classes), ("frames", 1)):
        if values.get(name) != expected:
            return f"{name} is not that of config.json"
    layers, latent = values.get("layers"), values.get("latent_bits")
    if not isinstance(layers, dict):
        return "layers are missing"
    if not isinstance(latent, list) or not all(whole(bit) for bit in latent):
        return "latent_bits are no list of places"
    for name, place in layers.items():
        if not _place(place, config.lanes):
            return f"layer {name[:60]!a} has no place"
    return ""


def _place(place, lanes):
    """Whether an entry of layout.json says where a layer lies."""
    if not isinstance(place, dict):
        return False
    shape, words, steps, base = (place.get(name) for name in ("shape", "lanes", "steps", "base"))
    if not all(isinstance(values, list) for values in (shape, words, steps, base)) or len(shape) != 3:
        return False
    if not all(whole(n, 1, 2 ** 17) for n in shape) or not len(steps) == len(base) == 1:
        return False
    channels = range(-1, shape[0])
    return (all(whole(n, 0, 2 ** 16) for n in (*steps, *base))
            and all(whole(place.get(name), 1, 2 ** 16) for name in ("pitch", "columns"))
            and whole(place.get("word_stride", 1), 1, 2 ** 16)
            and all(isinstance(word, list) and len(word) == lanes for word in words)
            and all(type(channel) is int and channel in channels for word in words for channel in word))


def newest(root: str | Path = OUT, learns: bool = False) -> Path:
    """Path of the youngest generated folder under `root`, EXAMPLE only where there is no other.

    learns: of those that learn.  Raises InputError where there is none.
    """
    folders = _folders(root)
    if learns and folders and not (folders := list(filter(_learns, folders))):
        raise InputError(f"{root}: no design that learns; run fbnn-hw generate --model 0.5mb.pt --target ice40 --learn, or name its folder")
    if not folders:
        more = " --learn" if learns else ""
        raise InputError(f"{root}: no generated design; run fbnn-hw generate --model 0.5mb.pt --target ice40{more}, or name its folder")
    return folders[0]


def holding(config_id: str, model_mark: str, root: str | Path = OUT) -> Design | None:
    """The design under `root` of a configuration, as a board names it.

    The youngest with the weights of `model_mark`, else the youngest with others; None where there is none.
    """
    designs = []
    for folder in _folders(root):
        with suppress(InputError):
            if _manifest(folder / "manifest.json")["config_id"] == config_id:
                designs.append(Design(folder))
    return next((design for design in designs if design.model_mark == model_mark), designs[0] if designs else None)


def _folders(root):
    """Folders of the designs under `root`, youngest first, EXAMPLE last."""
    manifests = sorted(Path(root).glob("[!.]*/manifest.json"), key=lambda path: (path.parent.name != EXAMPLE, path.stat().st_mtime))
    return [path.parent for path in reversed(manifests)]


def _learns(folder):
    """Whether the design in a folder learns, by its configuration; False for one that is damaged."""
    try:
        return json.loads(files.read(folder / "config.json", MOST_BYTES, "a configuration"))["learning"] is not None
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return False


def link_speeds(design: Design | None = None) -> list[int]:
    """Bits a second at which a board may talk, the likeliest first: those of builds, youngest first, then defaults of boards.

    design: what the board holds; None: not known, so the builds are those of all designs in OUT.
    """
    from .targets.boards import boards
    from .targets.bridges import COMMON

    folders = [design.folder] if design else _folders(OUT)
    records = [record for folder in folders for record in folder.glob("build-*/build.json")]
    records.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    speeds = [baud for baud in map(_built_baud, records) if baud]
    parts = [design.target] if design else TARGETS.values()
    for board in boards().values():
        if board.part in parts:
            clocks = [design.target.clock_of(design.config)] if design else [board.part.clock_hz, board.part.learn_hz]
            speeds += [board.baud(clock_hz, bool(design and design.config.sleeps)) for clock_hz in clocks if clock_hz]
    return list(dict.fromkeys([*speeds, DEFAULT_BAUD, COMMON[0]]))


def _built_baud(path):
    """The speed that a record of `build` says, or 0."""
    try:
        baud = json.loads(files.read(path, MANIFEST_BYTES, "a record of fbnn-hw build"))["baud"]
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return 0
    return baud if whole(baud, 1, 10 ** 8) else 0


def generate(network, target, *, out=OUT, learn=False, max_classes=None, exemplars=None, counter_bits=None, pixels=None, lanes=None,
             outputs=None, wrapper=None, duty_cycle=False, weights=None, input="rgb", progress=silent) -> Design:
    """Write the accelerator of a network into a folder, and open it.

    Parameters
    ----------
    network : ir.network.Network
        What `load` returns.
    target : str or targets.Target
        A name such as "ice40", "ecp5" or "generic".
    out : str or Path
        The folder of the design is made in this folder.
    learn : bool or str
        True or "replay": the chip learns with replay, from the classes of the network on.
        "prototypes": the chip begins with no class, and keeps for each class the signs of the sums
        of its latents, without exemplars.  "means": the same with two bits of each sum.
    max_classes : int, optional
        Room for classes; by default 6 more than the network has.
    exemplars : int, optional
        Slots of the replay buffer; by default the most that leave frames as fast, or nearly.
    counter_bits : int, optional
        Width of the learner's counters; by default 8, with "prototypes" and "means" 4.
    pixels, lanes, outputs : int, optional
        Size of the array; by default the fastest that fits.
    wrapper : str, optional
        "axi-stream" adds a module with AXI4-Stream ports around the accelerator.
    duty_cycle : bool
        Between frames the clock stops, and flash and banks rest (iCE40UP5K alone).
    weights : str, optional
        Where the weights are: "chip", "flash", "flash-2x" (a flash at twice the clock of the design) or "sdram"; by default on the chip
        where they fit, else in a flash.
    input : str
        What the accelerator takes of each pixel: "rgb", or the "levels" that the network makes of it,
        which are fewer bits.
    progress : callable
        Makes a progress bar, as tqdm does.

    Returns
    -------
    Design
        Equal arguments give the same folder with the same bytes.

    Raises
    ------
    UsageError
        The arguments do not fit each other or the target.
    FitError
        The target cannot hold the network.
    InputError
        The folder cannot be written.
    """
    return Design(write(network, plan(network, target, learn=learn, max_classes=max_classes, exemplars=exemplars,
                                      counter_bits=counter_bits, pixels=pixels, lanes=lanes, outputs=outputs,
                                      duty_cycle=duty_cycle, weights=weights, input=input),
                        target, out, progress, wrapper))


def plan(network, target, *, learn=False, max_classes=None, exemplars=None, counter_bits=None, pixels=None, lanes=None, outputs=None,
         duty_cycle=False, weights=None, input="rgb"):
    """Plan a design and write nothing; parameters and errors as of `generate`.

    Returns
    -------
    compile.plan.Plan
        The configuration, the program and the estimate.
    """
    from .compile.plan import check_latent
    from .compile.plan import plan as compile_plan
    from .ir.network import LATENT, Network
    from .reference.learning import Head, LearnConfig
    from .reference.learning.config import ADDING, ADDING_DEFAULTS, MEANS, MEANS_BITS
    from .targets import WAYS, Target
    from .targets import target as find_target

    if not isinstance(network, Network):
        raise UsageError(f"network {show(network)}: expected what fbnn_hw.load(name) returns")
    part = target if isinstance(target, Target) else find_target(target)
    for name, value in {"max_classes": max_classes, "exemplars": exemplars, "counter_bits": counter_bits, "pixels": pixels,
                        "lanes": lanes, "outputs": outputs}.items():
        if value is not None and not whole(value, 1):
            raise UsageError(f"--{name.replace('_', '-')} {value!r}: expected a whole number from 1")
    names = {name: way for way, name in WAYS.items()}
    if weights not in (None, *names):
        raise UsageError(f"--weights {weights}: expected {', '.join(names)}{nearest(str(weights), names)}")
    if input not in INPUTS:
        raise UsageError(f"--input {input}: expected {' or '.join(INPUTS)}{nearest(str(input), INPUTS)}")
    if input == "levels":
        if (first := network.topology.ops[0]).kind == "bits8":
            raise UsageError(f"--input levels: layer {first.name} reads bytes, expected a thermometer or binarize; use --input rgb")
        part = replace(part, encoder_bits=None)
    if not learn and (max_classes or exemplars or counter_bits):
        raise UsageError("--max-classes, --exemplars, --counter-bits: only with --learn")
    if learn not in (False, True, None, *LEARNERS):
        raise UsageError(f"--learn {learn}: expected {' or '.join(LEARNERS)}{nearest(str(learn), LEARNERS)}")
    learner = None
    if learn in ADDING:
        if exemplars:
            raise UsageError(f"--exemplars {exemplars}: expected none with --learn {learn}, which keeps no samples")
        if learn == MEANS and counter_bits and counter_bits < MEANS_BITS:
            raise UsageError(f"--counter-bits {counter_bits}: expected at least {MEANS_BITS} with --learn {learn}")
        options = ADDING_DEFAULTS | ({"counter_bits": counter_bits} if counter_bits else {})
        learner = Head.of_latent(network.topology), LearnConfig(
            max_classes or len(network.topology.classes) + 6, rule=learn, **options)
        check_latent(network.topology)
        network = network.extractor(LATENT)
    elif learn:
        width = counter_bits or 8
        # Lessons are short.  Shipped weights must outlast the first samples of a new class, and a new row needs a quick start.  Measured in
        # docs/on-chip-learning.md.
        learner = Head.of(network.topology), LearnConfig(
            max_classes or len(network.topology.classes) + 6, exemplars or 0, width, confidence=min(32, (1 << width - 1) - 1), prototype=16)
    if learner:
        replace(learner[1], slots=learner[1].slots or 1).verify()  # 0: the planner chooses
    planned = compile_plan(network, part, pixels, lanes, outputs, learner, weights and names[weights])
    if not duty_cycle:
        return planned
    if planned.config.technology != "ice40-spram":
        name = part.part if part.lut4 else f"--target {part.name}"
        raise UsageError(f"--duty-cycle: {name} has no memory with a standby, expected --target ice40")
    return replace(planned, config=replace(planned.config, sleeps=True))


def write(network, planned, target, out=OUT, progress=silent, wrapper=None, written=None) -> Path:
    """Write the folder of a plan under `out`.  Returns its Path; parameters and errors as of `generate`.

    written : callable, optional
        Called with the folder as soon as it is there: an interrupt may come before this function returns.
    """
    from .data.datasets import test_images
    from .emit import output
    from .targets import target as find_target

    part = find_target(target) if isinstance(target, str) else target
    if wrapper is not None and wrapper not in WRAPPERS:
        raise UsageError(f"--wrapper {wrapper}: no such wrapper, expected {' or '.join(WRAPPERS)}"
                         f"{nearest(str(wrapper), WRAPPERS)}")
    if wrapper and planned.config.sleeps:
        raise UsageError(f"--wrapper {wrapper}: expected without --duty-cycle, whose clock and standby belong to what drives them")
    with progress(total=1, desc="Verilog and weights") as bar:
        config = planned.config
        folder = output.write(planned, network, part, out, test_images(config.size, 2), wrapper, written)
        bar.update()
    return folder
