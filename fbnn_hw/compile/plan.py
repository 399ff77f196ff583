"""Network + target -> configuration.  The only place that chooses."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from ..base.errors import FitError, UsageError
from ..ir.network import LATENT, Network
from ..machine import cycles, timing
from ..machine.config import AcceleratorConfig, check_shape
from ..machine.learner import Learn
from ..targets import CHOSEN, ON_CHIP, WAYS, Target
from . import bounds, schedule
from .area import lut4
from .configure import Attempt, Shape, configure
from .exemplars import ENOUGH_EXEMPLARS, choose_exemplars
from .residents import with_late_rows


@dataclass(frozen=True)
class Plan:
    """A configuration, its program and its cycles."""

    config: AcceleratorConfig
    program: schedule.Program
    passes: cycles.Passes
    rejected_shape: tuple[Shape, str] | None = None  # the last faster shape that was tried, and why it does not fit
    frame_without_learning: cycles.PassCycles | None = None  # a later frame of the same design if it did not learn
    frame_with_one_exemplar: cycles.PassCycles | None = None  # a later frame of the same design if its learner had one exemplar

    @property
    def first(self) -> cycles.PassCycles:
        """The first pass after reset."""
        return self.passes.first

    @property
    def frame(self) -> cycles.PassCycles:
        """The pass that stands for all after the first ones."""
        return self.passes.later

    @property
    def exemplar_cycles(self) -> int:
        """Cycles that a frame loses to exemplars: they lie where weights would be on the chip, so these weights are streamed."""
        if self.frame_with_one_exemplar is None:
            raise ValueError("the design does not learn")
        return max(0, self.frame.total - self.frame_with_one_exemplar.total)


def plan(network: Network, target: Target, pixels: int | None = None, lanes: int | None = None, outputs: int | None = None,
         learn: Learn | None = None, weights: str | None = None) -> Plan:
    """Choose the sizes of the engine that are None, and lay everything out.

    learn: (Head, LearnConfig) of a chip that learns; with slots 0, `_choose_exemplars` sets their
    number.  weights: the way to hold them, of `targets.WAYS`.

    A target lists its ways to hold weights, and the first one that fits is taken, one of
    `targets.CHOSEN` only where it is asked for.  With all weights on the chip the first shape of the target's list is taken whose
    LUT estimate is within the part's budget and whose memories fit.  With weights as a stream the
    fastest of these shapes is taken.

    Raises FitError with the layer, what it needs, the limit, and what would fit; UsageError for an
    illegal shape.
    """
    if learn:
        check_latent(network.topology)
    shapes = _shapes(target, (pixels, lanes, outputs))
    ways = _ways(target, weights)
    names = [op.name for op in network.topology.ops]
    if learn and network.topology.weight_shapes().keys().isdisjoint(names[:names.index(LATENT) + 1]):
        ways = [way for way in ways if way in ON_CHIP]
        if not ways:
            raise FitError(f"--learn: no layer up to {LATENT} has weights, and a design of {target.name} that learns streams some; use a "
                           "target that keeps all weights on the chip, such as ecp5")
    ways = bounds.check(network.topology, target, shapes, ways)
    for way in ways:
        choice, error = best(network, target, shapes, way, learn)
        if choice:
            return choice
    assert error
    raise _with_the_shape_that_fits(error, network, target, learn, weights) if any((pixels, lanes, outputs)) else error


def check_latent(topology):
    """Raises FitError where the latent is not a vector, as a learner needs it."""
    _, height, width = topology.shapes[LATENT]
    if (height, width) != (1, 1):
        raise FitError(f"layer {LATENT}: is a map of {height}x{width}, expected a vector for --learn")


def _with_the_shape_that_fits(error, network, target, learn, weights):
    """The FitError of sizes that were wanted; its way out is the shape that the target would choose, where that one fits."""
    try:
        fits = plan(network, target, learn=learn, weights=weights).config
    except FitError:
        return error
    return FitError(f"{str(error).split('; use ')[0]}; use {fits.pixels} x {fits.lanes} x {fits.outputs}, "
                    "which is chosen without --pixels, --lanes and --outputs")


def _ways(target, wanted):
    """The ways to have weights that are tried, in order.  wanted: one of them, or None.  UsageError where the target lacks it."""
    if wanted is None:
        return [way for way in target.weights if way not in CHOSEN] or target.weights
    if wanted not in target.weights:
        names = " or ".join(WAYS[way] for way in target.weights)
        raise UsageError(f"--weights {WAYS[wanted]}: {target.name} has no way to it, expected {names}")
    return [wanted]


def _shapes(target, dimensions):
    """The target's shapes with the dimensions that are wanted, None for any, or one shape made of them; UsageError for an illegal one."""
    shapes = [shape for shape in target.shapes if all(w in (None, value) for w, value in zip(dimensions, shape))]
    if not shapes:
        pixels, lanes, outputs = dimensions
        pixels = pixels or min(target.shapes[0][0], max(4, 1 << (outputs or target.shapes[0][0]).bit_length() - 1))
        lanes = lanes or target.shapes[0][1]
        shapes = [(pixels, lanes, outputs or min(max(target.shapes[0][2], pixels), lanes))]
    for shape in shapes:
        check_shape(*shape)
        if target.banks and (shape[0], shape[1]) != (target.banks, target.bank_bits):
            raise UsageError(f"--pixels {shape[0]} --lanes {shape[1]}: {target.part} has {target.banks} feature banks of "
                             f"{target.bank_bits} bits, expected --pixels {target.banks} --lanes {target.bank_bits}")
    return shapes


