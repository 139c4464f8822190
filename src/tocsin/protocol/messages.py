"""The messages between a subscriber and its broker, and their JSON.

A subscriber sends `hello` and gets `welcome`; then it subscribes, gets notifications and acknowledges them.
Each message is one JSON object with a `type`. docs/reference/protocol.md describes them for other implementations.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tocsin.coordinates.coordinate import Coordinate
from tocsin.errors import InvalidValue, NotFound, StatementError, SubscriptionFailed, TocsinError
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.protocol.frames import text_of

VERSION = 1

#: Why a connection was closed, as WebSocket close codes. Below 4100 clients should come back; from 4100 on, they should
#: not, as it would not help.
CLOSE_MOVED = 4000
CLOSE_SLOW = 4001
CLOSE_DRAINING = 4002
CLOSE_IDLE = 4003
CLOSE_EXPIRED = 4004
CLOSE_FAILED = 4005
CLOSE_REPLACED = 4100
CLOSE_REFUSED = 4101
CLOSE_TOO_MUCH = 4102

#: The largest message from a broker: brokers send none that is larger, and subscribers take all up to this size. A
#: result is one row; nobody means to be notified of a larger row.
MAX_MESSAGE_BYTES = 16 << 20

#: Metres on the plane that channels compute on; bounded, so that no sum of them overflows.
MAX_METRES = 1e9
Metres = Annotated[float, msgspec.Meta(ge=-MAX_METRES, le=MAX_METRES)]


#: A number that its sender chose; one that does not fit into 64 bits could not be repeated in an answer.
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Message(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """`request` is the sender's own label for a message; the answer repeats it."""


class Subscribe(_Message, frozen=True, tag="subscribe"):
    """Ask for a channel's results: with `position`, those after it; without, only future ones, and a snapshot before
    them if the channel is WITH SNAPSHOT. With `where`, a filter, only those that match it; the same subscription may be
    asked for again with another one."""

    channel: str
    parameters: dict[str, ParameterValue] = {}
    position: str = ""
    request: Number = 0
    where: str = ""


class Hello(_Message, frozen=True, tag="hello"):
    """The first message of a connection.

    `device` names one of the user's devices: the broker keeps its subscriptions and positions while it is away. Without
    one the broker makes up a device that is kept for a minute only.
    `subscriptions` are carried on, each after its position: a client that comes from another broker sends its own.
    """

    token: str
    device: str = ""
    subscriptions: list[Subscribe] = []
    version: int = VERSION


class Unsubscribe(_Message, frozen=True, tag="unsubscribe"):
    subscription: Number
    request: Number = 0


class Ack(_Message, frozen=True, tag="ack"):
    """The subscriber has dealt with everything up to these positions; it need not be sent again."""

    positions: list[str]


class LocationUpdate(_Message, frozen=True, tag="location"):
    """Where the subscriber is now, in metres. Not answered; of several that come quickly only the last may count."""

    x: Metres
    y: Metres


class CoordinateUpdate(_Message, frozen=True, tag="coordinate"):
    """Where the subscriber is in the network: its coordinate, and the round trips to brokers that it has measured. Not
    answered; of several that come quickly only the last may count."""

    coordinate: Coordinate
    round_trips_ms: dict[str, float] = {}


class Ping(_Message, frozen=True, tag="ping"):
    """Answered with `pong` and the same `request`."""

    request: Number = 0


class Subscribed(_Message, frozen=True, tag="subscribed"):
    """Notifications follow from after `position`. `recovered` is false if results before it are gone for good. `where`
    is the filter that is in force, as the subscriber wrote it."""

    subscription: int
    channel: str
    parameters: dict[str, ParameterValue]
    position: str
    recovered: bool = True
    request: Number = 0
    where: str = ""


class Welcome(_Message, frozen=True, tag="welcome"):
    """`subscriptions` are those that the broker kept for this device."""

    subscriber: str
    device: str
    broker: str
    subscriptions: list[Subscribed] = []
    version: int = VERSION


class Unsubscribed(_Message, frozen=True, tag="unsubscribed"):
    subscription: int
    request: Number = 0


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line that a broker pulls from the cluster. `kind` is a `ResultKind`. `key` is for channels WITH EXITS: an
    exit has the key of the result that it ends, and an empty payload."""

    subscription: int
    channel: str
    position: str
    committed_at_us: int
    payload: msgspec.Raw
    kind: str = ResultKind.RESULT.value
    key: str = ""


class Notification(Result, frozen=True, tag_field="type", tag="notification"):
    """One result, its exit, or the end of a snapshot. Brokers never build this object: they put `type` before the
    cluster's text."""


class Passed(_Message, frozen=True, tag="passed"):
    """No result of this subscription since the last notification and up to `position` matches its filter. It is a
    position to carry on from, and to acknowledge, like that of a notification."""

    subscription: int
    position: str


class Failed(_Message, frozen=True, tag="failed"):
    """This subscription has no more results: the channel can't be run for it or, with another code, it has ended for
    good: its channel was dropped (`not_found`), or a grant was revoked (`not_granted`). The message has a position, as
    notifications have."""

    subscription: int
    channel: str
    position: str
    committed_at_us: int
    reason: str
    code: str = SubscriptionFailed.code


