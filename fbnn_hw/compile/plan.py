"""Network + target -> configuration.  The only place that chooses."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from types import MappingProxyType
from typing import Any

from ..base.errors import FitError, UsageError
from ..ir.network import LATENT, Network
from ..protocol import LOGIT_BITS, MOST_EXEMPLARS
from ..targets import CHOSEN, WAYS, Target
from . import cycles, irregular, late, schedule, starts, timing
from .area import lut4
from .config import FIELD, AcceleratorConfig, Transfer, check_shape
from .learn_plan import Learn, LearnPlan, planes
from .lower import owner

DEFAULT_EXEMPLARS = 20
"""Exemplars of each class where memory has no limit."""

ENOUGH_EXEMPLARS = 10
"""Exemplars of each class that a learner gets even where frames take longer for them."""

LONGER = 1.1
"""A learning design may slow a frame by at most this factor to have more exemplars than are enough."""

MOVING = 5
"""Layers whose resident words are chosen by trial beside a flash at twice the clock."""

LEAST_WORDS = 2
"""A memory has at least so many."""

Shape = tuple[int, int, int]
"""(pixels, lanes, outputs) of the engine."""


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
    if learn and not _extracts(network.topology):
        ways = [way for way in ways if way == "memory"]
        if not ways:
            raise FitError(f"--learn: no layer up to {LATENT} has weights, and a design of {target.name} that learns streams some; use a "
                           "target that keeps all weights on the chip, such as ecp5")
    for way in ways:
        if way != "memory":
            choice, error = _fastest(network, target, shapes, learn, way)
        else:
            choice, error = _first_that_fits(network, target, shapes, learn)
        if choice:
            return choice
    assert error
    raise _with_the_shape_that_fits(error, network, target, learn, weights) if any((pixels, lanes, outputs)) else error


def check_latent(topology):
    """Raises FitError where the latent is not a vector, as a learner needs it."""
    _, height, width = topology.shapes[LATENT]
    if (height, width) != (1, 1):
        raise FitError(f"layer {LATENT}: is a map of {height}x{width}, expected a vector for --learn")


def _extracts(topology):
    """Whether a layer up to the latent has weights."""
    names = [op.name for op in topology.ops]
    return not topology.weight_shapes().keys().isdisjoint(names[:names.index(LATENT) + 1])


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
        shapes = [_completed(dimensions, target.shapes[0])]
    for shape in shapes:
        check_shape(*shape)
        if target.banks and (shape[0], shape[1]) != (target.banks, target.bank_bits):
            raise UsageError(f"--pixels {shape[0]} --lanes {shape[1]}: {target.part} has {target.banks} feature banks of "
                             f"{target.bank_bits} bits, expected --pixels {target.banks} --lanes {target.bank_bits}")
    return shapes


def _completed(dimensions, shape):
    """A shape with the dimensions that are wanted, None for any, which are as in `shape` where they may be."""
    pixels, lanes, outputs = dimensions
    pixels = pixels or min(shape[0], max(4, 1 << (outputs or shape[0]).bit_length() - 1))
    lanes = lanes or shape[1]
    return pixels, lanes, outputs or min(max(shape[2], pixels), lanes)


def _first_that_fits(network, target, shapes, learn):
    """(Plan, None) of the first shape that fits with all weights on the chip, or (None, FitError of the last shape)."""
    error = rejected = None
    for shape in shapes:
        try:
            choice = _plan_shape(network, target, shape, learn, "memory")
        except FitError as failure:
            error, rejected = failure, (shape, failure.why)
            continue
        if learn:
            choice = _with_learning_cost(network, target, shape, learn, choice)
        return replace(choice, rejected_shape=rejected), None
    return None, error


def _fastest(network, target, shapes, learn, way):
    """(Plan, FitError or None) of the shape with the fewest cycles, with weights as a stream; (None, FitError) where none fits.

    way: "stream", "double" or "sdram".
    """
    best = best_shape = error = rejected = None
    few = learn and (learn[0], replace(learn[1], slots=ENOUGH_EXEMPLARS * learn[1].max_classes))
    for shape in shapes:
        if best and network.topology.macs() > best.frame.total * math.prod(shape):  # too slow even without any wait
            continue
        try:
            try:
                choice = _plan_shape(network, target, shape, few if learn and not learn[1].slots else learn, way)
            except FitError:
                if not learn or learn[1].slots:
                    raise
                choice = _plan_shape(network, target, shape, learn, way)
        except FitError as failure:
            error, rejected = failure, rejected if best else (shape, failure.why)
            continue
        if best is None or choice.frame.total < best.frame.total:
            best, best_shape = replace(choice, rejected_shape=rejected), shape
    if best and learn:
        best = replace(_with_learning_cost(network, target, best_shape, learn, best), rejected_shape=best.rejected_shape)
    return best, error


def _plan_shape(network, target, shape, learn, weights):
    """`Plan` for one shape; FitError also if the part has too few block RAMs or LUTs.

    Where there are start values, that is the fastest one of the ways to them that the target names.
    """
    choices, error = [], None
    for way in target.starts:
        try:
            choices.append(_plan_starts(network, target, shape, learn, weights, way == "read"))
            if not choices[-1].config.thresholds:
                break
        except FitError as failure:
            error = error or failure
    if not choices:
        assert error
        raise error
    return min(choices, key=lambda choice: choice.frame.total)


def _plan_starts(network, target, shape, learn, weights, start_reads):
    """`Plan` for one shape and one way to start values, with images loaded beside the program where that is possible in time."""
    if weights == "memory" and not learn and timing.large(shape[1]) and target.memory_registers and target.technology == "wrapper":
        with suppress(FitError):
            choice = _checked(network, target, shape, learn, weights, start_reads, beside=True)
            if choice.config.loads_beside and cycles.loads_in_time(choice.config, choice.frame):
                return choice
    return _checked(network, target, shape, learn, weights, start_reads)


def _checked(network, target, shape, learn, weights, start_reads, beside=False):
    """`Plan` for one shape, one way to start values and one way to load images; FitError where it does not fit the part."""
    config, program = configure(network, target, shape, learn, weights, start_reads, beside)
    target.check(config)
    need = lut4(config, target)
    limit = target.lut4_of(config)
    if limit and need > limit:
        prototypes = limit < target.lut4 and need <= limit + target.replay_lut4
        way = "fewer --outputs" if shape[2] > shape[0] else "--learn prototypes" if prototypes else "a larger part"
        raise FitError(f"--outputs {shape[2]}: the engine needs about {need:,} LUT4, {target.part} gives {limit:,} to it; use {way}")
    passes = cycles.passes(config)
    if weights != "memory":
        better, shorter = _with_late_rows(config, program, passes)
        if not limit or lut4(better, target) <= limit:
            config, passes = better, shorter
    return Plan(config, program, passes)


def _with_late_rows(config, program, passes):
    """(configuration, passes) with late rows where these save cycles.

    Of a flash at twice the clock, the first words with rows come from the stream instead, as many as nearly fill the ring: it has time for
    them while the layers before compute.  Then the largest layers in turn leave rows to those that are served after them, a sixteenth or
    two of their words at a time, or take one back, while that saves cycles.  At half the rate the flash binds wherever the rows are.
    """
    word_cycles = cycles.stream_cycles(config.word_bits, config.beat_bits, config.burst)
    plain = late.improved(config, program, partial(_residents, program, word_cycles), passes)
    resident = {layer.name: transfer.words for layer, transfer in zip(program.fetched(), config.transfers) if transfer.resident}
    if config.way != "double" or config.learning or not resident:
        return plain
    first = next(iter(resident))
    ahead = {first: min(config.weight_words * 7 // 8, resident[first] // 2)}
    names = sorted(resident, key=resident.__getitem__)[-MOVING:]

    @cache
    def leaving(*left):
        residents = partial(_residents, program, word_cycles, left=dict(zip(names, left)), ahead=ahead)
        transfers, rows = residents(config.feature_words - program.used)
        moved = replace(config, transfers=transfers, resident_rows=rows)
        return late.improved(moved, program, residents, cycles.passes(moved))

    def cycles_of(choice):
        return choice[1].later.total

    best, before = [0] * len(names), None
    while best != before:
        before = best
        for layer, more in product(range(len(names)), (1, 2, -1)):
            left = [max(0, value + more * (number == layer)) for number, value in enumerate(best)]
            best = min(best, left, key=lambda choice: cycles_of(leaving(*choice)))
    return min(plain, leaving(*best), key=cycles_of)


def _with_learning_cost(network, target, shape, learn, choice):
    """The plan `choice` for a shape, with the two frames that it is compared with.

    Where no number of exemplars is asked for and weights are streamed, it has as many as `_choose_exemplars` finds.
    """
    weights = choice.config.way
    passes = {choice.config.transfers: choice.passes}
    start_reads = choice.config.start_reads

    def plan_with(slots):
        config, program = configure(network, target, shape, (learn[0], replace(learn[1], slots=slots)), weights, start_reads)
        target.check(config)
        if config.transfers not in passes:  # the transfers alone decide how long a frame takes
            passes[config.transfers] = cycles.passes(config)
        return Plan(config, program, passes[config.transfers])

    config, program = configure(network, target, shape, None, weights, start_reads)
    without = cycles.passes(config).later
    if weights != "memory" and not learn[1].slots:
        logits = next(layer.label for layer in program.layers if layer.kind == "logits")
        choice = _choose_exemplars(plan_with, without, logits, ENOUGH_EXEMPLARS * learn[1].max_classes)
    return replace(choice, frame_without_learning=without, frame_with_one_exemplar=plan_with(1).frame)


def _choose_exemplars(plan_with: Callable[[int], Any], without: cycles.PassCycles, logits: str, enough: int) -> Any:
    """Return the plan with as many exemplars as are worth their time.

    plan_with(slots): the plan with that many exemplars, or FitError; with slots 0, half of the free rows hold exemplars.
    without: a frame of the same design without learning, in which the layer labelled `logits` classifies.

    Three rules are tried in turn, each for `enough` exemplars at least:
    1. the largest number whose frame time, classification excluded, equals that of the design without learning;
    2. the largest number, up to half of the free rows, whose frame takes at most LONGER times as long;
    3. `enough`.
    Where `enough` exemplars do not fit, the exemplars get half of the free rows.
    """
    half = plan_with(0)
    slots = half.config.learning.slots

    def fits(number, test):
        with suppress(FitError):
            return test(plan_with(number).frame)
        return False

    def before_classifying(frame, name):
        return frame.total - frame.layers[name].total

    def as_fast(frame):
        return before_classifying(frame, cycles.LOGITS) <= before_classifying(without, logits)

    def bearable(frame):
        return frame.total <= LONGER * without.total

    for test, most in (as_fast, 2 * slots + 1), (bearable, slots), (lambda frame: True, enough):
        if fits(enough, test):
            low, high = enough, max(enough, most) + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle, test) else (low, middle)
            return plan_with(low)
    return half


def configure(network: Network, target: Target, shape: Shape, learn: Learn | None,
              weights: str, start_reads: bool = False, beside: bool = False) -> tuple[AcceleratorConfig, schedule.Program]:
    """The configuration for one shape of the engine and one way to have weights, and its program.

    weights: one of `targets.WAYS`.  start_reads: where there are thresholds, and a learner's sums allow it, blocks begin with start
    reads.  beside: the next image is loaded while the program runs.  Raises FitError if a memory is too small.
    """
    rows = planes(learn[1].rule) if learn else 1
    program = schedule.build(network, *shape, bool(learn), min(FIELD, target.bank_words or FIELD),
                             start_reads and (not learn or _whole_starts(network, shape[1], rows)), beside)
    _check_words(network.topology, program, target, weights)
    common = _common_fields(network, target, program, "memory" if weights == "memory" else "stream", rows)
    if weights == "sdram":
        common |= {"beat_bits": target.sdram_lines, "burst": cycles.BURST}
    elif weights == "double":
        common["beat_bits"] = 16
    if timing.large(program.lanes) and not learn:
        common["memory_registers"] = target.memory_registers
    with_weights = _with_memory if weights == "memory" else _with_stream
    config = with_weights(common, network.topology, target, program, learn)
    return (replace(config, image_steps=_image_steps(config, program)) if beside else config), program


def _image_steps(config, program):
    """Number of steps up to the last one that reads the image."""
    image = program.image_words()

    def reads(step):
        places = config.listed_words(step) if config.lists else {(step.source, 1)}
        return any(first < image.stop and image.start < first + words for first, words in places)

    return 1 + max(number for number, step in enumerate(config.program) if reads(step))


def _whole_starts(network, lanes, rows):
    """Whether a learner's sums, each of matches alone, begin at a multiple of 2 L: they have no start read."""
    logits = network.topology.ops[-1]
    return logits.fan_in(*network.topology.input_shapes(logits)) * rows % (4 * lanes) == 0


