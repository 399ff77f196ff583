"""Weights as the files that memories and flashes are filled from."""

from zlib import crc32

import numpy as np

from ..base import bits
from ..compile import schedule
from ..machine.protocol import config_mark
from ..machine.transfers import residents_of


def split(network, program, config, tables=()):
    """Return (boot image, frame image) of a streamed network, as bytes.

    tables: rows of a learner's classes, integers; they begin the boot image.
    """
    by_layer = schedule.weight_words(network, program)
    words = np.concatenate([by_layer[layer.name] for layer in program.fetched()])
    sources = np.concatenate([residents_of(transfer) for transfer in config.transfers if not transfer.after])
    resident, streamed = words[sources], words[~sources]
    resident, late = np.split(resident, [config.resident_rows // config.rows_per_word])
    parts = []
    for transfer in config.transfers:
        source = late if transfer.after else streamed
        parts.append(source[:transfer.streamed])
        if transfer.after:
            late = late[transfer.words:]
        else:
            streamed = streamed[transfer.streamed:]
    first = b"".join(row.to_bytes(config.row_bits // 8, "little") for row in tables)
    return first + bits.pack(resident).tobytes(), bits.pack(np.concatenate(parts)).tobytes()


def memory(network, program, shipped=None):
    """All weight words as a text for $readmemh, one word a line, highest digit first.

    shipped: bits of the weights that a learner starts with; they follow all others.
    """
    return "".join(row[::-1].tobytes().hex() + "\n" for row in _packed(network, program, shipped))


def loadable(network, program, config, shipped=None):
    """A weight file, bytes: what `rtl.weight_file` takes after a reset.  shipped: as of `memory`."""
    file = config_mark(config.id) + _packed(network, program, shipped).tobytes()
    return file + crc32(file).to_bytes(4, "little")


def _packed(network, program, shipped):
    """All weight words, uint8 (words, bytes), the lowest byte first."""
    words = np.concatenate(list(schedule.weight_words(network, program).values()))
    if shipped is not None:
        words = np.concatenate([words, np.pad(shipped.reshape(-1), (0, -shipped.size % words.shape[1])).reshape(-1, words.shape[1])])
    return np.packbits(words, axis=1, bitorder="little")
