"""A serial port, by what POSIX offers."""

import errno
import os
import select
import time

from ..errors import InputError, ToolError

DEFAULT_BAUD = 1_000_000
DISCARD_S = 0.2


class Serial:
    """A port such as /dev/ttyUSB1: 8 bits, no parity, one stop bit, no flow control.

    Raises InputError if it cannot be opened or the speed cannot be set, ToolError where there is no termios.
    """

    def __init__(self, path, baud=DEFAULT_BAUD):
        try:
            import fcntl
            import termios
        except ImportError:
            raise ToolError("serial ports need a POSIX system, such as Linux, macOS or WSL") from None
        self.path = str(path)
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise InputError(f"--baud {baud}: this system has no such speed, expected one such as 115200, 1000000 or 3000000")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"{self.path}: {_remedy(error)}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise InputError(f"{self.path}: another program has it open; close that one") from None
        try:
            iflag, oflag, lflag = 0, 0, 0
            cflag = termios.CS8 | termios.CREAD | termios.CLOCAL
            chars = termios.tcgetattr(self._file)[6]
            chars[termios.VMIN], chars[termios.VTIME] = 0, 0
            termios.tcsetattr(self._file, termios.TCSANOW, [iflag, oflag, cflag, lflag, speed, speed, chars])
            termios.tcflush(self._file, termios.TCIOFLUSH)
        except termios.error as error:
            os.close(self._file)
            raise InputError(f"{self.path}: not a serial port ({error.args[-1]})") from None

    def write(self, data, timeout):
        """All of `data`; InputError if it is not taken within `timeout` seconds or the port is gone."""
        until, data = time.monotonic() + timeout, memoryview(bytes(data))
        while data:
            self._wait(False, until)
            try:
                data = data[os.write(self._file, data):]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone(error) from None

    def read(self, timeout):
        """At least one byte, or b"" after `timeout` seconds; InputError if the port is gone."""
        if not self._wait(True, time.monotonic() + timeout, fail=False):
            return b""
        try:
            data = os.read(self._file, 1 << 16)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._gone(error) from None
        if not data:
            raise self._gone(OSError(errno.EIO, "end of file"))
        return data

    def discard(self):
        """Forget what has come in; a line that never falls silent is left after a while."""
        until = time.monotonic() + DISCARD_S
        while self.read(0) and time.monotonic() < until:
            pass

    def close(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _wait(self, read, until, fail=True):
        files = [self._file]
        ready = select.select(files if read else [], [] if read else files, [], max(0, until - time.monotonic()))
        if not any(ready[:2]) and fail:
            raise InputError(f"{self.path}: takes no more bytes; is another program using the port?")
        return any(ready[:2])

    def _gone(self, error):
        return InputError(f"{self.path}: the connection broke ({error.strerror or error}); plug the board in again")


def _remedy(error):
    if error.errno == errno.ENOENT or error.errno == errno.ENXIO:
        return "no such port; plug the board in, and look for it with ls /dev/ttyUSB* /dev/ttyACM* /dev/cu.*"
    if error.errno == errno.EACCES:
        return "permission denied; sudo usermod -aG dialout $USER, then log in again"
    if error.errno == errno.EBUSY:
        return "another program has it open; close that one"
    return error.strerror
