"""Boards for the tests of the page."""

from fbnn_hw.base.errors import InputError
from fbnn_hw.board.interpreted import InterpretedBoard


class UnreliableBoard(InterpretedBoard):
    """A board at a port.  unplugged: it raises what a port that is gone raises.  deaf: it hears nothing of so many writes to it."""

    unplugged, deaf = False, 0

    def write(self, data, timeout):
        self._plugged()
        if self.deaf:
            self.deaf -= 1
        else:
            super().write(data, timeout)

    def read(self, timeout):
        self._plugged()
        return super().read(timeout)

    def _plugged(self):
        if self.unplugged:
            raise InputError("/dev/board: the connection broke (unplugged); plug the board in again")
