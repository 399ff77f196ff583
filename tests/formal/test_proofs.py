"""Every property is proven, and of a component that was broken on purpose it is refuted.

FBNN_FORMAL=long: those of LONG too, which go further, and every broken copy, where one of each component is refuted otherwise.
"""

import inspect
import os
import sys

import pytest

from tests.formal import engine, properties, streams, tops
from tests.formal.prove import Refuted, prove

MODULES = {"properties": properties, "engine": engine, "streams": streams, "tops": tops}
PROPERTIES = {name: function for module in MODULES.values() for name, function in module.PROPERTIES.items()}
LONG = properties.LONG | engine.LONG | tops.LONG
EVERYTHING = os.environ.get("FBNN_FORMAL") == "long"


@pytest.mark.parametrize("name", [*PROPERTIES, *(LONG if EVERYTHING else ())])
def test_proof(name, tmp_path):
    prove((PROPERTIES | LONG)[name](), tmp_path)


MUTATIONS = {
    "popcount_sum_9": ("XnorPopcount", "products.eq(~(self.act ^ self.weight))", "products.eq(self.act ^ self.weight)"),
    "encoder_trgb": ("ThermometerEncoder", "(low >= j % 4)", "(low > j % 4)"),
    "encoder_trgb_multiplied": ("ThermometerEncoder", "factor.eq(row[number] %", "factor.eq(row[number - 1] %"),
    "stable_encoder": ("ThermometerEncoder", "words.valid.eq(valid & ends)", "words.valid.eq(valid & ends & self.pixels.valid)"),
    "stable_encoder_multiplied": ("ThermometerEncoder", "passed.eq((added == 3) & (~summed | done))", "passed.eq(added == 3)"),
    "sign_update_4": ("SignUpdate", "& (h[-1] != up) if bits > 1", "& (h[-1] == up) if bits > 1"),
    "sign_update_halved": ("SignUpdate", "Cat(h[1:], h[-1]), h)", "Cat(h[1:], h[0]), h)"),
    "argmax": ("Argmax", "larger = (score + rest)[-1]", "larger = (score + rest + 1)[self.width]"),
    "receiver": ("UartReceiver", "Cat(whole, shift).eq(Cat(shift, line))", "Cat(whole, shift).eq(Cat(shift, ~line))"),
    "transmitter": ("UartTransmitter", "count.eq(9)", "count.eq(8)"),
    "registers": ("Registers", "taps.start(self.seed, index)", "taps.start(self.seed + 1, index)"),
    "law_0": ("Registers", "state[0] ^ state[taps.tap]", "state[0] ^ state[taps.tap - 1]"),
    "sample": ("SampleMemory", "place.eq(place + 1)", "place.eq(place)"),
    "sample_copies": ("SampleMemory", "(t * lanes + lane) // copies", "t * lanes // copies"),
    "bank": ("SinglePortMemory", "write.en.eq(self.write_mask & (self", "write.en.eq((self"),
    "classes_fullest": ("ClassTable", "key = Cat(~(at_label & fullest)", "key = Cat(~(at_label & ~fullest)"),
    "classes_least": ("ClassTable", "(key < least)", "(key <= least)"),
    "classes_add": ("ClassTable", "removes.replicate(self.count_bits - 1)", "adds.replicate(self.count_bits - 1)"),
    "byte_planes": ("BitPlanes", "[*incoming[1:], byte]", "[byte, *incoming[:2]]"),
    "array": ("MacArray", "~count[top - 1], ~(count[top]", "count[top - 1], ~(count[top]"),
    "array_starts": ("MacArray", "Mux(begins, start, before) + addend", "Mux(begins, start, before) - addend"),
    "array_shift": ("MacArray", "accumulator << self.shift, accumulator)", "accumulator >> self.shift, accumulator)"),
    "array_start_reads": ("MacArray", "count[top] | (begins & start[top])", "count[top]"),
    "lgap": ("Lgap", "limit = (self.size + 1) // 2", "limit = self.size // 2 + 1"),
    "window_address_4": ("WindowAddress", "self.address + self.row, self.address)", "self.address - self.row, self.address)"),
    "window_align_4": ("WindowAlign", "self.left & (self.kx == 0)", "self.left & (self.kx == 1)"),
    "window_align_blank": ("WindowAlign", "[row | self.blank for", "[row & ~self.blank for"),
    "listed_align_blank": ("ListedAlign", "row & ~self.blank", "row | self.blank"),
    "listed_address_4": ("ListedAddress", "Cat(c < self.x for", "Cat(c <= self.x for"),
    "listed_align_4": ("ListedAlign", "within = inner <= self.valid_columns", "within = inner < self.valid_columns"),
    "loader": ("Loader", "(y[0] * c.columns + column)", "(column * c.columns + y[0])"),
    "drain": ("Drain", "bits = [~self.signs.word_select", "bits = [self.signs.word_select"),
    "drain_slot": ("Drain", "slot.eq(step.slot), tile.eq(0)", "slot.eq(0), tile.eq(0)"),
    "drain_pooled": ("Drain", "pooled = [a | b | c | d for", "pooled = [a | b | c for"),
    "mover_stream": ("WeightMover", "s.space.eq(~s.reserved[full_bit] if", "s.space.eq(s.pc == s.pc if"),
    "mover_mixed": ("WeightMover", "fits & ~s.on_its_way", "fits"),
    "sequencer_start_reads": ("Sequencer", "condition & ~s.blank if", "condition if"),
    "sequencer": ("Sequencer", "(s.kx == 1) & (s.ky == 2)", "(s.kx == 1) & (s.ky == 1)"),
    "slice_stable": ("RegisterSlice", "self.o.ready | ~self.o.valid)", "self.o.ready | ~self.o.valid | full)"),
    "slice_order": ("RegisterSlice", "Mux(full, held, self.i.payload)", "Mux(full, self.i.payload, held)"),
    "packets": ("ImagePackets", "spoiled.eq(~packet.payload.last)", "spoiled.eq(0)"),
    "flash_image": ("FlashImage", "self.good.eq(count[-1])", "self.good.eq(count[-2])"),
    "flash_fifo": ("FlashReader", "(s.phase == 0) & (s.spare != 0)", "(s.phase == 0)"),
    "flash_fifo_late": ("FlashReader", "Mux(s.whole, s.top, s.top - 1)", "Mux(s.whole, s.top + 1, s.top - 1)"),
    "flash_stable": ("FlashReader", "Array(s.fifo)[s.top[:-1]]", "s.fifo[0]"),
    "link_pixels": ("HostLink", "s.late_pixel.eq(s.held | ~self.ready)", "s.late_pixel.eq(~self.ready)"),
    "link_silence": ("HostLink", "Mux(s.strobe, s.bad, s.quiet)", "Mux(s.strobe, s.bad, s.late)"),
    "link_request": ("HostLink", "s.crc[0] ^ bit, protocol", "s.crc[0] | bit, protocol"),
    "learner_logits": ("Learner", "self.logits.payload.last.eq(s.place_last)", "self.logits.payload.last.eq(self.host.valid)"),
    "accelerator_result": ("Accelerator", "self.result.payload.eq(argmax.best)",
                           "self.result.payload.eq(argmax.best ^ self.pixels.valid)"),
    "learner_command": ("Learner", "changes & (self.frozen | ~s.rehearses & ~s.legal)", "changes & ~s.rehearses & ~s.legal"),
    "board_latent": ("BoardTop", "link.result.valid.eq(result.valid & ~link.latent.valid)", "link.result.valid.eq(result.valid)"),
    "wrapper_stable": ("AxiStreamWrapper", 'piece.o.ready.eq(getattr(self, f"{name}_tready"))', "piece.o.ready.eq(1)"),
    "registers_answer": ("RegisterBus", "| ~self.whole | (waited == registers.PATIENCE)", "| ~self.whole"),
    "camera_byte": ("CameraFrontEnd", "total >> 8, total >> 7", "total >> 8, total >> 6"),
    "camera_adds": ("CameraFrontEnd", "value.eq(Cat(s.low[5:], s.high[:3]))", "value.eq(Cat(s.low[4:], s.high[:2]))"),
    "camera_adds_grey": ("CameraFrontEnd", "Mux(first, value,", "Mux(~first, value,"),
    "noise": ("NoiseTable", "gumbel_table(temperature)", "gumbel_table(temperature + 1)"),
}
"""{property: (component, words of its source, what stands there in the broken copy)}.  One does for properties that differ in sizes."""


