"""Equal components that are one module of the Verilog."""

from amaranth import ClockSignal, Instance, ResetSignal
from amaranth.lib import wiring


class Shared:
    """The platform of a conversion to Verilog: it collects the components that are modules of their own.

    Amaranth writes a module for each component of a design, also where they are equal, as the popcounts of an array are.

    Parameters
    ----------
    top : str
        Name of the design, with which the names of its modules begin.

    Attributes
    ----------
    components : dict
        {name of the module: component}.
    """

    def __init__(self, top):
        self.top = top
        self.components = {}

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
