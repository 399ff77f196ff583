"""Replies to a host: head, payload and check sum."""

from functools import partial

from amaranth import Array, Cat, Const, Mux, Signal, signed

from ..machine import protocol
from .signals import unnamed


class Replies:
    """Part of `HostLink`: m is its Module, s the namespace of its signals (`host_link.link_signals`)."""

    # Chapter 3: reply.

    def _reply(self, m, s):
        """The head of the reply."""
        head = unnamed(8)
        opcode = Mux(s.fault.any(), protocol.ERROR, Cat(s.opcode, Const(protocol.REPLY >> 6, 2)))
        good = unnamed(16)  # the payload's length of a reply without a fault
        m.d.sync += [good.eq(self._length(s)), s.length.eq(Mux(s.fault != 0, 1, good)),
                     head.eq(Array([opcode, s.sequence, s.length[:8], s.length[8:]])[s.index[:2]])]
        with s.states.state("SYNC"):
            m.d.comb += s.offer.eq(1)
            with m.If(s.sent):
                s.states.go("HEAD")
        with s.states.state("HEAD"):
            m.d.comb += s.offer.eq(1)
            self._source(m, s, head)
            with m.If((s.index[:2] == 0) & ~s.sent):
                m.d.sync += s.crc.eq(protocol.CRC_START)  # the bits of SYNC are no part of it
            self._send_to(m, s, 3, "BYTES")
            with m.If(s.sent & s.at_end & (s.fault == 0)):
                with m.If(s.classify):
                    s.states.go("LOGITS")
                if self.learns:
                    with m.If(s.learning):
                        s.states.go("END")
                        with m.If(s.access & ~s.poke):
                            s.states.go("PEEK")

    def _length(self, s):
        """The length of the payload of a reply without a fault.  It stands still while the reply is sent."""
        lengths = [protocol.classify_bytes(flags, 0 if self.learns else self.classes, self.latent_bytes) for flags in range(4)]
        classified = Array(Const(n, 16) for n in lengths)[s.opcode[:2]]
        fixed_length = Mux(s.status, protocol.STATUS_BYTES, len(self.identity.pack()))
        if self.learns:
            classified = classified + Mux(s.with_logits, self.class_count << 1, 0)
            fixed_length = Mux(s.learning, Mux(s.access & ~s.poke, s.count << s.word_bits, 0), fixed_length)
        return Mux(s.classify, classified, fixed_length)

    def _reply_status(self, m, s):
        """Identity, status or fault."""
        packed = self.identity.pack()
        identity = Array(Const(value, 8) for value in packed.ljust(32, b"\0"))[s.index[:5]]
        extras = self.ahead | self.camera << 1
        counters = Array([Cat(self.ready, self.wrong_flash, self.frozen if self.learns else Const(0), Const(extras, 5)), *(
            counter.word_select(i, 8) for counter in (s.frames, s.errors, s.cycles) for i in range(len(counter) // 8))])[s.index[:3]]
        counter = unnamed(8)  # byte of the status
        constant = unnamed(8)  # byte of the identity
        info = unnamed(8)  # byte of the reply
        of_model = unnamed()  # it is one of the model mark
        told = Mux(s.status, counter, constant)
        if self.model_mark is None:
            m.d.sync += of_model.eq(~s.status & (s.index[:5] >= len(packed) - protocol.MODEL_BYTES))
            told = Mux(of_model, self.model, told)
        m.d.sync += [counter.eq(counters), constant.eq(identity), info.eq(Mux(s.fault.any(), s.fault, told))]
        with s.states.state("BYTES"):
            m.d.comb += [s.offer.eq(1), self.model_next.eq(s.sent & of_model & (s.fault == 0))]
            self._source(m, s, info)
            self._send_to(m, s, Mux(s.status, protocol.STATUS_BYTES - 1, len(packed) - 1), "END")
            with m.If(s.fault != 0):
                m.d.comb += s.ends.eq(1)

    def _reply_result(self, m, s):
        """Logits, latent and class of each image of the pass."""
        def after_logits():
            s.states.go("CLASS")
            if self.latent_bytes:
                with m.If(s.with_latent):
                    s.states.go("LATENT")

        score = Signal(signed(16))
        best = Signal(16)
        m.d.comb += [score.eq(self.logits.payload.value), best.eq(self.result.payload)]
        if self.unknown:
            label, unknown = self.result.payload[:-1], self.result.payload[-1]
            m.d.comb += best.eq(Cat(label, Const(0, 15 - len(label)), unknown & s.opcode[2]))
        nothing = self.learns and not self.classes and self.class_count == 0  # no class is known, so no logit comes
        self._pass_on(m, s, "LOGITS", self.logits, s.with_logits, score.as_unsigned(), after_logits, nothing)
        if self.latent_bytes:
            self._pass_on(m, s, "LATENT", self.latent, 1, self.latent.payload.word, partial(s.states.go, "CLASS"))
        with s.states.state("CLASS"):
            m.d.comb += [s.offer.eq(s.result_waiting & ~s.result_ack), s.ends.eq(s.index[0])]
            self._source(m, s, best.word_select(s.index[0], 8))
            m.d.sync += s.result_ack.eq(s.sent & s.at_end)
            with m.If(s.result_ack):
                m.d.sync += [s.image_started.eq(0), s.sample.eq(1)]
                s.states.go("END")
            self._give_up(m, s)

    def _pass_on(self, m, s, state, source, wanted, value, following, nothing=False):
        """A state that takes the words of a stream up to the last one, and sends their bytes or drops them."""
        count = len(value) // 8
        place = s.index[:(count - 1).bit_length()]
        byte = unnamed(8)  # of the word that the stream offers
        last = unnamed()  # the word is the stream's last
        m.d.sync += [byte.eq(value.word_select(place, 8)), last.eq(source.payload.last)]
        with s.states.state(state):
            m.d.comb += [s.offer.eq(s.result_waiting & wanted & ~s.result_ack), s.ends.eq(place == count - 1)]
            self._source(m, s, byte)
            m.d.sync += s.result_ack.eq(s.result_waiting & ~s.result_ack & (~wanted | s.sent & s.at_end))
            with m.If(s.result_ack & last):
                following()
            if nothing is not False:
                with m.If(nothing):
                    following()
            self._give_up(m, s)

    def _give_up(self, m, s):
        """End a reply whose result does not come.

        Its head has been sent, so no error message can take its place; the host sees that the reply ends early.
        """
        with m.If(s.late):
            m.d.comb += s.abort[1].eq(1)
            m.d.sync += s.failed.eq(1)
            s.states.go("HUNT")

    def _reply_peek(self, m, s):
        """Words of the learner's memory."""
        with s.states.state("PEEK"):
            m.d.sync += s.asking.eq(s.settled & ~s.all_words & ~self.host.ready)
            with m.If(s.all_words):
                m.d.comb += s.clear.eq(1)
                s.states.go("END")
            with m.Elif(self.host.ready):
                s.states.go("PEEK_WORD")
            with m.Elif(s.late):
                m.d.sync += s.failed.eq(1)
                s.states.go("HUNT")
        with s.states.state("PEEK_WORD"):
            m.d.comb += s.offer.eq(1)
            self._source(m, s, self.host_reply.word_select(s.index[:s.word_bits], 8))
            with m.If(s.sent & s.index[:s.word_bits].all()):
                s.states.go("PEEK")
