"""Where a learner's tables lie in the banks, and how many exemplars it keeps."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..base.errors import FitError, UsageError
from ..ir.network import LATENT
from ..machine import cycles
from ..machine.learner import MOST_EXEMPLARS, LearnPlan
from ..targets import Target
from .schedule import Program

DEFAULT_EXEMPLARS = 20
"""Exemplars of each class where memory has no limit."""

ENOUGH_EXEMPLARS = 10
"""Exemplars of each class that a learner gets even where frames take longer for them."""

LONGER = 1.1
"""A learning design may slow a frame by at most this factor to have more exemplars than are enough."""


def choose_exemplars(plan_with: Callable[[int], Any], without: cycles.PassCycles, logits: str, enough: int) -> Any:
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

    for test, most in (
            (lambda frame: before_classifying(frame, cycles.LOGITS) <= before_classifying(without, logits), 2 * slots + 1),
            (lambda frame: frame.total <= LONGER * without.total, slots), (lambda frame: True, enough)):
        if fits(enough, test):
            low, high = enough, max(enough, most) + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle, test) else (low, middle)
            return plan_with(low)
    return half


def learning_plan(program: Program, target: Target, head: Any, config: Any, shipped: int, boot: str) -> LearnPlan:
    """The `LearnPlan` for a Head and a LearnConfig, with its tables right behind the features.

    config.slots 0: exemplars get half of the rows that are free.  Raises FitError with what would fit.
    """
    pixels, lanes, _ = program.shape
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
