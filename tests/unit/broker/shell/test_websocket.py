"""A subscriber's connection that ends in a way of its own harms nobody else."""

from __future__ import annotations

import asyncio

import pytest
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from tocsin.broker.core.strangers import Strangers
from tocsin.broker.shell.websocket import SubscriberSocket
from tocsin.protocol.messages import CLOSE_TOO_MUCH, Pong


class Transport(asyncio.Transport):
    """Refuses to write after the end, as real ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_ended = False
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Listener:
    def __init__(self) -> None:
        self.events: list[str] = []
        #: Nothing like the machine's own clock.
        self.time_s = -1e9

    def now_s(self) -> float:
        return self.time_s

    def opened(self, connection: object) -> None:
        self.events.append("opened")

    def received(self, connection: object, text: bytes) -> None:
        self.events.append(f"received {text.decode()}")

    def congested(self, connection: object) -> None:
        self.events.append("congested")

    def flushed(self, connection: object) -> None:
        self.events.append("flushed")

    def lost(self, connection: object) -> None:
        self.events.append("lost")


@pytest.fixture
def client() -> ClientProtocol:
    return ClientProtocol(parse_uri("ws://127.0.0.1/v1/connect"))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def strangers() -> Strangers:
    return Strangers(most=1, most_per_address=1)


@pytest.fixture
def socket(client: ClientProtocol, listener: Listener, transport: Transport, strangers: Strangers) -> SubscriberSocket:
    """A connection that is open."""
    opened = SubscriberSocket(
        1,
        listener,
        strangers=strangers,
        origins=lambda _origin, _host: True,
        max_message_bytes=1000,
        max_queued_bytes=1000,
        rate_per_s=10,
        burst=10,
    )
    opened.connection_made(transport)
    client.send_request(client.connect())
    opened.data_received(b"".join(client.data_to_send()))
    assert listener.events == ["opened"]
    return opened


def _half_closed(socket: SubscriberSocket, client: ClientProtocol) -> None:
    socket.eof_received()


def _broke_the_protocol(socket: SubscriberSocket, client: ClientProtocol) -> None:
    socket.data_received(b"\xff\xff nonsense")


def _said_goodbye(socket: SubscriberSocket, client: ClientProtocol) -> None:
    client.receive_data(bytes(socket._transport.written))
    client.send_close(1000)
    socket.data_received(b"".join(client.data_to_send()))


@pytest.mark.parametrize("end", [_half_closed, _broke_the_protocol, _said_goodbye])
def test_nothing_is_written_to_who_has_ended(
    end: object, socket: SubscriberSocket, client: ClientProtocol, listener: Listener
) -> None:
    """Results may come before the transport is gone: they go nowhere, and raise nothing."""
    assert callable(end)
    end(socket, client)
    assert listener.events == ["opened", "lost"]
    assert socket.deliver([b"result"]) == 0
    socket.send(Pong())
    socket.ping()
    socket.resume_writing()
    socket.connection_lost(None)
    assert listener.events == ["opened", "lost"]


async def test_pings_count_like_messages(socket: SubscriberSocket, client: ClientProtocol, listener: Listener) -> None:
    """Before hello as after it: whoever sends more frames than allowed is closed."""
    client.receive_data(bytes(socket._transport.written))
    for _ in range(11):  # the burst is 10
        client.send_ping(b"")
    socket.data_received(b"".join(client.data_to_send()))
    assert listener.events == ["opened", "lost"]
    client.receive_data(bytes(socket._transport.written[-50:]))
    assert socket._transport.is_closed
    assert CLOSE_TOO_MUCH.to_bytes(2, "big") in bytes(socket._transport.written)


def test_strangers_are_counted_until_they_are_known_or_gone(
    socket: SubscriberSocket, listener: Listener, strangers: Strangers
) -> None:
    """A connection counts once, whatever comes first: its hello or its end."""
    assert not strangers.enter("another")
    socket.greeted()
    assert strangers.enter("another")
    socket.connection_lost(None)
    assert not strangers.enter("a third")
    strangers.leave("another")
    assert strangers.enter("a third")


def _answer_to(path: str, listener: Listener, strangers: Strangers) -> bytes:
    """What a new connection gets for its request."""
    socket = SubscriberSocket(
        2,
        listener,
        strangers=strangers,
        origins=lambda _origin, _host: True,
        max_message_bytes=1000,
        max_queued_bytes=1000,
        rate_per_s=10,
        burst=10,
    )
    transport = Transport()
    socket.connection_made(transport)
    client = ClientProtocol(parse_uri("ws://127.0.0.1/v1/connect"))
    client.send_request(client.connect())
    request = b"".join(client.data_to_send())
    socket.data_received(request.replace(b"/v1/connect", path.encode(), 1))
    socket.connection_lost(None)
    return bytes(transport.written)


def test_one_stranger_too_many_is_refused(socket: SubscriberSocket, listener: Listener, strangers: Strangers) -> None:
    """With an answer that says so, before there is a WebSocket."""
    assert _answer_to("/v1/connect", listener, strangers).startswith(b"HTTP/1.1 503")
    assert listener.events == ["opened"]


@pytest.mark.parametrize(("path", "status"), [("/v1/connect?token=x", 400), ("/v1", 404), ("//[", 404), ("*", 404)])
def test_other_addresses_are_refused(path: str, status: int, listener: Listener, strangers: Strangers) -> None:
    """Whatever a stranger asks for is answered, and is no error of ours."""
    assert _answer_to(path, listener, strangers).startswith(f"HTTP/1.1 {status}".encode())
    assert listener.events == []


def _send_text(socket: SubscriberSocket, client: ClientProtocol, times: int) -> None:
    for _ in range(times):
        client.send_text(b"{}")
    socket.data_received(b"".join(client.data_to_send()))


async def test_silence_and_rates_go_by_the_brokers_clock(
    socket: SubscriberSocket, client: ClientProtocol, listener: Listener, transport: Transport
) -> None:
    """One clock, the node's: who has used up a burst may go on when its time has passed, and not before."""
    client.receive_data(bytes(transport.written))
    assert socket.heard_at_s == listener.time_s
    _send_text(socket, client, 10)
    listener.time_s += 1
    _send_text(socket, client, 10)
    assert socket.heard_at_s == listener.time_s
    assert listener.events.count("received {}") == 20
    _send_text(socket, client, 1)
    assert listener.events[-1] == "lost"
