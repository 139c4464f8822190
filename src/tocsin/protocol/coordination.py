"""The requests of brokers and subscribers to the coordinator over HTTP, and its answers.

Pydantic models: the coordinator's OpenAPI description is made from them, and brokers use the same.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field

from tocsin.coordinates.coordinate import MAX_MS, Coordinate
from tocsin.coordinates.located import Located
from tocsin.filters.words import MAX_CHARACTERS
from tocsin.model.catalogue import ParameterValue
from tocsin.model.latencies import BUCKETS
from tocsin.protocol.pings import MAX_PEERS
from tocsin.protocol.subscribers import NAME_PATTERN, Placement
from tocsin.protocol.subscription_keys import MAX_CHANNEL_LENGTH

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
#: USER/DEVICE
SubscriberId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@~-]{1,64}/[A-Za-z0-9_.@~-]{1,64}$")]
#: Planar metres, as in channels.
Location = tuple[
    Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)],
    Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)],
]
RoundTripMs = Annotated[float, Field(gt=0, le=MAX_MS, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=1 << 53)]
#: A rate or a capacity of a machine: sums of these, over any time, are finite numbers.
_Rate = Annotated[float, Field(ge=0, le=1 << 53)]
#: A count within a heartbeat; a minute's counts can be added up without overflow.
_Events = Annotated[int, Field(ge=0, le=1 << 40)]


class BrokerState(StrEnum):
    """ACTIVE takes newcomers; CORDONED takes none and keeps its own; DRAINING moves its own away; DEAD fell silent."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DEAD = "dead"


class BrokerRegistration(BaseModel):
    url: str = Field(max_length=2000, description="Its address for subscribers: http:// or https://")
    location: Location | None = Field(None, description="Its location, for nearest placement")
    capacity: float = Field(1.0, ge=1e-6, le=1e9, description="Its capacity, relative to other brokers")
    identity: str = Field(
        "", max_length=64, description="The secret of its data folder: no other folder's broker gets its name meanwhile"
    )
    start: str = Field(
        "", max_length=64, description="Random for each start, so that a repeated registration changes nothing"
    )
    takes_over: bool = Field(
        default=True,
        description="Whether to take the name from another identity that fell silent; else that is 409 `in_use`",
    )


class BrokerWelcome(BaseModel):
    broker: str
    state: BrokerState
    public_keys: list[str] = Field(description="PEM; users' tokens are signed with one of them")
    heartbeat_every_s: float
    incarnation: int = Field(0, description="To be given with each later call, as `Tocsin-Incarnation`")


class SubscriptionKeyBody(BaseModel):
    """A subscription key: subscriptions with equal keys are the same."""

    channel: str = Field(max_length=MAX_CHANNEL_LENGTH)
    parameters: dict[str, ParameterValue] = {}
    permission: str = Field("", max_length=255)


class ReportedSubscription(SubscriptionKeyBody):
    """A frontend subscription as brokers report it, so that another broker can carry it on."""

    position: str = Field(max_length=50, pattern=r"^\d{1,19}[-~*]\d{1,19}$", description="Acknowledged up to here")
    where: str = Field("", max_length=MAX_CHARACTERS, description="Its filter, as the subscriber wrote it")


class Session(BaseModel):
    """What a broker keeps for one subscriber. The highest `generation` owns it."""

    subscriber: SubscriberId
    generation: _Count
    connected: bool = False
    subscriptions: list[ReportedSubscription] = Field([], max_length=10_000)


class PulledSubscription(SubscriptionKeyBody):
    """The bytes that came for a subscription since the last heartbeat."""

    size_bytes: _Count


