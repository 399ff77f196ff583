"""C++ and headers that turn a verilated board into a WebAssembly module, for the target wasm32-wasi."""
