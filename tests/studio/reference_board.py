"""A board without gates: the link's protocol before the reference learner and the reference network, for tests of the page."""

import queue

import numpy as np

from fbnn_hw import protocol
from fbnn_hw.base.errors import InputError
from fbnn_hw.host.chip import ChipState
from fbnn_hw.ir.network import LATENT
from fbnn_hw.protocol import Fault, Opcode
from fbnn_hw.reference import inference


class ReferenceBoard:
    """A `host.client.Transport` to a learner of a `Design`; unplugged: it raises what a port that is gone raises; deaf: hears nothing of
    so many messages, as a board that is busy."""

    def __init__(self, design):
        self.design, self.unplugged, self.deaf = design, False, 0
        self.power()

    def power(self):
        """As after power-up."""
        self.learner = self.design.learner()
        self.words, self.sample, self.shown, self.poked, self.last = {}, None, False, False, None
        self.chip = ChipState(self.design.config.learning, self.design.learner(), self._read, self._write)
        self.decoder, self.answers = protocol.Decoder(), queue.Queue()

    def _read(self, space, address, count):
        return [self.words.get((int(space), address + n), 0) for n in range(count)]

    def _write(self, space, address, words):
        self.words.update({(int(space), address + n): int(word) for n, word in enumerate(words)})

    # The line.

    def write(self, data, timeout):
        if self.unplugged:
            raise InputError("/dev/board: the connection broke (unplugged); plug the board in again")
        for opcode, sequence, payload in self.decoder.feed(data):
            if self.deaf:
                self.deaf -= 1
                continue
            if (opcode, sequence) != self.last or opcode < Opcode.LEARN:
                self.answer = self._carried_out(opcode, payload)
            fault = isinstance(self.answer, Fault)
            self.last = None if fault else (opcode, sequence)
            self.answers.put(protocol.encode(protocol.ERROR if fault else opcode | protocol.REPLY,
                                             bytes([self.answer]) if fault else self.answer, sequence))

    def read(self, timeout):
        if self.unplugged:
            raise InputError("/dev/board: the connection broke (unplugged); plug the board in again")
        try:
            return self.answers.get(timeout=timeout)
        except queue.Empty:
            return b""

    def discard(self):
        while self.read(0):
            pass

    def snapshot(self):
        """What it knows, from another thread too; the learner takes up what was written to the memory at its next request only."""
        return self.chip.read().pack() if self.poked else self.learner.snapshot()

    # Requests.

    def _carried_out(self, opcode, payload):
        config, plan = self.design.config, self.design.config.learning
        if opcode == Opcode.IDENTIFY:
            return protocol.Identity(protocol.VERSION, protocol.config_mark(config.id), config.classes, config.size,
                                     config.latent_words * config.lanes // 8, 1, plan.max_classes, max(16, config.lanes) // 8,
                                     bytes.fromhex(self.design.model_mark)).pack()
        if opcode == Opcode.STATUS:
            return protocol.Status(True, False, 0, 0, 1000, self.learner.frozen).pack()
        if opcode & ~3 == Opcode.CLASSIFY:
            return self._classified(opcode & 3, payload)
        number, count = int.from_bytes(payload[:3], "little"), payload[3]
        space, size = opcode & 7, max(16, config.lanes) // 8
        if Opcode.PEEK <= opcode < Opcode.POKE:
            self._show()
            return protocol.words_bytes([self.words.get((space, number ^ n), 0) for n in range(count)], size)
        if opcode >= Opcode.POKE:
            self._show()
            self.words.update({(space, number ^ n): word for n, word in enumerate(protocol.words_from(payload[4:], size))})
            self.poked = True
            return b""
        self._taken_up()
        return self._learned(opcode, number, count)

    def _show(self):
        """The learner's state is in the memory."""
        if not self.shown:
            self.chip.write(self.learner.state)
            self.shown = True

    def _taken_up(self):
        """What was written to the memory becomes the learner's state."""
        if self.poked:
            self.learner.restore(self.chip.read().pack())
            self.poked = False

    def _classified(self, flags, payload):
        self._taken_up()
        image = np.frombuffer(payload, np.uint8).reshape(1, self.design.config.size, -1, 3).transpose(0, 3, 1, 2)
        self.sample = inference.layers(self.design.network, image)[LATENT].reshape(1, -1)
        logits, bits = self.learner.logits(self.sample)[0], np.zeros(self.design.config.latent_words * self.design.config.lanes, np.uint8)
        bits[self.design.layout["latent_bits"]] = self.sample[0]
        return (logits.astype("<i2").tobytes() * bool(flags & protocol.LOGITS)
                + np.packbits(bits, bitorder="little").tobytes() * bool(flags & protocol.LATENT)
                + (int(logits.argmax()) if logits.size else 0).to_bytes(2, "little"))

    def _learned(self, opcode, number, count):
        learner, self.shown = self.learner, False
        if opcode == Opcode.RESET:
            self.power()
        elif opcode == Opcode.FREEZE:
            learner.freeze(bool(count))
        elif learner.frozen:
            return Fault.FROZEN
        elif opcode == Opcode.REHEARSE:
            learner.rehearse(count)
        elif self.sample is None:
            return Fault.SAMPLE
        elif number > learner.known - (opcode == Opcode.STORE) or number >= learner.config.max_classes:
            return Fault.LABEL
        else:
            (learner.learn if opcode == Opcode.LEARN else learner.store)(self.sample, [number])
        return b""
