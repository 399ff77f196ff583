"""`fbnn-hw simulate`: a generated accelerator in Verilator, every layer of every image against the reference."""

import importlib.util
import shlex
import sys
from dataclasses import fields
from pathlib import Path

from ..base.errors import MismatchError, UsageError
from . import _bitstream, _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "simulate a generated accelerator and compare every layer of every image with the reference"
EXAMPLES = (
    ("fbnn-hw simulate --images 2", "the youngest design in rtl_out, on the first two of the shipped test images"),
    ("fbnn-hw simulate --images 3 --stall --latent", "random pauses on every stream, and the latent is read out and compared too"),
)
NAMES_SHOWN = 16


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate` wrote")
    parser.add_argument("--images", default="2", metavar="N|FILE",
                        help="the first N shipped test images, or a PNG, JPEG or .npy file (default: 2)")
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    parser.add_argument("--stall", action="store_true", help="random pauses on every stream; bits must not change, cycles do")
    parser.add_argument("--latent", action="store_true", help="also read the latent out and compare it")
    parser.add_argument("--netlist", action="store_true",
                        help="the netlist after synthesis with the vendor's cells; compares logits and classes, and the latent if asked")
    parser.add_argument("--waves", nargs="?", const=True, default=False, metavar="LAYER",
                        help="write a waveform of the first image's LAYER, a name of generate's table or an operation, and end after it; "
                        "without LAYER of the whole image (slow)")
    parser.add_argument("--bitstream", nargs="?", const=True, default=False, metavar="BOARD",
                        help="the file that `fbnn-hw flash` would write, read back as Verilog and run with a flash behind its serial line, "
                        "or among the parts of a device (iCE40; icebox of Debian's fpga-icestorm); of a board's build, or of the only "
                        "one; a design that learns is taught the images")
    parser.add_argument("--component", metavar="NAME", help="instead of a design, a component such as popcount under its check in sim/, "
                        "with a waveform; in a checkout of the project")


def run(args: Args, out: Output) -> None:
    if args.component is not None:
        _component(args, out)
        return

    design = _common.design(args, out)
    images = _images(args, design.config.size)
    _common.keep_folder(out, design)
    if args.bitstream:
        _bitstream.run(args, out, design, images)
        return
    result = design.simulate(images, stall=args.stall, latent=args.latent, netlist=args.netlist, waves=args.waves,
                             progress=out.progress, note=out.note)
    values = {"folder": design.folder, "estimated_cycles": design.estimate["cycles"],
              **{field.name: getattr(result, field.name) for field in fields(result)}}
    if not result.equal:
        for text in result.differences[1:10]:
            out.note(text)
        count = len(result.differences)
        raise MismatchError(f"{design.folder}: {count} difference{'s' * (count > 1)}; the first: {result.differences[0]}", values)
    _show(out, result)
    out.result(values)


def _component(args, out):
    """Run the cocotb bench of one component."""
    if args.folder or args.stall or args.latent or args.netlist or args.waves or args.resize or args.bitstream:
        raise UsageError("--component: expected without DIR, --resize, --stall, --latent, --netlist, --waves and --bitstream")
    checkouts = Path(__file__).parents[2], Path.cwd(), *Path.cwd().parents
    package = next((folder / "sim" for folder in checkouts
                    if (folder / "sim" / "study.py").is_file() and (folder / "fbnn_hw" / "__init__.py").is_file()), None)
    if package is None:
        raise UsageError(f"--component {args.component[:60]}: needs a checkout of the project, whose sim/ has the benches; "
                         "run it in that folder")
    if "sim" not in sys.modules:
        spec = importlib.util.spec_from_file_location("sim", package / "__init__.py", submodule_search_locations=[str(package)])
        sys.modules["sim"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sim"])
    answer = importlib.import_module("sim.study").study(args.component)
    out.text(f"component {answer['component']}: as its check expects, in every cycle",
             f"check     {answer['check']}",
             f"time      {answer['build_seconds']:.1f} s to build, {answer['simulation_seconds']:.1f} s to simulate",
             f"waves     {answer['waves']}", f"open      gtkwave {shlex.quote(str(answer['waves_view']))}")
    out.result(answer)


def _show(out, result):
    """Eight lines or fewer; the last says what is equal."""
    names, more = ", ".join(result.class_names[:NAMES_SHOWN]), " ..." * (len(result.class_names) > NAMES_SHOWN)
    if result.window:
        return _show_window(out, result)
    lengths = " to ".join(f"{cycles:,}" for cycles in sorted({min(result.cycles), max(result.cycles)})) if result.cycles else ""
    later = f", then {lengths} a frame" if lengths else ""
    note = "equal to the estimate" if result.exact else "with pauses or latent"
    out.text(f"images   {result.images}",
             *([f"classes  {names}{more}"] if names else ()),
             f"cycles   first frame {result.cycles_first[0]:,}{later} (simulated, {note})",
             f"time     {result.build_seconds:.1f} s to build, {result.simulation_seconds:.1f} s to simulate")
    if result.cells:
        out.text(f"netlist  {', '.join(f'{count:,} {cell}' for cell, count in sorted(result.cells.items()) if not cell.startswith('$'))}")
    if result.waves:
        out.text(*_waves(result))
    count = len(result.layers_compared)
    layers = f"all {count} layers, logits" if count > 1 else "logits of the netlist" if result.cells else "logits"
    out.text(f"compared {layers} and classes with the reference, bit for bit: " + ("every layer equal" if count > 1 else "equal"))


def _waves(result):
    return f"waves    {result.waves}", f"open     gtkwave {shlex.quote(str(result.waves_view))}"


def _show_window(out, result):
    (first, last), layers = result.window["cycles"], ", ".join(result.layers_compared)
    equal = f"{layers} with the reference, bit for bit: equal" if layers else "nothing: no layer can be read in a netlist"
    out.text(f"layer    {result.window['layer']}: cycles {first:,} to {last:,} (simulated), {last - first:,} cycles",
             f"time     {result.build_seconds:.1f} s to build, {result.simulation_seconds:.1f} s to simulate", *_waves(result),
             f"compared {equal}")


def _images(args, size):
    """uint8 RGB (N, 3, size, size) of --images."""
    from ..data import images as image_files
    from ..data.datasets import test_images

    if not args.images.lstrip("-").isdecimal():
        return image_files.read(args.images, size, args.resize)
    if args.resize and args.images.isdecimal():
        raise UsageError("--resize: expected together with an image file")
    if not args.images.isdecimal() or len(args.images) > 6 or (count := int(args.images)) < 1:
        raise UsageError(f"--images {args.images[:30]}: expected 1 to 999,999")
    images = test_images(size, count)
    if len(images) < count:
        raise UsageError(f"--images {count}: {len(images)} test images are shipped; give a .npy file for more")
    return images