def broken(component, words, instead):
    """The component with a copy of its module, or of that of a chapter of it, in which `instead` stands in the place of `words`."""
    chapters = {base.__module__: base for base in reversed(component.__mro__) if base.__module__.startswith("fbnn_hw.")}
    sources = {name: inspect.getsource(sys.modules[name]) for name in chapters}
    counts = {name: source.count(words) for name, source in sources.items()}
    assert sum(counts.values()) == 1, f"{component.__name__}: {counts} times {words!r}"
    name = max(counts, key=counts.get)
    module = sys.modules[name]
    copy = {"__name__": name, "__package__": module.__package__, "__file__": module.__file__}
    exec(compile(sources[name].replace(words, instead), module.__file__, "exec"), copy)
    changed = copy[chapters[name].__name__]
    return changed if chapters[name] is component else type(component.__name__, (changed, component), {})


FIRST = {component: name for name, (component, *_) in reversed(MUTATIONS.items()) if name in PROPERTIES}.values()
"""One of each component."""


@pytest.mark.parametrize("name", MUTATIONS if EVERYTHING else FIRST)
def test_a_broken_component_is_refuted(name, tmp_path, monkeypatch):
    component, words, instead = MUTATIONS[name]
    module = next(module for module in MODULES.values() if name in module.PROPERTIES | getattr(module, "LONG", {}))
    copy = broken(getattr(module, component), words, instead)
    monkeypatch.setattr(module, component, copy)
    if component == "FlashReader":
        monkeypatch.setattr(module, "Watched", streams.watched(copy))
    with pytest.raises(Refuted):
        prove((PROPERTIES | LONG)[name](), tmp_path)


def test_every_proof_has_a_broken_component():
    def family(name):
        return "_".join(part for part in name.split("_") if not part.isdigit())

    families = {family(name) for name in MUTATIONS}
    assert {family(name) for name in PROPERTIES} - families <= {"classes_remove"}  # its change is that of classes_add
