"""The checks of `fbnn-hw doctor --board NAME`: what builds for the board, what programs it, and how to talk to it."""

import os
import sys
from pathlib import Path

from ..targets.boards import Board
from ._checks import PLATFORMS, Check, Missing, everywhere, output, package, pip, tool

DEVICES = Path("/sys/bus/usb/devices")
NODES = Path("/dev/bus/usb")


def checks(board: Board) -> list[Check]:
    """[`Check`] for a targets.boards.Board."""
    return [*_builders(board), _programmer(board), _usb(board), _serial(board)]


def _builders(board):
    """Place and route, and packing."""
    from ..fpga.toolchain import FLOWS

    flow = FLOWS[board.target]
    if flow.nextpnr is None:
        return [Check("Vivado", f"build, for {board.title}", tool("vivado", flag="-version"),
                      everywhere("install it from amd.com, and put its folder bin on PATH"))]
    name = f"yowasp-nextpnr-{flow.nextpnr}"
    checks = [Check(f"place and route for {board.title}", "build", package(name), pip(name))]
    if flow.packer == "gowin_pack":
        checks.append(Check("packer for Gowin", "build", package("apycula"), pip("apycula")))
    return checks


def _programmer(board):
    """The program that writes bitstream and weights into the board."""
    from ..fpga import programmer

    def probe():
        name = programmer.table(board)["bitstream"][0]
        word = programmer.find(name)
        if word is None:
            raise Missing(f"no {name} on PATH")
        flag = {"openFPGALoader": "--Version", "dfu-util": "--version"}.get(name)
        if flag is None:  # iceprog and icesprog do not tell theirs
            return word
        try:
            return f"{output(word, flag)} ({word})"
        except Missing as lack:
            if library := programmer.LIBRARY.search(f"{lack}:"):
                raise Missing(f"{word} does not start without the library {library[1]}; {programmer.LIBRARIES}") from None
            raise
    ways = {platform: programmer.remedy(board, platform) for platform in PLATFORMS}
    return Check(f"programmer for {board.title}", "flash", probe, ways)


def _usb(board):
    """The board at a USB port, and the right to write to it."""
    from ..fpga import programmer

    def probe():
        if not DEVICES.is_dir():
            raise Missing(f"cannot be seen on this system; the board is USB {board.usb}")
        for node in attached(board):
            if not os.access(node, os.R_OK | os.W_OK):
                raise Missing(f"USB {board.usb} is {node}, which you may not write to")
            return f"USB {board.usb} is {node}, which you may write to"
        raise Missing(f"no USB device {board.usb}")
    plug = "plug the board in"
    rights = f"{plug}; if it is, {programmer.rule(board)}; then plug it in again"
    return Check("board at USB", "flash", probe, {"debian": rights, "fedora": rights, "macos": plug, "windows": f"{plug}; "
                 "in WSL: usbipd attach --wsl --busid ID, of usbipd list"}, needed=False)


def attached(board: Board) -> list[Path]:
    """The nodes of USB devices that call themselves as the board does, where the system shows them."""
    nodes = []
    for device in sorted(DEVICES.iterdir()) if DEVICES.is_dir() else ():
        if _words(device, "idVendor", "idProduct") == board.usb.split(":"):
            bus, number = _words(device, "busnum", "devnum")
            nodes.append(NODES / f"{int(bus):03}" / f"{int(number):03}")
    return nodes


def _words(device, *names):
    """The contents of files of a device in /sys; None for one that is not there."""
    return [(device / name).read_text().strip() if (device / name).is_file() else None for name in names]


def _serial(board):
    """The serial ports of USB devices by name, and the right to open them."""
    from ..link import transport

    def probe():
        ports = [port for port in transport.ports() if port.usb]
        if not ports:
            raise Missing(f"none; {board.title} usually has {board.console}")
        closed = [port.path for port in ports if sys.platform == "linux" and not os.access(port.path, os.R_OK | os.W_OK)]
        if closed:
            raise Missing(f"{', '.join(closed)}: you may not open {'them' if len(closed) > 1 else 'it'}")
        return f"{', '.join(map(str, ports))}; {board.title} usually has {board.console}; --port auto finds it"
    group = "plug the board in; if it is: sudo usermod -aG dialout $USER, then log in again"
    return Check("serial ports", "classify, learn", probe, {
        "debian": group, "fedora": group, "macos": "plug the board in; then see ls /dev/cu.usbserial*",
        "windows": "plug the board in; in WSL: usbipd attach --wsl --busid ID, of usbipd list"}, needed=False)
