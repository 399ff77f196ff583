"""The program: the command `fbnn-hw`, and `python -m fbnn_hw` where that is not on PATH."""

import os
import signal


def command():
    """Run the command line.  Ctrl-C while it is imported ends it as Ctrl-C during its work does: one line, exit code 130."""
    signal.signal(signal.SIGINT, _interrupted)
    from .cli import command as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _interrupted(*_):
    os.write(2, b"fbnn-hw: interrupted; nothing was written\n")
    os._exit(130)


if __name__ == "__main__":
    command()
