"""Equal components: as one module of the Verilog, and as registers that stay several."""

from functools import partial

from amaranth import ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Shared:
    """The platform of a conversion to Verilog: it collects the components that are modules of their own.

    Amaranth writes a module for each component of a design, also where they are equal, as the popcounts of an array are.
    """

    def __init__(self, top):
        self.top = top  # name of the design, with which the names of its modules begin
        self.components = {}  # {name of the module: component}

    def instance(self, name, make):
        """(instance, interface) of the module `name`.  make: called where there is none yet; it gives a component with registers."""
        name = f"{self.top}.{name}"
        if name not in self.components:
            self.components[name] = make()
        members = self.components[name].signature.members
        interface = self.components[name].signature.create()
        ports = {f"{'i' if members[port].flow is wiring.In else 'o'}_{port}": getattr(interface, port) for port in members}
        return Instance(name, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports), interface


def add(m, platform, submodule, name, make):
    """Add a component that `make` gives to `m`, as `submodule`; return what has its members.

    name: of its module in the Verilog.  It says the component's parameters, since all components of that name are one module.
    """
    if isinstance(platform, Shared):
        m.submodules[submodule], interface = platform.instance(name, make)
        return interface
    m.submodules[submodule] = component = make()
    return component


class Copy(wiring.Component):
    """A register without reset that synthesis does not merge with equal ones.

    `fpga.toolchain` keeps these modules apart.  A merged register would drive long wires to all
    popcounts.

    Parameters
    ----------
    width : int

    Timing
    ------
    One clock.
    """

    def __init__(self, width):
        super().__init__({"source": In(width), "copy": Out(width)})  # what `source` was

    def elaborate(self, platform):
        m = Module()
        copy = Signal(len(self.source), reset_less=True)
        m.d.sync += copy.eq(self.source)
        m.d.comb += self.copy.eq(copy)
        return m


def copy_of(m, platform, submodule, value):
    """Add a `Copy` of a value to `m`, as `submodule`; return what it holds, the value of the clock before."""
    component = add(m, platform, submodule, f"copy_{len(value)}", partial(Copy, len(value)))
    m.d.comb += component.source.eq(value)
    return component.copy
