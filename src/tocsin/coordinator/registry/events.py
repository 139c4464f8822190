"""What happens to the coordinator. `now_s` is monotonic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.coordinator.moves.table import MoveRecord, PlanRun
from tocsin.coordinator.registry.records import SessionSubscription
from tocsin.model.location import Location
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.subscription_keys import KeyText


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    now_s: float
    broker: str
    url: str
    location: Location | None = None
    capacity: float = 1.0
    #: The secret of its folder; empty for one that has none.
    identity: str = ""
    start: str = ""
    now_us: int = 0
    #: Of another folder's broker that fell silent.
    takes_over: bool = True


@dataclass(frozen=True, slots=True)
class ReportedSession:
    """A session as the broker that keeps it tells of it."""

    subscriber: str
    generation: int
    connected: bool = False
    subscriptions: tuple[SessionSubscription, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a broker is doing, by its own measure."""

    connections: int = 0
    bytes_in_per_s: float = 0
    bytes_out_per_s: float = 0
    cpu_cores: float = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What a broker has counted since its last heartbeat: latencies by bucket, and how its cache did."""

    latencies: tuple[int, ...] = ()
    cache_hits: int = 0
    cache_misses: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """`draining`: the broker itself is shutting down. `pulled_bytes`: what has come for subscriptions meanwhile.
    `prepared`: it holds all that these hold, as it was told to. `locations`: where those are who have moved."""

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


@dataclass(frozen=True, slots=True)
class SubscribersClaimed:
    """A broker holds all that these subscribers hold, and will keep their sessions from now on."""

    broker: str
    subscribers: tuple[str, ...]
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class PlacementAsked:
    """`device` is empty for one that has no name."""

    now_s: float
    user: str
    device: str = ""
    location: Location | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MovesAsked:
    """A broker that drains asks where its subscribers should go."""

    now_s: float
    broker: str
    subscribers: tuple[str, ...]
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class BrokerModeSet:
    """An operator wants a broker ACTIVE, CORDONED or DRAINING."""

    broker: str
    mode: BrokerState
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    now_s: float
    broker: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class PolicyChosen:
    policy: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class PlanBegun:
    """A plan is to be carried out. None of its moves has begun."""

    run: PlanRun
    moves: Sequence[MoveRecord]


@dataclass(frozen=True, slots=True)
class PlanStopped:
    plan: str
    by: str


@dataclass(frozen=True, slots=True)
class UserRemoved:
    user: str


@dataclass(frozen=True, slots=True)
class PersonForgotten:
    """Nothing may be kept that names them: brokers are told by other means than by what is kept of sessions."""

    name: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """To be told several times within the silence that makes a broker dead: what was not watched is no silence."""

    now_s: float


Event = (
    BrokerRegistered
    | HeartbeatReceived
    | SubscribersClaimed
    | PlacementAsked
    | MovesAsked
    | BrokerModeSet
    | BrokerRemoved
    | PolicyChosen
    | PlanBegun
    | PlanStopped
    | UserRemoved
    | PersonForgotten
    | TimePassed
)
