"""The page of a board, sent to this machine alone, and a line to the board for it: messages of the link, relayed over a WebSocket.

Nobody else may use it.  It listens on 127.0.0.1.  A request must have the token of the address, and this server's Host and Origin,
so that no page of another site can drive the board.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..base.errors import InputError
from ..link.client import Transport
from ..machine.protocol import CRC_BYTES, HEADER_BYTES, LONGEST_PAYLOAD

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
READ_S, WRITE_S = 0.05, 5.0
LEAVE_S = 2.0
"""Seconds in which a page that is loaded again waits for the line that it had."""
HEADERS_S = 5.0
MOST_CONNECTIONS = 32
"""Connections at a time, the rest are closed at once, and seconds in which one must have sent its first request."""
MOST_BYTES = HEADER_BYTES + LONGEST_PAYLOAD + CRC_BYTES
REFUSED, TAKEN, BROKEN = 4403, 4409, 4502
"""Codes with which a line is closed: no right to it, another page has it, the board is gone."""
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"}


class _Http(H11Protocol):
    """HTTP for few connections, each of which asks for something soon: all of them are a person's browser."""

    def connection_made(self, transport):
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(HEADERS_S, self._waited)

    def _waited(self):
        if self.cycle is None and self in self.connections:  # one that became a WebSocket is not among them
            self.transport.close()


class Studio:
    """The server of one board.

    page: text of the page.  opened: makes a context manager of a `Transport` to the board; it is called
    whenever a page takes the line.  port: where it listens.  token: what an address must hold; a random
    one by default.
    """

    def __init__(self, page: str, opened: Callable[[], AbstractContextManager[Transport]], port: int, token: str | None = None):
        self.page, self.opened, self.port = page, opened, port
        self.token = token or secrets.token_urlsafe(16)
        self._in_use = asyncio.Lock()

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def app(self) -> Starlette:
        """The application: the page at /, the line at /line."""
        return Starlette(routes=[Route("/", self._send_page), WebSocketRoute("/line", self._relay)])

    def config(self) -> uvicorn.Config:
        """The settings of uvicorn."""
        return uvicorn.Config(self.app(), host=ADDRESS, port=self.port, log_level="warning", ws_max_size=MOST_BYTES, http=_Http,
                              backlog=MOST_CONNECTIONS, timeout_graceful_shutdown=1, lifespan="off")

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until Ctrl-C.  ready: called once it listens.  InputError where the port is not free."""
        try:
            listener = socket.create_server((ADDRESS, self.port), backlog=MOST_CONNECTIONS)
        except OSError:
            raise InputError(f"--http {self.port}: another program listens there, expected a free port; name another one") from None
        self._program = uvicorn.Server(self.config())
        with listener:
            ready()
            self._program.run([listener])

    def _allowed(self, request: HTTPConnection) -> bool:
        hosts = [f"{name}:{self.port}" for name in NAMES]
        origin = request.headers.get("origin")
        return (request.headers.get("host") in hosts and (origin is None or origin in [f"http://{host}" for host in hosts])
                and secrets.compare_digest(request.query_params.get("token", "").encode(), self.token.encode()))

    async def _send_page(self, request):
        if not self._allowed(request):
            return PlainTextResponse("Open the address that fbnn-hw studio printed, with its token.\n", 403, HEADERS)
        return HTMLResponse(self.page, headers=HEADERS)

    async def _relay(self, page: WebSocket) -> None:
        if not self._allowed(page) or page.headers.get("origin") is None:
            await page.close(REFUSED)
            return
        await page.accept()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._in_use.acquire()
        except TimeoutError:
            await page.close(TAKEN, "another page has the board; close that one")
            return
        try:
            with self.opened() as line:
                await _both_ways(page, line)
        except InputError as error:
            with suppress(RuntimeError, WebSocketDisconnect):  # the page may be gone, too
                await page.close(BROKEN, str(error).encode()[:120].decode(errors="ignore"))  # of 123 bytes that it may have
        finally:
            self._in_use.release()


async def _both_ways(page: WebSocket, line: Transport) -> None:
    """Relay until the page goes away; InputError where the board does."""
    async def towards_page():
        while True:
            if data := await asyncio.to_thread(line.read, READ_S):
                await page.send_bytes(data)

    async def towards_board():
        while True:
            await asyncio.to_thread(line.write, await page.receive_bytes(), WRITE_S)

    tasks = [asyncio.create_task(work()) for work in (towards_page, towards_board)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with suppress(WebSocketDisconnect, KeyError):  # KeyError: a text, where bytes are expected
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
