"""`fbnn-hw simulate`: a generated accelerator in Verilator, every layer of every image against the reference."""

import json
from pathlib import Path

from .. import files
from ..errors import MismatchError, ToolError, UsageError
from . import common

SUMMARY = "simulate a generated accelerator and compare every layer of every image with the reference"
EXAMPLES = (
    ("fbnn-hw simulate --images 2", "the youngest design in rtl_out, on the first two of the shipped test images"),
    ("fbnn-hw simulate --images 3 --stall --latent", "random pauses on every stream, and the latent is read out and compared too"),
)
IMAGES_A_RUN = 8
SLOW_CYCLES = 20_000
"""A netlist that runs for less is compiled without optimisation, which takes longer than what it saves."""
VCD_CYCLES = 50_000
"""More than this, and a waveform is written as FST or not at all."""


def arguments(parser):
    common.add_design(parser, "what `fbnn-hw generate` wrote")
    parser.add_argument("--images", default="2", metavar="N|FILE",
                        help="the first N shipped test images, or a PNG, JPEG or .npy file (default: 2)")
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    parser.add_argument("--stall", action="store_true", help="random pauses on every stream; bits must not change, cycles do")
    parser.add_argument("--latent", action="store_true", help="also read the latent out and compare it")
    parser.add_argument("--netlist", action="store_true",
                        help="the netlist after synthesis with the vendor's cells; compares logits and classes, and the latent if asked")
    parser.add_argument("--waves", action="store_true", help="write a waveform of the first image (slow)")


