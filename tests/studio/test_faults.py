"""Faults at random moments of a lesson of the page: what was known before is in the browser's storage afterwards, whole."""

import os
import time

import numpy as np

from fbnn_hw.board.taught import Taught
from fbnn_hw.studio import page as pages
from tests import kinds
from tests.studio.boards import UnreliableBoard
from tests.studio.test_page import FULL, SAID, latents_of, mean, opened, pictures_of, rested, taught_file, until  # noqa: F401

FAULTS = "power", "unplugged", "unpowered", "reload", "full"
MEANT = int(os.environ.get("FBNN_PAGE_FAULTS", 6))
SEED = int(os.environ.get("FBNN_PAGE_SEED", kinds.seed()))


class Board(UnreliableBoard):
    """fault: one of `FAULTS`, or None; left: writes to the board until it comes; happened: whether it came; writes: how many came."""

    fault, left, happened, writes = None, 0, False, 0

    def write(self, data, timeout):
        self.writes += 1
        self.left -= 1
        if self.fault and not self.happened and self.left < 0:
            self.happened = True
            if self.fault in ("power", "unpowered"):
                self.power()
            self.unplugged = self.fault in ("unplugged", "unpowered")
        super().write(data, timeout)


def reached(before, design, names, label, paths):
    """The files that a lesson may leave behind: as `before`, or with the first pictures of it learned.

    A new class has a number for a name where the page was closed before it could keep the lesson.
    """
    learner, found = design.learner(), [before]
    learner.restore(Taught.unpack(before).snapshot)
    index = names.index(label) if label in names else len(names)
    for latent in latents_of(design, paths):
        learner.learn(latent[None], [index])
        found += [Taught((*names[:index], name, *names[index + 1:]), learner.snapshot()).pack() for name in {label, f"class {index}"}
                  if index == len(names) or name == label]
    return found


def lesson(page, board, label, paths):
    """A lesson, until it is over, or a fault came that the page says, or one that the browser sees alone."""
    page.fill("#name", label)
    page.set_input_files("#lesson-files", paths)
    until(page, f"studio.tray.length === {len(paths)}")
    page.evaluate("void (window.was = studio.board.lesson)")
    page.click("#teach-now")
    end = time.monotonic() + 240
    while not (board.happened and (board.fault in ("reload", "full") or page.evaluate(SAID))):
        assert time.monotonic() < end, page.errors
        if (button := page.get_by_text("Teach it all the same")).is_visible():
            button.click()
        if page.evaluate("studio.board.lesson !== window.was"):
            return


def test_a_board_that_loses_its_power_in_a_lesson(context, served, mean, tmp_path):  # noqa: F811
    """The board answers on, of the first class alone; the page gives it back what it knew, and keeps that."""
    board = Board(mean)

    def line():
        yield board

    page = opened(context, served(pages.write(mean, server={"name": "a board", "patience": 20}), line).address)
    for seed, label in enumerate("ab"):
        rested(page)
        lesson(page, board, label, pictures_of(seed, tmp_path))
    rested(page)
    before = taught_file(page)
    board.fault, board.left = "power", 10  # before the third picture, behind a look at all six
    lesson(page, board, "a", pictures_of(2, tmp_path))
    until(page, "studio.board.past.length === 2")
    rested(page)
    assert board.happened and "lost its power during the lesson" in page.evaluate(SAID)
    assert taught_file(page) == before and board.snapshot() == Taught.unpack(before).snapshot and not page.errors


def test_no_fault_loses_what_the_page_taught(context, served, mean, tmp_path, record_property):  # noqa: F811
    rng, happened = np.random.default_rng(SEED), dict.fromkeys(FAULTS, 0)
    board = Board(mean)

    def line():
        yield board

    address = served(pages.write(mean, server={"name": "a board", "patience": 20}), line).address
    print(f"FBNN_PAGE_SEED={SEED}")
    page, names = opened(context, address), []
    rested(page)
    before = taught_file(page)
    for number in range(3 * MEANT):
        if sum(happened.values()) == MEANT:
            break
        kind, label = str(rng.choice(FAULTS)), str(rng.choice([*names, f"thing {number}"]))
        paths = pictures_of(1000 * SEED % 10 ** 6 + number, tmp_path, int(rng.integers(2, 6)))
        allowed = reached(before, mean, names, label, paths)
        board.fault, board.left, board.happened = kind, int(rng.integers(0, 4 * len(paths))), False
        lesson(page, board, label, paths)
        told, said = (number, kind, board.happened, label, names), page.evaluate(SAID)
        happened[kind] += board.happened
        if board.happened and kind == "full":
            page.evaluate(f"() => {{ {FULL} }}")
        board.fault = None
        time.sleep(0.3)
        page.remove_listener("dialog", page.on_dialog)
        page.on("dialog", lambda dialog: dialog.accept())
        page.close()
        board.unplugged = False
        if rng.integers(2):
            board.power()
        page = opened(context, address)
        rested(page)
        before = taught_file(page)
        assert before in allowed, (told, said, Taught.unpack(before).names, page.evaluate(SAID))
        assert board.snapshot() == Taught.unpack(before).snapshot, told
        assert said or before in allowed[-1 - (label not in names):] or kind in ("reload", "full") or not board.happened, told
        names = list(Taught.unpack(before).names)
    record_property("studio", f"lessons on the page: {happened}; seed {SEED}")
    page.close()
