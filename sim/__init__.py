"""Simulations of the components in Verilator, and the checks that they share with Amaranth's own simulator."""
