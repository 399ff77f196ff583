"""Requests of a host: received byte by byte, checked, and carried out."""

from amaranth import Mux

from ..machine import protocol
from ..machine.protocol import Fault, Opcode


class Requests:
    """Part of `HostLink`: m is its Module, s the namespace of its signals (`host_link.link_signals`)."""

    # Chapter 1: receive a request.

    def _receive(self, m, s):
        with s.states.state("HUNT"):
            m.d.sync += s.crc.eq(protocol.CRC_START)
            m.d.comb += s.bad.eq(0)
            with m.If(s.accept & s.sync):
                m.d.sync += s.fault.eq(0)
                s.states.go("OPCODE")
        with s.states.state("OPCODE"), self._accept(m, s, ~s.legal, Fault.OPCODE):
            m.d.sync += s.opcode.eq(s.rx.byte)
            s.states.go("SEQUENCE")
        with s.states.state("SEQUENCE"), self._accept(m, s):
            m.d.sync += s.sequence.eq(s.rx.byte)
            s.states.go("LENGTH_LOW")
        with s.states.state("LENGTH_LOW"), self._accept(m, s, s.low_wrong & ~s.poke, Fault.LENGTH):
            s.states.go("LENGTH_HIGH")
        with s.states.state("LENGTH_HIGH"), self._accept(m, s, s.high_wrong, Fault.LENGTH):
            s.states.go("CRC")
            with m.If(s.classify & ~s.sees if self.camera else s.classify):
                s.states.go("IMAGE")
            if self.learns:
                with m.Elif(s.learning):
                    s.states.go("OPERAND")
        with s.states.state("IMAGE"):
            m.d.comb += s.ends.eq(s.index == self.image_bytes - 1)
            with self._accept(m, s, s.late_pixel, Fault.BUSY, abort=self.ready):
                m.d.sync += [s.pixel.eq(s.rx.byte), s.held.eq(1), s.image_started.eq(1), s.image_received.eq(s.at_end), s.sample.eq(0)]
                with m.If(s.at_end):
                    s.states.go("CRC")
        if self.learns:
            self._receive_operand(m, s)
        s.aborting = s.classify & ~s.sees if self.camera else s.classify  # the accelerator has got a part of the request
        with s.states.state("CRC"):
            m.d.comb += s.ends.eq(s.index[0])
            with self._accept(m, s, abort=s.aborting), m.If(s.at_end):
                s.states.go("CHECK")

    def _receive_operand(self, m, s):
        """States that receive the operand of a learner's request, and the words of a POKE."""
        label_bits = len(self.command.payload.label)
        with s.states.state("OPERAND"):
            m.d.comb += s.ends.eq(s.index[:2] == protocol.OPERAND_BYTES - 1)
            with self._accept(m, s, s.ends & s.access & s.illegal_count, Fault.LENGTH):
                with m.If(s.at_end):
                    s.states.go("CRC")
                with m.Switch(s.index[:2]):
                    for number in range(3):
                        with m.Case(number):
                            if 8 * number < len(s.number):
                                m.d.sync += s.number[8 * number:8 * number + 8].eq(s.rx.byte)
                            m.d.sync += s.too_large.eq(s.too_large & (number > 0) | s.rx.byte[max(0, label_bits - 8 * number):].any())
                    with m.Case(3):
                        m.d.sync += s.count.eq(s.rx.byte)
                        with m.If(s.poke):
                            s.states.go("DATA")
        with s.states.state("DATA"):
            with self._accept(m, s):
                m.d.comb += s.buffer_write.en.eq(1 << s.index[:s.word_bits])
            with m.If(s.all_words):
                m.d.comb += s.clear.eq(1)
                s.states.go("CRC")

    # Chapter 2: carry it out.

    def _execute(self, m, s):
        with s.states.state("CHECK"):
            s.states.go("WAIT")
            with m.If(s.wrong):
                self._fail(m, s, Fault.CRC, s.aborting)
            with m.Else():
                m.d.sync += [s.last_sequence.eq(s.sequence), s.remembered.eq(1)]
                with m.If(~s.classify & ~s.status & ~s.learning):
                    m.d.sync += s.remembered.eq(0)
                if self.learns:
                    with m.If(s.learning):
                        s.states.go("DISPATCH")
                if self.camera:
                    with m.If(s.sees & ~self.ready):
                        self._refuse(m, s, Fault.BUSY)
        with s.states.state("WAIT"):
            with m.If(~s.classify | s.result_waiting):
                s.states.go("SYNC")
                with m.If(s.classify):
                    m.d.sync += [s.cycles.eq(s.timer), s.frames.eq(s.frames + 1)]
            with m.Elif(s.late):
                self._fail(m, s, Fault.RESULT, ~s.sees if self.camera else 1)
        with s.states.state("QUIET"):
            with m.If(s.quiet & ~s.rx.waiting if self.ahead else s.quiet):
                s.states.go("SYNC")

    def _dispatch(self, m, s):
        """A good request to the learner."""
        resets = ~s.access & (s.opcode[:3] == Opcode.RESET & 7)
        of_sample = ~s.opcode[2] & (s.opcode[:2] != Opcode.REHEARSE & 3)  # LEARN, STORE
        with m.If(s.access & ~s.poke):
            s.states.go("SYNC")
            with m.If(~self.ready):
                self._refuse(m, s, Fault.BUSY)
        with m.Elif(s.repeated):
            s.states.go("WAIT")
        with m.Elif(resets):
            m.d.comb += s.abort[2].eq(1)
            s.states.go("SYNC")
        with m.Elif(~self.ready):
            self._refuse(m, s, Fault.BUSY)
        with m.Elif(s.poke):
            s.states.go("POKE")
        with m.Elif(of_sample & ~s.sample):
            self._refuse(m, s, Fault.SAMPLE)
        with m.Elif(of_sample & s.too_large):
            self._refuse(m, s, Fault.LABEL)
        with m.Else():
            s.states.go("COMMAND")

    def _execute_learning(self, m, s):
        command, host = self.command, self.host
        with s.states.state("DISPATCH"):
            self._dispatch(m, s)
        with s.states.state("COMMAND"):
            m.d.comb += command.valid.eq(1)
            with m.If(command.ready):
                s.states.go("SETTLE")
            with m.Elif(s.late):
                self._refuse(m, s, Fault.RESULT)
        with s.states.state("SETTLE"):  # until `busy` and `refused` are those of the command
            m.d.comb += s.step.eq(1)
            with m.If(s.index[:2].all()):
                m.d.comb += s.clear.eq(1)
                s.states.go("REST")
        with s.states.state("REST"):
            with m.If(~self.busy):
                s.states.go("SYNC")
                with m.If(self.refused):
                    self._refuse(m, s, Mux(self.frozen, Fault.FROZEN, Fault.LABEL))
            with m.Elif(s.late):
                self._fail(m, s, Fault.RESULT)
        with s.states.state("POKE"):
            m.d.sync += s.asking.eq(s.settled & ~s.all_words & ~host.ready)
            with m.If(s.all_words):
                s.states.go("SYNC")
            with m.Elif(host.ready):
                m.d.comb += s.step_word.eq(1)
            with m.Elif(s.late):
                self._refuse(m, s, Fault.RESULT)
        with s.states.state("FLUSH"):  # completes a damaged image and drops its result
            m.d.sync += s.result_ack.eq(s.result_waiting & ~s.result_ack)
            m.d.comb += s.ends.eq(s.index == self.image_bytes - 1)
            with m.If(~s.image_received & ~s.held):
                m.d.sync += [s.held.eq(1), s.image_received.eq(s.at_end)]
                m.d.comb += s.step.eq(1)
            with m.If(s.result_ack & self.result.valid):
                m.d.sync += s.image_started.eq(0)
                s.states.go("QUIET")
            with m.Elif(s.late):
                m.d.comb += s.abort[1].eq(1)
                s.states.go("QUIET")
