"""Network -> plan -> folder: what `fbnn-hw generate` does."""

import math
from dataclasses import replace

from ..base.errors import FitError, UsageError
from ..base.progress import silent
from ..compile.plan import Plan
from ..compile.plan import plan as compile_plan
from ..machine.registers import MOST_LOGITS
from ..targets import WAYS
from ..targets import target as find_target
from .find import OUT
from .folder import Design
from .options import Options

CAMERA_MACS = 2048
"""Most MAC/cycle of a design with a camera, where no flags set them: 3mb then answers seven times as often as an OV7670 gives a frame.
On an LFE5U-85F 4 x 32 x 16 is placed and routed in minutes; 8 x 64 x 16 was not routed within an hour."""


def generate(network, target, *, out=OUT, progress=silent, **options) -> Design:
    """Write the accelerator of a network into a folder, and open it.

    Parameters
    ----------
    network : ir.network.Network
        What `load` returns.
    target : str or targets.Target
        A name such as "ice40", "ecp5" or "generic".
    out : str or Path
        The folder of the design is made in this folder.
    progress : callable
        Makes a progress bar, as tqdm does.
    **options
        As `Options` has them: learn, max_classes, exemplars, counter_bits, unknown, forget, keep, start, pixels, lanes, outputs, wrapper,
        top, duty_cycle, weights, input, camera, display.

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
    chosen = Options(**options)
    return write(network, planned(network, target, chosen), target, out, progress, chosen.wrapper, chosen.top)


def plan(network, target, **options) -> Plan:
    """The configuration, the program and the estimate of a design, of which nothing is written; parameters and errors as of `generate`."""
    return planned(network, target, Options(**options))


def planned(network, target, options: Options) -> Plan:
    """`plan` for options that are checked."""
    extracted = options.network(network)
    part = options.part(target, network.topology)
    if options.camera:
        part = replace(part, shapes=tuple(shape for shape in part.shapes if math.prod(shape) <= CAMERA_MACS))
    if options.camera and options.keep and part.lut4:
        part = replace(part, lut4=part.lut4 - part.device_lut4)
    found = compile_plan(extracted, part, options.pixels, options.lanes, options.outputs, options.learner(network.topology), options.way)
    if options.keep and found.config.way not in ("stream", "double"):
        raise UsageError(f"--keep: the weights of this design come from {WAYS[found.config.way]}, expected --weights flash: what it learns "
                         "is kept there")
    if options.wrapper not in (None, "axi-stream") and found.config.result_classes > MOST_LOGITS:
        raise FitError(f"--wrapper {options.wrapper}: the network has {found.config.result_classes:,} classes, expected at most "
                       f"{MOST_LOGITS:,}, as many as there are registers of logits; use --wrapper axi-stream")
    return replace(found, config=replace(found.config, sleeps=options.duty_cycle, keeps=options.keep, camera=options.camera or "",
                                         display=options.display or ""))


def write(network, plan: Plan, target, out=OUT, progress=silent, wrapper=None, top=None, written=None) -> Design:
    """Write the folder of a plan under `out`, and open it; parameters and errors as of `generate`.

    written : callable, optional
        Called with the folder as soon as it is there: an interrupt may come before this function returns.
    """
    from ..data.datasets import test_images
    from . import output

    part = find_target(target) if isinstance(target, str) else target
    with progress(total=1, desc="Verilog and weights") as bar:
        design = output.write(plan, network, part, out, test_images(plan.config.size, 2), wrapper, top, written)
        bar.update()
    return design
