"""What is proven of what lies around others: link, learner, board, wrapper.  PROPERTIES, as `properties` has them."""

from contextlib import contextmanager

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, Value

from fbnn_hw.machine import protocol, registers
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.machine.protocol import Command, Opcode
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl.accelerator_top import Accelerator
from fbnn_hw.rtl.axi_stream import AxiStreamWrapper
from fbnn_hw.rtl.board_top import BoardTop
from fbnn_hw.rtl.host_link import HostLink
from fbnn_hw.rtl.learning.learner import Learner
from fbnn_hw.rtl.registers import RegisterBus
from sim.engine import config
from tests.formal.properties import ANY, around, one_state
from tests.formal.prove import Property

LINK = {"classes": 2, "size": 2, "lanes": 8, "latent_words": 1, "score_bits": 8, "mark": b"mark", "model": b"name", "clocks": 1,
        "timeout_bits": 5, "result_bits": 6}
BYTE = 12
"""Clocks of a quiet line after which a receiver waits for a start bit."""


def link_silence():
    """Wherever a message stops, the link waits for no further byte of it once the line has been quiet for the time-out; any state."""
    class Watched(HostLink):
        @contextmanager
        def _accept(self, m, s, *args, **options):
            with super()._accept(m, s, *args, **options):
                yield
            m.d.comb += receiving.eq(1)

    receiving = Signal(name="receiving")
    dut = Watched(**LINK | {"timeout_bits": 2})
    m, clock = around(dut)
    one_state(dut, clock)
    quiet = BYTE + (1 << 2) + 5
    m.d.comb += [dut.rx.eq(1), Assert((clock < quiet) | ~receiving)]
    return Property(m, [dut.pixels.ready, dut.ready, dut.busy], quiet + 2, ANY)


def link_request():
    """Whenever the link hunts and its line is quiet for a byte, the next request is received and answered without a fault; any state."""
    dut = HostLink(**LINK)
    m, clock = around(dut)
    one_state(dut, clock)
    message = protocol.encode(Opcode.IDENTIFY, sequence=0x5A)
    # Three stop bits: a clock a bit is faster than any board, and the link knows SYNC three clocks after its stop bit.
    bits = Cat(bit for byte in message for bit in (0, *(byte >> place & 1 for place in range(8)), 1, 1, 1))
    begin = BYTE + 5  # what a receiver in any state gave has been heard by then
    end = begin + len(bits)
    answered = Signal()
    m.d.comb += [dut.rx.eq(Mux((clock >= begin) & (clock < end), bits.bit_select((clock - begin)[:7], 1), 1)),
                 Assume((clock > begin) | ~dut.active), Assert((clock < end) | ~dut.fault)]
    with m.If((clock >= end) & ~dut.tx):
        m.d.sync += answered.eq(1)
    m.d.comb += Assert((clock < end + 16) | answered)
    return Property(m, [dut.pixels.ready, dut.ready, dut.busy], end + 18, ANY)


def stays(m, offers):
    """What streams offer stays until it is taken.  offers: (valid, ready, payload) of each."""
    for number, (valid, ready, payload) in enumerate(offers):
        offered, before = Signal(name=f"offered{number}"), Signal(len(payload), name=f"payload{number}")
        m.d.sync += [offered.eq(valid & ~ready), before.eq(payload)]
        m.d.comb += Assert(~offered | valid & (payload == before))


def a_learner():
    """(a learner, its Module, the clock); it begins in any state of its machine, but in one."""
    class Watched(Learner):
        def _host(self, m, s):  # the last chapter of the machine
            super()._host(m, s)
            m.d.comb += one.eq(sum(s.states.bits.values()) == 1)

    one = Signal()
    settings = LearnConfig(max_classes=2, slots=2, counter_bits=2, temperature=4)
    dut = Watched(LearnPlan.of(Head(32), settings, 4, 16, 1, 0, 8), 8, 3, 7, 14)
    m, clock = around(dut)
    m.d.comb += Assume((clock != 0) | one)
    return dut, m, clock


