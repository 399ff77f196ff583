"""Serial ports: on a pseudo-terminal, and what pyserial says on Windows and macOS, faked."""

import os
import pty
import socket
import sys
import threading
import time
import tty
from types import SimpleNamespace

import pytest
import serial

from fbnn_hw.base.errors import InputError
from fbnn_hw.link import transport
from fbnn_hw.link.transport import Port, Serial


@pytest.fixture
def line():
    """(master's file, path of a port)."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


def usb(device, ids=(0x0403, 0x6010), serial_number="FT1", location="1-1:1.0", product="iCEBreaker V1.0e", description="n/a"):
    """What pyserial lists."""
    return SimpleNamespace(device=device, vid=ids[0], pid=ids[1], serial_number=serial_number, location=location, product=product,
                           description=description)


def listed(monkeypatch, *infos):
    monkeypatch.setattr(transport.list_ports, "comports", lambda: list(infos))


@pytest.mark.parametrize("baud", [9600, 115200, 1_000_000, 3_000_000, 12_000_000, 1_234_567])
def test_bytes_go_both_ways_at_any_speed(line, baud):
    master, path = line
    every = bytes(range(256))
    with Serial(path, baud) as port:
        port.write(every, 1)
        assert os.read(master, 1000) == every
        os.write(master, every)
        answer = b""
        while len(answer) < 256:
            answer += port.read(1) or pytest.fail("nothing came")
        assert answer == every and port.read(0) == b""
        start = time.monotonic()
        assert port.read(0.3) == b"" and 0.25 < time.monotonic() - start < 2


def test_a_read_ends_when_a_byte_comes(line):
    master, path = line
    with Serial(path) as port:
        threading.Timer(0.2, os.write, (master, b"xyz")).start()
        start = time.monotonic()
        assert port.read(60)[:1] == b"x" and time.monotonic() - start < 5


def test_a_port_is_held_by_one(line):
    with Serial(line[1]):
        with pytest.raises(InputError) as error:
            Serial(line[1])
        assert str(error.value) == f"{line[1]}: another program has it open; close that one"
    port = Serial(line[1])
    port.close()
    port.close()


def test_ports_that_are_none(tmp_path, monkeypatch):
    listed(monkeypatch, usb("/dev/ttyUSB1"))
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    for name, message in (
            ("none", "no such port; plug the board in; the ports are /dev/ttyUSB1 (0403:6010 iCEBreaker V1.0e FT1)"),
            ("file", "not a serial port (Inappropriate ioctl for device)"), ("fifo", "not a serial port (Inappropriate ioctl for device)"),
            (".", f"not a serial port (Is a directory: '{tmp_path}')")):
        with pytest.raises(InputError) as error:
            Serial(tmp_path / name, 115200)
        assert str(error.value) == f"{tmp_path / name}: {message}"


def test_a_port_of_the_network():
    every = bytes(range(256)) * 50
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"socket://127.0.0.1:{server.getsockname()[1]}"
        with Serial(url) as port:
            other, _ = server.accept()
            with other:
                port.write(every, 300)
                heard = b""
                while len(heard) < len(every):
                    heard += other.recv(4096)
                other.sendall(every)
                answer = b""
                while len(answer) < len(every):
                    answer += port.read(5) or pytest.fail("nothing came")
                assert heard == answer == every and port.read(0.2) == b""
                other.sendall(b"late")
                port.discard()
                assert port.read(0) == b""
            with pytest.raises(InputError) as error:
                port.read(5)
            assert str(error.value) == f"{url}: the connection broke (read failed: socket disconnected); plug the board in again"
    with pytest.raises(InputError) as error:
        Serial(url)
    assert str(error.value) == f"{url}: no connection (Connection refused), expected socket://HOST:PORT where a board answers"
    with pytest.raises(InputError, match="^socket://127.0.0.1: expected socket://HOST:PORT with the number of a port$"):
        Serial("socket://127.0.0.1")
    with pytest.raises(InputError, match=r"^socket://nowhere:1: no connection \(.*\), expected socket://HOST:PORT where "
                                         "a board answers$"):
        Serial("socket://nowhere:1")


@pytest.mark.parametrize("baud", [0, -1, 10 ** 12])
def test_speeds_that_are_none(line, baud):
    with pytest.raises(InputError) as error:
        Serial(line[1], baud)
    where = f"{line[1]} has " if baud > 0 else ""
    assert str(error.value) == f"--baud {baud}: {where}no such speed, expected one such as 115200, 1000000 or 3000000"


@pytest.mark.parametrize("platform, error, message", [
    ("win32", serial.SerialException("could not open port 'COM4': FileNotFoundError(2, 'The system cannot find the file specified.', "
                                     "None, 2)"), "COM4: no such port; plug the board in; the ports are none"),
    ("win32", serial.SerialException("could not open port 'COM4': PermissionError(13, 'Access is denied.', None, 5)"),
     "COM4: another program has it open; close that one"),
    ("win32", serial.SerialException("Cannot configure port, something went wrong. Original message: OSError(22, 'The parameter is "
                                     "incorrect.', None, 87)"), "COM4: not a serial port (The parameter is incorrect)"),
    ("darwin", ValueError("Failed to set custom baud rate (1000000): [Errno 25] Inappropriate ioctl for device"),
     "--baud 1000000: COM4 has no such speed, expected one such as 115200, 1000000 or 3000000"),
    ("darwin", serial.SerialException(16, "could not open port COM4: [Errno 16] Resource busy: 'COM4'"),
     "COM4: another program has it open; close that one"),
    ("darwin", serial.SerialException(13, "could not open port COM4: [Errno 13] Permission denied: 'COM4'"), "COM4: permission denied"),
    ("linux", serial.SerialException(13, "could not open port COM4: [Errno 13] Permission denied: 'COM4'"),
     "COM4: permission denied; sudo usermod -aG dialout $USER, then log in again")])
def test_what_pyserial_says_on_other_systems(monkeypatch, platform, error, message):
    def refuse(*words, **settings):
        assert words == ("COM4", 1_000_000) and settings["exclusive"] is True
        raise error
    listed(monkeypatch)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(transport.serial, "Serial", refuse)
    with pytest.raises(InputError) as raised:
        Serial("COM4", 1_000_000)
    assert str(raised.value) == message


class WindowsPort:
    """pyserial's port on Windows: a read waits for `timeout`, a write that is not taken raises; an unplugged one raises."""

    def __init__(self, path, baud, timeout, write_timeout, exclusive):
        self.timeout, self.write_timeout, self.incoming, self.written, self.gone = timeout, write_timeout, b"", b"", False

    @property
    def in_waiting(self):
        if self.gone:
            raise serial.SerialException("ClearCommError failed (PermissionError(13, 'The device does not recognize the command.', "
                                         "None, 22))")
        return len(self.incoming)

    def read(self, size):
        if len(self.incoming) < size:
            time.sleep(self.timeout)
        data, self.incoming = self.incoming[:size], self.incoming[size:]
        return data

    def write(self, data):
        if self.gone:
            raise serial.SerialException("WriteFile failed (PermissionError(13, 'Access is denied.', None, 5))")
        if len(data) > 1000:
            raise serial.SerialTimeoutException("Write timeout")
        self.written += data
        return len(data)

    def close(self):
        pass


