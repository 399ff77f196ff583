"""Bitstream and flash image into a board, with the program that the board wants."""

import re
import shutil
import subprocess
import sys

from ..errors import ToolError

GET = {
    "iceprog": "sudo apt-get install -y fpga-icestorm", "icesprog": "build it from github.com/wuxx/icesugar, tools/",
    "openFPGALoader": "sudo apt-get install -y openfpgaloader", "dfu-util": "sudo apt-get install -y dfu-util"}
"""How to get a program on Debian."""
DENIED = re.compile(r"permission denied|LIBUSB_ERROR_ACCESS|insufficient permissions|operation not permitted|usb_open\(\) failed", re.I)
ABSENT = re.compile(r"can'?t find|no such device|device not found|no dfu capable|unable to open|not found|no cable|fail to open", re.I)


BOTH = "both.bin"
"""Bitstream and flash image in one file, for boards that want it so."""


def both(board, bitstream, weights):
    """The bytes of BOTH: the flash image at its place behind the bitstream, which begins at board.program["start"]."""
    room = board.flash["offset"] - board.program["start"]
    if len(bitstream) > room:
        raise ToolError(f"{board.title}: the bitstream has {len(bitstream):,} bytes, {room:,} fit before the weights")
    return bitstream.ljust(room, b"\xff") + weights


def commands(board, bitstream, weights=None):
    """The command lines for a board, weights first, so that what starts finds them.  bitstream, weights: files; BOTH beside them."""
    values = {"bitstream": str(bitstream), "weights": str(weights), "both": str(bitstream.with_name(BOTH)),
              "offset": f"{board.flash['offset']:#x}"}
    if weights is None:
        parts = ["bitstream"]
    else:
        parts = ["both"] if "both" in board.program else ["weights", "bitstream"]
    return [[word.format(**values) for word in board.program[name]] for name in parts]


def rule(board):
    """What lets users program a board: on Linux a udev rule, as commands."""
    if not sys.platform.startswith("linux"):
        return "run it with sudo"
    vendor, product = board.usb.split(":")
    # icesprog and openFPGALoader's CMSIS-DAP cables speak HID.
    line = f'SUBSYSTEM=="usb|hidraw", ATTRS{{idVendor}}=="{vendor}", ATTRS{{idProduct}}=="{product}", MODE="0666"'
    return f"echo '{line}' | sudo tee /etc/udev/rules.d/99-fbnn-{board.name}.rules && sudo udevadm control --reload && sudo udevadm trigger"


def program(board, lines):
    """Run the command lines; raises ToolError with the remedy."""
    for command in lines:
        name = command[0]
        if shutil.which(name) is None:
            raise ToolError(f"{name}: not found on PATH, {board.title} is programmed with it; {GET[name]}")
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        except OSError as error:
            raise ToolError(f"{name}: does not start ({error.strerror}); {GET[name]}") from None
        if done.returncode == 0:
            continue
        text = " ".join(done.stdout.split()[-40:]) or f"exit code {done.returncode}"
        if DENIED.search(done.stdout):
            raise ToolError(f"{name}: may not open {board.title} (USB {board.usb}); {rule(board)}; then plug it in again")
        if ABSENT.search(done.stdout):
            raise ToolError(f"{name}: found no {board.title} (USB {board.usb}): {text}; plug it in, and see lsusb -d {board.usb}; "
                            f"where it is listed, you may not open it: {rule(board)}")
        raise ToolError(f"{name}: {text}")
