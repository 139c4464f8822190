"""Events and instructions of a subscriber's session. Plain values; links are numbered connections.

Those that are made for each message are structs: to make a dataclass takes twice as long, a frozen one six times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from tocsin.coordinates.located import Located
from tocsin.errors import TocsinError
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.protocol import messages

# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Started:
    pass


@dataclass(frozen=True, slots=True)
class Opened:
    """The WebSocket of a link is open; no message has been sent."""

    link: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A link has ended: by the broker with `code`; by itself, or before it was open, with 0."""

    link: int
    code: int
    reason: str = ""


class Received(msgspec.Struct):
    link: int
    message: messages.FromBroker


@dataclass(frozen=True, slots=True)
class Placed:
    broker: str
    url: str


@dataclass(frozen=True, slots=True)
class PlacementFailed:
    """`error` is the coordinator's answer; None if it could not be reached, for `reason`."""

    reason: str
    error: TocsinError | None = None
    temporary: bool = True


@dataclass(frozen=True, slots=True)
class TokenGiven:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFailed:
    """As `PlacementFailed`."""

    reason: str
    error: TocsinError | None = None
    temporary: bool = True


class SubscribeAsked(msgspec.Struct):
    """The application wants a channel's results. `request` is a number of ours, never used again."""

    request: int
    channel: str
    parameters: dict[str, ParameterValue]
    position: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class FilterAsked:
    """The application wants another filter for a subscription; an empty one lets everything through."""

    request: int
    where: str


@dataclass(frozen=True, slots=True)
class UnsubscribeAsked:
    request: int


class Acknowledged(msgspec.Struct):
    """The application has dealt with everything up to `position`."""

    request: int
    position: Position


@dataclass(frozen=True, slots=True)
class LocationTold:
    """The application says where the subscriber is now, in metres."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class CoordinateFound:
    """Where the subscriber is in the network, as its own measurements say."""

    located: Located


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


@dataclass(frozen=True, slots=True)
class ReadingChanged:
    """Nothing is read from the links while the application does not keep up."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class CloseAsked:
    pass


Event = (
    Started
    | Opened
    | Closed
    | Received
    | Placed
    | PlacementFailed
    | TokenGiven
    | TokenFailed
    | SubscribeAsked
    | FilterAsked
    | UnsubscribeAsked
    | Acknowledged
    | LocationTold
    | CoordinateFound
    | TimePassed
    | ReadingChanged
    | CloseAsked
)

# ── Instructions ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Connect:
    link: int
    url: str


class Send(msgspec.Struct):
    link: int
    message: messages.FromSubscriber


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close a link; messages that still come over it are ignored."""

    link: int


@dataclass(frozen=True, slots=True)
class RequestPlacement:
    """Ask the coordinator for a broker, other than those in `avoid`."""

    token: str = field(repr=False)
    device: str
    avoid: tuple[str, ...] = ()
    location: tuple[float, float] | None = None
    located: Located | None = None


@dataclass(frozen=True, slots=True)
class RenewToken:
    """Ask the coordinator for a token."""


class Deliver(msgspec.Struct):
    request: int
    position: Position
    notification: messages.Notification


@dataclass(frozen=True, slots=True)
class TellGap:
    """Results of this subscription before `position` are gone for good, and the application never got them."""

    request: int
    position: Position
    message: str


@dataclass(frozen=True, slots=True)
class TellConnected:
    subscriber: str
    device: str
    broker: str


class TellSubscribed(msgspec.Struct):
    request: int
    position: Position


@dataclass(frozen=True, slots=True)
class TellRefused:
    """The subscription is over: it could not be made, or could not be carried on."""

    request: int
    error: TocsinError


@dataclass(frozen=True, slots=True)
class TellFiltered:
    """The filter that the application asked for is in force; or, with `error`, the one before is."""

    request: int
    error: TocsinError | None = None


@dataclass(frozen=True, slots=True)
class TellUnsubscribed:
    request: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The session is over, and trying again would not help."""

    error: TocsinError


Instruction = (
    Connect
    | Send
    | Disconnect
    | RequestPlacement
    | RenewToken
    | Deliver
    | TellGap
    | TellConnected
    | TellSubscribed
    | TellRefused
    | TellFiltered
    | TellUnsubscribed
    | Fail
)