def _common_fields(network, target, program, weights, rows):
    """{field: value} of a configuration, however its weights are kept.  rows: binary ones of a class that a logit is the sum of."""
    topology, pixels = network.topology, program.pixels
    latent = program.tensors.get(LATENT)
    is_vector = latent is not None and latent.shape[1:] == (1, 1)  # a map of one block lies in several banks
    pooled = next((program.tensors[layer.parts[0]] for layer in program.layers if layer.kind == "lgap"), None)
    columns = pixels // 2
    mask = 0
    if pooled is not None and pooled.shape[2] < columns:
        mask = sum(1 << q for q in range(pixels) if q % columns < pooled.shape[2])
    logits = next(op for op in topology.ops if getattr(op, "logits", False))
    accumulator_bits = max(_accumulator_bits(network, program.lists), starts.least_bits(program.lanes) * program.start_reads)
    logit_bits = (topology.largest_sum(logits) * rows).bit_length() + 1
    if rows > 1:
        accumulator_bits = max(accumulator_bits, logit_bits - 1)
    return dict(
        pixels=pixels, lanes=program.lanes, outputs=program.outputs,
        **_encoder_fields(topology.ops[0]), size=topology.image_size,
        encoder_bits=target.encoder_bits, classes=len(topology.classes), program=program.steps,
        accumulator_bits=accumulator_bits, logit_bits=logit_bits if LOGIT_BITS <= accumulator_bits >= logit_bits else 0,
        technology=target.technology, popcount=target.popcount, weights=weights,
        latent_base=latent.base if is_vector else 0, latent_words=len(latent.lanes) if is_vector else 0, map_pixels=mask,
        logits_odd=bool(logits.fan_in(*topology.input_shapes(logits)) % 2), order=program.order,
        quarters=bool(program.lists and program.lists.graph.quarters),
        packed=bool(program.lists and program.lists.graph.packed), word_pixels=program.lists.graph.word_pixels if program.lists else 1,
        start_reads=program.start_reads)


