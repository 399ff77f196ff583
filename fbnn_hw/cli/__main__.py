"""`python -m fbnn_hw.cli`: the same as `python -m fbnn_hw`."""

import runpy

runpy.run_module("fbnn_hw", run_name="__main__")
