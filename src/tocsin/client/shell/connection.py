"""One WebSocket to a broker: opens it, reads and writes messages, and reports how it ended. Decides nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import CloseCode

from tocsin import __version__
from tocsin.client.core import events as ev
from tocsin.errors import InvalidValue
from tocsin.protocol import messages

_OPEN_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 1.0


def connect_address(url: str) -> str:
    """The address of a broker's WebSockets.

    >>> connect_address("https://broker.example/")
    'wss://broker.example/v1/connect'
    """
    scheme, colon, rest = url.partition("://")
    known = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if not colon or scheme.lower() not in known:
        raise InvalidValue(f"not a broker's address: {url!r}; it begins with http:// or https://")
    return f"{known[scheme.lower()]}://{rest.rstrip('/')}/v1/connect"


class Connection:
    """`report` gets all events, in order; `may_read` is awaited before each message is read.

    `broke` is called with an error of our own, which can't be mended.
    """

    def __init__(
        self,
        link: int,
        url: str,
        tls: ssl.SSLContext | None,
        report: Callable[[ev.Opened | ev.Closed | ev.Received], None],
        may_read: Callable[[], Awaitable[None]],
        broke: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._link = link
        self._url = url
        self._tls = tls
        self._report = report
        self._may_read = may_read
        #: None: close when everything before it is sent. Few and small: the session paces the messages.
        self._outgoing: asyncio.Queue[messages.FromSubscriber | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(), name=f"tocsin-link-{link}")
        self._task.add_done_callback(broke)

    def send(self, message: messages.FromSubscriber) -> None:
        self._outgoing.put_nowait(message)

    def close(self) -> None:
        """Send all queued messages, then close; `wait` returns when that is done."""
        self._outgoing.put_nowait(None)

    async def wait(self, timeout_s: float) -> None:
        """Returns when the connection is gone; after `timeout_s` it is dropped as it is."""
        await asyncio.wait([self._task], timeout=timeout_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            address = connect_address(self._url)
            tls: dict[str, Any] = {"ssl": self._tls} if self._tls is not None and address.startswith("wss:") else {}
            socket = await connect(
                address,
                # Brokers don't compress: it costs them more than it saves. The session watches for silence, since it
                # knows when it is we who don't read.
                compression=None,
                ping_interval=None,
                max_size=messages.MAX_MESSAGE_BYTES,
                open_timeout=_OPEN_TIMEOUT_S,
                close_timeout=_CLOSE_TIMEOUT_S,
                user_agent_header=f"tocsin/{__version__}",
                **tls,
            )
        except (OSError, TimeoutError, WebSocketException, InvalidValue, ValueError) as exc:
            self._report(ev.Closed(self._link, 0, str(exc) or type(exc).__name__))
            return
        sender = asyncio.create_task(self._send_all(socket))
        try:
            self._report(ev.Opened(self._link))
            code, reason = await self._read_all(socket)
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            await socket.close()
        self._report(ev.Closed(self._link, code, reason))

    async def _read_all(self, socket: ClientConnection) -> tuple[int, str]:
        """Returns the close code and reason."""
        try:
            while True:
                await self._may_read()
                text = await socket.recv(decode=False)
                self._report(ev.Received(self._link, messages.decode_from_broker(text)))
        except ConnectionClosed as exc:
            if exc.sent is not None and exc.sent.code == CloseCode.MESSAGE_TOO_BIG and not exc.rcvd_then_sent:
                return 0, f"it sent a message of more than {messages.MAX_MESSAGE_BYTES} bytes"
            return (exc.rcvd.code, exc.rcvd.reason) if exc.rcvd is not None else (0, "the connection broke")
        except InvalidValue as exc:
            return 0, f"it does not follow the protocol: {exc}"

    async def _send_all(self, socket: ClientConnection) -> None:
        try:
            while (message := await self._outgoing.get()) is not None:
                await socket.send(messages.encode(message), text=True)
        except ConnectionClosed:
            return  # the reader tells
        await socket.close()
