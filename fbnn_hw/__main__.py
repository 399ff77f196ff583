"""The program: the command `fbnn-hw`, and `python -m fbnn_hw` where that is not on PATH."""

import os
import signal


def command():
    """Run the command line.  Ctrl-C while it is imported ends it as Ctrl-C during its work does: one line, exit code 130.

    So do `kill` and a terminal that is closed: what it has started, such as a compiler, would go on without it.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in numbers if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL]  # nohup ignores one
    for number in heard:
        signal.signal(number, _interrupted)
    from .cli import command as run

    def ready():
        for number in heard:
            signal.signal(number, _interrupt)

    run(ready)


def _interrupt(number, frame):
    """Raise KeyboardInterrupt, but not inside an import that makes something else of it.

    torch's C++ aborts the process where an exception comes from Python; numpy raises ImportError and advises to install it again.
    """
    if _imports(frame):
        _interrupted()
    signal.default_int_handler(number, frame)


def _imports(frame):
    """Whether numpy, or a part of torch, is being imported."""
    while frame:
        name = frame.f_locals.get("name", "") if frame.f_code.co_name == "_find_and_load" else ""
        if name == "numpy" or name.partition(".")[0] == "torch":
            return True
        frame = frame.f_back
    return False


def _interrupted(*_):
    os.write(2, b"fbnn-hw: interrupted; nothing was written\n")
    os._exit(130)


if __name__ == "__main__":
    command()
