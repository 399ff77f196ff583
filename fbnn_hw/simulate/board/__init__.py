"""Verilog and C++ of the virtual board: see `fbnn_hw.simulate.virtual`."""
