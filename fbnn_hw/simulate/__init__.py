"""What `generate` writes, and what simulates it: the folder (`output`), Verilator (`simulation`), the virtual board (`virtual`)."""
