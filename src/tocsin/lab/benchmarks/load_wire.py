"""The subscriber's end of three protocols, for load: Tocsin's over WebSocket, NATS's and MQTT's.

Each connection subscribes, says when it is ready, and from then on counts messages and their bytes. It looks no closer
than at lengths, so that thousands of them are no burden to the machine that the server under measurement runs on.
"""

from __future__ import annotations

import asyncio
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import msgspec

from tocsin.errors import InvalidValue
from tocsin.protocol.messages import (
    Error,
    FromSubscriber,
    Hello,
    Move,
    Subscribe,
    Subscribed,
    Welcome,
    decode_from_broker,
    encode,
)

#: One buffer for all connections: what is read is counted at once. An unfinished message waits with its connection and
#: is put before what is read next, into the headroom.
_HEADROOM_BYTES = 1 << 16
_READ_BYTES = 1 << 18
_buffer = bytearray(_HEADROOM_BYTES + _READ_BYTES)
_whole = memoryview(_buffer)
_into = _whole[_HEADROOM_BYTES:]


class Seat(msgspec.Struct, frozen=True):
    """One connection: what it subscribes to, and as which device."""

    device: str
    topics: list[str] = []


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A record as it arrived at a seat."""

    device: str
    number: int
    sent_us: int
    received_us: int


class LoadConnection(asyncio.BufferedProtocol, ABC):
    """Counts messages and the bytes of their payloads. `ready` is done when it is subscribed, or has failed."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.messages = 0
        self.size_bytes = 0
        self.failure = ""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def close(self) -> None:
        """End without this being a failure."""
        transport, self._transport = self._transport, None
        if transport:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport:
            self._fail(f"the connection was lost: {exc or 'the server closed it'}")

    def get_buffer(self, _sizehint: int) -> memoryview:
        return _into

    def buffer_updated(self, nbytes: int) -> None:
        begin = _HEADROOM_BYTES
        if rest := self._rest:
            begin -= len(rest)
            _buffer[begin:_HEADROOM_BYTES] = rest
            self._rest = b""
        end = _HEADROOM_BYTES + nbytes
        at = self._take(begin, end)
        if at < end:
            if end - at > _HEADROOM_BYTES:
                self._fail(f"a message of more than {_HEADROOM_BYTES} bytes")
                return
            self._rest = bytes(_whole[at:end])

    @abstractmethod
    def _open(self) -> None:
        """Say what is said first."""

    @abstractmethod
    def _take(self, at: int, end: int) -> int:
        """Take the messages in the buffer from `at` to `end`; answers where an unfinished one begins."""

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    def _became_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or f"{self.seat.device}: {reason}"
        self._became_ready()
        self.close()


class _Published(msgspec.Struct):
    number: int
    sent_us: int


class _Notified(msgspec.Struct):
    payload: _Published


_notified = msgspec.json.Decoder(_Notified)

_FINAL_TEXT = 0x81
_CLOSE, _PING, _PONG = 0x88, 0x89, 0x8A
#: Where notifications differ from every other message: {"type":"notification",…
_TELLING_AT, _TELLING = 9, ord("n")


class TocsinConnection(LoadConnection):
    """A broker's subscriber. With `keep`, it looks into each notification for the record's number and sending time."""

    def __init__(self, seat: Seat, host: str, token: str, channel: str, keep: list[Kept] | None) -> None:
        super().__init__(seat)
        self._host = host
        self._token = token
        self._channel = channel
        self._keep = keep
        self._awaited = len(seat.topics)
        self._upgraded = False

    def say(self, message: FromSubscriber) -> None:
        self._write(_masked(_FINAL_TEXT, encode(message)))

    def _open(self) -> None:
        self._write(
            b"GET /v1/connect HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % self._host.encode()
        )

    def _take(self, at: int, end: int) -> int:
        if not self._upgraded:
            at = self._take_upgrade(at, end)
            if not self._upgraded:
                return at
        messages = size = 0
        while end - at >= 2:
            length = _buffer[at + 1]
            begin = at + 2
            if length == 126:
                if end - at < 4:
                    break
                length = _buffer[at + 2] << 8 | _buffer[at + 3]
                begin = at + 4
            elif length == 127:
                if end - at < 10:
                    break
                length = int.from_bytes(_whole[at + 2 : at + 10], "big")
                begin = at + 10
            stop = begin + length
            if stop > end:
                break
            if _buffer[at] == _FINAL_TEXT and _buffer[begin + _TELLING_AT] == _TELLING:
                messages += 1
                size += length
                if self._keep is not None:
                    self._note(_whole[begin:stop])
            else:
                self._take_other(_buffer[at], bytes(_whole[begin:stop]))
            at = stop
        self.messages += messages
        self.size_bytes += size
        return at

    def _take_upgrade(self, at: int, end: int) -> int:
        stop = _buffer.find(b"\r\n\r\n", at, end)
        if stop < 0:
            return at
        if not _buffer.startswith(b"HTTP/1.1 101", at):
            self._fail(f"no upgrade: {bytes(_whole[at:end]).decode(errors='replace')[:300]}")
            return end
        self._upgraded = True
        wanted = [
            Subscribe(self._channel, {"topic": topic}, request=number)
            for number, topic in enumerate(self.seat.topics, 1)
        ]
        self.say(Hello(self._token, self.seat.device, wanted))
        return stop + 4

    def _take_other(self, opcode: int, body: bytes) -> None:
        if opcode == _PING:
            self._write(_masked(_PONG, body))
        elif opcode == _CLOSE:
            code = struct.unpack_from("!H", body)[0] if len(body) >= 2 else "no code"
            self._fail(f"closed with {code}: {body[2:].decode(errors='replace')}")
        elif opcode == _FINAL_TEXT:
            try:
                message = decode_from_broker(body)
            except InvalidValue as exc:
                self._fail(str(exc))
                return
            match message:
                case Error() | Move():
                    self._fail(f"got {message}")
                case Subscribed():
                    self._awaited -= 1
                    if self._awaited == 0:
                        self._became_ready()
                case Welcome() if not self._awaited:
                    self._became_ready()
                case _:
                    pass

    def _note(self, notification: memoryview) -> None:
        received_us = time.time_ns() // 1000
        payload = _notified.decode(notification).payload
        assert self._keep is not None
        self._keep.append(Kept(self.seat.device, payload.number, payload.sent_us, received_us))


