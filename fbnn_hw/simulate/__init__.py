"""What runs a design: Verilator (`simulation`, `simulator`), its netlist (`netlist`), the virtual board (`virtual`), energy, WebAssembly."""
