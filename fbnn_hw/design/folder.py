"""A generated design: the folder that `generate` writes, opened and checked in one place."""

import json
import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ..base import files
from ..base.errors import InputError, UsageError, is_name, show, whole
from ..base.progress import silent
from ..ir import file as ir_file
from ..machine.config import AcceleratorConfig
from ..machine.protocol import config_mark
from ..targets import TARGETS

MOST_BYTES = 2 ** 28
MANIFEST_BYTES = 2 ** 20
"""Bounds on the files of a design, far above those of the largest network."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DIGEST = re.compile(r"[0-9a-f]{64}")
MARK = re.compile(r"[0-9a-f]{8}")
SOURCE = "network.c"
"""What `generate --target c` writes in place of a design."""
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
    contents : dict, optional
        {name: bytes} of its files, where they have just been written: they are not read back.

    Attributes
    ----------
    folder : Path
    manifest, estimate, layout : dict
        Contents of manifest.json, estimate.json and layout.json.
    config : machine.config.AcceleratorConfig
        What the hardware is built from.

    Raises
    ------
    InputError
        A file is missing, damaged or of another kind.
    """

    def __init__(self, folder: str | Path, contents: dict[str, bytes] | None = None) -> None:
        if not isinstance(folder, str | Path):
            raise InputError(f"design {show(folder)}: expected a folder that `fbnn-hw generate` wrote, as text or as a Path")
        self.folder, self._contents = Path(folder), contents or {}
        self.manifest: dict = manifest_of(self.folder / "manifest.json", self._contents.get("manifest.json"))
        if not contents:
            self.check()
        self.config: AcceleratorConfig = self._opened("config.json", lambda text: _config(text, self.folder / "config.json"))
        if len(self.classes) != self.config.classes:
            raise InputError(f"{self.folder / 'manifest.json'}: {len(self.classes)} classes, expected the {self.config.classes} of "
                             "config.json; generate the folder again")
        self.estimate: dict = self._opened("estimate.json", _estimate)
        self.layout: dict = self._opened("layout.json", lambda text: _layout(text, self.config))
        self._contents = {}

    def check(self) -> None:
        """Compare every file with its hash in the manifest.  Raises InputError at the first that differs."""
        for name, digest in self.manifest["files"].items():
            data = self.read(name)
            if sha256(data).hexdigest() != digest:
                raise InputError(f"{self.folder / name}: differs from what was generated, by its hash in manifest.json; "
                                 "generate the folder again")

    def read(self, name: str) -> bytes:
        """The bytes of one of its files.  Raises InputError where it is missing or too large."""
        if name in self._contents:
            return self._contents[name]
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
    def marks(self) -> tuple[bytes, bytes]:
        """The marks of configuration and model, 4 bytes each, as a flash slot has them."""
        return config_mark(self.config.id), bytes.fromhex(self.model_mark)

    @property
    def classes(self) -> list[str]:
        """Names of the classes that the hardware knows after reset, in the order of the logits."""
        return self.manifest["classes"]

    def learner(self):
        """A new reference `Learner` in the state after reset.  Raises UsageError where the design does not learn."""
        if self.config.learning is None:
            raise UsageError(f"{self.folder}: this design does not learn, expected one made with fbnn-hw generate --learn")
        return self.config.learning.learner(self.network)

    def pixels(self, images) -> list[bytes]:
        """Images, uint8 RGB (N, 3, S, S), as the bytes that its accelerator takes at `pixels`.  Raises InputError for other arrays."""
        from ..reference.encode import checked, to_bytes

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
        simulate.simulation.Simulation
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
        from ..data.datasets import test_images
        from ..simulate import simulation

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
        from ..data.datasets import test_images
        from ..simulate import energy

        images = test_images(self.config.size, 2) if images is None else images
        return energy.estimate(self, images, clock_hz=clock_hz, baud=baud, rates=rates, progress=progress, note=note)

    def _opened(self, name, made):
        """What made(text) makes of a file; InputError where that is nothing."""
        try:
            if values := made(self.read(name).decode()):
                return values
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError):
            pass
        raise InputError(f"{self.folder / name}: damaged, {AGAIN}")


def manifest_of(path, data=None):
    """The checked content of manifest.json.  data: its bytes, where they are known."""
    if not data and (path.parent / SOURCE).exists():
        raise InputError(f"{path.parent}: holds a network as C, which has no hardware; expected a folder of `fbnn-hw generate` for a part, "
                         "such as --target ice40")
    values = files.json_values(data or files.read(path, MANIFEST_BYTES, WRITTEN))
    if values is None:
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


def _config(text, path):
    """The `AcceleratorConfig` that config.json holds, if it makes sense."""
    if (frames := json.loads(text).get("frames", 1)) != 1:
        raise InputError(f"{path}: a design of {show(frames)} frames a pass, as version 0.2 made them, expected one; generate the folder "
                         "again")
    config = AcceleratorConfig.from_json(text)
    sizes = config.pixels, config.lanes, config.outputs, config.size, config.result_classes
    if all(whole(size, 1, 2 ** 16) for size in sizes) and whole(config.classes) and config.program_words():
        return config


def _estimate(text):
    """The content of estimate.json, if all that is read of it makes sense."""
    values = json.loads(text)
    if "pass_cycles" not in values:  # before 0.2.9, which says nothing of the passes before the later ones
        values |= {"pass_cycles": [values["first_cycles"], values["cycles"]], "pass_period": 1}
    passes, clock, layers = values["pass_cycles"], values["clock_hz"], values["layers"]
    if (values["target"] in TARGETS and all(whole(values[name], 1) for name in ("cycles", "first_cycles"))
            and all(map(whole, (values["load_cycles"], values["lut4"], *passes))) and whole(values["pass_period"], 0, len(passes) + 1)
            and isinstance(passes, list) and passes and type(clock) in (int, float) and 0 < clock < 1e12
            and isinstance(layers, list) and all(isinstance(layer["layer"], str) for layer in layers)):
        return values


def _layout(text, config):
    """The content of layout.json, if it makes sense for the configuration."""
    values = json.loads(text)
    same = {"pixels": config.pixels, "lanes": config.lanes, "classes": config.classes, "frames": 1}
    if (same.items() <= values.items() and isinstance(values["latent_bits"], list) and all(map(whole, values["latent_bits"]))
            and all(_is_place(place, config.lanes) for place in values["layers"].values())):
        return values


def _is_place(place, lanes):
    """Whether an entry of layout.json says where a layer lies."""
    shape = place["shape"]
    return (len(shape) == 3 and all(whole(n, 1, 2 ** 17) for n in shape)
            and len(place["steps"]) == len(place["base"]) == 1 and all(whole(n, 0, 2 ** 16) for n in place["steps"] + place["base"])
            and all(whole(n, 1, 2 ** 16) for n in (place["pitch"], place["columns"], place.get("word_stride", 1)))
            and all(len(word) == lanes and all(whole(channel, -1, shape[0]) for channel in word) for word in place["lanes"]))