def best(network: Network, target: Target, shapes: list[Shape], weights: str, learner: Learn | None) -> tuple[Plan | None, FitError | None]:
    """(Plan, None or the last FitError) of the best of some shapes; (None, FitError of the last one) where none fits.

    With all weights on the chip that is the first shape that fits, else the one with the fewest cycles.
    """
    chosen = error = rejected = None
    for shape in shapes:
        if chosen and network.topology.macs() > chosen.frame.total * math.prod(shape):  # too slow even without any wait
            continue
        try:
            choice = _best_of_shape(network, target, shape, weights, learner)
        except FitError as failure:
            error, rejected = failure, rejected if chosen else (shape, failure.why)
            continue
        if chosen is None or choice.frame.total < chosen.frame.total:
            chosen = replace(choice, rejected_shape=rejected)
        if weights in ON_CHIP:
            break
    if chosen and learner:
        chosen = _with_learning_cost(network, target, learner, chosen)
    return chosen, error


def _best_of_shape(network, target, shape, weights, learner):
    """The fastest `Plan` of one shape.  Raises the first FitError where none fits."""
    if learner and not learner[1].slots and weights not in ON_CHIP:
        with suppress(FitError):
            few = learner[0], replace(learner[1], slots=ENOUGH_EXEMPLARS * learner[1].max_classes)
            return _best_of_shape(network, target, shape, weights, few)
    choices, errors = [], []
    for alternatives in attempts(target, shape, weights, learner):
        for attempt in alternatives:
            try:
                choices.append(try_one(network, target, attempt))
                break
            except FitError as failure:
                errors += [failure] * (not attempt.beside)
        if choices and not choices[-1].config.thresholds:
            break
    if not choices:
        raise errors[0]
    return min(choices, key=lambda choice: choice.frame.total)


def attempts(target: Target, shape: Shape, weights: str, learner: Learn | None) -> Iterator[list[Attempt]]:
    """Yield the attempts for one shape: a list for each way to start values that the target names, of which the first that fits counts."""
    beside = weights == "memory" and not learner and timing.large(shape[1]) and target.memory_registers and target.technology == "wrapper"
    for name in target.starts:
        plain = Attempt(shape, weights, name == "read", learner=learner)
        yield [replace(plain, beside=True), plain] if beside else [plain]


def try_one(network: Network, target: Target, attempt: Attempt) -> Plan:
    """The `Plan` of an attempt.

    Raises FitError where it does not fit the part's block RAMs or LUTs, or where an image does not load beside the program in time.
    """
    config, program = configure(network, target, attempt)
    target.check(config)
    need = lut4(config, target)
    limit = target.lut4_of(config)
    pixels, _, outputs = attempt.shape
    if limit and need > limit:
        prototypes = limit < (target.lut4 or 0) and need <= limit + target.replay_lut4
        advice = "fewer --outputs" if outputs > pixels else "--learn prototypes" if prototypes else "a larger part"
        raise FitError(f"--outputs {outputs}: the engine needs about {need:,} LUT4, {target.part} gives {limit:,} to it; use {advice}")
    passes = cycles.passes(config)
    if attempt.weights not in ON_CHIP:
        better, shorter = with_late_rows(config, program, passes)
        if not limit or lut4(better, target) <= limit:
            config, passes = better, shorter
    if attempt.beside and not cycles.loads_in_time(config, passes.later):
        raise FitError("an image takes longer to load than the steps that do not read it")
    return Plan(config, program, passes)


def _with_learning_cost(network, target, learner, choice):
    """The plan `choice`, with the two frames that it is compared with.

    Where no number of exemplars is asked for and weights are streamed, it has as many as `choose_exemplars` finds.
    """
    config = choice.config
    head, settings = learner
    plain = Attempt((config.pixels, config.lanes, config.outputs), config.way, config.start_reads)
    passes = {config.transfers: choice.passes}

    def plan_with(slots):
        config, program = configure(network, target, replace(plain, learner=(head, replace(settings, slots=slots))))
        target.check(config)
        if config.transfers not in passes:  # the transfers alone decide how long a frame takes
            passes[config.transfers] = cycles.passes(config)
        return Plan(config, program, passes[config.transfers])

    unlearned, program = configure(network, target, plain)
    without = cycles.passes(unlearned).later
    chosen = choice
    if config.way not in ON_CHIP and not settings.slots:
        logits = next(layer.label for layer in program.layers if layer.kind == "logits")
        chosen = choose_exemplars(plan_with, without, logits, ENOUGH_EXEMPLARS * settings.max_classes)
    return replace(chosen, rejected_shape=choice.rejected_shape, frame_without_learning=without,
                   frame_with_one_exemplar=plan_with(1).frame)
