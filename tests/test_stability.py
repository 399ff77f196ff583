"""docs/stability.md: names that users rely on.  `python -m tests.test_stability` writes the list anew, for a version whose second number
rises."""

import inspect
import json
import re
import tempfile
from dataclasses import fields
from pathlib import Path

import pytest

import fbnn_hw
from fbnn_hw import cli
from fbnn_hw.design import WRAPPERS, Options, generate, integration
from fbnn_hw.ir.network import LATENT
from tests import strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

LIST = Path(__file__).parent / "stable.json"
COMMAND_LINE = {"chip", "pupil", "twin", "started", "keep_interrupted", "restore_interrupted"}
"""Members of `Board` that other modules of the package use, and no user."""


def python():
    """{name: parameters} of what the package offers."""
    found = {}
    for name in fbnn_hw.__all__:
        thing = getattr(fbnn_hw, name)
        if inspect.isclass(thing):
            for member in (one for one in dir(thing) if not one.startswith("_") and one not in COMMAND_LINE):
                found[f"{name}.{member}"] = _parameters(getattr(thing, member))
        elif inspect.ismodule(thing):
            found.update({f"{name}.{one}": _parameters(getattr(thing, one)) for one in thing.__all__})
        else:
            found[name] = _parameters(thing)
    errors = (name for name, one in vars(fbnn_hw.errors).items() if inspect.isclass(one) and issubclass(one, Exception))
    found["generate"] += [field.name for field in fields(Options)]
    return {**found, **{f"errors.{name}": [] for name in errors}}


def _parameters(thing):
    return [name for name in inspect.signature(thing).parameters if name != "self"] if callable(thing) else []


def commands():
    """{verb: flags and places}."""
    return {verb: sorted(word for action in cli.parser(verb)._actions for word in action.option_strings or (action.dest,))
            for verb in cli.verbs()}


def files_and_ports(folder):
    """Names of the files of designs, and {module: {port: direction}}."""
    layers = topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT))
    network = strategies.on_engine(strategies.fill(layers, 5))
    files, ports = set(), {}
    for wrapper in (None, *WRAPPERS):
        made = generate(network, "ice40", outputs=4, learn=True, max_classes=4, exemplars=6, wrapper=wrapper,
                        out=folder / str(wrapper))
        files |= {path.name for path in made.folder.iterdir() if path.is_file()}
        module = integration.WRAPPERS[wrapper][0] if wrapper else "accelerator"
        text = (made.folder / f"{module}.v").read_text()
        ports[module] = {name: direction for direction, _, name in integration.ports(text, module)}
    return sorted(files), ports


def surface(folder):
    files, ports = files_and_ports(folder)
    return {"version": fbnn_hw.__version__, "python": python(), "commands": commands(), "files": files, "ports": ports}


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return surface(tmp_path_factory.mktemp("stable"))


@pytest.mark.parametrize("part", ["python", "commands", "ports"])
def test_no_name_is_gone(now, part):
    promised = json.loads(LIST.read_text())[part]
    for name, members in promised.items():
        assert name in now[part], name
        assert not set(members) - set(now[part][name]), name


def test_no_port_has_turned(now):
    promised = json.loads(LIST.read_text())["ports"]
    assert all(now["ports"][module][name] == direction for module, ports in promised.items() for name, direction in ports.items())


def test_no_file_of_a_design_is_gone(now):
    assert not set(json.loads(LIST.read_text())["files"]) - set(now["files"])


def test_the_list_is_of_this_second_number():
    """What a version adds is promised from the next list on, which is written with a new second number or on purpose."""
    assert json.loads(LIST.read_text())["version"].split(".")[:2] == fbnn_hw.__version__.split(".")[:2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        lines = re.sub(r"\n {3,}|\n  (?=[]}])", " ", json.dumps(surface(Path(place)), indent=1))  # a line for each name
        LIST.write_text(lines + "\n")
