"""The server of the page: who may use it, and what it relays."""

import importlib
import io
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from fbnn_hw import cli
from fbnn_hw.base.errors import InputError

pytest.importorskip("uvicorn", reason="pip install 'fbnn-hw[studio]'")
client = pytest.importorskip("websockets.sync.client", reason="pip install 'fbnn-hw[studio]'")

from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

from fbnn_hw.studio import server  # noqa: E402

studio_verb = importlib.import_module("fbnn_hw.cli.studio")


class Echo:
    """A board that answers with what it is told, in capitals, until it is unplugged."""

    def __init__(self):
        self.answers, self.gone = queue.Queue(), False

    def write(self, data, timeout):
        if self.gone or data == b"unplug":
            self.gone = True
            raise InputError("/dev/board: the connection broke (unplugged); plug the board in again")
        self.answers.put(data.upper())

    def read(self, timeout):
        try:
            return self.answers.get(timeout=timeout)
        except queue.Empty:
            return b""


@pytest.fixture
def studio(served):
    def opened():
        yield Echo()

    return served("<p>the page</p>", opened)


def asked(address, **headers):
    """(status, body) of a request."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_browser_is_opened_once_it_listens_and_for_a_person_alone(small, monkeypatch):
    opened, line = [], contextmanager(lambda *_: iter([(None, "a board", 1)]))
    with socket.socket() as place:
        place.bind((server.ADDRESS, 0))
        port = place.getsockname()[1]
    monkeypatch.setattr(studio_verb, "_line", line)

    def browser(link):
        """What it does with a file that nobody else may read, whose name alone stands in its command line."""
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(link).path))
        assert path.parent.stat().st_mode & 0o077 == 0
        address = path.read_text().partition("url=")[2].partition('"')[0]
        opened.append((address, asked(address)[0]))

    monkeypatch.setattr(studio_verb.webbrowser, "open", browser)
    monkeypatch.setenv("DISPLAY", ":0")
    run = server.Studio.run

    def briefly(studio, ready):
        """Serve until the page was opened, or a moment."""
        listens = threading.Event()
        thread = threading.Thread(target=run, args=(studio, lambda: (ready(), listens.set())))
        thread.start()
        assert listens.wait(20)
        until = time.monotonic() + (20 if opens else 0.3)
        while not (opens and opened) and time.monotonic() < until:
            time.sleep(0.02)
        studio._program.should_exit = True
        thread.join(20)
        assert opened == ([(studio.address, 200)] if opens else [])
        opened.clear()

    monkeypatch.setattr(server.Studio, "run", briefly)
    for terminal, more, opened_then in ((True, [], True), (True, ["--no-browser"], False), (False, [], False)):
        opens = opened_then
        monkeypatch.setattr("sys.stdout", Terminal(terminal))
        assert cli.main(["studio", str(small.folder), "--board", "virtual", "--http", str(port), *more]) == 0


class Terminal(io.StringIO):
    """A standard output that is a terminal, or not."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def line(studio, token=None, origin="http://127.0.0.1:{port}", **options):
    origin = origin and origin.format(port=studio.port)
    return client.connect(f"ws://127.0.0.1:{studio.port}/line?token={studio.token if token is None else token}", origin=origin, **options)


CROWDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from fbnn_hw.studio import server
server.HEADERS_S = 2
studio = server.Studio("<p>the page</p>", None, int(sys.argv[1]), "t")
studio.run(lambda: print("listens", flush=True))
"""


def test_a_board_at_a_port_says_which_design_it_holds(small, tmp_path, monkeypatch):
    from fbnn_hw.simulate.virtual import VirtualBoard

    monkeypatch.chdir(tmp_path)
    with VirtualBoard(small.folder) as board:
        args, out = SimpleNamespace(port=board.port, baud=1_000_000), SimpleNamespace(note=print)
        with pytest.raises(InputError, match="holds configuration .*, which no folder of rtl_out and no ready image has; name the folder"):
            studio_verb._held(args, out)
        Path("rtl_out").symlink_to(small.folder.parent)
        assert studio_verb._held(args, out).folder.resolve() == small.folder.resolve()


def test_connections_that_ask_for_nothing(tmp_path):
    """300 of them, before a server of 128 descriptors: it says nothing, lets them go, and answers."""
    with socket.socket() as place:
        place.bind((server.ADDRESS, 0))
        port = place.getsockname()[1]
    with open(tmp_path / "err", "w") as err:
        program = subprocess.Popen([sys.executable, "-c", CROWDED, str(port)], stdout=subprocess.PIPE, stderr=err, text=True)
    held = []
    try:
        assert program.stdout.readline() == "listens\n"
        for _ in range(300):
            other = socket.socket()
            other.setblocking(False)
            other.connect_ex((server.ADDRESS, port))
            held.append(other)
            time.sleep(0.002)
        with suppress(OSError):
            held[0].send(b"GET / HTTP/1.1\r\nHost: ")
        until = time.monotonic() + 60
        while True:
            with suppress(OSError):
                if asked(f"http://{server.ADDRESS}:{port}/?token=t") == (200, "<p>the page</p>"):
                    break
            assert time.monotonic() < until
        assert len(os.listdir(f"/proc/{program.pid}/fd")) < 60
    finally:
        program.terminate()
        program.wait(20)
        for other in held:
            other.close()
    assert not (tmp_path / "err").read_text()


def test_the_page_is_for_who_has_the_token_and_the_host(studio):
    assert asked(studio.address) == (200, "<p>the page</p>")
    assert asked(studio.address.replace("127.0.0.1", "localhost"))[0] == 200
    for address in (f"http://127.0.0.1:{studio.port}/", f"http://127.0.0.1:{studio.port}/?token=", studio.address + "x"):
        assert asked(address)[0] == 403
    assert asked(studio.address, Host="evil.example")[0] == 403
    assert asked(studio.address, Origin="http://evil.example")[0] == 403
    assert asked(f"http://127.0.0.1:{studio.port}/../../etc/passwd?token={studio.token}")[0] == 404


@pytest.mark.parametrize("wrong", [{"token": "no"}, {"token": ""}, {"origin": None}, {"origin": "http://evil.example"},
                                   {"origin": "http://127.0.0.1:1"}, {"origin": "null"}])
def test_no_other_site_has_the_line(studio, wrong):
    with pytest.raises(InvalidStatus), line(studio, **wrong):
        pass


def test_it_relays_bytes_to_one_page_at_a_time(studio):
    with line(studio) as first:
        first.send(b"hello")
        assert first.recv(20) == b"HELLO"
        with line(studio) as second, pytest.raises(ConnectionClosed) as closed:
            second.recv(20)
        assert closed.value.rcvd.code == server.TAKEN and "another page" in closed.value.rcvd.reason
        first.send(b"still here")
        assert first.recv(20) == b"STILL HERE"
    with line(studio) as again:  # at once: the line before may not have ended yet
        again.send(b"x")
        assert again.recv(20) == b"X"


def test_a_board_that_is_gone_is_told(studio):
    with line(studio) as page, pytest.raises(ConnectionClosed) as closed:
        page.send(b"unplug")
        page.recv(20)
    assert closed.value.rcvd.code == server.BROKEN and "plug the board in again" in closed.value.rcvd.reason


def test_a_message_has_a_bound(studio):
    with line(studio) as page, pytest.raises(ConnectionClosed):
        page.send(b"x" * (2 * server.MOST_BYTES))
        page.send("a text")
        while True:
            page.recv(20)
