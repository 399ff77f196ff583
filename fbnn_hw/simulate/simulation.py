"""A generated design in Verilator: every layer of every image against the reference."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..base import files
from ..base.errors import InputError, MismatchError, ToolError, UsageError
from ..base.progress import silent
from ..reference import encode
from . import netlist, simulator
from . import waves as waveforms
from .bench import bench
from .expected import bench_images, expected_layers

IMAGES_A_RUN = 8
SLOW_CYCLES = 20_000
"""Cycles.  A netlist that runs for fewer is compiled without optimisation, because optimisation would take longer than it saves."""
VCD_CYCLES = 50_000
"""Cycles of a waveform.  A longer one is written as FST or not at all."""
SOURCES = ("testbench.v", "accelerator.v", "parameters.vh", "SB_SPRAM256KA.v")


@dataclass
class Simulation:
    """The result of a simulation.

    window: {"layer": name, "cycles": [first, last]} of a waveform of one layer.  The simulation ended after that layer: there are no
    logits, classes or cycles of passes.
    """

    images: int  # that were simulated
    layers_compared: list  # with the reference; the last one is "logits"
    exact: bool  # whether the cycles must equal the estimate: no stream stalled
    cells: dict = field(default_factory=dict)  # {cell: count} of a netlist
    logits: np.ndarray | None = None  # integers (images, classes)
    classes: list = field(default_factory=list)  # of each image; empty where the design begins with no class
    class_names: list = field(default_factory=list)
    differences: list = field(default_factory=list)  # a line each; none where all bits are equal
    cycles_first: list = field(default_factory=list)  # of each run's first pass
    cycles: list = field(default_factory=list)  # of each later pass
    build_seconds: float = 0.0
    simulation_seconds: float = 0.0
    waves: Path | None = None
    waves_view: Path | None = None  # the save file for GTKWave
    window: dict | None = None

    @property
    def equal(self) -> bool:
        """Whether every compared bit, and every count of cycles that must, equals what was expected."""
        return not self.differences


def simulate(design, images, *, stall=False, latent=False, netlist=False, waves=False, progress=silent, note=None):
    """Simulate a `Design` on images, uint8 RGB (N, 3, S, S).  Returns a `Simulation`.

    `Design.simulate` describes the parameters and the errors.  netlist may also be a `netlist.Gates`.
    """
    images = encode.checked(images, design.config.size)
    if latent and not design.layout["latent_bits"]:
        raise UsageError(f"--latent: {design.network.topology.name} has no layer named latent whose bits lie in memory as a vector; "
                         "expected a dense layer of that name")
    span = waveforms.window(design, waves) if isinstance(waves, str) else None
    if waves:
        images = images[:1]
    if waves and span is None:
        _check_waves(design.estimate["first_cycles"], note)
    layers = {} if netlist else design.layout["layers"]
    result = Simulation(len(images), [*layers, "logits"], not stall and not latent)
    build = design.folder / ("sim_build" + "_netlist" * bool(netlist) + "_waves" * bool(waves))
    with alone(design, build), progress(total=1 + len(images), desc="compile, then images") as bar:
        built, arguments = _build(design, build, len(images), netlist, bool(waves), result)
        bar.update()
        if built.note and note:
            note(built.note)
        common = design, built, build / "run", images, layers, (stall, latent), arguments, result, bar
        if span:
            _run_window(*common, waves, span)
        else:
            _run(*common)
    if waves:
        result.waves_view = waveforms.write_views(design, result.waves)
    if span:
        return result
    names = design.classes
    result.logits, result.classes = result.logits[:result.images], result.classes[:result.images] if names else []
    result.class_names = [names[number] for number in result.classes if number < len(names)]
    return result


def alone(design, build):
    """A context in which no other program simulates a `Design` in the folder `build`; raises InputError where one does."""
    return files.locked(build / ".lock", f"{design.folder}: is being simulated by another program in {build.name}; wait for that one, "
                        "or generate the design once more with another --out")


def _check_waves(cycles, note):
    if cycles <= VCD_CYCLES:
        return
    if simulator.wave_format()[0] == "vcd":
        raise ToolError(f"--waves: {cycles:,} cycles take gigabytes as VCD; record one layer by --waves LAYER, or install liblz4 for FST "
                        "(Debian: apt install liblz4-dev; macOS: brew install lz4)")
    if note:
        note(f"--waves: {cycles:,} cycles take long and much disk; --waves LAYER records one layer")


def _build(design, build, images, netlist_wanted, waves, result):
    """(`simulator.Sim`, arguments of its runs)."""
    sources = [design.folder / name for name in SOURCES if (design.folder / name).exists()]
    simulator.check_tools("simulation", simulator.has_library())  # before minutes of synthesis
    options, arguments, level = (), (), None
    if isinstance(netlist_wanted, netlist.Gates):
        options, arguments, result.cells = netlist.OPTIONS, netlist.ARGUMENTS, netlist_wanted.cells
        build.mkdir(parents=True, exist_ok=True)
        sources = [*netlist.bench_files(design.folder, build), *netlist_wanted.sources]
    elif netlist_wanted:
        target = design.estimate["target"]
        netlist.family(target)
        options, arguments = netlist.OPTIONS, netlist.ARGUMENTS
        if design.estimate["first_cycles"] + images * design.estimate["cycles"] < SLOW_CYCLES:
            level = "-O0"
        sources, result.cells = netlist.synthesise(design.folder, target, build)
    options = (*options, *(["-DWAVES"] if waves else []))
    driver = Path(bench.__file__).parent / "bench.cpp"
    built = simulator.build(sources, "testbench", build, waves=waves, options=options, level=level, driver=driver)
    result.build_seconds = built.build_seconds
    return built, arguments


def _run(design, built, work, images, layers, streams, arguments, result, bar):
    """Simulate the images, a few a run, and compare each run."""
    _prepare(design, work, layers)
    logits = []
    for first in range(0, len(images), IMAGES_A_RUN):
        part = images[first:first + IMAGES_A_RUN]
        outcome = _start(design, built, work, part, streams, arguments)
        run = _compared(design, work, part, first)
        if streams[1] and len(run.latents) != len(part):
            run.differences.append(f"latent stream: expected that of {len(part)} images, got {len(run.latents)}")
        logits.append(run.logits)
        result.classes += run.classes
        if not run.differences:
            result.cycles_first.append(run.first)
            result.cycles += run.periods
            if result.exact:
                passes = zip([run.first, *run.periods], bench.expected_cycles(design.estimate))
                result.differences += [f"frame {number} of a run takes {cycles:,} cycles, estimate.json says {expected:,}"
                                       for number, (cycles, expected) in enumerate(passes, start=1) if cycles != expected]
        result.differences += run.differences
        result.simulation_seconds, result.waves = result.simulation_seconds + outcome.seconds, outcome.waves
        bar.update(len(part))
    result.logits = np.concatenate(logits)


def _prepare(design, work, layers):
    work.mkdir(exist_ok=True)
    (work / "weights.hex").write_bytes(design.read("weights.hex"))
    (work / "layout.json").write_text(json.dumps(design.layout | {"layers": layers}))


def _start(design, built, work, images, streams, arguments, window=False, test="bench", more=None):
    """Run the bench, or another cocotb test, on images -> `simulator.Results`; MismatchError where it does not end."""
    estimate, (stall, latent) = design.estimate, streams
    bench.write_images(work, bench_images(images, design.network, design.config))
    outcome = built.run(test, directory=work, search=[Path(bench.__file__).parent], arguments=arguments, whole=not window, env={
        "BENCH_IMAGES": len(images), "BENCH_STALL": int(stall), "BENCH_LATENT": int(latent), "BENCH_WINDOW": int(window),
        "BENCH_CYCLES": 20 * (estimate["first_cycles"] + len(images) * estimate["cycles"]), **(more or {})})
    if outcome.failed:
        raise MismatchError(f"{design.folder}: {outcome.failed[0].message}; see {outcome.log}")
    return outcome


def _run_window(design, built, work, images, layers, streams, arguments, result, bar, layer, span):
    """Simulate up to the end of one layer, and compare what is complete then for the first image."""
    complete = {name: place for name, place in layers.items() if place["steps"][0] <= span[1]}
    _prepare(design, work, complete)
    arguments = (*arguments, *waveforms.arguments(span, f"dump.{built.waves}"))
    outcome = _start(design, built, work, images, streams, arguments, window=True)
    expected = expected_layers(design.network, images[:1], complete, design.config.classes)
    try:
        difference = bench.layers_difference(work, design.layout | {"layers": complete}, expected, 0)
    finally:
        bench.remove_dumps(work)
    result.differences += [f"image 0: {difference}"] if difference else []
    result.simulation_seconds, result.waves, result.layers_compared = outcome.seconds, outcome.waves, list(complete)
    result.window = {"layer": layer, "cycles": list(bench.read_window(work))}
    bar.update(len(images))


def _compared(design, work, images, first):
    expected = expected_layers(design.network, images, design.layout["layers"], design.config.classes)
    try:
        return bench.compare(work, expected, first)
    except (IndexError, KeyError, ValueError, FileNotFoundError) as error:
        raise InputError(f"{design.folder / 'layout.json'}: does not fit what was simulated ({type(error).__name__}); "
                         "generate the folder again") from None
    finally:
        bench.remove_dumps(work)
