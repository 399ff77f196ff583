"""`fbnn-hw selftest`: whether a board does what its design says, as one JSON and one page."""

import json
import platform
import time
from pathlib import Path

import numpy as np

from .. import __version__, files, protocol
from ..errors import FbnnError, MismatchError, UsageError
from . import _board, _common

GROUP = "board"
SUMMARY = "test a board against the reference: logits, cycles, link, a lesson, its snapshot"
EXAMPLES = (
    ("fbnn-hw selftest --port auto --power 21.5",
     "the board that is plugged in, with the milliwatts that you measured; writes selftest.json and selftest.html"),
    ("fbnn-hw selftest --board virtual --images 20", "the simulated board of the youngest design in rtl_out"),
)
IMAGES = 300
LESSON_IMAGES = 5
SLACK = 0.9
"""Least share of the planned cycles between an image's last byte and its first logit."""


def arguments(parser):
    parser.add_argument("--images", type=_common.count, default=IMAGES, metavar="N",
                        help=f"test images to classify (default: {IMAGES}, all that are shipped)")
    parser.add_argument("--power", type=float, metavar="MW", help="what the board drew while it classified, as you measured it; recorded")
    parser.add_argument("--out", default="selftest", metavar="NAME", help="writes NAME.json and NAME.html (default: selftest)")
    _board.arguments(parser, "the board")


def run(args, out):
    if not (args.port or args.board):
        raise UsageError("missing --port or --board; see fbnn-hw selftest --help")
    if args.power is not None and not 0 < args.power < 1e6:
        raise UsageError(f"--power {args.power}: expected milliwatts above 0")
    from ..report import page

    _board.check(args)
    design = _board.design(args)
    with _board.opened(args, out, design, learns=True) as board:
        held = board.held_design()
        report = {
            "board": "virtual" if board.simulated else board.client.name, "simulated": board.simulated, "design": held.folder.name,
            "target": held.estimate["target"], "part": held.estimate["part"], "config_id": board.identity.config.hex(),
            "model_mark": board.identity.model.hex(), "fbnn_hw": __version__, "python": platform.python_version(),
            "system": platform.platform(terse=True), "images": args.images, "measured_mw": args.power,
            "checks": checks(board, held, args.images, out.progress)}
    report["passed"] = all(check["passed"] for check in report["checks"])
    json_file, page_file = Path(f"{args.out}.json"), Path(f"{args.out}.html")
    files.write(json_file, (json.dumps(report, indent=1) + "\n").encode())
    files.write(page_file, page.selftest(report).encode())
    for check in report["checks"]:
        out.text(f"{'passed' if check['passed'] else 'FAILED'}  {check['check']}: {check['found']}; expected {check['expected']}")
    out.text(f"written: {json_file}, {page_file}")
    answer = report | {"report": str(json_file), "page": str(page_file)}
    if not report["passed"]:
        failed = ", ".join(check["check"] for check in report["checks"] if not check["passed"])
        raise MismatchError(f"{report['board']}: failed {failed}; {page_file} says what was found", answer)
    out.result(answer)


def entry(check, expected, found, passed):
    return {"check": check, "expected": str(expected), "found": str(found), "passed": bool(passed)}


def checks(board, design, count, progress):
    """What was tried, each {check, expected, found, passed}.  What the board was taught is given back at the end."""
    images = _images(design.config.size, count)
    if not board.learns:
        return [*inference_checks(board, design, images, progress), link_check(board), time_out_check(board)]
    before = board.chip.snapshot()
    try:
        board.client.reset()
        return [*inference_checks(board, design, images, progress), *lesson_checks(board, design, images), link_check(board),
                time_out_check(board)]
    finally:
        board.chip.restore(before, board.client.name)


def _images(size, count):
    from ..data.datasets import test_images

    found = test_images(size, count)
    if len(found) < count:
        raise UsageError(f"--images {count}: {len(found)} are shipped, expected at most as many")
    return found


def inference_checks(board, design, images, progress):
    """Compare logits and cycles of the images."""
    from ..reference import inference

    answers = board.classify(images, progress=progress)
    expected = inference.logits(design.network, images)
    found = answers.logits[:, :expected.shape[1]]
    wrong = np.flatnonzero((found != expected).any(1))
    first = f", the first is image {wrong[0]}: {found[wrong[0]].tolist()} for {expected[wrong[0]].tolist()}" if len(wrong) else ""
    planned = design.estimate["cycles"] - design.estimate["load_cycles"]
    cycles = answers.cycles[1:] or answers.cycles
    low, high = int(SLACK * planned), design.estimate["cycles"]
    return [
        entry("logits", f"{len(images)} images as the reference", f"{len(images) - len(wrong)} equal{first}", not len(wrong)),
        entry("cycles", f"{low:,} to {high:,}", f"{min(cycles):,} to {max(cycles):,}", low <= min(cycles) and max(cycles) <= high)]


def lesson_checks(board, design, images):
    """Teach a lesson; take its snapshot, erase it and restore it."""
    from ..ir.network import LATENT
    from ..reference import inference

    twin, chip = design.learner(), board.chip
    twin.restore(chip.snapshot())
    pictures, index = images[:LESSON_IMAGES], min(twin.known, board.identity.max_classes - 1)
    results = []
    for picture in pictures:
        latent = inference.layers(design.network, picture[None])[LATENT].reshape(1, -1)
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
    client, decoder = board.client, protocol.Decoder()
    found, answered = "no answer", False
    try:
        client.identify()  # what came of the request before has been heard
        client.transport.write(protocol.encode(protocol.Opcode.IDENTIFY, sequence=(client.sequence + 1) & 0xFF)[:3], client.wait_s)
        until = time.monotonic() + client.wait_s
        while found == "no answer" and (left := until - time.monotonic()) > 0:
            for opcode, _, payload in decoder.feed(client.transport.read(left)):
                found = "the time-out" if (opcode, payload) == (protocol.ERROR, bytes([protocol.Fault.TIMEOUT])) else "another message"
        answered = client.identify().config == board.identity.config
    except FbnnError:
        pass
    return entry("time-out", "the time-out of a request that stops; then an answer", f"{found}, {'an answer' if answered else 'no answer'}",
                 found == "the time-out" and answered)
