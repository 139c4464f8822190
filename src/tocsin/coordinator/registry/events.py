"""The events that the coordinator handles. `now_s` is monotonic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.coordinates.coordinate import Coordinate
from tocsin.coordinates.located import Located
from tocsin.coordinator.moves.table import MoveRecord, PlanRun
from tocsin.coordinator.registry.records import SessionSubscription
from tocsin.model.location import Location
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.subscription_keys import KeyText


class Event:
    """A fact that the machine takes note of."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BrokerRegistered(Event):
    now_s: float
    broker: str
    url: str
    location: Location | None = None
    capacity: float = 1.0
    #: The secret of the broker's folder; empty if it has none.
    identity: str = ""
    start: str = ""
    now_us: int = 0
    #: Whether it may take over the name of another folder's broker that fell silent.
    takes_over: bool = True


@dataclass(frozen=True, slots=True)
class ReportedSession:
    """A session as its broker reports it."""

    subscriber: str
    generation: int
    connected: bool = False
    subscriptions: tuple[SessionSubscription, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """A broker's traffic, as it measures it."""

    connections: int = 0
    bytes_in_per_s: float = 0
    bytes_out_per_s: float = 0
    cpu_cores: float = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """A broker's counts since its last heartbeat: latencies by bucket, and hits and misses of its cache."""

    latencies: tuple[int, ...] = ()
    cache_hits: int = 0
    cache_misses: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a broker has measured since its last heartbeat: its coordinate, if that has changed, and round trips to its
    peers (None: no answer). `peers_seen` is the version of the peers that it knows."""

    coordinate: Coordinate | None = None
    round_trips_ms: Mapping[str, float | None] = field(default_factory=dict)
    peers_seen: str = ""
    #: Subscribers who have told where in the network they are.
    located: Mapping[str, Located] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeartbeatReceived(Event):
    """`draining`: the broker itself is shutting down. `pulled_bytes`: the bytes that came for subscriptions meanwhile.
    `prepared`: it holds all subscriptions of these, as ordered. `locations`: the new locations of subscribers."""

    now_s: float
    broker: str
    traffic: Traffic = Traffic()
    changed: tuple[ReportedSession, ...] = ()
    ended: tuple[str, ...] = ()
    draining: bool = False
    pulled_bytes: Mapping[KeyText, int] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    locations: Mapping[str, Location] = field(default_factory=dict)
    counted: Counted = Counted()
    incarnation: int = 0
    measured: Measured = Measured()


@dataclass(frozen=True, slots=True)
class SubscribersClaimed(Event):
    """A broker holds all subscriptions of these subscribers, and will keep their sessions from now on."""

    broker: str
    subscribers: tuple[str, ...]
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class PlacementAsked(Event):
    """`device` is empty if it is nameless."""

    now_s: float
    user: str
    device: str = ""
    location: Location | None = None
    avoid: frozenset[str] = frozenset()
    located: Located | None = None


@dataclass(frozen=True, slots=True)
class MovesAsked(Event):
    """A broker that drains asks where its subscribers should go."""

    now_s: float
    broker: str
    subscribers: tuple[str, ...]
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class BrokerModeSet(Event):
    """An operator wants a broker ACTIVE, CORDONED or DRAINING."""

    broker: str
    mode: BrokerState
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class BrokerRemoved(Event):
    now_s: float
    broker: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class PolicyChosen(Event):
    policy: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class PlanBegun(Event):
    """A plan is to be carried out. None of its moves has begun."""

    run: PlanRun
    moves: Sequence[MoveRecord]


@dataclass(frozen=True, slots=True)
class PlanStopped(Event):
    plan: str
    by: str


@dataclass(frozen=True, slots=True)
class PromiseMeasured(Event):
    """A plan was carried out a minute ago; this cov was measured since."""

    plan: str
    kept_cov: float


@dataclass(frozen=True, slots=True)
class UserRemoved(Event):
    user: str


@dataclass(frozen=True, slots=True)
class PersonForgotten(Event):
    """The coordinator may keep nothing that names them. Brokers learn of it in another way than by lost sessions."""

    name: str


@dataclass(frozen=True, slots=True)
class TimePassed(Event):
    """Must come several times within the silence that makes a broker dead: only silence that was watched counts."""

    now_s: float
