"""One attempt at a design -> its configuration and program."""

import math
from dataclasses import dataclass, replace

from ..base.errors import FitError
from ..ir.network import LATENT, Network
from ..machine import cycles, starts, timing
from ..machine.config import AcceleratorConfig
from ..machine.learner import MOST_EXEMPLARS, Learn
from ..machine.protocol import LOGIT_BITS
from ..machine.step import FIELD_VALUES
from ..targets import ON_CHIP, Target
from . import schedule
from .exemplars import learning_plan
from .residents import residents
from .weights import accumulator_bits

LEAST_WORDS = 2
"""A memory has at least so many."""

Shape = tuple[int, int, int]
"""(pixels, lanes, outputs) of the engine."""


@dataclass(frozen=True)
class Attempt:
    """What is decided before anything is laid out."""

    shape: Shape
    weights: str  # the way to hold them, of `targets.WAYS`
    start_reads: bool = False  # where there are thresholds, and a learner's sums allow it, blocks begin with start reads
    beside: bool = False  # the next image is loaded while the program runs
    learner: Learn | None = None  # (Head, LearnConfig) of a chip that learns


def configure(network: Network, target: Target, attempt: Attempt) -> tuple[AcceleratorConfig, schedule.Program]:
    """The configuration of an attempt, and its program.  Raises FitError if a memory is too small."""
    learn, weights = attempt.learner, attempt.weights
    rows = learn[1].planes if learn else 1
    # A learner's sums, each of matches alone, have no start read: they begin at a multiple of 2 L, or no layer has one.
    whole = not learn or network.topology.largest_sum(network.topology.ops[-1]) * rows % (4 * attempt.shape[1]) == 0
    program = schedule.build(network, *attempt.shape, bool(learn), min(FIELD_VALUES, target.bank_words or FIELD_VALUES),
                             attempt.start_reads and whole, attempt.beside)
    _check_words(network.topology, program, target, weights)
    common = _common_fields(network, target, program, "memory" if weights in ON_CHIP else "stream", rows)
    if weights == "sdram":
        common |= {"beat_bits": target.sdram_lines, "burst": timing.BURST}
    elif weights == "double":
        common["beat_bits"] = 16
    elif weights == "ram":
        common["loads"] = True
    if timing.large(attempt.shape[1]) and not learn:
        common["memory_registers"] = target.memory_registers
    with_weights = _with_memory if weights in ON_CHIP else _with_stream
    config = with_weights(common, network.topology, target, program, learn)
    return (replace(config, image_steps=_image_steps(config, program)) if attempt.beside else config), program


def _image_steps(config, program):
    """Number of steps up to the last one that reads the image."""
    image = program.tensors[program.layers[0].name]

    def reads(step):
        places = config.listed_words(step) if config.lists else {(step.source, 1)}
        return any(first < image.base + image.size and image.base < first + words for first, words in places)

    return 1 + max(number for number, step in enumerate(config.program) if reads(step))


