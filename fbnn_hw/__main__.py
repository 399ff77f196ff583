"""The program: the command `fbnn-hw`, and `python -m fbnn_hw` where that is not on PATH."""

import _thread
import os
import signal
import sys
import time
from contextlib import suppress

AGAIN_S = 0.05
"""An interrupt comes again so soon, until it is answered."""
LONGEST_IMPORT_S = 0.5
"""The process ends where imports take longer after an interrupt."""


def command():
    """Run the command line.  Ctrl-C while it is imported ends it as Ctrl-C during its work does: one line, exit code 130.

    So do `kill` and a terminal that is closed: what it has started, such as a compiler, would go on without it.
    """
    interrupt = _Interrupt()
    for number in (getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)):
        if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores one
            signal.signal(number, interrupt.hear)
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda lost: lost.exc_type is KeyboardInterrupt or unraisable(lost)
    from .cli import command as run

    run(interrupt)


class _Interrupt:
    """A KeyboardInterrupt that is not lost.

    Python raises one wherever it is at work.  In an import, C code may abort the process for it or make another error of it; a `hasattr`
    in C and the callback of a weak reference drop it.  So none is raised in an import, and it comes again till it is answered.

    answer: gives the line on stderr and the text on stdout where the process must end at once; None while the command is imported.
    """

    answer = None
    since, done = None, False  # time.monotonic of the first; whether the line that answers has been printed

    def hear(self, number, frame):
        """The handler of a signal."""
        if self.done:
            return
        self.since = self.since or time.monotonic()
        imports = _imports(frame)
        if not self.answer or imports and time.monotonic() > self.since + LONGEST_IMPORT_S:
            _end(*(self.answer() if self.answer else ("fbnn-hw: interrupted; nothing was written", "")))
        _thread.start_new_thread(self._again, (_thread.get_ident(), number))
        if not imports:
            self.check()

    def check(self):
        """Raise a KeyboardInterrupt where one was heard and has no answer, and no `except` or `finally` that met one is at work."""
        error = sys.exc_info()[1]
        while error and not isinstance(error, KeyboardInterrupt):
            error = error.__context__
        if self.since and not self.done and error is None:
            raise KeyboardInterrupt

    def answered(self):
        """Call when the line that answers has been printed: nothing is raised from now on."""
        self.done = True

    def _again(self, main, number):
        time.sleep(AGAIN_S)
        if self.done:
            return
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, number)  # wakes it where it waits
        else:
            _thread.interrupt_main(number)


def _imports(frame):
    """Whether a frame, or one that called it, waits for an import."""
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _end(line, text):
    os.write(2, line.encode(errors="backslashreplace") + b"\n")
    with suppress(OSError):  # stdout may be closed
        os.write(1, text.encode())
    os._exit(130)


if __name__ == "__main__":
    command()
