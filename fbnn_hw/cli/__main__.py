"""`python -m fbnn_hw.cli`, where the command is not on PATH."""

from . import command

command()
