"""The hardware: components in Amaranth, each a file, and the Verilog that they become.

A component's docstring has its equation, the twin in Python integers that it is compared with, its
parameters, members, timing and resources.

    from fbnn_hw.rtl.popcount import XnorPopcount
    from fbnn_hw.rtl.verilog import convert

    count = XnorPopcount.compute(act=0b1100, weight=0b1010, width=4)      # 2: the twin
    verilog = convert(XnorPopcount(width=4, registers=1), "popcount")     # the same as hardware

`accelerator.Accelerator` is the whole of it, made from a `machine.config.AcceleratorConfig` alone.
"""