def _encoder_fields(op):
    """{field: value} of a configuration, from the network's first op."""
    match op.kind:
        case "thermometer":
            return dict(encoder=op.encoder, levels=op.levels)
        case "binarize":
            return dict(encoder=op.kind, levels=1, threshold=op.threshold)
        case _:
            return dict(encoder=op.kind, levels=256, table=() if op.table == tuple(range(256)) else op.table)


def _with_memory(common, topology, target, program, learn):
    """The configuration with all weights in one memory, those that a learner starts with at its end."""
    weight_words = sum(step.tiles * step.tile_words for step in program.steps)
    if not learn:
        return AcceleratorConfig(**common, feature_words=max(LEAST_WORDS, program.used), weight_words=weight_words)
    head, settings = learn
    learning = learning_plan(program, target, head, settings, len(topology.classes), "words")
    shipped = -(-learning.shipped * learning.fan_in_words // program.outputs)
    return AcceleratorConfig(
        **common | {"classes": learning.shipped}, feature_words=program.used + learning.rows, learning=learning,
        weight_words=weight_words + shipped)


def _with_stream(common, topology, target, program, learn):
    """The configuration with streamed weights: features, a learner's tables and resident weights share the banks."""
    classes = len(topology.classes)
    common = common | {"weight_words": target.ring_words}
    word_cycles = cycles.stream_cycles(program.outputs * program.lanes, common.get("beat_bits", 8), common.get("burst", 1))
    part = target
    if target.bank_words is None:
        largest = None  # a learner with as many exemplars as the part has room for
        if learn:
            head, settings = learn
            slots = min(MOST_EXEMPLARS, target.blocks * target.block_bits // head.latent)
            largest = learning_plan(program, target, head, replace(settings, slots=slots), classes, "rows")
        smallest = AcceleratorConfig(
            **common, feature_words=program.used, transfers=_residents(program, word_cycles, 0)[0], learning=largest)
        target.check(smallest)
        part = replace(target, bank_words=target.bank_words_beside(smallest))
    learning, tables, learned = None, 0, 0
    if learn:
        head, settings = learn
        learning = learning_plan(program, part, head, settings, classes, "rows")
        tables, learned = learning.class_rows, learning.rows
    free = min(FIELD, part.bank_words) - program.used - learned
    transfers, rows = _residents(program, word_cycles, free)
    base = program.used + tables
    if learning:
        learning = replace(learning, slots_base=base + rows)
        common["classes"] = learning.shipped
    config = AcceleratorConfig(
        **common, feature_words=target.bank_words or max(LEAST_WORDS, program.used + learned + rows), transfers=transfers,
        resident_base=base if rows or learn else 0, resident_rows=rows, learning=learning)
    if target.bank_words is None and sum(target.blocks_of(config).values()) > target.blocks:  # fewer words can need more blocks
        config = replace(config, feature_words=part.bank_words)
    return config


def learning_plan(program: schedule.Program, target: Target, head: Any, config: Any, shipped: int, boot: str) -> LearnPlan:
    """The `LearnPlan` for a Head and a LearnConfig, with its tables right behind the features.

    config.slots 0: exemplars get half of the rows that are free.  Raises FitError with what would fit.
    """
    pixels, lanes = program.pixels, program.lanes
    shipped = 0 if config.adds else shipped  # the model's classifier has no prototypes
    if config.max_classes < shipped:
        raise UsageError(f"--max-classes {config.max_classes}: the model knows {shipped} classes, expected at least as many")
    latent = program.tensors[LATENT]

    def learner(slots, max_classes=config.max_classes):
        return LearnPlan.of(head, replace(config, slots=slots, max_classes=max_classes), pixels, lanes, shipped, latent.base, program.used,
                            boot=boot)

    one = learner(1)
    for name in program.layers[-1].parts:
        places = [lane for word in program.tensors[name].lanes for lane in word]
        if places != list(range(len(places))):
            raise FitError(f"layer {name}: its channels or its groups do not fill words of {lanes} lanes, expected multiples with --learn; "
                           "use fewer --lanes")
    if target.bank_words is None:
        return learner(config.slots or DEFAULT_EXEMPLARS * config.max_classes)
    free = target.bank_words - program.used - one.class_rows
    most = free // one.slot_rows
    if most < 1:
        fits = [n for n in range(shipped, config.max_classes) if program.used + learner(1, n).rows <= target.bank_words]
        raise FitError(f"--max-classes {config.max_classes}: weights and counters need {one.class_rows:,} rows of the banks and an "
                       f"exemplar {one.slot_rows}, the features leave {target.bank_words - program.used:,} of {target.bank_words:,}; "
                       "what fits: "
                       + (f"--max-classes {fits[-1]}" if fits else "--counter-bits 4, or a smaller network"))
    if config.slots > most:
        raise FitError(f"--exemplars {config.slots}: {most:,} fit beside the features and {config.max_classes} classes; expected at most "
                       f"{most:,}, or fewer --max-classes")
    if config.slots:
        return learner(config.slots)
    return learner(min(max(1, free // 2 // one.slot_rows), MOST_EXEMPLARS))


def _accumulator_bits(network, lists):
    """Bits of an accumulator that holds every sum.  lists: `Program.lists`, whose sums are other ones; a learner's scores are none."""
    logits = network.topology.ops[-1]
    if lists and lists.graph.classifier:
        return max(irregular.accumulator_bits(lists, network), _bits_of_sums(network, [logits]))
    if lists:
        return irregular.accumulator_bits(lists, network)
    return _bits_of_sums(network, [op for op in network.topology.ops if op.kind in ("conv", "dense")])


def _bits_of_sums(network, ops):
    """Bits of a signed accumulator that holds -(fan_in + |threshold| + 1) / 2 .. fan_in, over some layers."""
    topology, shapes = network.topology, network.topology.shapes
    low, high = 1, 1
    for op in ops:
        fan_in = op.fan_in(*topology.input_shapes(op, shapes))
        thresholds = network.threshold(op.name)
        for threshold in (thresholds.min(), thresholds.max()):
            start = schedule.offset(fan_in, int(threshold))
            low, high = max(low, -start), max(high, fan_in + start)
        if max(low, high) >= FIELD // 2:
            raise FitError(f"layer {op.name}: {fan_in:,} inputs to an output need sums of more than 16 bits; at most {FIELD - 2:,} fit")
    return max(low.bit_length(), high.bit_length()) + 1


def _check_words(topology, program, target, weights):
    limit = min(FIELD, target.bank_words or FIELD)
    if program.used > limit:
        sizes = {name: tensor.size for name, tensor in program.tensors.items()}
        name = max(sizes, key=sizes.__getitem__)
        layer = next(layer for layer in program.layers if layer.name == owner(name))
        image = program.layers[0]
        side = int(image.shape[1] * math.sqrt(limit / program.used)) // 16 * 16
        ways = [f"images of {side}x{side}"] * (side > 0)
        if sizes[image.name] < limit:  # the image does not shrink with the network
            ways.insert(0, f"a network of {(limit - sizes[image.name]) / (program.used - sizes[image.name]):.2f} times this width")
        raise FitError(f"layer {layer.ops[-1].name}: its output takes {sizes[name]:,} words of the {program.used:,} that all feature maps "
                       f"need in each bank, at most {limit:,} with {target.name}; what fits: {' or '.join(ways) or 'more --lanes'}")
    for step in program.steps:
        op = next(layer for layer in program.layers if layer.label == step.layer).ops[0]
        if weights != "memory" and step.tile_words > target.ring_words:
            # A copy or a pooling sums no products.
            inputs = op.fan_in(*topology.input_shapes(op)) or step.tile_words * program.lanes
            fits = inputs * target.ring_words // step.tile_words
            raise FitError(f"layer {op.name}: one tile needs {step.tile_words} weight words, {target.name} has room for "
                           f"{target.ring_words}; at most {fits:,} inputs to an output fit")
        largest = max(step.words, step.tiles, step.tile_words)
        if largest >= FIELD:
            raise FitError(f"layer {op.name}: a program field needs the value {largest:,}, at most {FIELD - 1:,}; use more --lanes "
                           "or a smaller network")


def _residents(program, word_cycles, free_words, left=MappingProxyType({}), ahead=MappingProxyType({})):
    """Choose the weights that stay on the chip; return (transfers, rows of the banks).

    word_cycles: in which the stream brings a weight word.  free_words: rows of the banks that may hold
    weights.  Convolutions are served first, the last one before the others; each gets as many rows as
    it needs to run at the speed of the array beside the stream.  The other layers share the rest, the
    largest one first.  A layer takes left[its name] sixteenths of its words less than it could.  Its
    first ahead[its name] words come from the stream.
    """
    per_word = program.outputs // program.pixels
    order = program.fetched()
    names = [layer.name for layer in order]
    begins = {name: ahead.get(name, 0) for name in names}
    words = {layer.name: program.layer_words(layer) - begins[layer.name] for layer in order}
    free = free_words // per_word
    share = dict.fromkeys(names, 0)

    def used(name, sixteenths):
        return words[name] * sixteenths // 16

    if not ahead and sum(words.values()) <= free:
        share = dict.fromkeys(names, 16)
    else:
        reads = {layer.name: _reads(program, layer) for layer in order}
        convolutions = [n for n in names if reads[n] > words[n]]
        for name in reversed(convolutions):
            need = -(-16 * (words[name] * word_cycles - reads[name]) // (words[name] * word_cycles))
            share[name] = max(0, min(need, 16 * free // words[name]) - left.get(name, 0))
            free -= used(name, share[name])
        for name in sorted((n for n in names if n not in convolutions), key=lambda n: -words[n]):
            share[name] = max(0, min(16, 16 * free // words[name]) - left.get(name, 0))
            free -= used(name, share[name])
    transfers = tuple(Transfer(*part) for layer in order
                      for part in ((begins[layer.name], 0), (words[layer.name], share[layer.name])) if part[0])
    return transfers, sum(used(n, share[n]) for n in names) * per_word


def _reads(program, layer):
    """Cycles for which the array uses a layer's weights."""
    return sum(s.tiles * s.rows * s.columns * s.taps * s.words * s.repeat for s in program.layer_steps(layer))
