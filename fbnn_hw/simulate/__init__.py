"""What runs a design: Verilator (`simulation`, `simulator`), netlists (`netlist`), the virtual board (`virtual`), energy, WebAssembly."""
