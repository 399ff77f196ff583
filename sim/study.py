"""One component under its check, with a waveform of every cycle: what `fbnn-hw simulate --component NAME` runs."""

from pathlib import Path

from amaranth.hdl import Value
from amaranth.lib.wiring import Out

from fbnn_hw import rtl
from fbnn_hw.base.errors import MismatchError, UsageError, nearest
from fbnn_hw.emit import simulator, waves
from fbnn_hw.rtl.verilog import convert
from sim.bundle import Bundle
from sim.components import COMPONENTS

ROOT = Path(__file__).parents[1]
BUILDS = ROOT / "sim" / "sim_build"
TOP = "component"
MODELS = [Path(simulator.__file__).parent / "bench" / "SB_SPRAM256KA.v", Path(rtl.__file__).parent / "memories.v"]


def choose(name):
    """The component of COMPONENTS of that name, or the first whose name begins so; UsageError lists them."""
    for component in COMPONENTS:
        if component == name or component.startswith(f"{name}_"):
            return component
    raise UsageError(f"--component {name[:60]}: expected one of {', '.join(COMPONENTS)}, or a name's first words"
                     f"{nearest(name, COMPONENTS)}")


def study(name, folder=None):
    """Build and run a component -> {"component": its name, "check": the check's first line, "waves": path of the waveform, "waves_view":
    path of GTKWave's save file, "build_seconds", "simulation_seconds"}.

    folder: where it is built; sim/sim_build/<name> without it.  Raises UsageError, ToolError; MismatchError where the check fails.
    """
    name = choose(name)
    component, check, *_ = COMPONENTS[name]
    folder = Path(folder or BUILDS / name)
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "component.v"
    source.write_text(convert(Bundle({name: component}), TOP))
    built = simulator.build([source, *MODELS], TOP, folder / "build", waves=True)
    done = built.run("sim.cocotb_components", f"component/number={list(COMPONENTS).index(name)}", search=[ROOT])
    if done.failed:
        raise MismatchError(f"--component {name}: {done.failed[0].message}; see {done.log}")
    view = waves.save(done.waves, _groups(name, component))
    return {"component": name, "check": (check.__doc__ or "").split("\n")[0].strip(), "waves": done.waves, "waves_view": view,
            "build_seconds": built.build_seconds, "simulation_seconds": done.seconds}


def _groups(name, component):
    """{group: [(signal, bits, flags, None)]} for `waves.save`."""
    groups = {"clock": [(f"{TOP}.clk", 1, waves.BIT, None), (f"{TOP}.rst", 1, waves.BIT, None)], "inputs": [], "outputs": []}
    for path, member, value in component.signature.flatten(component):
        bits = len(Value.cast(value))
        signal = f"{TOP}.{name}__{'__'.join(map(str, path))}", bits, waves.BIT if bits == 1 else waves.HEXADECIMAL, None
        groups["outputs" if member.flow is Out else "inputs"].append(signal)
    return groups
