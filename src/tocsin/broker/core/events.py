"""Events that the broker's machine takes: facts. Times are monotonic seconds.

Those that are made for each message or subscription are not frozen: to make a frozen one takes three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.errors import TocsinError
from tocsin.model.location import Location
from tocsin.model.position import Position
from tocsin.protocol.messages import Subscribe
from tocsin.protocol.ports import BackendHold, Delivery, KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

#: One subscriber's open connection; never used again.
ConnectionId = int


@dataclass(frozen=True, slots=True)
class Started:
    """The broker is registered: its stored sessions, its holds at the cluster, and where live results begin."""

    sessions: Sequence[KeptSession]
    held: Sequence[BackendHold]
    cursor: int
    now_s: float


@dataclass(frozen=True, slots=True)
class SubscriberArrived:
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
class SessionFetched:
    """The session that the coordinator knows; None if there is none. It is certain only if the coordinator answered."""

    subscriber: SubscriberId
    session: KeptSession | None
    is_certain: bool
    now_s: float


@dataclass(slots=True)
class SubscribeAsked:
    connection: ConnectionId
    message: Subscribe
    now_s: float


@dataclass(frozen=True, slots=True)
class UnsubscribeAsked:
    connection: ConnectionId
    subscription: int
    request: int
    now_s: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    connection: ConnectionId
    positions: Sequence[Position]


@dataclass(frozen=True, slots=True)
class LocationTold:
    connection: ConnectionId
    location: Location


@dataclass(frozen=True, slots=True)
class LocationsPublished:
    """The outcome of PublishLocations."""

    is_done: bool


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    connection: ConnectionId
    now_s: float


@dataclass(frozen=True, slots=True)
class ConnectionCongested:
    """More bytes wait to be sent than may."""

    connection: ConnectionId
    now_s: float


@dataclass(frozen=True, slots=True)
class ConnectionFlushed:
    """All that waited has been sent, after the connection was congested or a confirmation was asked for."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class BackendsAcquired:
    """The cluster holds these for us. `next_pull` is the number of the first pull that is certain to cover them."""

    acquired: Sequence[tuple[SubscriptionKey, BackendHold]]
    refused: Sequence[tuple[SubscriptionKey, TocsinError]]
    next_pull: int
    now_s: float


@dataclass(frozen=True, slots=True)
class BackendsReleased:
    now_s: float


@dataclass(frozen=True, slots=True)
class ResultsPulled:
    """Everything for this broker up to `through`, oldest first."""

    pull: int
    deliveries: Sequence[Delivery]
    through: int
    now_s: float


@dataclass(frozen=True, slots=True)
class CursorLost:
    """Live results up to `through` are gone: the broker was away for longer than they are kept. Or, with `is_rewound`,
    the cursor belongs to a history that is gone, and existing results come after `through`."""

    through: int
    now_s: float
    is_rewound: bool = False


@dataclass(frozen=True, slots=True)
class HistoryPulled:
    """The results of these subscriptions, each after its sequence, up to `through`."""

    after: Mapping[int, int]
    deliveries: Sequence[Delivery]
    through: int


@dataclass(frozen=True, slots=True)
class HistoryLost:
    """The results of these subscriptions are gone up to `earliest`. Or, with `is_rewound`, these positions belong to a
    history that is gone, and existing results come after `earliest`."""

    after: Mapping[int, int]
    earliest: int
    is_rewound: bool = False


@dataclass(frozen=True, slots=True)
class ReportDue:
    """It is time to tell the coordinator about changes."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """We own these from now on. The coordinator's copies of them come with SessionFetched, or are asked for."""

    generations: Mapping[SubscriberId, int]


@dataclass(frozen=True, slots=True)
class Reported:
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


@dataclass(frozen=True, slots=True)
class Ordered:
    """The coordinator's orders for its plans; an order may come more than once."""

    #: Hold the subscriptions of these subscribers: they may be told to come.
    prepare: Mapping[SubscriberId, Sequence[SubscriptionKey]]
    #: Take over the sessions of these subscribers, who are away.
    adopt: Sequence[SubscriberId]
    #: Send these to another broker, with its address.
    move: Mapping[SubscriberId, tuple[str, str]]
    now_s: float


@dataclass(frozen=True, slots=True)
class DrainStarted:
    """All subscribers have to leave: an operator wants it, or, with `is_ending`, the process is about to end."""

    is_ending: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """The operator has changed their mind."""


@dataclass(frozen=True, slots=True)
class MovesPlaced:
    """The coordinator's choice for those who have to go: subscriber to broker and its address."""

    placements: Mapping[SubscriberId, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NotStored:
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
class StoreChecked:
    """Whether the store takes changes; `reason` says why not."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionRecalled:
    """A session as the store has it; None if it has none."""

    subscriber: SubscriberId
    session: KeptSession | None
    now_s: float


@dataclass(frozen=True, slots=True)
class Ticked:
    now_s: float


Event = (
    Started
    | SubscriberArrived
    | SessionFetched
    | SubscribeAsked
    | UnsubscribeAsked
    | Acknowledged
    | LocationTold
    | LocationsPublished
    | ConnectionLost
    | ConnectionCongested
    | ConnectionFlushed
    | BackendsAcquired
    | BackendsReleased
    | ResultsPulled
    | CursorLost
    | HistoryPulled
    | HistoryLost
    | ReportDue
    | Claimed
    | Reported
    | Ordered
    | DrainStarted
    | DrainEnded
    | MovesPlaced
    | NotStored
    | StoreChecked
    | SessionRecalled
    | Ticked
)
