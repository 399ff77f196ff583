"""Whether a board does what its design says: logits, cycles, a lesson and its snapshot against the reference, and the link.

    with fbnn_hw.Board.open("/dev/ttyUSB1", design) as board:
        selftest.checks(board, design)
"""

import copy
from dataclasses import replace

import numpy as np

from ..base.errors import FbnnError, UsageError
from ..base.progress import silent
from ..data.datasets import test_images
from ..machine import cycles, protocol, timing
from ..machine.line import BITS_A_BYTE
from ..reference import inference
from .interpreted import InterpretedBoard

IMAGES = 300
"""Images that ship."""
LESSON_IMAGES = 5
NO_GATES = "the interpreted board has no gates to test, expected a board with some; --board virtual simulates them"
FAST, SLOW = BITS_A_BYTE, 1 << 16
"""Cycles of a byte on the line: a cycle a bit, and so many that a weight stream brings all that finds room meanwhile."""
LINK = 10
"""Most cycles that the link needs to see the first answer, on top of those of the last pixel."""
LINE_BYTES = protocol.CRC_BYTES + 1
"""Bytes on the line from the image's last one to the end of its request, and one for the host's pace."""


def entry(check, expected, seen, passed):
    """A check as it stands in selftest.json; `found` there is what was seen."""
    return {"check": check, "expected": str(expected), "found": str(seen), "passed": bool(passed)}


def checks(board, design, count=IMAGES, progress=silent, kept=None):
    """Test a board against the reference.

    What the board was taught is restored at the end.  After an interrupt a board on a desk has `pupil.KEEP_S` seconds for it, and a
    simulated one ends.  board: board.Board.  design: the Design that it holds.  count: of images to classify.  progress: makes a progress
    bar, as tqdm does.  kept: called with the Path of the file that has what the board was taught, where an interrupt left no time to
    restore it.

    Returns the checks that were made, each a dict of `entry`.  Raises UsageError where fewer images are shipped than `count`, or the board
    is an interpreted one.
    """
    if isinstance(board.client.transport, InterpretedBoard):
        raise UsageError(NO_GATES)
    images = _images(design.config.size, count)
    results, before = [], None
    try:
        if board.learns:
            before = board.chip.snapshot()
            board.client.reset()
    except FbnnError as error:
        results.append(_state_entry(error))
    with board.erased():
        try:
            results += _entries_of("logits", lambda: inference_checks(board, design, images, progress))
            if board.learns:
                results += _entries_of("lesson", lambda: lesson_checks(board, design, images))
            results += _entries_of("link", lambda: [link_check(board)])
            results += _entries_of("time-out", lambda: [time_out_check(board)])
        except BaseException:
            if before is not None and not board.simulated:
                path = board.restore_interrupted(before)
                if path and kept:
                    kept(path)
            raise
    if before is not None:
        try:
            board.chip.restore(before, board.client.name)
        except FbnnError as error:
            results.append(_state_entry(error))
    return results


def _state_entry(error):
    return entry("state", "what the board was taught is read, erased and restored", error, False)


def _entries_of(name, test):
    """The entries of a test, or one that says which error ended it."""
    try:
        return test()
    except FbnnError as error:
        return [entry(name, "answers that the design can give", error, False)]


def _images(size, count):
    images = test_images(size, count)
    if len(images) < count:
        raise UsageError(f"--images {count}: {len(images)} are shipped, expected at most as many")
    return images


def inference_checks(board, design, images, progress):
    """Compare logits, or latents where the design begins without a class, and cycles of the images."""
    if design.config.classes:
        name, answers = "logits", board.classify(images, progress=progress)
        expected = inference.logits(design.network, images)
        seen = answers.logits[:, :expected.shape[1]]
    else:
        name, answers = "latents", board.classify(images, latent=True, progress=progress)
        expected, seen = inference.latents(design.network, images), answers.latents
    wrong = np.flatnonzero((seen != expected).any(1))
    first = f", the first is image {wrong[0]}: {seen[wrong[0]].tolist()} for {expected[wrong[0]].tolist()}" if len(wrong) else ""
    spent = answers.cycles[1:] or answers.cycles
    low, high = cycle_bounds(board, design, len(answers.cycles))
    return [
        entry(name, f"{len(images)} images as the reference", f"{len(images) - len(wrong)} equal{first}", not len(wrong)),
        entry("cycles", f"{low:,} to {high:,}", f"{min(spent):,} to {max(spent):,}", low <= min(spent) and max(spent) <= high)]


def cycle_bounds(board, design, count):
    """Return (least, most) cycles that the board counts in `count` passes, of which it leaves the first one out where it can.

    The weight stream fills its ring while an image comes in: wholly behind a slow line, in part behind a fast one.  A flash goes on for
    some beats while nobody takes them, which mostly saves cycles (`_Queued`).  The counter goes on until the request is complete, and a
    host may pause before its end, for the time in which an image could be loaded.
    """
    slow, fast = spans(design.config, SLOW), spans(design.config, FAST)
    later = slice(1 if count > 1 else 0, None)
    pieces = len(design.config.pieces)
    link = LINK + timing.encoder_latency(pieces, design.config.encoder_rate, design.config.lanes)
    line = int(LINE_BYTES * BITS_A_BYTE * design.estimate["clock_hz"] / board.client.transport.baud)
    least = min(*slow[later], *spans(design.config, SLOW, _Queued)[later])
    return least, max(*slow[later], *fast[later], line) + link + design.estimate["load_cycles"]


