"""A program: the command line, with an interrupt at every nth call of a Python function.  python calls.py STEP FIRST [argument...]

At such a call a copy of the process, made by fork, gets SIGINT and must end with code 130 and its one line; the process itself goes on.
Unlike a moment of time, this finds the places where code swallows a KeyboardInterrupt or makes another error of it.  The last line of
stdout is the number of interrupts; a line before it, each that was answered otherwise, with the stack of its place.
"""

import os
import signal
import sys
import tempfile
import traceback

from fbnn_hw.__main__ import command

LONGEST_S = 20
"""A copy that does not end is killed then."""


def main():
    step, first = map(int, sys.argv[1:3])
    sys.argv = ["fbnn-hw", *sys.argv[3:]]
    process, count, sent, said = os.getpid(), 0, 0, os.dup(1)

    def called(frame, event, _):
        nonlocal count, sent
        if event != "call" or signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, signal.SIG_IGN):  # before it hears, or at its end
            return
        count += 1
        if count % step != first:
            return
        sent += 1
        with tempfile.TemporaryFile() as output:
            pid = os.fork()
            if pid == 0:
                sys.setprofile(None)
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                signal.alarm(LONGEST_S)
                signal.raise_signal(signal.SIGINT)
                return
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            output.seek(0)
            text = output.read().decode()
        lines = text.splitlines()
        if code != 130 or not lines or ": interrupted" not in lines[-1] or "Traceback" in text:
            place = " < ".join(f"{f.name} {os.path.basename(f.filename)}:{f.lineno}" for f in reversed(traceback.extract_stack(frame)[-6:]))
            os.write(said, f"call {count}, {place}: exit code {code}, {text[-300:]!r}\n".encode())

    sys.setprofile(called)
    try:
        command()
    finally:
        sys.setprofile(None)
        if os.getpid() == process:
            os.write(said, f"{sent}\n".encode())


if __name__ == "__main__":
    main()