class HistoryGone(_Message, frozen=True, tag="history_gone"):
    """Results between the requested position and `position` are gone for good; notifications follow from after it.

    `rewound`: earlier notifications may be of a history that is gone; `position` counts, even if it is an earlier one.
    """

    subscription: int
    position: str
    message: str
    rewound: bool = False


class Move(_Message, frozen=True, tag="move"):
    """Connect to the broker at `to` within `after_ms`, spread at random, carry on there, then close this connection."""

    to: str
    broker: str
    after_ms: int = 0
    token: str = ""


class Pong(_Message, frozen=True, tag="pong"):
    request: Number = 0


class Error(_Message, frozen=True, tag="error"):
    """A request was not carried out. `temporary`: the same request may work later."""

    code: str
    message: str
    temporary: bool = False
    request: Number = 0
    retry_after_s: float = 0.0


FromSubscriber = Hello | Subscribe | Unsubscribe | Ack | LocationUpdate | CoordinateUpdate | Ping
FromBroker = Welcome | Subscribed | Unsubscribed | Notification | Passed | Failed | HistoryGone | Move | Pong | Error

_from_subscriber: msgspec.json.Decoder[FromSubscriber] = msgspec.json.Decoder(FromSubscriber)
_from_broker: msgspec.json.Decoder[FromBroker] = msgspec.json.Decoder(FromBroker)
_encoder = msgspec.json.Encoder()

encode = _encoder.encode


def decode_from_subscriber(text: bytes | str) -> FromSubscriber:
    """The message that a subscriber sent; InvalidValue says what is wrong with it.

    >>> decode_from_subscriber('{"type":"ping","request":3}')
    Ping(request=3)
    """
    try:
        return _from_subscriber.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidValue(f"not a message: {exc}") from exc


def decode_from_broker(text: bytes | str) -> FromBroker:
    try:
        return _from_broker.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"not a message: {exc}") from exc


def parse_position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as exc:
        raise InvalidValue(str(exc)) from exc


def error_message(error: TocsinError, request: Number = 0) -> Error:
    """`error` as a message to a subscriber. One about a filter shows the place in it."""
    retry_after_s = float(error.details().get("retry_after_s", 0))
    text = error.pointed() if isinstance(error, StatementError) else error.message
    return Error(error.code, text, error.temporary, request, retry_after_s)


_result = msgspec.json.Decoder(Result)
_TYPE = b'{"type":"notification",'


def decode_result(line: bytes) -> Result:
    return _result.decode(line)


def notification_of(line: bytes) -> bytes:
    """A pulled line as the notification for all its subscribers: encoded once, by the cluster.

    >>> notification_of(b'{"subscription":7}')
    b'{"type":"notification","subscription":7}'
    """
    return _TYPE + line[1:]


def is_notification(text: bytes) -> bool:
    return text.startswith(_TYPE)


class _WithPayload(msgspec.Struct):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    kind: str = ResultKind.RESULT.value


_with_payload = msgspec.json.Decoder(_WithPayload)
_WITHOUT_ROW = frozenset(kind.value for kind in ResultKind if not kind.has_row)


def payload_of(wire: bytes) -> msgspec.Raw | None:
    """The row inside one of our own frames; None for a message that has none, as an exit or the end of a snapshot.

    >>> from tocsin.protocol.frames import text_frame
    >>> bytes(payload_of(text_frame(b'{"type":"notification","payload":{"id":5}}')))
    b'{"id":5}'
    >>> payload_of(text_frame(b'{"type":"history_gone"}'))
    >>> payload_of(text_frame(b'{"type":"notification","kind":"exit","key":"5f","payload":{}}'))
    >>> payload_of(text_frame(b'{"type":"notification","kind":"snapshot_end","payload":{"results":5,"complete":true}}'))
    """
    message = _with_payload.decode(text_of(wire))
    return None if message.payload is msgspec.UNSET or message.kind in _WITHOUT_ROW else message.payload


def gap_for(result: Result, size_bytes: int) -> bytes:
    """The message that subscribers get instead of a result that is too large: a gap with the reason and the position.

    Leaving the result out would be a silent loss; sending it would end every connection, again and again.
    """
    text = f"the result at this position has {size_bytes} bytes, and at most {MAX_MESSAGE_BYTES} are sent"
    return encode(HistoryGone(result.subscription, result.position, text))


def failure_of(line: bytes, result: Result) -> Failed | None:
    """The failure that a pulled line reports instead of a result, if it does. A payload is an object. A string in its
    place is the reason why there will be no more results. A list of two strings has the reason and the code with which
    the subscription has ended for good; without a code, its channel was dropped.

    >>> line = b'{"subscription":7,"channel":"C","position":"7-1","committed_at_us":1,"payload":"no such zone"}'
    >>> failure_of(line, decode_result(line)).reason
    'no such zone'
    >>> line = line.replace(b'"no such zone"', b'["channel C is not granted to you","not_granted"]')
    >>> failure_of(line, decode_result(line)).code
    'not_granted'
    """
    if line.endswith(b'"}'):
        reason, code = msgspec.json.decode(result.payload, type=str), SubscriptionFailed.code
    elif line.endswith(b'"]}'):
        reason, code = (*msgspec.json.decode(result.payload, type=list[str]), NotFound.code)[:2]
    else:
        return None
    return Failed(result.subscription, result.channel, result.position, result.committed_at_us, reason, code)
