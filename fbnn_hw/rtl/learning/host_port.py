"""The chapter of the learner in which a host reads and writes its memories."""

from amaranth import Array, Mux

from ...machine.protocol import Space


class HostPort:
    """Part of `Learner`: m is its Module, s the namespace of its signals."""

    def _host(self, m, s):
        """States that carry out an access of the host."""
        host, rows = self.host.payload, self.rows
        with s.states.state("HOST"):
            m.d.sync += [
                s.block.eq(0), s.source.eq(1 << host.address[:self.bank_bits]), s.target.eq(1 << host.address[:self.bank_bits]),
                s.slot.eq(host.address), self.host_reply.eq(0)]
            s.states.go("HOST_ADDRESS")
            with m.If(host.space == Space.BANKS):
                s.states.go("HOST_ROW")
        with s.states.state("HOST_ADDRESS"):
            s.states.go("HOST_LOOK")
        with s.states.state("HOST_LOOK"):
            s.states.go("HOST_DONE")
            self._host_look(m, s)
        with s.states.state("HOST_ROW"):
            m.d.comb += [rows.valid.eq(1), s.reads.eq(1), s.writes.eq(host.write)]
            with m.If(rows.ready):
                s.states.go("HOST_WAIT")
                with m.If(host.write):
                    s.states.go("HOST_DONE")
        with s.states.state("HOST_WAIT"):
            with m.If(s.arrived):
                m.d.sync += self.host_reply.eq(s.bank_word)
                s.states.go("HOST_DONE")
        with s.states.state("HOST_DONE"):
            m.d.comb += self.host.ready.eq(1)
            s.states.go("REST")

    def _host_look(self, m, s):
        """Carry out an access to what lies outside the banks."""
        host, classes, registers = self.host.payload, s.classes, s.registers
        scalars = Array([self.class_count, self.used, self.frozen, 0])[host.address[:2]]
        m.d.comb += [
            registers.load.eq(1),
            registers.data.eq(Mux(host.write, host.data[0], registers.bit)), s.label_write.data.eq(host.data)]
        with m.Switch(host.space):
            with m.Case(Space.LABELS):
                m.d.comb += s.label_write.en.eq(host.write)
                m.d.sync += self.host_reply[:self.plan.class_bits].eq(s.label_read.data)
            with m.Case(Space.COUNTS):
                m.d.comb += classes.host_write[0].eq(host.write)
                if self.plan.unknown:  # a limit
                    m.d.sync += self.host_reply[:16].eq(classes.counts.as_signed())
                else:
                    m.d.sync += self.host_reply[:len(classes.counts)].eq(classes.counts)
            with m.Case(Space.PRESENTED):
                m.d.comb += classes.host_write[1].eq(host.write)
                m.d.sync += self.host_reply[:16].eq(classes.presented_left)
            with m.Case(Space.SCALARS):
                m.d.sync += self.host_reply[:len(scalars)].eq(scalars)
                with m.If(host.write):
                    for number, scalar in enumerate((self.class_count, self.used, self.frozen)):
                        with m.If(host.address[:2] == number):
                            m.d.sync += scalar.eq(host.data)
            with m.Default():
                m.d.comb += registers.shift.eq(1 << registers.select)
                m.d.sync += self.host_reply[0].eq(registers.bit)
