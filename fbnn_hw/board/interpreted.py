"""A board without gates: the link's protocol before the interpreter of the program, and the reference learner.

It needs no compiler, answers every request as `rtl.host_link.HostLink` does, and shows nothing of gates, flash or line.
"""

import queue
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

import numpy as np

from ..base.errors import InputError, UsageError
from ..design import Design
from ..link.chip import ChipState, Impossible
from ..machine import protocol
from ..machine.interpreter import Machine
from ..machine.learner import LearnPlan
from ..machine.protocol import Fault, Opcode, Space
from ..reference.learning.config import FORGOTTEN
from ..reference.learning.learner import Learner
from ..reference.learning.lfsr import REGISTERS
from ..reference.learning.snapshot import State

PAUSE_S = 0.05
"""Seconds of silence that end a message, or the wait after a fault; 2^21 clocks of a board take as long."""
CYCLES = 0xFFFFFF
"""What the counter of cycles holds."""
NOTE = "the interpreted board runs the program of the folder and the reference learner; it shows nothing of the gates"


class _Refused(Exception):
    """A request that ends with a fault, the `Fault` in args."""


class InterpretedBoard:
    """A board of a `Design`, as a `link.client.Transport`; a context manager that ends it.

    It works in a thread of its own, so an interrupt of the program that talks to it leaves no request half done.  As `HostLink`, it hears
    nothing while it works.  Attributes `machine`, `learner`: what it consists of; `learner` is None where the design does not learn.

    Raises InputError, here or where the host reads, for a folder whose program cannot be carried out, UsageError for logits or images that
    the protocol has no room for.
    """

    path = "the interpreted board"

    def __init__(self, design: Design):
        self.design, self.machine = design, Machine.of(design.folder)
        self._inbox: queue.Queue[bytes | None] = queue.Queue()
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._failed: BaseException | None = None
        if design.config.score_bits > protocol.LOGIT_BITS or design.config.image_bytes > protocol.LONGEST_PAYLOAD:
            raise UsageError(f"{design.folder}: logits of {design.config.score_bits} bits and images of {design.config.image_bytes} bytes, "
                             f"expected at most {protocol.LOGIT_BITS} and {protocol.LONGEST_PAYLOAD}, which a board can have")
        self.power()
        try:
            self._classified(0, bytes(design.config.image_bytes))
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
            raise InputError(f"{design.folder}: files that contradict each other, expected what `fbnn-hw generate` wrote; generate the "
                             "folder again") from None
        self.power()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, after the request at which it works."""
        self._inbox.put(None)
        self._thread.join()

    def power(self) -> None:
        """Put it into the state after power-up."""
        self._heard, self._sequence, self._repeatable = bytearray(), 0, None
        self._frames = self._errors = self._cycles = 0
        self.reset()

    def reset(self) -> None:
        """Put the learner into the state after power-up."""
        config = self.design.config
        self._sample: np.ndarray | None = None
        self.learner: Learner | None = None
        if config.learning:
            self.learner = self.design.learner()
            self.memory = _Memory(config.learning, self.design.learner(), self.learner)

    def snapshot(self) -> bytes:
        """What its learner knows; raises `Impossible` where a host wrote what no learner can know."""
        return self.memory.state().pack()

    # The line.

    def write(self, data: bytes, timeout: float) -> None:
        """Send bytes to the board."""
        self._check()
        self._inbox.put(bytes(data))

    def read(self, timeout: float) -> bytes:
        """An answer, or b"" where none comes within `timeout` seconds."""
        self._check()
        with suppress(queue.Empty):
            answer = self._answers.get(timeout=timeout) if timeout > 0 else self._answers.get_nowait()
            self._check()
            return answer
        return b""

    def discard(self) -> None:
        """Drop the answers that have come."""
        while self.read(0):
            pass

    def _check(self):
        if self._failed:
            raise self._failed

    # The board's end of it.

    def _work(self):
        try:
            while True:
                self._answers.put(self._answer())
        except EOFError:
            pass
        except BaseException as error:  # the host's thread raises it
            self._failed = error
            self._answers.put(b"")

    def _answer(self):
        """Wait for a request and carry it out; returns the bytes of the answer."""
        while self._take(1, None)[0] != protocol.SYNC:
            pass
        try:
            opcode, payload = self._request()
            reply = opcode | protocol.REPLY, self._carried_out(opcode, payload)
        except _Refused as refused:
            self._errors += 1
            self._heard.clear()
            with suppress(_Refused):  # until the line has been quiet
                while True:
                    self._take(1)
            reply = protocol.ERROR, bytes(refused.args)
        self._heard.clear()  # what came while it was at work
        with suppress(queue.Empty):
            while self._inbox.get_nowait() is not None:
                pass
            raise EOFError
        return protocol.encode(*reply, self._sequence)

    def _take(self, count, pause=PAUSE_S):
        """The next bytes from the line; `_Refused` after a pause, EOFError at the board's end."""
        while len(self._heard) < count:
            try:
                data = self._inbox.get(timeout=pause)
            except queue.Empty:
                raise _Refused(Fault.TIMEOUT) from None
            if data is None:
                raise EOFError
            self._heard += data
        data = bytes(self._heard[:count])
        del self._heard[:count]
        return data

    def _request(self):
        """(opcode, payload) of the request whose first byte has come."""
        config, size = self.design.config, 0
        opcodes = *protocol.REQUESTS, *(protocol.LEARNING_REQUESTS if self.learner else ())
        if config.learning and config.learning.unknown:
            opcodes += protocol.UNKNOWN_REQUESTS
        opcode = self._expected(opcodes, Fault.OPCODE)
        self._sequence = self._take(1)[0]
        if opcode & ~protocol.FLAGS == Opcode.CLASSIFY:
            size = config.image_bytes
        elif opcode in protocol.LEARNING_REQUESTS:
            size = protocol.OPERAND_BYTES
        low = self._expected(range(256) if opcode >= Opcode.POKE else (size & 0xFF,), Fault.LENGTH)
        high = self._expected((size >> 8,), Fault.LENGTH)
        if size and opcode < Opcode.LEARN:
            self._sample = None
        payload = self._take(size)
        if opcode >= Opcode.PEEK:
            word_bytes = config.learning.host_bits // 8
            depth = 1 << (protocol.LONGEST_POKE // word_bytes).bit_length()
            count = payload[-1]
            if not count or opcode >= Opcode.POKE and count >= depth:
                raise _Refused(Fault.LENGTH)
            payload += self._take(count * word_bytes if opcode >= Opcode.POKE else 0)
        check = protocol.crc(bytes([opcode, self._sequence, low, high]) + payload)
        if self._take(protocol.CRC_BYTES) != check.to_bytes(2, "little"):
            raise _Refused(Fault.CRC)
        return opcode, payload

    def _expected(self, values, fault):
        """The next byte, one of `values`, else a fault."""
        if (byte := self._take(1)[0]) not in values:
            raise _Refused(fault)
        return byte

    # Requests.

    def _carried_out(self, opcode, payload):
        """The payload of the reply."""
        repeated, self._repeatable = self._sequence == self._repeatable, self._sequence
        if opcode == Opcode.IDENTIFY:
            self._repeatable = None
            return protocol.Identity.of(self.design.config, bytes.fromhex(self.design.model_mark)).pack()
        if opcode == Opcode.STATUS:
            frozen = self.memory.frozen if self.learner else False
            return protocol.Status(True, False, self._frames & 0xFFFF, self._errors & 0xFFFF, self._cycles, frozen).pack()
        if opcode < Opcode.LEARN:
            return self._classified(opcode & protocol.FLAGS, payload)
        number, count = int.from_bytes(payload[:3], "little"), payload[3]
        word_bytes = self.design.config.learning.host_bits // 8
        if Opcode.PEEK <= opcode < Opcode.POKE:
            return protocol.words_bytes(self.memory.peek(Space(opcode & 7), number, count), word_bytes)
        if repeated:
            return b""
        try:
            if opcode >= Opcode.POKE:
                self.memory.poke(Space(opcode & 7), number, protocol.words_from(payload[4:], word_bytes))
            elif opcode == Opcode.RESET:
                self.reset()
            else:
                self._learned(opcode, number, count)
        except (_Refused, Impossible) as refused:  # a learner in a state that is none does not come to rest
            self._repeatable = None
            raise refused if isinstance(refused, _Refused) else _Refused(Fault.RESULT) from None
        return b""

    def _classified(self, flags, payload):
        config, image = self.design.config, np.frombuffer(payload, np.uint8)
        if not config.takes_levels:
            image = image.reshape(config.size, config.size, 3).transpose(2, 0, 1)
        logits, unknown = self.machine.run(image), False
        words = self.machine.banks[0, config.latent_base:config.latent_base + config.latent_words].reshape(-1)
        if self.learner:
            self._sample = words[self.design.layout["latent_bits"]][None]
            logits, unknown = self.memory.answer(self._sample)
        estimate = self.design.estimate
        self._cycles = estimate["cycles" if self._frames else "first_cycles"] - estimate["load_cycles"] & CYCLES
        self._frames += 1
        index = int(np.argmax(logits)) if len(logits) else 0
        if unknown and flags & protocol.UNKNOWN:
            index |= protocol.UNKNOWN_CLASS
        return (np.array(logits).astype("<i2").tobytes() * bool(flags & protocol.LOGITS)
                + np.packbits(words, bitorder="little").tobytes() * bool(flags & protocol.LATENT) + index.to_bytes(2, "little"))

    def _learned(self, opcode, number, count):
        """LEARN, STORE, REHEARSE or FREEZE."""
        of_sample = opcode in (Opcode.LEARN, Opcode.STORE)
        if of_sample and self._sample is None:
            raise _Refused(Fault.SAMPLE)
        learner = self.memory.changed()
        if opcode == Opcode.FREEZE:
            learner.freeze(bool(count & 1))
            return
        if of_sample and number >> learner.config.max_classes.bit_length():
            raise _Refused(Fault.LABEL)
        if learner.frozen:
            raise _Refused(Fault.FROZEN)
        if of_sample and (number > learner.known - (opcode == Opcode.STORE) or number >= learner.config.max_classes
                          or opcode == Opcode.STORE and number in learner.forgotten):
            raise _Refused(Fault.LABEL)
        if of_sample:
            (learner.learn if opcode == Opcode.LEARN else learner.store)(self._sample, [number])
        else:
            learner.rehearse(count)


class _Memory:
    """The words of a learner on a chip: its state as a host reads and writes it.  Words outside of its tables are 0.

    learner: whose state it is.  twin: another one of the design, which checks what a host wrote.
    """

    def __init__(self, plan: LearnPlan, twin: Learner, learner: Learner):
        self.plan, self.twin, self.learner = plan, twin, learner
        self.words: dict[tuple[int, int], int] = {}
        self.registers = {int(Space.NOISE) + n: deque([0] * taps.width) for n, taps in enumerate(REGISTERS.values())}
        self.chip = ChipState(plan, twin, lambda space, first, count: [self._word(space, first + n) for n in range(count)], self._write)
        self.shown = self.poked = False
        """Whether the words are those of the learner's state; whether a host has written some since."""

    def _word(self, space: int, address: int, word: int | None = None) -> int:
        """The word at an address, which becomes `word`.  An access to a register takes one bit and turns it."""
        if register := self.registers.get(space):
            register.rotate(-1)
            if word is not None:
                register[-1] = word & 1
            return register[-1]
        if word is not None:
            self.words[space, address] = int(word)
        return self.words.get((space, address), 0)

    def _write(self, space: int, first: int, words: Sequence[int]) -> None:
        for n, word in enumerate(words):
            self._word(space, first + n, word)

    def peek(self, space: int, address: int, count: int) -> list[int]:
        """The reply to PEEK."""
        self._show()
        words = [self._word(space, address ^ n) for n in range(count)]
        if space in self.registers:  # one that is not read whole stays turned
            value = sum(bit << n for n, bit in enumerate(self.registers[space]))
            self.poked |= value != self.learner.registers[space - Space.NOISE]
        return words

    def poke(self, space: int, address: int, words: list[int]) -> None:
        """Carry out POKE."""
        self._show()
        self.poked = True
        for n, word in enumerate(words):
            self._word(space, address ^ n, word)

    def _show(self):
        if not self.shown:
            self.chip.write(self.learner.state)
            self.shown = True

    @property
    def frozen(self) -> bool:
        return bool(self._word(Space.SCALARS, 2)) if self.poked else self.learner.frozen

    def state(self) -> State:
        """The learner's state; `Impossible` where a host wrote what is none."""
        return self.chip.read() if self.poked else self.learner.state

    def changed(self) -> Learner:
        """The learner, in the state of the words, to be changed.  Raises `Impossible` as `state`."""
        if self.poked:
            self.learner.restore(self.chip.read().pack())
        self.shown = self.poked = False
        return self.learner

    def answer(self, latent: np.ndarray) -> tuple[np.ndarray, bool]:
        """(logits, whether the answer is "unknown") of a latent, uint8 bits (1, latent).

        A host may have written what classification reads alone (`ChipState.show`).
        """
        learner = self._shown() if self.poked else self.learner
        return learner.logits(latent)[0], bool(learner.unknown(latent)[0])

    def _shown(self) -> Learner:
        """The twin, with the answers of the mirror and of the table of the classes."""
        known, strong = min(self._word(Space.SCALARS, 0), self.plan.max_classes), self.plan.config.strong(2)
        mirrors = [self.chip.read_mirror(label).astype(np.int8) for label in range(known)]
        rows = [mirror[0] - 1 if self.plan.planes == 1 else np.select(
            [mirror[1] > 0, mirror[0] > 0, mirror[2] > 0], [strong, 0, -1], -1 - strong) for mirror in mirrors]
        self.twin.reset()
        output = np.array(rows, np.int8).reshape(known, self.learner.head.fan_in)
        state = replace(self.twin.state, known=known, output=output)
        if self.plan.forget:
            forgotten = [label for label in range(known) if self._word(Space.PRESENTED, label) >> 8 >= FORGOTTEN]
            output[forgotten] = 0
            state = replace(state, forgotten=frozenset(forgotten))
        if self.plan.unknown:
            state = replace(state, limits=self.chip.limits())
        presented = [2 * (label < known and label not in (state.forgotten or ())) for label in range(self.plan.max_classes)]
        self.twin.restore(replace(state, presented=presented).pack())
        return self.twin
