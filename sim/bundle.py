"""Many components side by side in one module, so that one build of a simulator tests them all."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out


class Bundle(wiring.Component):
    """Members of component `name` appear as name__member."""

    def __init__(self, components):
        self._components = components
        super().__init__({name: Out(component.signature) for name, component in components.items()})

    def elaborate(self, platform):
        m = Module()
        for name, component in self._components.items():
            m.submodules[name] = component
            wiring.connect(m, component, wiring.flipped(getattr(self, name)))
        return m
