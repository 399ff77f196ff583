"""Learning on the chip: docs/learner.md; twin: `fbnn_hw.reference.learning`."""
