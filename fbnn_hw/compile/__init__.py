"""From a network to the configuration of its hardware: sums, places in memory, program, weights.

    from fbnn_hw.compile.plan import plan
    from fbnn_hw.targets import target

    planned = plan(network, target("ice40"))         # raises errors.FitError where it does not fit

    config = planned.config                          # all that `rtl` is made from
    cycles = planned.frame.total                     # of a frame, as a simulation counts them
"""
