"""Network + target -> configuration.  The only place that chooses."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import FitError, UsageError
from ..ir.network import LATENT
from . import cycles, schedule
from .area import lut4
from .config import AcceleratorConfig, Transfer, check_shape
from .learning import MAX_SLOTS, LearnPlan

DEFAULT_EXEMPLARS = 20
"""Of each class, where memory has no limit."""

ENOUGH_EXEMPLARS = 10
"""Of each class: rather than have a buffer for fewer, frames take longer."""
LONGER = 1.1
"""Times as long as without learning a frame may take where it must take longer."""

FIELD = 1 << 16
"""Values that a field of a step can hold: addresses, counts."""


@dataclass(frozen=True)
class Plan:
    """config; program: where things are; first, frame: cycle counts of the first and of a later frame.

    passed: (shape, why not) of the last faster shape that was tried.  plain, bare: later frames of a design that learns if it did not,
    and if it had one exemplar.
    """

    config: AcceleratorConfig
    program: schedule.Program
    first: cycles.Frame
    frame: cycles.Frame
    passed: tuple | None = None
    plain: cycles.Frame | None = None
    bare: cycles.Frame | None = None

    @property
    def exemplar_cycles(self):
        """Of a frame of a design that learns, what its exemplars cost: weights that would be on the chip are fetched."""
        return max(0, self.frame.total - self.bare.total)


def plan(network, target, pixels=None, lanes=None, outputs=None, frames=1, learn=None):
    """Choose the engine's shape, unless given, and lay everything out.  frames: images of a pass.  learn: (Head, LearnConfig) of a chip
    that goes on learning; slots 0: as many exemplars as `_roomy` finds.

    Of the ways to have weights that the target knows, the first one that fits; all on the chip: the first shape of the target's list
    whose LUT estimate is within the part's budget and whose memories fit; as a stream: of these shapes the one with the fewest cycles.
    Raises FitError with layer, need, limit and what would fit; UsageError for an illegal shape.
    """
    if frames > 1 and learn:
        raise UsageError(f"--frames {frames}: a design that learns takes one image after the other; expected 1 with --learn")
    if learn and network.topology[LATENT].kind not in ("dense", "conv", "maxpool"):
        raise FitError(f"layer {LATENT}: is a {network.topology[LATENT].kind}, whose bits do not lie in memory as a vector; use a dense "
                       "layer for --learn")
    given = (pixels, lanes, outputs)
    shapes = [s for s in target.shapes if all(g in (None, v) for g, v in zip(given, s))]
    if not shapes:
        base = target.shapes[0]
        shapes = [tuple(v if g is None else g for g, v in zip(given, base))]
    for shape in shapes:
        check_shape(*shape)
        if target.banks and (shape[0], shape[1]) != (target.banks, target.bank_bits):
            raise UsageError(f"--pixels {shape[0]} --lanes {shape[1]}: {target.part} has {target.banks} feature banks of "
                             f"{target.bank_bits} bits, expected --pixels {target.banks} --lanes {target.bank_bits}")
    for weights in target.weights:
        if weights == "stream":
            found, error = _fastest(network, target, shapes, frames, learn)
        else:
            found, error = _first(network, target, shapes, learn)
            if frames > 1 and (found or "stream" not in target.weights):
                raise UsageError(f"--frames {frames}: {target.name} has all weights on the chip, nothing is fetched; expected 1")
        if found:
            return found
    raise error


def _first(network, target, shapes, learn):
    """(Plan, None) of the first shape that fits with all weights on the chip, or (None, FitError of the last one)."""
    error = passed = None
    for shape in shapes:
        try:
            found = _fitting(network, target, shape, 1, learn, "memory")
        except FitError as failure:
            error, passed = failure, (shape, failure.why)
            continue
        if learn:
            found = _compared(network, target, shape, learn, found)
        return replace(found, passed=passed), None
    return None, error


def _fastest(network, target, shapes, frames, learn):
    """The same of the shape with the fewest cycles, with weights as a stream."""
    best = error = passed = None
    few = learn and (learn[0], replace(learn[1], slots=ENOUGH_EXEMPLARS * learn[1].max_classes))
    for shape in shapes:
        if best and network.topology.macs() * frames > best.frame.total * math.prod(shape):  # not even if it never waits
            continue
        try:
            try:
                found = _fitting(network, target, shape, frames, few if learn and not learn[1].slots else learn, "stream")
            except FitError:
                if not learn or learn[1].slots:
                    raise
                found = _fitting(network, target, shape, frames, learn, "stream")
        except FitError as failure:
            error, passed = failure, passed if best else (shape, failure.why)
            continue
        if best is None or found.frame.total < best.frame.total:
            best, chosen = replace(found, passed=passed), shape
    if best and learn:
        best = replace(_compared(network, target, chosen, learn, best), passed=best.passed)
    return best, error


def _fitting(network, target, shape, frames, learn, weights):
    """`Plan` for one shape; FitError also if the part has too few block RAMs or LUTs."""
    config, program = configure(network, target, shape, frames, learn, weights)
    target.check(config)
    need = lut4(config, target)
    if target.lut4 and need > target.lut4:
        raise FitError(f"--outputs {shape[2]}: the engine needs about {need:,} LUT4, {target.part} gives {target.lut4:,} to "
                       "it; use fewer --outputs")
    found = cycles.frames(config)
    return Plan(config, program, found[0], found[-1])


def _compared(network, target, shape, learn, found):
    """The plan `found` for a shape, with `plain` and `bare`; with the exemplars that `_roomy` chooses where no number is asked for."""
    weights, frames = found.config.weights, {found.config.transfers: (found.first, found.frame)}

    def having(slots):
        config, program = configure(network, target, shape, 1, (learn[0], replace(learn[1], slots=slots)), weights)
        target.check(config)
        if config.transfers not in frames:  # they alone decide how long a frame takes
            passes = cycles.frames(config)
            frames[config.transfers] = passes[0], passes[-1]
        return Plan(config, program, *frames[config.transfers])

    config, program = configure(network, target, shape, 1, None, weights)
    plain = cycles.frames(config)[-1]
    if weights == "stream" and not learn[1].slots:
        logits = next(layer.name for layer in program.layers if layer.kind == "logits")
        found = _roomy(having, plain, logits, ENOUGH_EXEMPLARS * learn[1].max_classes)
    return replace(found, plain=plain, bare=having(1).frame)


def _roomy(having, plain, logits, enough):
    """The plan with as many exemplars as are worth their time; `having`(slots) makes one, slots 0: half of the free rows are theirs.

    The most with which a frame is as fast as `plain`, one without learning, classification apart (`logits`), if these are `enough`.
    Else the most, half of the free rows at most, with which it takes at most LONGER times as long; else `enough`; else that half.
    """
    half = having(0)
    slots = half.config.learning.slots

    def fits(number, test):
        with suppress(FitError):
            return test(having(number).frame)
        return False

    def others(frame, name):
        return frame.total - frame.layers[name].total

    def unhurried(frame):
        return others(frame, cycles.LOGITS) <= others(plain, logits)

    def bearable(frame):
        return frame.total <= LONGER * plain.total

    for test, most in (unhurried, 2 * slots + 1), (bearable, slots), (lambda frame: True, enough):
        if fits(enough, test):
            low, high = enough, max(enough, most) + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle, test) else (low, middle)
            return having(low)
    return half


def configure(network, target, shape, frames, learn, weights):
    """(AcceleratorConfig, Program) for one shape of the engine and one way to have weights; FitError if a memory is too small."""
    pixels, lanes, outputs = shape
    topology = network.topology
    program = schedule.build(topology, pixels, lanes, outputs, tuple(network.thresholds), frames, bool(learn))
    _check_words(program, target, weights)
    accumulator_bits = _accumulator_bits(network)
    latent = program.tensors.get(LATENT)
    pooled = next((program.tensors[layer.parts[0]] for layer in program.layers if layer.kind == "lgap"), None)
    columns = pixels // 2
    mask = 0
    if pooled is not None and pooled.shape[2] < columns:
        mask = sum(1 << q for q in range(pixels) if q % columns < pooled.shape[2])
    logits = next(o for o in topology.ops if getattr(o, "logits", False))
    fan_in = logits.fan_in(*topology.input_shapes(logits))
    total_words = sum(s.tiles * s.tile_words for s in program.steps)
    common = dict(
        pixels=pixels, lanes=lanes, outputs=outputs,
        encoder=topology.ops[0].encoder, levels=topology.ops[0].levels, size=topology.image_size,
        encoder_bits=target.encoder_bits, classes=len(topology.classes), program=program.steps, accumulator_bits=accumulator_bits,
        technology=target.technology, popcount=target.popcount, weights=weights,
        latent_base=latent.base if latent and latent.rows * latent.columns == 1 else 0,
        latent_words=latent.pitch if latent and latent.rows * latent.columns == 1 else 0, map_pixels=mask, logits_odd=bool(fan_in % 2),
        frames=frames, frame_stride=program.stride)
    if weights == "memory":
        learning = learn and learning_plan(program, target, *learn, shape, len(topology.classes), "words")
        return AcceleratorConfig(
            **common, feature_words=program.used + (learning.rows if learn else 0), learning=learning,
            weight_words=total_words + (-(-learning.shipped * learning.fan_in_words // outputs) if learn else 0)), program
    part, common["weight_words"] = target, target.ring_words
    if target.bank_words is None:
        largest = None  # the learner of as many exemplars as the part has bits for
        if learn:
            slots = min(MAX_SLOTS, target.blocks * target.block_bits // learn[0].latent)
            largest = learning_plan(program, target, learn[0], replace(learn[1], slots=slots), shape, len(topology.classes), "rows")
        bare = AcceleratorConfig(**common, feature_words=program.used, transfers=_residents(program, 0)[0], learning=largest)
        target.check(bare)
        part = replace(target, bank_words=target.bank_words_beside(bare))
    learning, tables, learned = None, 0, 0
    if learn:
        learning = learning_plan(program, part, *learn, shape, len(topology.classes), "rows")
        tables, learned = learning.class_rows, learning.rows
    free = min(FIELD, part.bank_words) - program.used - learned
    transfers, rows = _residents(program, free)
    base = program.used + tables
    if learn:
        learning = replace(learning, slots_base=base + rows)
    config = AcceleratorConfig(
        **common, feature_words=target.bank_words or program.used + learned + rows, transfers=transfers,
        resident_base=base if rows or learn else 0, resident_rows=rows, learning=learning)
    if target.bank_words is None and sum(target.blocks_of(config).values()) > target.blocks:  # fewer words can need more blocks
        config = replace(config, feature_words=part.bank_words)
    return config, program


def learning_plan(program, target, head, config, shape, shipped, boot):
    """`LearnPlan` right behind the features.  Without a number of slots, they get half of the rows that are free.  FitError with what
    would fit."""
    pixels, lanes, _ = shape
    if config.max_classes < shipped:
        raise UsageError(f"--max-classes {config.max_classes}: the model knows {shipped} classes, expected at least as many")
    latent = program.tensors[LATENT]
    if (latent.rows, latent.columns) != (1, 1):
        raise FitError(f"layer {LATENT}: is a map, expected a vector for --learn")

    def made(slots, max_classes=config.max_classes):
        return LearnPlan.of(head, replace(config, slots=slots, max_classes=max_classes), pixels, lanes, shipped, latent.base, program.used,
                            boot=boot)

    one = made(1)
    for name in program.layers[-1].parts:
        if any(-1 in word for word in program.tensors[name].lanes):
            raise FitError(f"layer {name}: its channels or its groups do not fill words of {lanes} lanes, expected multiples with --learn; "
                           "use fewer --lanes")
    if target.bank_words is None:
        return made(config.slots or DEFAULT_EXEMPLARS * config.max_classes)
    free = target.bank_words - program.used - one.class_rows
    most = free // one.slot_rows
    if most < 1:
        fits = [n for n in range(shipped, config.max_classes) if program.used + made(1, n).rows <= target.bank_words]
        raise FitError(f"--max-classes {config.max_classes}: weights and counters need {one.class_rows:,} rows of the banks and an "
                       f"exemplar {one.slot_rows}, the features leave {target.bank_words - program.used:,} of {target.bank_words:,}; "
                       "what fits: "
                       + (f"--max-classes {fits[-1]}" if fits else "--counter-bits 4, or a smaller network"))
    if config.slots > most:
        raise FitError(f"--exemplars {config.slots}: {most:,} fit beside the features and {config.max_classes} classes; expected at most "
                       f"{most:,}, or fewer --max-classes")
    if config.slots:
        return made(config.slots)
    return made(min(max(1, free // 2 // one.slot_rows), MAX_SLOTS))


def _accumulator_bits(network):
    """Bits of a signed accumulator that holds -(fan_in + |threshold| + 1) / 2 .. fan_in, over all layers."""
    topology, shapes = network.topology, network.topology.shapes
    low, high = 1, 1
    for op in topology.ops:
        if op.kind not in ("conv", "dense"):
            continue
        fan_in = op.fan_in(*topology.input_shapes(op, shapes))
        for threshold in network.threshold(op.name):
            start = schedule.offset(fan_in, int(threshold))
            low, high = max(low, -start), max(high, fan_in + start)
        if max(low, high) >= FIELD // 2:
            raise FitError(f"layer {op.name}: {fan_in:,} inputs to an output need sums of more than 16 bits; at most {FIELD - 2:,} fit")
    return max(low.bit_length(), high.bit_length()) + 1


def _check_words(program, target, weights):
    limit = min(FIELD, target.bank_words or FIELD)
    if program.used > limit:
        sizes = {name: tensor.pitch * tensor.rows * tensor.columns for name, tensor in program.tensors.items()}
        name = max(sizes, key=sizes.get)
        layer = next(layer for layer in program.layers if layer.name == name.split(".")[0])
        image = program.layers[0]
        side = int(image.shape[1] * math.sqrt(limit / program.used)) // 16 * 16
        ways = [f"images of {side}x{side}"] * (side > 0)
        if sizes[image.name] < limit:  # it does not shrink with the network
            ways.insert(0, f"a network of {(limit - sizes[image.name]) / (program.used - sizes[image.name]):.2f} times this width")
        if program.frames > 1:
            ways.insert(0, "fewer --frames")
        raise FitError(f"layer {layer.ops[-1].name}: its output takes {sizes[name]:,} words of the {program.used:,} that all feature maps "
                       f"need in each bank, at most {limit:,} with {target.name}; what fits: {' or '.join(ways) or 'more --lanes'}")
    for step in program.steps:
        name = next(layer for layer in program.layers if layer.name == step.layer).ops[0].name
        if weights == "stream" and step.tile_words > target.ring_words:
            raise FitError(f"layer {name}: one tile needs {step.tile_words} weight words, {target.name} has room for {target.ring_words}; "
                           f"at most {target.ring_words * program.lanes:,} inputs to an output fit")
        largest = max(step.words, step.tiles, step.tile_words)
        if largest >= FIELD:
            raise FitError(f"layer {name}: a program field needs the value {largest:,}, at most {FIELD - 1:,}; use more --lanes "
                           "or a smaller network")


def _residents(program, free_words):
    """Which weights stay on the chip: (transfers, rows).

    free_words: rows of the banks for them.  They are given away until they are used up: first to the convolutions, as much as they need to
    run at the speed of the array beside the stream, last convolution first; then to the other layers, largest share first.
    """
    per_word = program.outputs // program.pixels
    word_cycles = program.outputs * program.lanes // 8 * cycles.BYTE_CYCLES
    order = program.fetched()
    names = list(dict.fromkeys(layer.name for layer in order))
    words = {layer.name: program.layer_words(layer) for layer in order}
    copies = {name: [layer.name for layer in order].count(name) for name in names}  # of rows that are fetched once a frame
    free = free_words // per_word
    share = dict.fromkeys(names, 0)

    def used(name, sixteenths):
        return words[name] * sixteenths // 16 * copies[name]

    if sum(words[name] * copies[name] for name in names) <= free:
        share = dict.fromkeys(names, 16)
    else:
        reads = {layer.name: _reads(program, layer) for layer in order}
        convolutions = [n for n in names if reads[n] > words[n]]
        for name in reversed(convolutions):
            need = -(-16 * (words[name] * word_cycles - reads[name]) // (words[name] * word_cycles))
            share[name] = max(0, min(need, 16 * free // (words[name] * copies[name])))
            free -= used(name, share[name])
        for name in sorted((n for n in names if n not in convolutions), key=lambda n: -words[n]):
            share[name] = min(16, 16 * free // (words[name] * copies[name]))
            free -= used(name, share[name])
    transfers = tuple(Transfer(words[layer.name], share[layer.name]) for layer in order)
    return transfers, sum(used(n, share[n]) for n in names) * per_word


def _reads(program, layer):
    """Cycles for which the array uses a layer's weights once they have been fetched."""
    reads = sum(s.tiles * s.rows * s.columns * s.taps * s.words * s.repeat for s in program.layer_steps(layer))
    return reads * program.frames // program.fetches(layer)


def residents_of(transfer):
    """List of bool: which words of a transfer are resident."""
    return [(i + 1) * transfer.resident >> 4 != i * transfer.resident >> 4 for i in range(transfer.words)]
