"""The parts of the AXI-Stream wrapper, clock by clock against lists."""

from random import Random

import pytest
from amaranth.sim import Simulator

from fbnn_hw.rtl.axi_stream import ImagePackets, RegisterSlice


def simulate(component, testbench):
    simulator = Simulator(component)
    simulator.add_clock(1e-7)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("sends, takes", [(1, 1), (0.5, 1), (1, 0.4), (0.6, 0.6)])
def test_a_slice_keeps_words_and_their_order(sends, takes):
    dut, draw, words, taken = RegisterSlice(8), Random(1), list(range(60)), []

    async def testbench(context):
        sent, held, clocks = 0, None, 0
        while len(taken) < len(words):
            clocks += 1
            assert clocks < 1000
            offered = bool(held) or sent < len(words) and draw.random() < sends  # a sender does not take a word back
            context.set(dut.i.valid, offered)
            context.set(dut.i.payload, words[sent] if offered else 0xAA)
            context.set(dut.o.ready, draw.random() < takes)
            ready = context.get(dut.i.ready)
            if context.get(dut.o.valid) and context.get(dut.o.ready):
                taken.append(context.get(dut.o.payload))
            held = offered and not ready
            sent += bool(offered and ready)
            await context.tick()
        assert (sends, takes) != (1, 1) or clocks == len(words) + 1  # a word a clock

    simulate(dut, testbench)
    assert taken == words


def test_no_path_leads_through_a_slice():
    """What changes at one side is seen at the other only after a clock."""
    dut = RegisterSlice(1)

    async def testbench(context):
        for word in (0, 1, 1, 0):
            before = context.get(dut.i.ready), context.get(dut.o.valid), context.get(dut.o.payload)
            for valid in (0, 1):
                for ready in (0, 1):
                    context.set(dut.i.valid, valid)
                    context.set(dut.i.payload, word)
                    context.set(dut.o.ready, ready)
                    assert (context.get(dut.i.ready), context.get(dut.o.valid), context.get(dut.o.payload)) == before
            await context.tick()

    simulate(dut, testbench)


@pytest.mark.parametrize("images", [1, 3])
def test_packets_of_any_length_become_images(images):
    """Images of 5 bytes; up to `images` of them come before their answers are taken, one perhaps as another ends."""
    dut, draw = ImagePackets(5, images), Random(images)
    packets = [list(range(1, 1 + length)) for length in (5, 1, 5, 6, 5, 17, 4, 5, 5)]
    expected = [(packet + [0] * 5)[:5] for packet in packets]
    words = [(byte, at == len(packet) - 1) for packet in packets for at, byte in enumerate(packet)]
    pixels, flags = [], []

    async def testbench(context):
        sent, clocks = 0, 0
        while len(flags) < len(packets):
            clocks += 1
            assert clocks < 2000
            waiting = len(pixels) // 5 - len(flags)
            answers = waiting > 0 and draw.random() < 0.3
            context.set(dut.packet.valid, sent < len(words) and draw.random() < 0.7)
            if sent < len(words):
                context.set(dut.packet.payload.byte, words[sent][0])
                context.set(dut.packet.payload.last, words[sent][1])
            context.set(dut.pixels.ready, waiting < images and draw.random() < 0.7)
            context.set(dut.answered, answers)
            if answers:
                flags.append(context.get(dut.wrong))
            if context.get(dut.pixels.valid) and context.get(dut.pixels.ready):
                pixels.append(context.get(dut.pixels.payload))
            sent += context.get(dut.packet.valid) and context.get(dut.packet.ready)
            await context.tick()

    simulate(dut, testbench)
    assert pixels == [byte for image in expected for byte in image]
    assert flags == [int(len(packet) != 5) for packet in packets]


def test_an_answer_to_no_image_is_ignored():
    dut = ImagePackets(1)

    async def testbench(context):
        context.set(dut.answered, 1)
        await context.tick().repeat(2)
        context.set(dut.answered, 0)
        context.set(dut.pixels.ready, 1)
        context.set(dut.packet.valid, 1)
        await context.tick()
        assert context.get(dut.wrong) == 1  # a packet that does not end

    simulate(dut, testbench)
