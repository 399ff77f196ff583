"""The signals that the parts of the link share, each declared once: rtl/host_link.py, host_request.py and host_reply.py drive them."""

from types import SimpleNamespace

from amaranth import Const, Signal

from ..machine import protocol
from .signals import unnamed

CYCLES_BITS = 24
"""Width of the counter of cycles in STATUS."""


def link_signals(link):
    """The namespace of a `HostLink`."""
    s = SimpleNamespace()
    # The received byte.  Registers hold its meaning a cycle after it has come, and another cycle later what it is for the state; the
    # next byte is many cycles away.
    s.strobe = unnamed()  # a byte has come
    s.broken = unnamed()  # a byte without stop bit has come
    s.bad = unnamed(init=1)  # the state does not take it
    s.cause = unnamed(4)  # why not, a Fault
    s.accept = unnamed()  # the cycle after: a byte is taken
    s.trouble = unnamed()  # the cycle after: the request ends with a fault
    s.why = unnamed(4)  # that Fault
    s.sync = unnamed()  # it is SYNC
    s.legal = unnamed()  # it is an opcode
    s.low_wrong = unnamed()  # it is not the low byte of the request's length
    s.high_wrong = unnamed()  # it is not the high byte of the request's length
    s.late_pixel = unnamed()  # the byte before is still held, or the weights are not loaded

    # The request.
    s.opcode = unnamed(6)
    s.sequence = unnamed(8)
    s.fault = unnamed(4)  # a Fault, or 0
    s.status, s.with_logits, s.with_latent = s.opcode[1], s.opcode[0], s.opcode[1]
    s.learning = s.opcode[5] if link.learns else Const(0, 1)
    s.classify = s.opcode[4] & ~s.learning
    s.access = s.learning & s.opcode[4]  # PEEK, POKE
    s.poke = s.access & s.opcode[3]
    s.last_sequence = unnamed(8)  # sequence of the last good request
    s.remembered = unnamed()  # that request was carried out
    s.repeated = unnamed()  # this request repeats it

    # What makes the owner reset the accelerator: a fault, a result that does not come, an image that begins a pass anew.
    s.abort = unnamed(3)
    s.aborts = unnamed(3)  # a cycle later

    # Counters of STATUS, and places.
    s.frames = unnamed(16)
    s.errors = unnamed(16)
    s.failed = Signal()  # strobes with a fault, a cycle before `fault` has it
    s.reason = unnamed(4)  # with `failed`: the new `fault`
    s.cycles = Signal(CYCLES_BITS)
    s.index = Signal(range(max(256 * link.identity.word_bytes, 32, link.image_bytes)))  # place of the byte in its field
    s.at_start = unnamed()  # `index` was 0 by the state of the cycle before
    s.step = unnamed()  # `index` goes on, where no byte moves it
    s.step_word = unnamed()  # `index` goes on by a word
    s.clear = unnamed()  # `index` goes back to 0
    s.ends = unnamed()  # `index` is the last place of the state's field
    s.at_end = unnamed()  # it was a cycle before

    _line_signals(link, s)
    return s


def _line_signals(link, s):
    """Signals of the line, of time, and of what stands between line and accelerator."""
    s.crc = unnamed(16)
    s.wrong = unnamed()  # it is not 0
    s.sending = Signal()  # the check sum is that of the reply
    # A byte that is sent: registers hold what it may be at `index`, another one which of them the state sends, another one the byte.
    s.offer = unnamed()  # the state has a byte
    s.offered = unnamed()  # and had it a cycle before
    s.send = unnamed()  # `byte` is offered to the transmitter
    s.byte = unnamed(8)
    s.source = unnamed(range(8))  # number in `sources`
    s.next_source = unnamed(range(8))
    s.sources = [Const(protocol.SYNC, 8)]  # registers
    s.length = Signal(16)  # of the reply's payload

    # Time.
    s.timer = unnamed(link.result_bits + 1)  # cycles since the last byte, or since the image was complete
    s.keep = Signal()  # received bytes do not restart the timer
    s.quiet = unnamed()  # the line has been quiet for the time-out
    s.late = unnamed()  # no result has come in time

    # The byte of an image waits until it is taken, at most until the next one has come.
    s.pixel = unnamed(8)
    s.held = unnamed()

    # The accelerator's outputs.
    s.result_waiting = unnamed()
    s.result_ack = unnamed()

    # With a learner.
    s.image_started = unnamed()  # an image has begun, and its result has not left
    s.image_received = unnamed()  # its last byte was taken
    s.sample = unnamed()  # its result has left: it is the sample
