"""Equal components: as one module of the Verilog, and as registers that stay several."""

from dataclasses import dataclass, field
from functools import partial

from amaranth import ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


@dataclass
class Shared:
    """The platform of a conversion to Verilog: it collects the components that are modules of their own.

    Amaranth writes a module for each component of a design, also where they are equal, as the popcounts of an array are.
    """

    top: str  # name of the design, with which the names of its modules begin
    components: dict = field(default_factory=dict)  # {name of the module: component}


def add(m, platform, submodule, name, make):
    """Add a component that `make` gives to `m`, as `submodule`; return what has its members.  It has registers.

    name: of its module in the Verilog.  It says the component's parameters, since all components of that name are one module.
    """
    if not isinstance(platform, Shared):
        m.submodules[submodule] = component = make()
        return component
    name = f"{platform.top}.{name}"
    if name not in platform.components:
        platform.components[name] = make()
    signature = platform.components[name].signature
    interface = signature.create()
    ports = {f"{'i' if member.flow is wiring.In else 'o'}_{port}": getattr(interface, port) for port, member in signature.members.items()}
    m.submodules[submodule] = Instance(name, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
    return interface


class Copy(wiring.Component):
    """A register without reset that synthesis does not merge with equal ones.

    `fpga.toolchain` keeps these modules apart.  A merged register would drive long wires to all
    popcounts.

    Parameters: `width`, its bits.

    Timing: One clock.
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
