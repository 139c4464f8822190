"""Instructions that the broker's machine gives to its shell: orders. Some are answered with an event.

Those that are made for each message or subscription are structs, as in `events.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tocsin.broker.core.events import ConnectionId
from tocsin.coordinates.located import Located
from tocsin.model.location import Location
from tocsin.model.position import Position
from tocsin.protocol.messages import FromBroker
from tocsin.protocol.ports import KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey


class Send(msgspec.Struct):
    connection: ConnectionId
    message: FromBroker


class Deliver(msgspec.Struct):
    """Write these at once. With `confirm`, answer ConnectionFlushed when they are written."""

    connection: ConnectionId
    wires: Sequence[bytes]
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class NoteDelivered:
    """Results have been handed to live subscriptions: the number of receivers by commit time."""

    receivers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Close:
    connection: ConnectionId
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Acquire:
    """Hold these at the cluster; answer BackendsAcquired."""

    keys: Sequence[SubscriptionKey]


@dataclass(frozen=True, slots=True)
class Release:
    """Release these at the cluster; answer BackendsReleased."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class RequestSnapshots:
    """Have the cluster put snapshots into the results of these. Not answered: the snapshots are pulled."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class FetchHistory:
    """Pull results of these subscriptions, each after its sequence; answer HistoryPulled or HistoryLost."""

    after: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class FetchSession:
    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class RecallSession:
    """Read a session from the store; answer SessionRecalled."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class NoteFailure:
    """A connection's message has revealed a mistake of our own; the connection is closed for it."""

    connection: ConnectionId
    error: Exception


@dataclass(frozen=True, slots=True)
class StoreSession:
    subscriber: SubscriberId
    generation: int


@dataclass(frozen=True, slots=True)
class ForgetSession:
    subscriber: SubscriberId


class StoreSubscription(msgspec.Struct):
    subscriber: SubscriberId
    key: SubscriptionKey
    position: Position
    where: str = ""


@dataclass(frozen=True, slots=True)
class ForgetSubscription:
    subscriber: SubscriberId
    key: SubscriptionKey


@dataclass(frozen=True, slots=True)
class StorePositions:
    positions: Sequence[tuple[SubscriberId, SubscriptionKey, Position]]


@dataclass(frozen=True, slots=True)
class StorePresence:
    """How long these have been away by now; None: they are here."""

    away_s: Mapping[SubscriberId, float | None]


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the coordinator: first the claims, then the rest; answer Claimed and Reported.

    `pulled_bytes` is what each backend subscription has brought since the last report; `prepared` are the subscribers
    for whom we hold everything that we were told to hold; `locations` are those of subscribers who have moved, and
    `located` has their coordinates.
    """

    claims: Sequence[SubscriberId]
    changed: Mapping[SubscriberId, tuple[int, bool, KeptSession]]
    ended: Sequence[SubscriberId]
    pulled_bytes: Mapping[SubscriptionKey, int]
    prepared: Sequence[SubscriberId] = ()
    locations: Mapping[SubscriberId, Location] = field(default_factory=dict)
    located: Mapping[SubscriberId, Located] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishLocations:
    """Tell the cluster where these users are; answer LocationsPublished."""

    locations: Mapping[str, Location]


@dataclass(frozen=True, slots=True)
class RequestMoves:
    """Ask the coordinator where these go; answer MovesPlaced."""

    subscribers: Sequence[SubscriberId]


#: Calls to the cluster or the coordinator. Most are answered with an event.
Call = Acquire | Release | RequestSnapshots | FetchHistory | FetchSession | PublishLocations | RequestMoves
#: Changes that are stored before anything else is done.
Change = StoreSession | ForgetSession | StoreSubscription | ForgetSubscription | StorePositions | StorePresence
Instruction = Call | Change | Send | Deliver | Close | RecallSession | Report | NoteDelivered | NoteFailure