def _common_fields(network, target, program, weights, rows):
    """{field: value} of a configuration, however its weights are kept.  rows: binary ones of a class that a logit is the sum of."""
    topology, image = network.topology, program.graph.image
    pixels, lanes, outputs = program.shape
    latent = program.tensors.get(LATENT)
    # A map of one block lies in several banks; and a latent that global pooling stores does not stay.
    is_vector = latent is not None and latent.shape[1:] == (1, 1) and latent.until == len(program.layers)
    pooled = next((program.tensors[layer.parts[0]] for layer in program.layers if layer.kind == "lgap"), None)
    columns = pixels // 2
    mask = 0
    if pooled is not None and pooled.shape[2] < columns:
        mask = sum(1 << q for q in range(pixels) if q % columns < pooled.shape[2])
    logits = next(op for op in topology.ops if getattr(op, "logits", False))
    sum_bits = max(accumulator_bits(program, network), starts.least_bits(lanes) * program.start_reads)
    logit_bits = (topology.largest_sum(logits) * rows).bit_length() + 1
    if rows > 1:
        sum_bits = max(sum_bits, logit_bits - 1)
    return dict(
        pixels=pixels, lanes=lanes, outputs=outputs, **_encoder_fields(topology.ops[0]), size=topology.image_size,
        encoder_bits=target.encoder_bits, classes=len(topology.classes), program=program.steps,
        accumulator_bits=sum_bits, logit_bits=logit_bits if LOGIT_BITS <= sum_bits >= logit_bits else 0,
        technology=target.technology, popcount=target.popcount, weights=weights,
        latent_base=latent.base if is_vector else 0, latent_words=len(latent.lanes) if is_vector else 0, map_pixels=mask,
        logits_odd=bool(logits.fan_in(*topology.input_shapes(logits)) % 2), order=program.order,
        quarters=image.quarters, packed=image.packed, word_pixels=image.word_pixels, start_reads=program.start_reads)


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
    shipped = -(-learning.shipped * learning.fan_in_words // program.shape[2])
    return AcceleratorConfig(
        **common | {"classes": learning.shipped}, feature_words=program.used + learning.rows, learning=learning,
        weight_words=weight_words + shipped)


def _with_stream(common, topology, target, program, learn):
    """The configuration with streamed weights: features, a learner's tables and resident weights share the banks."""
    classes = len(topology.classes)
    common = common | {"weight_words": target.ring_words}
    word_cycles = cycles.stream_cycles(math.prod(program.shape[1:]), common.get("beat_bits", 8), common.get("burst", 1))
    part = target
    if target.bank_words is None:
        largest = None  # a learner with as many exemplars as the part has room for
        if learn:
            head, settings = learn
            slots = min(MOST_EXEMPLARS, target.blocks * target.block_bits // head.latent)
            largest = learning_plan(program, target, head, replace(settings, slots=slots), classes, "rows")
        smallest = AcceleratorConfig(
            **common, feature_words=program.used, transfers=residents(program, word_cycles, 0)[0], learning=largest)
        target.check(smallest)
        part = replace(target, bank_words=target.bank_words_beside(smallest))
    learning, tables, learned = None, 0, 0
    if learn:
        head, settings = learn
        learning = learning_plan(program, part, head, settings, classes, "rows")
        tables, learned = learning.class_rows, learning.rows
    free = min(FIELD_VALUES, part.bank_words) - program.used - learned
    transfers, rows = residents(program, word_cycles, free)
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


def _check_words(topology, program, target, weights):
    limit = min(FIELD_VALUES, target.bank_words or FIELD_VALUES)
    if program.used > limit:
        sizes = {name: tensor.size for name, tensor in program.tensors.items()}
        name = max(sizes, key=sizes.__getitem__)
        layer = next(layer for layer in program.layers if name in layer.stores)
        image = program.layers[0]
        side = int(image.shape[1] * math.sqrt(limit / program.used)) // 16 * 16
        smaller = [f"images of {side}x{side}"] * (side > 0)  # whose lists or weights may still be too many
        if sizes[image.name] < limit:  # the image does not shrink with the network
            smaller.insert(0, f"a network of {(limit - sizes[image.name]) / (program.used - sizes[image.name]):.2f} times this width")
        raise FitError(f"layer {layer.ops[-1].name}: its output takes {sizes[name]:,} words of the {program.used:,} that all feature maps "
                       f"need in each bank, at most {limit:,} with {target.name}; "
                       + (f"the banks hold the maps of {' or '.join(smaller)}" if smaller else "use more --lanes"))
    for step in program.steps:
        op = next(layer for layer in program.layers if layer.label == step.layer).ops[0]
        if weights not in ON_CHIP and step.tile_words > target.ring_words:
            # A copy or a pooling sums no products.
            inputs = op.fan_in(*topology.input_shapes(op)) or step.tile_words * program.shape[1]
            fits = inputs * target.ring_words // step.tile_words
            raise FitError(f"layer {op.name}: one tile needs {step.tile_words} weight words, {target.name} has room for "
                           f"{target.ring_words}; at most {fits:,} inputs to an output fit")
        largest = max(step.words, step.tiles, step.tile_words)
        if largest >= FIELD_VALUES:
            raise FitError(f"layer {op.name}: a program field needs the value {largest:,}, at most {FIELD_VALUES - 1:,}; use more --lanes "
                           "or a smaller network")
