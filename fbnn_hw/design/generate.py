"""Network -> plan -> folder: what `fbnn-hw generate` does, its options checked."""

from dataclasses import replace
from pathlib import Path

from ..errors import UsageError, nearest, show, whole
from ..progress import silent
from .find import OUT
from .folder import Design

LEARNERS = "replay", "prototypes", "means"
"""How a design may learn."""
INPUTS = "rgb", "levels"
"""What an accelerator takes of a pixel: its bytes, or the levels that its network makes of them."""
WRAPPERS = ("axi-stream",)
"""What can stand around an accelerator; design.integration writes them."""


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
    from ..compile.plan import check_latent
    from ..compile.plan import plan as compile_plan
    from ..ir.network import LATENT, Network
    from ..reference.learning import Head, LearnConfig
    from ..reference.learning.config import ADDING, ADDING_DEFAULTS, MEANS, MEANS_BITS
    from ..targets import WAYS, Target
    from ..targets import target as find_target

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
    from ..data.datasets import test_images
    from ..targets import target as find_target
    from . import output

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