def test_a_port_of_windows(monkeypatch):
    monkeypatch.setattr(transport.serial, "Serial", WindowsPort)
    with Serial("COM4") as port:
        port.write(b"abc", 300)
        assert port._port.written == b"abc" and port._port.write_timeout == 300
        port._port.incoming = b"xyz"
        assert port.read(5) == b"xyz" and port.read(0.2) == b""
        port._port.incoming = b"late"
        port.discard()
        with pytest.raises(InputError) as error:
            port.write(bytes(2000), 1)
        assert str(error.value) == "COM4: takes no more bytes; is another program using the port?"
        port._port.gone = True
        for call, reason in ((lambda: port.read(1), "The device does not recognize the command"),
                             (lambda: port.write(b"x", 1), "Access is denied")):
            with pytest.raises(InputError) as error:
                call()
            assert str(error.value) == f"COM4: the connection broke ({reason}); plug the board in again"


def test_ports_are_listed_with_their_usb_names(monkeypatch):
    listed(monkeypatch, usb("/dev/ttyUSB10", location="1-1:1.1"), usb("/dev/ttyUSB9"),
           usb("/dev/ttyS0", (None, None), None, None, None), usb("/dev/ttyACM0", (0x1209, 0x5AF0), "\x1b[2J1", "2-1", None, "Orange" * 20))
    assert [(port.path, port.usb, port.serial_number, port.product, port.location) for port in transport.ports()] == [
        ("/dev/ttyACM0", "1209:5af0", "[2J1", ("Orange" * 20)[:60], "2-1"), ("/dev/ttyS0", "", "", "", ""),
        ("/dev/ttyUSB9", "0403:6010", "FT1", "iCEBreaker V1.0e", "1-1"),
        ("/dev/ttyUSB10", "0403:6010", "FT1", "iCEBreaker V1.0e", "1-1")]
    assert str(Port("/dev/ttyS0")) == "/dev/ttyS0"


