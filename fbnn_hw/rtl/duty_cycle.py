"""Sleep between frames: a design whose clock stops, with flash and banks at rest, until a byte comes."""

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In

from ..base.errors import UsageError
from ..machine.line import FEWEST_ASLEEP

QUIET_BITS = 16
"""Bits of silence before it sleeps: more than any byte has."""


class DutyCycle(wiring.Component):
    """A `BoardTop`, and the clock that it gets: the clock stops while nothing is to be done.

    - When the core has been idle and the line high for QUIET_BITS bits, `sleep` asks the core to put
      banks and flash to rest.
    - When the core answers with `asleep`, its clock stops.
    - The first start bit on `rx` starts the clock and ends `sleep`.  The core receives the byte of
      that start bit.

    Only this component's own registers, some twenty, have a clock that never stops.  The gate is an
    AND behind a register of the falling edge, so that no pulse is cut.

    Parameters:
    - core, BoardTop: of a configuration with `sleeps`.
    - clocks: clocks of a bit on the serial line, as the core has them, at least FEWEST_ASLEEP.

    Timing: Four clocks from a falling `rx` to the core's first clock.

    Raises UsageError if a bit is too short to wake up in.
    """

    def __init__(self, core, clocks):
        check_wakes(clocks)
        self.core, self.clocks = core, clocks
        own = ("sleep", "idle", "asleep")  # all other members are the core's
        super().__init__({name: member for name, member in core.signature.members.items() if name not in own})

    def elaborate(self, platform):
        m = Module()
        m.domains.run = run = ClockDomain(local=True)
        m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
        running = Signal(init=1)
        gate = Signal(init=1)
        sleep = Signal()
        m.d.comb += [falling.clk.eq(ClockSignal("sync")), run.clk.eq(ClockSignal("sync") & gate), run.rst.eq(ResetSignal("sync"))]
        m.d.falling += gate.eq(running)
        core = self.core
        m.submodules.core = DomainRenamer("run")(core)
        for name, member in self.signature.members.items():
            own, inner = getattr(self, name), getattr(core, name)
            m.d.comb += inner.eq(own) if member.flow is In else own.eq(inner)

        line = Signal(init=1)
        idle = Signal()
        asleep = Signal()
        m.submodules.line = FFSynchronizer(self.rx, line, init=1)
        m.submodules.idle = FFSynchronizer(core.idle, idle)
        m.submodules.asleep = FFSynchronizer(core.asleep, asleep)
        m.submodules.sleep = FFSynchronizer(sleep, core.sleep, o_domain="run")
        quiet = int(QUIET_BITS * self.clocks)
        silence = Signal(range(quiet + 1))
        with m.FSM():
            with m.State("AWAKE"):
                m.d.sync += silence.eq(silence + 1)
                with m.If(~idle | ~line):
                    m.d.sync += silence.eq(0)
                with m.Elif(silence == quiet):
                    m.d.sync += sleep.eq(1)
                    m.next = "DOZE"
            with m.State("DOZE"):
                m.d.sync += silence.eq(0)
                with m.If(asleep & line):
                    m.d.sync += running.eq(0)
                    m.next = "ASLEEP"
                with m.If(~line):
                    m.d.sync += sleep.eq(0)
                    m.next = "AWAKE"
            with m.State("ASLEEP"):
                with m.If(~line):
                    m.d.sync += [running.eq(1), sleep.eq(0)]
                    m.next = "AWAKE"
        return m


def check_wakes(clocks):
    """Raise UsageError if a bit of so many clocks is too short to wake up in."""
    if clocks < FEWEST_ASLEEP:
        raise UsageError(f"--duty-cycle: a bit on the line takes {clocks} clocks, expected at least {FEWEST_ASLEEP} to wake up in; "
                         "choose a slower --baud or a faster --clock")


def board(core, clocks):
    """What goes into the FPGA around a `BoardTop`: a `DutyCycle` where its configuration sleeps, else the core itself."""
    return DutyCycle(core, clocks) if core.config.sleeps else core