def learner_command():
    """A resting learner refuses what its label or its being frozen forbids, goes on resting then, and freezes as it is told; any state,
    all commands."""
    dut, m, clock = a_learner()
    request, learned = dut.command.payload, dut.class_count
    learns = request.command == Command.LEARN
    refused = Mux(learns | (request.command == Command.STORE),
                  dut.frozen | ~((request.label < learned) | learns & (request.label == learned) & (request.label < dut.plan.max_classes)),
                  (request.command == Command.REHEARSE) & dut.frozen)
    before = {name: Signal.like(getattr(dut, name), name=f"{name}_before") for name in ("class_count", "used")}
    was_refused, frozen = Signal(), Signal()
    with m.If(clock == 0):
        m.d.sync += [signal.eq(getattr(dut, name)) for name, signal in before.items()]
        m.d.sync += [was_refused.eq(refused), frozen.eq(Mux(request.command == Command.FREEZE, request.count[0], dut.frozen))]
    m.d.comb += [Assume((clock != 0) | ~dut.busy & dut.command.valid & (learned <= dut.plan.max_classes))]
    with m.If(clock == 2):  # it has been decided on
        m.d.comb += [Assert(dut.refused == was_refused), Assert(~was_refused | ~dut.busy), Assert(dut.frozen == frozen),
                     Assert(dut.class_count == before["class_count"]), Assert(dut.used == before["used"])]
    return Property(m, [request.as_value(), dut.command.valid, dut.host.valid], 3, ANY)


def learner_logits():
    """A logit of the learner stays until it is taken, while the array's sums stay; any state."""
    dut, m, clock = a_learner()
    logits, scores, offered = dut.logits, Signal.like(dut.scores), Signal()
    m.d.sync += [scores.eq(dut.scores), offered.eq(logits.valid & ~logits.ready)]
    m.d.comb += [Assume(~offered | (scores == dut.scores)), Assume((clock != 0) | ~logits.valid)]
    stays(m, [(logits.valid, logits.ready, logits.payload.as_value())])
    return Property(m, [dut.command.payload.as_value(), dut.command.valid, dut.host.payload.as_value(), dut.host.valid, dut.rows.ready,
                        dut.read, dut.scores, logits.ready], 3, ANY)


def accelerator_result():
    """The class of an image stays until it is taken, whatever comes meanwhile; any state, any weights."""
    dut = Accelerator(config(latent_words=2))
    m, _ = around(dut)
    stays(m, [(dut.result.valid, dut.result.ready, Value.cast(dut.result.payload))])
    return Property(m, [dut.pixels.valid, dut.pixels.payload, dut.logits.ready, dut.result.ready, dut.latent.ready, dut.want_latent],
                    2, ANY)


def opened(dut):
    """(the Module of a component without its Instance, {port of the Instance: what is connected to it})."""
    names, ports = type(dut).elaborate.__globals__, {}
    instance = names["Instance"]
    try:
        names["Instance"] = lambda kind, **connections: ports.update(connections) or Module()
        return dut.elaborate(None), ports
    finally:
        names["Instance"] = instance


