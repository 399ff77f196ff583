"""Unpacker of levels: bytes in, the levels of pixels out."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .signals import unnamed

BYTE_BITS = 8


class LevelUnpacker(wiring.Component):
    """The levels that `fbnn_hw.reference.encode.packed` puts into the bytes of an image, one after the other.

    A level begins somewhere in a byte and ends in the same one or in the next.  So the last byte taken is held; `left` of its bits
    belong to no level yet, and they and the next byte are shifted to the level's place.

    Twin: `fbnn_hw.reference.encode.unpacked`.

    Parameters: `sizes`, bits of the level of each plane, 1 to 7.

    Timing: A level a clock while bytes are there and levels are taken, the first one a clock after its byte.
    After `end` a clock more.  `levels.valid` and `levels.payload` are registers; `pixels.ready`
    depends on `levels.ready` and `end`.
    """

    def __init__(self, sizes):
        self.sizes = tuple(sizes)
        super().__init__({
            "pixels": In(stream.Signature(BYTE_BITS)),  # the bytes of images
            "levels": Out(stream.Signature(max(self.sizes))),  # the level of each plane of a pixel, pixels in raster order
            # 1 in the clock in which the last level of an image is taken: the bits that fill the image's last byte are dropped.  May stay 0
            # where the images have whole bytes.
            "end": In(1)})

    def elaborate(self, platform):
        m = Module()
        pixels, levels = self.pixels, self.levels
        held = Signal(BYTE_BITS)  # the last byte taken
        left = Signal(range(BYTE_BITS))  # its upper bits that belong to no level yet
        plane = Signal(range(len(self.sizes)))  # of the next level
        size = Signal(range(BYTE_BITS))  # bits of that level
        short = unnamed()  # it needs the next byte
        free = unnamed()  # there is room for it
        formed = unnamed()  # it is there
        window = Cat(held[1:], pixels.payload) >> ~left
        level = unnamed(max(self.sizes))
        with m.Switch(plane):
            for number, count in enumerate(self.sizes):
                with m.Case(number):
                    m.d.comb += [size.eq(count), level.eq(window[:count])]
        m.d.comb += [
            short.eq(left < size), free.eq((~levels.valid | levels.ready) & ~self.end), pixels.ready.eq(free & short),
            formed.eq(free & (~short | pixels.valid))]
        with m.If(levels.ready):
            m.d.sync += levels.valid.eq(0)
        with m.If(formed):
            m.d.sync += [levels.valid.eq(1), levels.payload.eq(level), left.eq(left - size), plane.eq(plane + 1)]
            with m.If(plane == len(self.sizes) - 1):
                m.d.sync += plane.eq(0)
            with m.If(short):
                m.d.sync += held.eq(pixels.payload)
        with m.If(self.end):
            m.d.sync += left.eq(0)
        return m
