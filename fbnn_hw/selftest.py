"""Whether a board does what its design says: logits, cycles, a lesson and its snapshot against the reference, and the link.

    with fbnn_hw.Board.open("/dev/ttyUSB1", design) as board:
        selftest.checks(board, design)
"""

import numpy as np

from . import protocol
from .data.datasets import test_images
from .errors import FbnnError, UsageError
from .progress import silent
from .reference import inference

IMAGES = 300
"""Images that ship."""
LESSON_IMAGES = 5
SLACK = 0.9
"""Least share of the planned cycles between an image's last byte and its first logit."""


def entry(check, expected, seen, passed):
    """A check as it stands in selftest.json; `found` there is what was seen."""
    return {"check": check, "expected": str(expected), "found": str(seen), "passed": bool(passed)}


def checks(board, design, count=IMAGES, progress=silent, kept=None):
    """Test a board against the reference.

    What the board was taught is restored at the end.  After an interrupt a board on a desk has `board.KEEP_S` seconds for it, and a
    simulated one ends.

    Parameters
    ----------
    board : board.Board
    design : design.Design
        The design that it holds.
    count : int
        Images to classify.
    progress : callable
        Makes a progress bar, as tqdm does.
    kept : callable, optional
        Called with the Path of the file that has what the board was taught, where an interrupt left no time to restore it.

    Returns
    -------
    list of dict
        The checks that were made, each {check, expected, found, passed}.

    Raises
    ------
    UsageError
        Fewer images are shipped than `count`.
    """
    images = _images(design.config.size, count)
    results, before = [], None
    try:
        if board.learns:
            before = board.chip.snapshot()
            board.client.reset()
    except FbnnError as error:
        results.append(_state_entry(error))
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
    """Compare logits and cycles of the images."""
    answers = board.classify(images, progress=progress)
    expected = inference.logits(design.network, images)
    logits = answers.logits[:, :expected.shape[1]]
    wrong = np.flatnonzero((logits != expected).any(1))
    first = f", the first is image {wrong[0]}: {logits[wrong[0]].tolist()} for {expected[wrong[0]].tolist()}" if len(wrong) else ""
    planned = design.estimate["cycles"] - design.estimate["load_cycles"]
    cycles = answers.cycles[1:] or answers.cycles
    low, high = int(SLACK * planned), design.estimate["cycles"]
    return [
        entry("logits", f"{len(images)} images as the reference", f"{len(images) - len(wrong)} equal{first}", not len(wrong)),
        entry("cycles", f"{low:,} to {high:,}", f"{min(cycles):,} to {max(cycles):,}", low <= min(cycles) and max(cycles) <= high)]


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
