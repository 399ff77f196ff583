"""Fully-binary neural networks, from PyTorch to Verilog that gives the same bits."""

__version__ = "0.1.0"
