"""From a folder to a board: place and route (`toolchain`, `seeds`), pins, clocks, bitstreams, programmers."""
