"""`python -m fbnn_hw`, where the command is not on PATH."""

from .cli import command

command()
