"""Lessons through a pseudo-terminal in which the board loses its power, is unplugged or answers wrongly, the command is killed or the
disk is full, at random moments; and what must hold then.

After each command the kept file holds what it held before, or a state that the reference reaches from there with the images of that
command, with all names; what it held before a lesson is in a file.  What the reference reaches is computed here, from the images alone.
"""

import multiprocessing
import os
import pty
import resource
import select
import signal
import sys
import threading
import tty
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import fbnn_hw.board  # noqa: F401
import fbnn_hw.board.lesson  # noqa: F401
import fbnn_hw.cli.classify  # noqa: F401
import fbnn_hw.cli.learn  # noqa: F401  what a command finds imported
from fbnn_hw import cli
from fbnn_hw.base.errors import UsageError
from fbnn_hw.board.taught import Taught, named
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.chip import ChipState, Impossible
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import ERROR, REPLY, Fault, Opcode
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import strategies

FAULTS = "power", "unplugged", "unpowered", "wrong", "refused", "not done", "killed", "full"
KINDS = "new", "new", "new", "known", "folder", "undo", "restore", "reset", "classify", "rehearse", "freeze", "forget"
REFUSALS = "frozen", "has room", "knows no class", "--forget", "is the last one known"
"""Words of what a board may be asked in vain, without a fault."""
LONGEST_S = 300


class Gates:
    """A virtual board, as `InterpretedBoard` is one: it takes requests, loses its power and shows what it knows."""

    def __init__(self, design):
        self.design = design
        self.stack = ExitStack()
        self.power()

    def power(self):
        self.stack.close()
        board = self.stack.enter_context(virtual.VirtualBoard(self.design.folder))
        self.line = self.stack.enter_context(Serial(board.port))
        self.client = Client(self.line, LONGEST_S, LONGEST_S)
        self.client.identify()
        self.client.wait_ready()
        self.chip = ChipState(self.design.config.learning, self.design.learner(), self.client.peek, self.client.poke)
        self.decoder = protocol.Decoder()

    def write(self, data, timeout):
        self.line.write(data, timeout)

    def read(self, timeout):
        return self.line.read(timeout)

    def snapshot(self):
        return self.chip.read().pack()

    def close(self):
        self.stack.close()


class Trial:
    """A fault at a request of one command.

    kind: one of `FAULTS`.  request: its number, from 0.  opcode: of the requests that are counted; None: all.  process: the command's.
    happened: whether the request came.
    """

    def __init__(self, kind, request, rng, opcode=None):
        self.kind, self.request, self.rng, self.opcode = kind, request, rng, opcode
        self.left, self.process, self.happened = request, None, False

    def due(self, opcode):
        """Whether it is at this request that the fault comes."""
        if self.happened or self.opcode not in (None, opcode):
            return False
        self.left -= 1
        return self.left < 0


class Line:
    """A pseudo-terminal before a board.  `trial` is what befalls the next requests; `asked` counts them."""

    def __init__(self, board):
        self.board, self.trial, self.asked, self.answers = board, None, 0, []
        self.plug()

    def plug(self):
        self.asked, self.ends = 0, os.pipe()
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.slave, self.port = slave, os.ttyname(slave)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def unplug(self):
        """No more bytes, and no port."""
        os.write(self.ends[1], b".")
        self.thread.join()
        for number in (self.slave, *self.ends):
            os.close(number)
        with suppress(OSError):
            os.close(self.master)

    def _serve(self):
        decoder = protocol.Decoder()
        while True:
            ready = select.select([self.master, self.ends[0]], [], [])[0]
            if self.ends[0] in ready:
                return
            for request in decoder.feed(os.read(self.master, 1 << 16)):
                answer = self._befallen(request) if self.trial and self.trial.due(request[0]) else self._carried_out(request)
                self.asked += 1
                if answer is None:
                    os.close(self.master)
                    select.select([self.ends[0]], [], [])
                    return
                if answer:
                    os.write(self.master, protocol.encode(answer[0], answer[2], request[1]))

    def _carried_out(self, request):
        """The board's answer: opcode, sequence, payload."""
        self.board.write(protocol.encode(request[0], request[2], request[1]), 5)
        decoder = protocol.Decoder()
        while True:
            for answer in decoder.feed(self.board.read(1)):
                return answer

    def _befallen(self, request):
        trial, opcode = self.trial, request[0]
        trial.happened = True
        if trial.kind in ("power", "unpowered"):
            self.board.power()
        if trial.kind in ("unplugged", "unpowered"):
            return None
        if trial.kind == "killed":
            if trial.rng.random() < 0.5:
                self._carried_out(request)
            os.kill(trial.process.pid, signal.SIGKILL)
            return ()
        if trial.kind == "full":
            most = int(trial.rng.integers(0, 200)) * int(trial.rng.integers(0, 2))
            resource.prlimit(trial.process.pid, resource.RLIMIT_FSIZE, (most, most))
        if trial.kind == "refused":
            return ERROR, request[1], bytes([trial.rng.choice(list(Fault))])
        if trial.kind == "not done" and (opcode in protocol.COMMANDS or opcode >= Opcode.POKE):
            return opcode | REPLY, request[1], b""
        opcode, sequence, payload = self._carried_out(request)
        if trial.kind == "wrong" and payload:
            payload = bytearray(payload)
            payload[trial.rng.integers(len(payload))] ^= 1 << trial.rng.integers(8)
        return opcode, sequence, bytes(payload)


