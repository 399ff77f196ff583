"""The virtual boards of the tests."""

import inspect
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from fbnn_hw.simulate import simulator, virtual
from fbnn_hw.simulate.virtual import VirtualBoard


def impatient(patch, bits=12):
    """Let virtual boards end a message after a pause of 2^bits clocks.  patch: a MonkeyPatch."""
    parameters = [one for one in inspect.signature(VirtualBoard).parameters.values() if one.default is not one.empty]
    defaults = tuple(bits if one.name == "timeout_bits" else one.default for one in parameters)
    patch.setattr(VirtualBoard.__init__, "__defaults__", defaults)


def shared_builds(patch, folder):
    """Let boards of the same sources be compiled once in a session.  patch: a MonkeyPatch; folder: where their programs lie."""
    compiled = virtual.verilate

    def verilate(sources, build_dir, include=(), *args, **kwargs):
        texts = [Path(path).read_bytes() for path in (*sources, *(path for place in include for path in sorted(Path(place).glob("*.vh"))))]
        key = sha256(b"".join([*(sha256(text).digest() for text in texts), repr((args, kwargs.get("options"))).encode()])).hexdigest()
        program, shared = Path(build_dir).absolute() / simulator.executable("board"), folder / key
        if shared.exists():
            copied(shared, program)
        else:
            copied(compiled(sources, build_dir, include, *args, **kwargs), shared)
        return program

    def copied(source, target):
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            os.replace(shutil.copy(source, place), target)

    patch.setattr(virtual, "verilate", verilate)
