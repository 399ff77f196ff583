"""A weight file into the memory of all weights, after each reset."""

from amaranth import Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from ..machine.protocol import MARK_BYTES, config_mark

SUM_BYTES = 4
FILE_STATE = {"loaded": 1, "strange": 1, "damaged": 1, "checksum": 32}
"""{member: bits} of what became of a weight file, until the next reset; accelerator.v has ports with these names.

The memory has the file's words; the mark is that of another configuration, and nothing was written; the CRC-32 is not that of the bytes.
checksum: the CRC-32 of what has come, without the file's own.
"""


class WeightFile(wiring.Component):
    """The bytes of a weight file -> writes of a memory of `config.weight_words` words.

    A file is the mark of the configuration, the words from address 0 on, each with its lowest byte first, and the CRC-32 (that of zip
    files) of all that, its lowest byte first.

    Twin: `fbnn_hw.design.weights.loadable`.

    Timing: A byte a clock; `bytes.ready` is always 1.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "bytes": In(stream.Signature(8)),  # those of one file after a reset; all further ones are dropped
            "write": Out(1), "address": Out(range(max(2, config.weight_words))),
            "mask": Out(config.word_bits // 8), "byte": Out(8),  # bit i of the mask: `byte` is byte i of the word at the address
            **{name: Out(bits) for name, bits in FILE_STATE.items()}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = catalog.CRC32_ISO_HDLC(8).create()
        place = Signal(range(len(self.mask)))  # of the byte that comes next in its word, or in the mark, or in the CRC
        payload, valid = self.bytes.payload, self.bytes.valid
        mark = Const(int.from_bytes(config_mark(self.config.id), "little"), 8 * MARK_BYTES)
        m.d.comb += [self.bytes.ready.eq(1), crc.data.eq(payload), self.checksum.eq(crc.crc), self.byte.eq(payload),
                     self.mask.eq(1 << place)]
        with m.If(valid):
            m.d.sync += place.eq(place + 1)
        with m.FSM() as states:
            with m.State("MARK"):
                m.d.comb += crc.valid.eq(valid)
                with m.If(valid & (place == MARK_BYTES - 1)):
                    m.d.sync += place.eq(0)
                    m.next = "WORDS"
                with m.If(valid & (payload != mark.word_select(place[:2], 8))):
                    m.next = "STRANGE"
            with m.State("WORDS"):
                m.d.comb += [crc.valid.eq(valid), self.write.eq(valid)]
                with m.If(valid & (place == len(self.mask) - 1)):
                    m.d.sync += [place.eq(0), self.address.eq(self.address + 1)]
                    with m.If(self.address == self.config.weight_words - 1):
                        m.next = "SUM"
            with m.State("SUM"):
                with m.If(valid & (place == SUM_BYTES - 1)):
                    m.next = "LOADED"
                with m.If(valid & (payload != crc.crc.word_select(place[:2], 8))):
                    m.next = "DAMAGED"
            for name in ("LOADED", "STRANGE", "DAMAGED"):
                with m.State(name):
                    pass
        m.d.comb += [self.loaded.eq(states.ongoing("LOADED")), self.strange.eq(states.ongoing("STRANGE")),
                     self.damaged.eq(states.ongoing("DAMAGED"))]
        return m