@pytest.mark.parametrize("platform, infos", [
    ("linux", (usb("/dev/ttyUSB9"), usb("/dev/ttyUSB10", location="1-1:1.1"))),
    ("darwin", (usb("/dev/cu.usbserial-FT10", location="20-1"), usb("/dev/cu.usbserial-FT11", location="20-1"))),
    ("win32", (usb("COM9", serial_number="FT1A", location=None, product=None, description="USB Serial Port (COM9)"),
               usb("COM10", serial_number="FT1B", location=None, product=None, description="USB Serial Port (COM10)")))])
def test_the_port_of_a_board_is_chosen(monkeypatch, platform, infos):
    monkeypatch.setattr(sys, "platform", platform)
    listed(monkeypatch, *infos, usb("/dev/ttyACM0", (0x1209, 0x5AF0), "7", "2-1"))
    assert transport.automatic({"0403:6010": -1}) == infos[1].device
    assert transport.automatic({"0403:6010": 0}) == infos[0].device
    assert transport.automatic({"1209:5AF0": 1}) == "/dev/ttyACM0"


def test_a_board_is_not_guessed(monkeypatch):
    first, second = usb("/dev/ttyUSB0"), usb("/dev/ttyUSB2", serial_number="FT2", location="1-2:1.0")
    listed(monkeypatch, first, second)
    with pytest.raises(InputError) as error:
        transport.automatic({"0403:6010": -1})
    assert str(error.value) == (
        "--port auto: 2 boards are plugged in, expected one; name one of /dev/ttyUSB0 (0403:6010 iCEBreaker V1.0e FT1), "
        "/dev/ttyUSB2 (0403:6010 iCEBreaker V1.0e FT2)")
    with pytest.raises(InputError) as error:
        transport.automatic({"1d50:602b": -1, "0403:6015": -1})
    assert str(error.value) == (
        "--port auto: no port of USB 1d50:602b or 0403:6015, expected a board that is plugged in; the ports are "
        "/dev/ttyUSB0 (0403:6010 iCEBreaker V1.0e FT1), /dev/ttyUSB2 (0403:6010 iCEBreaker V1.0e FT2)")
    listed(monkeypatch)
    with pytest.raises(InputError) as error:
        transport.automatic({"0403:6015": -1})
    assert str(error.value) == "--port auto: no port of USB 0403:6015, expected a board that is plugged in; the ports are none"
