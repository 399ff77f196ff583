"""Every property of `properties` is proven, and a component that was broken on purpose is refuted."""

import pytest
from amaranth.hdl import Module, Signal

from fbnn_hw.rtl.learning.sign_update import SignUpdate
from tests.formal import properties
from tests.formal.prove import Refuted, prove


@pytest.mark.parametrize("name", properties.PROPERTIES)
def test_proof(name, tmp_path):
    prove(properties.PROPERTIES[name](), tmp_path)


class Wrapping(SignUpdate):
    """A counter that wraps round at its end."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.right = right = SignUpdate(self.count, self.bits, self.stored, self.confidence, self.flip)
        inputs = "counters", "values", "keep", "negative", "start", "shipped"
        m.d.comb += [getattr(right, name).eq(getattr(self, name)) for name in inputs]
        m.d.comb += [self.updated.eq(right.updated), self.weights.eq(right.weights)]
        with m.If((self.counters == right.updated) & self.keep.all() & ~self.start):
            m.d.comb += self.updated.eq(~right.updated)
        return m


def test_a_broken_component(tmp_path, monkeypatch):
    monkeypatch.setattr(properties, "SignUpdate", Wrapping)
    with pytest.raises(Refuted):
        prove(properties.sign_update(4, 4, 7, False), tmp_path)


@pytest.mark.parametrize("name", ["popcount_5", "encoder_trgb", "argmax", "receiver", "transmitter", "registers", "sample_copies", "bank",
                                  "classes_fullest", "classes_add"])
def test_a_wrong_definition(name, tmp_path, monkeypatch):
    """An Assert is reached, and fails where it says the opposite in one clock: no proof is empty."""
    real = properties.Assert
    monkeypatch.setattr(properties, "Assert", lambda condition: real(~condition if isinstance(condition, Signal) else ~(condition != 0)))
    with pytest.raises(Refuted):
        prove(properties.PROPERTIES[name](), tmp_path)