def spans(config, byte, mover=cycles.Mover):
    """Cycles of each pass, from its last image being in the banks to its first answer, up to the pass that begins as an earlier one did.

    byte: cycles of a byte on the line.  mover: the class of the weight mover.
    """
    run = _Spans(config, byte, mover)
    run.passes(cycles.MOST_PASSES)
    return run.spans


def _classes_left(learning, classes):
    """Cycles from the first logit of a learner, or from its latent where it knows no class, to the result."""
    first = min(1, classes)
    each = learning.classify_cycles(2) - learning.classify_cycles(1)  # the same block has both
    return learning.classify_cycles(classes) - learning.classify_cycles(first) + each * first


class _Spans(cycles.Run):
    """Notes the cycles between which the board's counter runs: when the last image was in the banks, and when the first logit waits."""

    def __init__(self, config, byte, mover):
        super().__init__(config, mover)
        self.byte, self.loaded, self.answered, self.spans = byte, 0, None, []
        self.load = tuple(max(load, byte * config.image_bytes) for load in self.load)

    def one_pass(self, now):
        self.answered = None
        frame, now = super().one_pass(now)
        if self.answered is None:  # a learner gives the first logit, or without a class the latent
            self.answered = now - _classes_left(self.config.learning, self.config.classes)
        self.spans.append(self.answered - self.loaded)
        return frame, now

    def image_loaded(self, now, closed):
        self.loaded = super().image_loaded(now, closed)
        return self.loaded

    def step(self, step, layer, now):
        if step.logits and self.answered is None:
            alone = copy.copy(self)
            alone.mover, alone.answered = copy.deepcopy(self.mover), now
            self.answered = cycles.Run.step(alone, replace(step, tiles=1, valid=0), cycles.LayerCycles(), now)
        end = super().step(step, layer, now)
        if step.logits:  # the weight stream goes on while they are sent
            end += protocol.LOGIT_BITS // 8 * self.byte * step.valid
            self.mover.run(end, self.free)
        return end


class _Queued(cycles.Mover):
    """A mover behind a flash, whose reader fetches some beats while nobody takes them: as many pauses fall away afterwards."""

    spared = 0  # pauses

    def _take(self, now):
        most = 0 if self.config.sdram else timing.FLASH_QUEUE * (1 + self.config.burst)
        self.spared = min(self.spared + max(0, now - self.full - (self.taken == 0)), most)
        pauses = (self.taken + self.beats - 1) // self.config.burst + (self.taken == 0 and now <= self.full)
        super()._take(now)
        skipped = min(self.spared, pauses)
        self.spared -= skipped
        self.full -= skipped

    def state(self, now):
        return *super().state(now), self.spared

    def become(self, state, now, words):
        *state, self.spared = state
        super().become(state, now, words)


def lesson_checks(board, design, images):
    """Teach a lesson; take its snapshot, erase it and restore it."""
    twin, chip = design.learner(), board.chip
    twin.restore(chip.snapshot())
    pictures, index = images[:LESSON_IMAGES], min(twin.known, board.identity.max_classes - 1)
    results = []
    for picture in pictures:
        latent = inference.latents(design.network, picture[None])
        board.answer(picture)
        board.client.learn(index)
        twin.learn(latent, [index])
    snapshot = chip.snapshot()
    results.append(entry("lesson", f"the state of the reference after {len(pictures)} images", "equal" if snapshot == twin.snapshot() else
                         "another state", snapshot == twin.snapshot()))
    board.client.reset()
    fresh = chip.untaught()
    chip.restore(snapshot, board.client.name)
    again = chip.snapshot() == snapshot
    results.append(entry("reset and restore", "the classes of the design, then the lesson again",
                         f"{'the classes of the design' if fresh else 'another state'}, {'the lesson' if again else 'another state'}",
                         fresh and again))
    return results


def link_check(board):
    """Check that a damaged request is not carried out, that the next one is answered, and that none was sent twice before."""
    repeated, before = board.client.repeated, board.client.status()
    damaged = bytearray(protocol.encode(protocol.Opcode.IDENTIFY, sequence=(board.client.sequence + 1) & 0xFF))
    damaged[-1] ^= 0xFF
    board.client.transport.write(bytes(damaged), board.client.wait_s)
    try:
        answered = board.client.identify().config == board.identity.config
    except FbnnError:
        answered = False
    return entry("link", "no request repeated, no fault; an answer after a damaged request",
                 f"{repeated} repeated, {before.errors} faults, {'an answer' if answered else 'no answer'}",
                 answered and not repeated and not before.errors)


def time_out_check(board):
    """A request that stops before its end is given up after the time-out, says the board, and the next one is answered."""
    client, outcome, answered = board.client, "no answer", False
    try:
        client.identify()  # what came of the request before has been heard
        client.transport.write(protocol.encode(protocol.Opcode.IDENTIFY, sequence=(client.sequence + 1) & 0xFF)[:3], client.wait_s)
        for opcode, _, payload in protocol.Decoder().listen(client.transport.read, client.wait_s):
            outcome = "the time-out" if (opcode, payload) == (protocol.ERROR, bytes([protocol.Fault.TIMEOUT])) else "another message"
            break
        answered = client.identify().config == board.identity.config
    except FbnnError:
        pass
    return entry("time-out", "the time-out of a request that stops; then an answer",
                 f"{outcome}, {'an answer' if answered else 'no answer'}", outcome == "the time-out" and answered)