def command(words, folder, line, out, err):
    """A command line in a process of its own; out, err: pipes, which a full disk does not concern."""
    for number in (line.master, line.slave, *line.ends):
        os.close(number)
    os.chdir(folder)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
    code = cli.main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@dataclass
class Done:
    """A command that has ended.  code: negative, the signal that ended it.  trial: what befell it, or None."""

    words: list
    code: int
    out: str
    err: str
    trial: Trial | None


class Desk:
    """A board at a port, and a user.

    Parameters
    ----------
    design : Design
        In a folder of its own.
    board : InterpretedBoard or Gates
    rng : numpy Generator
    """

    def __init__(self, design, board, folder, rng):
        self.design, self.board, self.rng, self.folder = design, board, rng, folder
        self.line, self.learner, self.requests, self.number = Line(board), design.learner(), {}, 0
        self.file = design.folder / "learned-board.snapshot"
        self.before = design.folder / "learned-board-before.snapshot"
        self.begun = set()  # (names, snapshot) that the board may be in since a command ended early
        self.shipped = tuple(design.classes), self.learner.snapshot()
        self.origins = set()  # (names, snapshot) before a lesson or an undo that ended early, which the next --undo takes back
        self.log, self.read = [], False
        self.doubted = False  # a board that learned a part of a lesson after it lost its power is in no state of that lesson: it is refused

    # The user.

    def run(self, *words, trial=None):
        """Run a verb at the board's port."""
        words = [*map(str, words), "--port", self.line.port, "--baud", "3000000", "--design", str(self.design.folder)]
        context = multiprocessing.get_context("fork")  # all modules are there already; the thread of the line waits meanwhile
        (out, out_end), (err, err_end) = context.Pipe(False), context.Pipe(False)
        process = context.Process(target=command, args=(words, self.folder, self.line, out_end, err_end))
        process.start()
        self.read = False
        out_end.close()
        err_end.close()
        if trial:
            trial.process, self.line.trial = process, trial
        process.join(LONGEST_S)
        assert process.exitcode is not None, words
        self.line.trial, code = None, process.exitcode
        out, err = (b"".join(iter(lambda end=end: os.read(end.fileno(), 1 << 16), b"")).decode() for end in (out, err))
        self.line.unplug()
        asked = self.line.asked
        self.line.plug()
        self.log.append((shown(words), code, err, trial and (trial.kind, trial.request, trial.happened), asked))
        assert "Traceback" not in err and "internal" not in err, self.told()
        if not trial:
            self.requests[_verb(words)] = asked
        return Done(words, code, out, err, trial)

    def told(self):
        return "\n".join(map(str, self.log[-6:]))

    def pictures(self, count):
        """(file of new pictures, their latents)."""
        images = strategies.images(int(self.rng.integers(1 << 30)), count, self.design.config.size)
        self.number += 1
        path = self.folder / f"{self.number}.npy"
        np.save(path, images)
        return path, inference.layers(self.design.network, images)[LATENT].reshape(count, -1)

    def drawn(self):
        """Words of a command, and the way of the reference: a function of (names, snapshot) that yields those after each step."""
        kind, rng, plan = self.rng.choice(KINDS), self.rng, self.design.config.learning
        kept = Taught.read(self.file) if self.file.exists() else None
        known = [name for name in (kept.names if kept else self.shipped[0]) if name is not None]
        if kind in ("new", "known", "folder"):
            passes, lessons, thaw = int(rng.integers(1, 3)), [], bool(rng.random() < 0.3)
            for _ in range(2 if kind == "folder" else 1):
                others = [name for name in known if name not in {label for label, *_ in lessons}]  # a folder has a class once
                fresh = kind != "known" and len(known) + len(lessons) < plan.max_classes or not others
                label = f"thing {self.number}" if fresh else str(rng.choice(others))
                lessons.append((label, *self.pictures(int(rng.integers(1, 4)))))
            if kind == "folder":
                return self._folder(lessons, passes)
            words = ["learn", "--label", lessons[0][0], lessons[0][1], "--passes", passes, "--review", "none", *["--thaw"] * thaw]
            return words, lambda state: self.way_of_lessons(state, lessons, passes, thaw)
        if kind == "rehearse" and not plan.adds:
            count = int(rng.integers(1, 100))
            return ["learn", "--thaw", "--rehearse", count], lambda state: self.way(state, [
                lambda x: x.freeze(False), lambda x: x.rehearse(min(64, count)), lambda x: x.rehearse(max(0, count - 64))])
        if kind == "freeze":
            return ["learn", "--freeze"], lambda state: self.way(state, [lambda x: x.freeze(True)])
        if kind == "reset":
            return ["learn", "--reset"], lambda state: [
                (self.shipped[0] if plan.forget else state[0][:len(self.shipped[0])], self.shipped[1])]
        if kind == "forget" and plan.forget and known:
            label = str(rng.choice(known))
            return ["learn", "--forget", label], lambda state: self.way_of_forgetting(state, label)
        if kind == "undo" and self.before.exists():
            return ["learn", "--undo"], self.way_back
        if kind == "restore" and (found := sorted(self.design.folder.glob("learned-board*.snapshot"))):
            path = found[rng.integers(len(found))]
            taught = Taught.read(path)
            return ["learn", "--restore", path], lambda state: [(taught.names, taught.snapshot)]
        path, _ = self.pictures(2)
        return ["classify", path], lambda state: []

    def _folder(self, lessons, passes):
        root = self.folder / f"folder {self.number}"
        for label, path, _ in lessons:
            (root / label).mkdir(parents=True, exist_ok=True)
            for number, image in enumerate(np.load(path)):
                Image.fromarray(image.transpose(1, 2, 0)).save(root / label / f"{number}.png")
        lessons.sort(key=lambda lesson: lesson[0])
        return (["learn", root, "--passes", passes, "--review", "none"],
                lambda state: self.way_of_lessons(state, lessons, passes, False))

    # The reference.

    def way(self, state, steps, names=()):
        """[(names, snapshot)] after each of some steps from a state; names: of new classes."""
        self.learner.restore(state[1])
        titles, result = list(state[0]), []
        for name in names:
            if name not in titles:
                number = self.learner.next_free
                titles[number:number + 1] = [name]
        for step in steps:
            step(self.learner)
            result.append((tuple(None if label in self.learner.forgotten else name
                                 for label, name in enumerate(named(titles, self.learner.known))), self.learner.snapshot()))
        return result

    def way_of_lessons(self, state, lessons, passes, thaw):
        result = self.way(state, [lambda x: x.freeze(False)]) if thaw else []
        for label, _, latents in lessons:
            start = result[-1] if result else state
            self.learner.restore(start[1])
            number = start[0].index(label) if label in start[0] else self.learner.next_free
            if self.learner.frozen or number == self.design.config.learning.max_classes:
                break
            stored, of = np.array(self.learner.buffer.labels[:self.learner.buffer.used], int), self.learner.buffer.latents
            right = self._right(of, stored)
            result += self.way(start, [lambda x, one=one, to=number: x.learn(one[None], [to]) for _ in range(passes) for one in latents],
                               [label])
            for _ in range(10):  # rounds of 100, while a class has lost more than a tenth of its exemplars
                gone = right.astype(int) - self._right(of, stored)
                if not any(10 * gone[stored == one].sum() > (stored == one).sum() for one in set(stored.tolist()) - {number}):
                    break
                result += self.way(result[-1], [lambda x: x.rehearse(64), lambda x: x.rehearse(36)])
        return result

    def way_of_forgetting(self, state, label):
        """The state without a class, or none where it is not known or must stay."""
        with suppress(UsageError, ValueError):
            return self.way(state, [lambda x: x.forget(state[0].index(label))])
        return []

    def _right(self, latents, labels):
        return self.learner.classify(latents) == labels if len(labels) else np.zeros(0, bool)

    def way_back(self, state):
        """The state of the file before, or that before what ended early, frozen as the board is."""
        self.learner.restore(state[1])
        frozen = self.learner.frozen
        return [after for start in {(self.undone.names, self.undone.snapshot), *self.origins}
                for after in self.way(start, [lambda x: x.freeze(frozen)])]

    def contents(self):
        """{(names, snapshot)} of all files beside the design."""
        return {(taught.names, taught.snapshot) for taught in map(Taught.read, self.design.folder.glob("learned-board*.snapshot"))}

    def kept(self):
        taught = Taught.read(self.file) if self.file.exists() else None
        return taught and (taught.names, taught.snapshot)

    def state(self):
        """The board's snapshot; None where a half of another one was written over it."""
        if self.read is False:
            self.read = None
            with suppress(Impossible):
                self.read = self.board.snapshot()
        return self.read

    # A command and what must hold.

    def step(self, fault):
        """One command, with one of `FAULTS` or None; returns whether the fault happened."""
        words, way = self.drawn()
        most = self.requests.get(_verb(words), 60)
        trial = fault and Trial(fault, int(self.rng.integers(0, most)), self.rng)
        self.undone = Taught.read(self.before) if self.before.exists() else None
        file, true = self.kept(), self.state()
        sources = {state for state in {*self.begun, file or self.shipped, self.shipped} if state[1] == true}
        astray = not sources or self.doubted
        done = self.run(*words, trial=trial)
        happened = bool(trial and trial.happened)
        if happened and trial.kind in ("power", "unpowered"):
            sources.add(self.shipped)
        reached = {state for source in sources for state in way(source)}
        if _verb(words) in ("--restore", "--reset"):
            reached |= set(way(file or self.shipped))
        now, after = self.kept(), self.state()
        assert now == file or now in reached | sources, f"an unknown state was kept\n{self.told()}"
        if file and words[0] == "learn":
            self._check_before(words, file, reached, true)
        assert words[0] == "learn" or now == file, self.told()
        if done.code > 0:
            *notes, error = (line.removeprefix("fbnn-hw learn: ") for line in done.err.splitlines() if line.startswith("fbnn-hw"))
            # What was put aside, what an earlier command left, what this one keeps.
            assert len(notes) <= 3 and not any(error in note for note in notes), self.told()
        if not happened:
            assert done.code == 0 or astray or any(reason in done.err for reason in REFUSALS), self.told()
            if not astray and done.code == 0 and words[0] == "learn":
                assert now and now[1] == after, f"the board knows something else\n{self.told()}"
                assert (true == self.shipped[1] or "--label" not in words or "--thaw" in words
                        or any(snapshot == true for _, snapshot in self.contents())), f"what the board knew is in no file\n{self.told()}"
        if done.code == 0 and words[0] == "learn":
            self.begun, self.doubted, self.origins = set(), False, set()
        elif done.code and happened and trial.kind in ("power", "unpowered", "not done"):
            self.doubted = True
        if done.code and _verb(words) in ("--label", "learn", "--undo"):
            self.origins |= sources
        self.begun |= reached | sources
        return happened

    def _check_before(self, words, file, reached, true):
        """What the kept file held before a command is in a file; or what the board knew before the last lesson: of several of one
        command, or where the command first kept one that had ended early.

        A freeze or a replay replaces the file without a copy, as what they begin with is known by what they lead to.
        """
        found = self.contents()
        if _verb(words) in ("--freeze", "--thaw") or file in found:
            return
        earlier = {state for state in self.begun if state[1] == true and state != file}
        thawed = {self.way(state, [lambda x: x.freeze(False)])[0] for state in {file, *earlier}}
        if self.shipped in thawed:  # what a board that learned nothing knows is in the design
            return
        kept = found & (thawed | earlier) or _verb(words) == "learn" and found & reached
        assert kept, f"what was known before is in no file\n{self.told()}"

    def recover(self):
        """Without a fault: what the file has is known by its names, or the way out that is told leads there."""
        done, file = self.run("learn", "--snapshot", self.folder / "now.snapshot"), self.kept()
        if done.code:
            assert ("--restore" if file else "--reset") in done.err, self.told()
            done = self.run("learn", "--restore", self.file) if file else self.run("learn", "--reset")
            assert done.code == 0 and (not file or self.kept() == file), self.told()
        taught, kept = self.kept(), self.state()
        assert not taught or taught[1] == kept or "--restore brings it back" in done.err, self.told()
        self.begun, self.doubted, self.origins = ({taught} if taught and taught[1] == kept else set()), False, set()
        return done

    def close(self):
        self.line.unplug()
        self.board.close()


def _verb(words):
    """The flag of a command line that says what it does, or the verb."""
    return words[1] if str(words[1]).startswith("--") else words[0]


def shown(words):
    return " ".join(Path(word).name if "/" in word else word for word in words)
