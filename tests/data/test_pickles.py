"""What a pickle may do to the reader: nothing but fail with one short line."""

import pickle
import struct
import subprocess
import sys

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.data import pickles

DICT, MEMO = b"\x80\x02}", b"r"  # LONG_BINPUT
MEMORY = """
import resource, sys
from fbnn_hw.data import pickles
from fbnn_hw.base.errors import InputError
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    pickles.loads(bytes.fromhex(sys.argv[1]), "a")
except InputError as error:
    print(error)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024)
"""


@pytest.mark.parametrize("data", [DICT + MEMO + struct.pack("<I", 1 << 27) + b".", b"\x80\x05\x96" + struct.pack("<Q", 1 << 30) + b".",
                                  b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"."])
def test_numbers_in_a_pickle_take_no_memory(data):
    answer = subprocess.run([sys.executable, "-c", MEMORY, data.hex()], capture_output=True, text=True, check=True).stdout
    assert int(answer.split()[-1]) < 200, answer


@pytest.mark.parametrize("data, reason", [
    (b"c" + b"m" * 9_000 + b"\nname\n.", "('it asks for mmmm"), (b"cposix\n\x1b[2J\n.", "('it asks for posix.\\x1b[2J')"),
    (b"c_codecs\nencode\n}b.", "(a state of what is no array)"), (pickle.dumps(bytearray(5), 5), "("),
    (b"cnumpy\ndtype\n(U" + b"\x09" + b"x" * 9 + b"tR.", "(it holds _Dtype)")])
def test_one_short_line(data, reason):
    for read in (pickles.loads, pickles.texts):
        with pytest.raises(InputError) as error:
            read(data, "a.pkl")
        line = str(error.value)
        assert line.isprintable() and len(line) < 220 and f" {reason}" in line, line


def test_a_state_changes_no_function():
    """BUILD on a global would set its attributes, for the next pickle too."""
    state = pickle.dumps((None, {"__defaults__": (1, 2)}), 2)[2:-1]
    with pytest.raises(InputError):
        pickles.loads(b"\x80\x02}(U\x01ac_codecs\nencode\n" + state + b"bu.", "a.pkl")
    assert pickles.ALLOWED["_codecs", "encode"].__defaults__ is None