class NatsConnection(LoadConnection):
    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        #: Every subscription's MSG line is always the same, while sizes are.
        self._sizes: dict[bytes, int] = {}

    def _open(self) -> None:
        subscriptions = "".join(f"SUB {topic} {number}\r\n" for number, topic in enumerate(self.seat.topics, 1))
        self._write(b'CONNECT {"verbose":false,"pedantic":false}\r\n' + subscriptions.encode() + b"PING\r\n")

    def _take(self, at: int, end: int) -> int:
        messages = size = 0
        while (stop := _buffer.find(b"\r\n", at, end)) >= 0:
            if _buffer[at] == ord("M"):
                line = bytes(_whole[at:stop])
                length = self._sizes.get(line)
                if length is None:
                    length = self._sizes[line] = int(line.rpartition(b" ")[2])
                after = stop + length + 4
                if after > end:
                    break
                messages += 1
                size += length
                at = after
            else:
                self._take_other(bytes(_whole[at:stop]))
                at = stop + 2
        self.messages += messages
        self.size_bytes += size
        return at

    def _take_other(self, line: bytes) -> None:
        if line == b"PING":
            self._write(b"PONG\r\n")
        elif line == b"PONG":
            self._became_ready()
        elif line.startswith(b"-ERR"):
            self._fail(line.decode())


_CONNACK, _PUBLISH, _SUBACK = 2, 3, 9


class MqttConnection(LoadConnection):
    """MQTT 3.1.1, QoS 0."""

    def _open(self) -> None:
        self._write(mqtt_connect(self.seat.device))

    def _take(self, at: int, end: int) -> int:
        messages = size = 0
        while end - at >= 2:
            length = _buffer[at + 1] & 0x7F
            begin = at + 2
            shift = 7
            while _buffer[begin - 1] & 0x80 and begin < end:
                length |= (_buffer[begin] & 0x7F) << shift
                shift += 7
                begin += 1
            stop = begin + length
            if stop > end or _buffer[begin - 1] & 0x80:
                break
            if _buffer[at] >> 4 == _PUBLISH:
                messages += 1
                size += length - 2 - (_buffer[begin] << 8 | _buffer[begin + 1])
            else:
                self._take_other(_buffer[at] >> 4, bytes(_whole[begin:stop]))
            at = stop
        self.messages += messages
        self.size_bytes += size
        return at

    def _take_other(self, kind: int, body: bytes) -> None:
        if kind == _CONNACK and body[1]:
            self._fail(f"refused with {body[1]}")
        elif kind == _CONNACK and self.seat.topics:
            self._write(mqtt_subscribe(self.seat.topics))
        elif kind in {_CONNACK, _SUBACK}:
            self._became_ready()


def mqtt_packet(first_byte: int, body: bytes) -> bytes:
    """
    >>> mqtt_packet(0x30, bytes(321))[:3].hex()
    '30c102'
    """
    length = len(body)
    encoded = bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes([first_byte]) + encoded + body


def mqtt_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!H", len(data)) + data


def mqtt_connect(client: str) -> bytes:
    """A clean session with no keep-alive."""
    return mqtt_packet(0x10, mqtt_text("MQTT") + bytes([4, 2, 0, 0]) + mqtt_text(client))


def mqtt_subscribe(topics: list[str]) -> bytes:
    return mqtt_packet(0x82, b"\0\1" + b"".join(mqtt_text(topic) + b"\0" for topic in topics))


def mqtt_publish(topic: str, payload: bytes) -> bytes:
    return mqtt_packet(0x30, mqtt_text(topic) + payload)


def _masked(first_byte: int, payload: bytes) -> bytes:
    """A client's WebSocket frame. The mask is zero, which leaves the payload as it is."""
    if len(payload) < 126:
        return struct.pack("!BBI", first_byte, 0x80 | len(payload), 0) + payload
    if len(payload) < 1 << 16:
        return struct.pack("!BBHI", first_byte, 0x80 | 126, len(payload), 0) + payload
    return struct.pack("!BBQI", first_byte, 0x80 | 127, len(payload), 0) + payload


ConnectionFactory = Callable[[Seat], LoadConnection]
