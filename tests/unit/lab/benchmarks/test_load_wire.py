"""The load connections count every message and every byte, however the stream is cut."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from tocsin.lab.benchmarks.load_wire import (
    Kept,
    LoadConnection,
    MqttConnection,
    NatsConnection,
    Seat,
    TocsinConnection,
    mqtt_publish,
)

_SEAT = Seat("seat", ["a", "b"])
_UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


class _Transport(asyncio.Transport):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # our connections write bytes only
        self.written += data

    def abort(self) -> None:
        self.aborted = True


def _frame(text: str, first_byte: int = 0x81) -> bytes:
    data = text.encode()
    if len(data) < 126:
        return bytes([first_byte, len(data)]) + data
    if len(data) < 1 << 16:
        return struct.pack("!BBH", first_byte, 126, len(data)) + data
    return struct.pack("!BBQ", first_byte, 127, len(data)) + data


def _notification(size: int) -> str:
    start = '{"type":"notification","payload":{"number":5,"sent_us":7,"message":"'
    return start + "x" * (size - len(start) - 3) + '"}}'


def _subscribed(request: int) -> str:
    known = {"type": "subscribed", "subscription": 1, "channel": "Fan", "parameters": {}, "position": "1-0"}
    return json.dumps(known | {"request": request}, separators=(",", ":"))


def _connected(connection: LoadConnection) -> _Transport:
    transport = _Transport()
    connection.connection_made(transport)
    return transport


def _feed(connection: LoadConnection, data: bytes, cut: int) -> None:
    for begin in range(0, len(data), cut):
        part = data[begin : begin + cut]
        connection.get_buffer(-1)[: len(part)] = part
        connection.buffer_updated(len(part))


def _tocsin(keep: list[Kept] | None = None) -> TocsinConnection:
    return TocsinConnection(_SEAT, "127.0.0.1:1", "token", "Fan", keep)


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 400, 404, 500, 1 << 17])
async def test_tocsin_counts_every_notification(cut: int) -> None:
    """Welcome, answers and pings are no notifications; of those, text bytes are counted, whatever their length."""
    connection = _tocsin()
    _connected(connection)
    sizes = [100, 125, 126, 400, 400, 3_000]
    stream = _UPGRADE + _frame('{"type":"welcome","subscriber":"u/seat","device":"seat","broker":"b"}')
    stream += _frame(_subscribed(1)) + _frame(_subscribed(2))
    stream += b"".join(_frame(_notification(size)) for size in sizes) + _frame("", 0x89) + _frame('{"type":"pong"}')
    _feed(connection, stream + _frame(_notification(400))[:-1], cut)
    assert connection.failure == ""
    assert connection.ready.done()
    assert (connection.messages, connection.size_bytes) == (len(sizes), sum(sizes))


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 418, 500, 1 << 17])
async def test_nats_counts_every_message(cut: int) -> None:
    """INFO, +OK and PONG are no messages; what looks like a line inside a payload is not one."""
    connection = NatsConnection(_SEAT)
    transport = _connected(connection)
    payloads = [b"x" * 400, b"\r\nPING\r\nMSG a 1 9\r\n", b"", b"y" * 1000]
    stream = b"INFO {}\r\nPONG\r\n"
    stream += b"".join(b"MSG a 1 %d\r\n%s\r\n" % (len(payload), payload) for payload in payloads) + b"PING\r\n"
    _feed(connection, stream + b"MSG a 1 400\r\nxxx", cut)
    assert connection.ready.done()
    assert (connection.messages, connection.size_bytes) == (4, sum(map(len, payloads)))
    assert transport.written.endswith(b"SUB a 1\r\nSUB b 2\r\nPING\r\nPONG\r\n")


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 400, 500, 1 << 17])
async def test_mqtt_counts_every_message(cut: int) -> None:
    """The topic is no part of the bytes that count; remaining lengths may have several bytes."""
    connection = MqttConnection(_SEAT)
    _connected(connection)
    payloads = [b"x" * 400, b"", b"z" * 124, b"z" * 125, b"y" * 17_000]
    stream = b"\x20\x02\x00\x00" + b"\x90\x04\x00\x01\x00\x00"
    stream += b"".join(mqtt_publish("a", payload) for payload in payloads)
    _feed(connection, stream + mqtt_publish("b", b"x" * 400)[:-1], cut)
    assert connection.ready.done()
    assert (connection.messages, connection.size_bytes) == (len(payloads), sum(map(len, payloads)))


async def test_a_message_that_is_too_long_is_told_of() -> None:
    """What can't be put together again is a failure, not a count that is too low."""
    connection = _tocsin()
    _connected(connection)
    _feed(connection, _UPGRADE + _frame(_notification(70_000)), 1 << 17)
    assert (connection.messages, connection.size_bytes) == (1, 70_000)
    _feed(connection, _frame(_notification(70_000)), 65_000)
    _feed(connection, _frame(_notification(70_000))[:69_000], 69_000)
    assert "more than 65536 bytes" in connection.failure


async def test_kept_records_have_their_number_and_times() -> None:
    """Asked to, a connection keeps who got which record, when it was sent and when it came."""
    kept: list[Kept] = []
    connection = _tocsin(kept)
    _connected(connection)
    _feed(connection, _UPGRADE + _frame(_notification(400)), 50)
    [one] = kept
    assert (one.device, one.number, one.sent_us) == ("seat", 5, 7)
    assert one.received_us > one.sent_us


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\nno", "403 Forbidden"),
        (_UPGRADE + _frame('{"type":"error","code":"unauthorised","message":"expired"}'), "expired"),
        (_UPGRADE + _frame("what?"), "seat: "),
        (_UPGRADE + b"\x88\x06\x0f\xa1slow", "closed with 4001: slow"),
    ],
)
async def test_what_ends_a_subscriber_is_told(stream: bytes, reason: str) -> None:
    """A connection that can't count any more says why, is ready so that nobody waits for it, and is ended."""
    connection = _tocsin()
    transport = _connected(connection)
    _feed(connection, stream, 1 << 17)
    assert reason in connection.failure
    assert connection.ready.done()
    assert transport.aborted


async def test_a_lost_connection_is_a_failure_unless_closed() -> None:
    """Being closed by the server counts as a failure; closing it ourselves does not."""
    lost, closed = NatsConnection(_SEAT), NatsConnection(_SEAT)
    _connected(lost)
    _connected(closed)
    lost.connection_lost(None)
    closed.close()
    closed.connection_lost(None)
    assert "the server closed it" in lost.failure
    assert closed.failure == ""