class Heartbeat(BaseModel):
    connections: _Count = 0
    bytes_in_per_s: _Rate = 0
    bytes_out_per_s: _Rate = 0
    cpu_cores: _Rate = 0
    changed: list[Session] = Field([], max_length=100_000, description="Sessions that changed since the last heartbeat")
    ended: list[SubscriberId] = Field(
        [], max_length=100_000, description="Subscribers whose sessions it no longer keeps"
    )
    pulled: list[PulledSubscription] = Field([], max_length=100_000, description="The bytes of new results")
    revocations_seen: _Count = Field(0, description="The `revocations_version` of the last answer")
    keys_seen: str = Field("", max_length=64, description="Which `public_keys` it has: their SHA-256, 16 digits of it")
    draining: bool = Field(False, description="It is shutting down and moves its subscribers away")
    prepared: list[SubscriberId] = Field(
        [], max_length=100_000, description="Subscribers of `prepare` whose subscriptions are all held now"
    )
    locations: dict[SubscriberId, Location] = Field({}, max_length=100_000, description="Subscribers' new locations")
    located: dict[SubscriberId, Located] = Field(
        {}, max_length=100_000, description="Subscribers' new coordinates, and the round trips that they have measured"
    )
    latencies: list[_Events] = Field(
        [],
        max_length=BUCKETS,
        description="Notifications written since the last one, by how long after their commit: counts per bucket, the "
        "bounds of which are 1 ms times powers of the square root of two; empty if there were none",
    )
    cache_hits: _Events = Field(0, description="Times since the last one that catching up was served from memory")
    cache_misses: _Events = Field(0, description="Times that catching up needed the cluster")
    coordinate: Coordinate | None = Field(None, description="Its coordinate, if that has changed")
    round_trips_ms: dict[Name, RoundTripMs | None] = Field(
        {},
        max_length=MAX_PEERS,
        description="Round trips to peers, measured since the last one; null: it did not answer",
    )
    peers_seen: str = Field("", max_length=64, description="The `peers_version` of the last `peers`")


class Preparation(BaseModel):
    """Hold these backend subscriptions: the subscriber may be told to come."""

    subscriber: SubscriberId
    subscriptions: list[SubscriptionKeyBody]


class MoveOrder(BaseModel):
    """Tell the subscriber to go to that broker."""

    subscriber: SubscriberId
    broker: str
    url: str


class HeartbeatAnswer(BaseModel):
    state: BrokerState
    prepare: list[Preparation] = Field(
        [], description="Subscribers to prepare for. The broker answers with `prepared`, every time"
    )
    adopt: list[SubscriberId] = Field([], description="Subscribers who are away, to be claimed")
    move: list[MoveOrder] = []
    next_in_s: float = Field(1.0, description="Seconds until the next heartbeat")
    lost: list[SubscriberId] = Field(description="Sessions of `changed` that another broker has taken over since")
    revoked: dict[str, int] = Field(
        description="User to µs since 1970: tokens issued earlier are void. `sha256:` and the digest of a name stand "
        "for a person who was forgotten: the broker keeps nothing that names them, then says so by `revocations_seen`"
    )
    revocations_version: int
    public_keys: list[str] | None = Field(None, description="The public keys, if they differ from those of `keys_seen`")
    peers: dict[str, str] | None = Field(
        None, description="The brokers to measure, with their addresses, if they differ from those of `peers_seen`"
    )
    peers_version: str = ""


class Subscribers(BaseModel):
    """Those whose sessions a broker asks for, claims because it holds all their subscriptions, or wants to send to
    another broker because it drains."""

    subscribers: list[SubscriberId] = Field(max_length=100_000)


class SessionsAnswer(BaseModel):
    sessions: list[Session] = Field(description="The sessions that are kept")
    left_out: list[SubscriberId] = Field(
        [], description="Subscribers that did not fit into one answer: ask again for them"
    )


class Claimed(BaseModel):
    """`sessions` are those that were claimed: former owners may have reported more since the broker last asked."""

    generations: dict[str, int]
    sessions: list[Session] = Field([], description="As many as fit into one answer; the others can be asked for")


class PlacementRequest(BaseModel):
    device: Name | None = None
    location: Location | None = None
    located: Located | None = Field(
        None, description="Its coordinate and the round trips that it has measured, for `nearest-network`"
    )
    avoid: list[str] = Field([], max_length=100, description="Brokers that could not be reached")


class MoveAnswer(BaseModel):
    placements: dict[str, Placement]
