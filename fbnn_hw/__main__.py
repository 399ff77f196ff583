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
"""The process ends where an import takes longer after an interrupt."""


def command():
    """Run the command line.  Ctrl-C while it is imported ends it as Ctrl-C during its work does: one line, exit code 130.

    So do `kill` and a terminal that is closed: what it has started, such as a compiler, would go on without it.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in numbers if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL]  # nohup ignores one
    for number in heard:
        signal.signal(number, _end)
    from .cli import command as run

    interrupt = _Interrupt()
    unraisable = sys.unraisablehook

    def tell(lost):
        if lost.exc_type is KeyboardInterrupt:
            interrupt.dropped(sys._getframe(1))
        else:
            unraisable(lost)

    sys.unraisablehook = tell

    def ready(answer):
        interrupt.answer = answer
        for number in heard:
            signal.signal(number, interrupt.hear)
        return interrupt.answered

    run(ready)


class _Interrupt:
    """A KeyboardInterrupt that is not lost.

    Python raises one wherever it is at work.  In an import, C code may abort the process for it or make another error of it; a `hasattr`
    in C and the callback of a weak reference drop it.  So an interrupt waits for the end of an import, and comes again till it is answered.
    """

    def __init__(self):
        self.main = _thread.get_ident()
        self.since = None  # time.monotonic of the first
        self.done = False
        self.answer = None  # called for the line on stderr and the text on stdout that answer where the process must end at once

    def answered(self):
        """Call when the line that answers has been printed: nothing is raised from now on."""
        self.done = True

    def hear(self, number, frame):
        """The handler of a signal."""
        if self.done:
            return
        first = self.since is None
        self.since = self.since or time.monotonic()
        importer = _importer(frame)
        if importer and time.monotonic() > self.since + LONGEST_IMPORT_S:
            line, text = self.answer()
            _end(line=line, text=text)
        _thread.start_new_thread(self._again, (number,))
        if importer:
            self._raise_in(importer, number)
        elif first or not _is_handled():
            signal.default_int_handler(number, frame)

    def dropped(self, frame):
        """Call when one was raised where nothing can be, such as in a generator that is thrown away, during the work of `frame`."""
        if not _is_handled():
            self._raise_in(frame, signal.SIGINT)

    def _raise_in(self, frame, number):
        """Raise as soon as a frame is at work again."""
        def trace(*_):
            sys.settrace(None)
            if not self.done:
                signal.default_int_handler(number, frame)

        frame.f_trace_opcodes, frame.f_trace = True, trace
        sys.settrace(lambda *_: None)

    def _again(self, number):
        time.sleep(AGAIN_S)
        if self.done:
            return
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self.main, number)  # wakes it where it waits
        else:
            _thread.interrupt_main(number)


def _importer(frame):
    """The frame that waits for an import, the outermost one, or None where no module is being imported."""
    importer = None
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importer = frame.f_back
        frame = frame.f_back
    return importer


def _is_handled():
    """Whether an `except` or `finally` that met a KeyboardInterrupt is at work."""
    error = sys.exc_info()[1]
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _end(*_, line="fbnn-hw: interrupted; nothing was written", text=""):
    os.write(2, line.encode(errors="backslashreplace") + b"\n")
    if text:
        with suppress(OSError):  # stdout may be closed
            os.write(1, text.encode())
    os._exit(130)


if __name__ == "__main__":
    command()
