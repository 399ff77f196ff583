"""The virtual boards of the tests."""

import inspect

from fbnn_hw.simulate.virtual import VirtualBoard


def impatient(patch, bits=12):
    """Let virtual boards end a message after a pause of 2^bits clocks.  patch: a MonkeyPatch."""
    parameters = [one for one in inspect.signature(VirtualBoard).parameters.values() if one.default is not one.empty]
    defaults = tuple(bits if one.name == "timeout_bits" else one.default for one in parameters)
    patch.setattr(VirtualBoard.__init__, "__defaults__", defaults)
