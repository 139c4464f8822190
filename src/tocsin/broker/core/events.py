"""Events that the broker's machine takes: facts. Times are monotonic seconds.

Those that are made for each message or subscription are structs: to make a dataclass takes twice as long, a frozen one
six times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tocsin.coordinates.located import Located
from tocsin.errors import TocsinError
from tocsin.model.location import Location
from tocsin.model.position import Position
from tocsin.protocol.messages import Subscribe
from tocsin.protocol.ports import BackendHold, Delivery, KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

#: One subscriber's open connection; never used again.
ConnectionId = int


class Event:
    """A fact that the machine takes note of."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The broker is registered: its stored sessions, its holds at the cluster, and where live results begin."""

    sessions: Sequence[KeptSession]
    held: Sequence[BackendHold]
    cursor: int
    now_s: float


@dataclass(frozen=True, slots=True)
class SubscriberArrived(Event):
    """A subscriber said hello, and the token was good."""

    connection: ConnectionId
    user: str
    device: str
    permission: str
    issued_at_us: int
    expires_at_s: float
    subscriptions: Sequence[Subscribe]
    now_s: float


@dataclass(frozen=True, slots=True)
class SessionFetched(Event):
    """The session that the coordinator knows; None if there is none. It is certain only if the coordinator answered."""

    subscriber: SubscriberId
    session: KeptSession | None
    is_certain: bool
    now_s: float


class SubscribeAsked(Event, msgspec.Struct):
    connection: ConnectionId
    message: Subscribe
    now_s: float


@dataclass(frozen=True, slots=True)
class UnsubscribeAsked(Event):
    connection: ConnectionId
    subscription: int
    request: int
    now_s: float


@dataclass(frozen=True, slots=True)
class Acknowledged(Event):
    connection: ConnectionId
    positions: Sequence[Position]


@dataclass(frozen=True, slots=True)
class LocationTold(Event):
    connection: ConnectionId
    location: Location


@dataclass(frozen=True, slots=True)
class CoordinateTold(Event):
    connection: ConnectionId
    located: Located


@dataclass(frozen=True, slots=True)
class LocationsPublished(Event):
    """The outcome of PublishLocations."""

    is_done: bool


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    connection: ConnectionId
    now_s: float


@dataclass(frozen=True, slots=True)
class ConnectionCongested(Event):
    """More bytes wait to be sent than may."""

    connection: ConnectionId
    now_s: float


@dataclass(frozen=True, slots=True)
class ConnectionFlushed(Event):
    """All that waited has been sent, after the connection was congested or a confirmation was asked for."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class BackendsAcquired(Event):
    """The cluster holds these for us. `next_pull` is the number of the first pull that is certain to cover them."""

    acquired: Sequence[tuple[SubscriptionKey, BackendHold]]
    refused: Sequence[tuple[SubscriptionKey, TocsinError]]
    next_pull: int
    now_s: float


@dataclass(frozen=True, slots=True)
class HoldsListed(Event):
    """The cluster has described what it holds for us once more: the columns of results may have changed."""

    held: Sequence[BackendHold]


@dataclass(frozen=True, slots=True)
class BackendsReleased(Event):
    now_s: float


@dataclass(frozen=True, slots=True)
class ResultsPulled(Event):
    """Everything for this broker up to `through`, oldest first."""

    pull: int
    deliveries: Sequence[Delivery]
    through: int
    now_s: float


@dataclass(frozen=True, slots=True)
class CursorLost(Event):
    """Live results up to `through` are gone: the broker was away for longer than they are kept. Or, with `is_rewound`,
    the cursor belongs to a history that is gone, and existing results come after `through`."""

    through: int
    now_s: float
    is_rewound: bool = False


@dataclass(frozen=True, slots=True)
class HistoryPulled(Event):
    """The results of these subscriptions, each after its sequence, up to `through`."""

    after: Mapping[int, int]
    deliveries: Sequence[Delivery]
    through: int


@dataclass(frozen=True, slots=True)
class HistoryLost(Event):
    """The results of these subscriptions are gone up to `earliest`. Or, with `is_rewound`, these positions belong to a
    history that is gone, and existing results come after `earliest`."""

    after: Mapping[int, int]
    earliest: int
    is_rewound: bool = False


@dataclass(frozen=True, slots=True)
class ReportDue(Event):
    """It is time to tell the coordinator about changes."""


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """We own these from now on. The coordinator's copies of them come with SessionFetched, or are asked for."""

    generations: Mapping[SubscriberId, int]


@dataclass(frozen=True, slots=True)
class Reported(Event):
    """The coordinator knows of these now; some have become another broker's."""

    subscribers: Mapping[SubscriberId, int]
    ended: Sequence[SubscriberId]
    lost: Sequence[SubscriberId]
    revoked: Mapping[str, int]
    now_s: float
    prepared: Sequence[SubscriberId] = ()
    locations: Mapping[SubscriberId, Location] = field(default_factory=dict)
    #: People whose data must not be kept any more, by the fingerprints of their names, with a time in µs since 1970:
    #: later tokens are somebody else's.
    forgotten: Mapping[str, int] = field(default_factory=dict)
    located: Mapping[SubscriberId, Located] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ordered(Event):
    """The coordinator's orders for its plans; an order may come more than once."""

    #: Hold the subscriptions of these subscribers: they may be told to come.
    prepare: Mapping[SubscriberId, Sequence[SubscriptionKey]]
    #: Take over the sessions of these subscribers, who are away.
    adopt: Sequence[SubscriberId]
    #: Send these to another broker, with its address.
    move: Mapping[SubscriberId, tuple[str, str]]
    now_s: float


@dataclass(frozen=True, slots=True)
class DrainStarted(Event):
    """All subscribers have to leave: an operator wants it, or, with `is_ending`, the process is about to end."""

    is_ending: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class DrainEnded(Event):
    """The operator has changed their mind."""


@dataclass(frozen=True, slots=True)
class MovesPlaced(Event):
    """The coordinator's choice for those who have to go: subscriber to broker and its address."""

    placements: Mapping[SubscriberId, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NotStored(Event):
    """The store did not take the last changes of these sessions, and nobody has been told of them.

    `positions` and `presence` are to be stored later; `request` is the subscriber's request, if there was one.
    """

    subscribers: Sequence[SubscriberId]
    positions: Sequence[tuple[SubscriberId, SubscriptionKey, Position]]
    presence: Sequence[SubscriberId]
    error: TocsinError
    request: int
    now_s: float


@dataclass(frozen=True, slots=True)
class StoreChecked(Event):
    """Whether the store takes changes; `reason` says why not."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionRecalled(Event):
    """A session as the store has it; None if it has none."""

    subscriber: SubscriberId
    session: KeptSession | None
    now_s: float


@dataclass(frozen=True, slots=True)
class Ticked(Event):
    now_s: float
