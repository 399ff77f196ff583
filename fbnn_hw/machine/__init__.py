"""What compiler, hardware, host and tests agree on: the steps of a program (`step`), all that the hardware is built from (`config`),
weights on their way (`transfers`), a learner and its memory (`learner`, `learner_memory`), clocks (`timing`, `cycles`), and the protocol
(`protocol`, `line`).  `interpreter` runs a program.
"""
