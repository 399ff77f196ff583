"""Learning on the chip: docs/on-chip-learning.md; twin: `fbnn_hw.reference.learning`."""