def run(args, out):
    import numpy as np

    from ..emit import netlist, output, simulator
    from ..emit.bench import bench
    from ..ir import file as ir_file

    folder = common.design(args, out)
    output.intact(folder)
    layout, known = (json.loads((folder / name).read_text()) for name in ("layout.json", "estimate.json"))
    network = ir_file.loads((folder / "network.json").read_text(), folder / "network.json")
    if args.latent and not layout["latent_bits"]:
        raise UsageError(f"--latent: {network.topology.name} has no layer named latent whose bits lie in memory as a vector; expected a "
                         "dense layer of that name")
    images = _images(args, network.topology.image_size)
    wanted, frames = len(images), layout["frames"]
    if args.waves:
        images = images[:1]
        if known["first_cycles"] > VCD_CYCLES and simulator.wave_format()[0] == "vcd":
            raise ToolError(f"--waves: {known['first_cycles']:,} cycles take gigabytes as VCD; install liblz4 for FST "
                            "(Debian: apt install liblz4-dev; macOS: brew install lz4)")
    if missing := -len(images) % frames:  # passes are whole
        images = np.concatenate([images, images[-1:].repeat(missing, axis=0)])
    build = folder / ("sim_build" + "_netlist" * args.netlist + "_waves" * args.waves)
    sources = [folder / name for name in ("testbench.v", "accelerator.v", "parameters.vh", "SB_SPRAM256KA.v") if (folder / name).exists()]
    compared, cells, options, arguments, optimise = layout["layers"], {}, (), (), "-O1"
    if args.netlist:
        netlist.family(known["target"])
        compared, options, arguments = {}, netlist.OPTIONS, netlist.ARGUMENTS
        if known["first_cycles"] + len(images) * known["cycles"] < SLOW_CYCLES:
            optimise = "-O0"
    alone = files.locked(build / ".lock", f"{folder}: is being simulated by another program in {build.name}; wait for that one, "
                         "or generate the design once more with another --out")
    with alone, out.progress(total=1 + len(images), desc="compile, then images") as bar:
        if args.netlist:
            sources, cells = netlist.synthesise(folder, known["target"], build)
        built = simulator.build(sources, "testbench", build, waves=args.waves, options=options, optimise=optimise)
        bar.update()
        if built.note:
            out.note(built.note)
        work = build / "run"
        work.mkdir(exist_ok=True)
        (work / "weights.hex").write_bytes((folder / "weights.hex").read_bytes())
        (work / "layout.json").write_text(json.dumps(layout | {"layers": compared}))
        logits, classes, firsts, periods, differences, seconds, waves = [], [], [], [], [], 0.0, None
        size = -(-IMAGES_A_RUN // frames) * frames
        for first in range(0, len(images), size):
            part = images[first:first + size]
            bench.write_images(work, part)
            limit = 20 * (known["first_cycles"] + len(part) * known["cycles"])
            done = built.run("bench", directory=work, search=[Path(bench.__file__).parent], env={
                "BENCH_IMAGES": len(part), "BENCH_STALL": int(args.stall), "BENCH_LATENT": int(args.latent), "BENCH_CYCLES": limit},
                arguments=arguments)
            if done.failed:
                raise MismatchError(f"{folder}: {done.failed[0].message}; see {done.log}")
            found = bench.compare(work, output.expected_layers(network, part, layout["layers"]), first)
            bench.remove_dumps(work)
            if args.latent and len(found.latents) != len(part):
                found.differences.append(f"latent stream: expected that of {len(part)} images, got {len(found.latents)}")
            logits.append(found.logits)
            classes += found.classes
            if not found.differences:
                firsts.append(found.first)
                periods += found.periods
            differences += found.differences
            seconds, waves = seconds + done.seconds, done.waves
            bar.update(len(part))
    unit = "frame" if frames == 1 else f"pass of {frames} frames"
    exact = not args.stall and not args.latent
    if exact and not differences:
        differences += [f"first {unit} takes {c:,} cycles, estimate.json says {known['first_cycles']:,}"
                        for c in firsts if c != known["first_cycles"]]
        differences += [f"a {unit} takes {c:,} cycles, estimate.json says {known['cycles']:,}" for c in periods if c != known["cycles"]]
    result = {
        "folder": folder, "images": wanted, "layers_compared": [*compared, "logits"], "cells": cells, "differences": differences,
        "logits": np.concatenate(logits)[:wanted], "classes": (classes := classes[:wanted]),
        "class_names": [network.topology.classes[c] for c in classes if c < len(network.topology.classes)],
        "cycles_first": firsts, "cycles": periods, "estimated_cycles": known["cycles"], "build_seconds": round(built.build_seconds, 1),
        "simulation_seconds": round(seconds, 1), "waves": waves}
    if differences:
        for text in differences[1:10]:
            out.note(text)
        raise MismatchError(f"{folder}: {len(differences)} differences; the first: {differences[0]}", result)
    what = f"all {len(compared) + 1} layers, logits" if compared else "logits of the netlist"
    out.text(f"{wanted} images: {what} and classes equal the reference, bit for bit",
             f"classes  {', '.join(result['class_names'][:16])}{' ...' if len(classes) > 16 else ''}",
             f"cycles   first {unit} {firsts[0]:,}" + (f", then {sorted(set(periods))[0]:,} a {unit}" if periods else "")
             + (" (simulated, equal to the estimate)" if exact else " (simulated, with pauses or latent)"),
             f"time     {built.build_seconds:.1f} s to build, {seconds:.1f} s to simulate")
    if cells:
        out.text(f"netlist  {', '.join(f'{count:,} {cell}' for cell, count in sorted(cells.items()) if not cell.startswith('$'))}")
    if waves:
        out.text(f"waves    {waves}")
    out.result(result)


def _images(args, size):
    if args.images.isdecimal():
        if args.resize:
            raise UsageError("--resize: expected together with an image file")
        if len(args.images) > 6 or not int(args.images):
            raise UsageError(f"--images {args.images[:30]}: expected 1 to 999,999")
        count = int(args.images)
        images = common.test_images(size, count)
        if len(images) < count:
            raise UsageError(f"--images {count}: {len(images)} test images are shipped; give a .npy file for more")
        return images
    from ..data import images as image_files

    return image_files.read(args.images, size, args.resize)