def board_latent(depth=4):
    """On parts whose block RAM is slow, each word of the latent comes to the link once and in order, the result comes behind the words,
    and what the link aborts resets the accelerator a clock later; any state."""
    dut = BoardTop(config(technology="wrapper", latent_words=2), model=b"name", clock_hz=1e6, clocks=1, timeout_bits=4, result_bits=5)
    inside, ports = opened(dut)
    m, clock = around(inside)
    link = dut.link
    given = ports["o_latent__valid"] & ports["i_latent__ready"]
    taken = link.latent.valid & link.latent.ready
    held, word, aborted = Signal(name="own_held"), Signal(len(ports["o_latent__payload"]), name="own_word"), Signal()
    m.d.sync += aborted.eq(link.abort)
    with m.If(given):
        m.d.sync += word.eq(ports["o_latent__payload"])
    m.d.sync += held.eq(given | held & ~taken)
    with m.If(ports["i_rst"]):
        m.d.sync += held.eq(0)
    waits = link.latent.valid
    m.d.comb += [Assume((clock != 0) | (held == waits) & (word == link.latent.payload.as_value())),
                 Assert(held == waits), Assert(~held | (word == link.latent.payload.as_value())), Assert(~(given & held)),
                 Assert(~(link.result.valid & waits)),
                 Assert((ports["o_result__valid"] & ports["i_result__ready"]) == (link.result.valid & link.result.ready)),
                 Assert((clock == 0) | (ports["i_rst"] == aborted))]
    outputs = [ports[f"o_{name}__{part}"] for name in ("latent", "logits", "result") for part in ("payload", "valid")]
    return Property(m, [dut.rx, ports["o_pixels__ready"], *outputs], depth, (*ANY, "own_*"))


def wrapper_stable():
    """What a stream of the wrapper offers, to the world or to the accelerator, stays until it is taken; any state."""
    dut = AxiStreamWrapper(config(latent_words=2))
    inside, ports = opened(dut)
    reset = Signal(name="rst")
    m, clock = around(inside)
    m.d.comb += [dut.aresetn.eq(~reset), Assert(ports["i_rst"] == reset)]
    offers = [(ports["i_pixels__valid"], ports["o_pixels__ready"], ports["i_pixels__payload"])]
    for name in ("m_axis_logits", "m_axis_result", "m_axis_latent"):
        flags = [getattr(dut, f"{name}_{flag}") for flag in ("tlast", "tuser") if hasattr(dut, f"{name}_{flag}")]
        offers.append((getattr(dut, f"{name}_tvalid"), getattr(dut, f"{name}_tready"), Cat(getattr(dut, f"{name}_tdata"), *flags)))
    stays(m, offers)
    outputs = [ports[f"o_{name}__{part}"] for name in ("latent", "logits", "result") for part in ("payload", "valid")]
    inputs = [getattr(dut, f"s_axis_image_{part}") for part in ("tdata", "tvalid", "tlast")]
    return Property(m, [reset, dut.aclk, *inputs, *(ready for _, ready, _ in offers), *outputs], 2, ANY)


def registers_answer(patience=3):
    """Every access is answered within `patience` + 2 clocks, whatever the accelerator does, and an answer has a request; any state."""
    before = registers.PATIENCE
    try:
        registers.PATIENCE = patience
        dut = RegisterBus(config(latent_words=2))
        inside, ports = opened(dut)
    finally:
        registers.PATIENCE = before
    m, clock = around(inside)
    inputs = [dut.request, dut.write, dut.address, dut.data, dut.whole]
    waits, asked, last = Signal(range(2 * patience + 4)), Signal(), Signal(len(Cat(*inputs)))
    m.d.comb += asked.eq(dut.request & ~dut.ack)
    m.d.sync += [waits.eq(Mux(asked, waits + 1, 0)), last.eq(Cat(*inputs))]
    m.d.comb += [Assume((waits == 0) | (last == Cat(*inputs))), Assert(waits <= patience + 2),
                 Assert((clock == 0) | ~dut.ack | (waits != 0))]
    outputs = [ports[name] for name in ports if name.startswith("o_")]
    return Property(m, [*inputs, *outputs], 2 * patience + 6, ANY)


PROPERTIES = {
    "registers_answer": registers_answer,
    "link_silence": link_silence,
    "learner_command": learner_command,
    "board_latent": board_latent,
    "wrapper_stable": wrapper_stable,
}

LONG = {"link_request": link_request, "learner_logits": learner_logits, "accelerator_result": accelerator_result}
