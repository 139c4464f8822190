"""Routes for brokers, and for operators who look after them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from tocsin.coordinates.coordinate import Coordinate
from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, NameInPath, Node, Role, broker_only, own_name_only
from tocsin.coordinator.registry import events as ev
from tocsin.coordinator.registry import session_wire
from tocsin.coordinator.registry.instructions import AnswerBroker, AnswerClaim, AnswerHeartbeat, AnswerMoves
from tocsin.coordinator.registry.machine import BrokerReport
from tocsin.errors import Forbidden, InvalidValue
from tocsin.protocol import coordination
from tocsin.runtime.http import ERRORS, IncarnationHeader, reply
from tocsin.runtime.tokens import keys_version

router = APIRouter(prefix="/v1/brokers", responses=ERRORS, tags=["brokers"])
_itself: list[Any] = [Depends(own_name_only)]


class LoadsAnswer(BaseModel):
    """By the load model, in bytes per second: sums of the rates of backend subscriptions, which are moving averages of
    the brokers' reports. During a subscription's first window the mean of all subscriptions is mixed in, less and less;
    after that, one for which nothing comes has the rate 0."""

    incoming: float = Field(description="Over the distinct backend subscriptions it holds")
    outgoing: float = Field(description="Over all holds of its connected subscribers")
    total: float


class DeliveriesAnswer(BaseModel):
    """Over the last minute; a figure is none if nothing was counted for it."""

    notifications: int = Field(description="Notifications to live subscriptions")
    p50_s: float | None = Field(
        description="From a result's commit to the socket: half of the notifications took no longer"
    )
    p95_s: float | None
    p99_s: float | None
    cache_hit_rate: float | None = Field(description="How often catching up was served from memory")


class BrokerAnswer(BaseModel):
    name: str
    state: coordination.BrokerState
    url: str
    location: coordination.Location | None
    capacity: float
    connections: int = Field(description="By its last heartbeat, as are bytes and cores")
    bytes_in_per_s: float
    bytes_out_per_s: float
    cpu_cores: float
    subscribers: int = Field(description="Subscribers whose sessions it keeps, connected or not")
    silent_s: float = Field(description="Seconds since it was last heard of")
    loads: LoadsAnswer
    deliveries: DeliveriesAnswer
    coordinate: Coordinate | None = Field(
        description="Its network coordinate, in milliseconds; null until it has told one"
    )


class BrokersAnswer(BaseModel):
    brokers: list[BrokerAnswer]


class ModeRequest(BaseModel):
    state: Literal["active", "cordoned", "draining"]
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")


class StateAnswer(BaseModel):
    broker: str
    state: coordination.BrokerState


class RemovedBroker(BaseModel):
    broker: str
    subscribers: int = Field(
        description="Subscribers whose sessions it kept. The coordinator remembers them, and places them elsewhere"
    )


@router.put("/{name}", response_model=coordination.BrokerWelcome)
async def register(
    name: NameInPath, body: coordination.BrokerRegistration, node: Node, role: Annotated[Role, Depends(broker_only)]
) -> Response:
    """Register a broker, or change what is known of it. It keeps the state that operators gave it."""
    if role is Role.BROKER and not body.identity:
        raise Forbidden(
            "identity: with the brokers' token, a broker registers only with an identity, so that names stay apart"
        )
    _check_url(body.url)
    event = ev.BrokerRegistered(
        node.now_s(),
        name,
        body.url.rstrip("/"),
        body.location,
        body.capacity,
        body.identity,
        body.start,
        node.clock.now_us(),
        body.takes_over,
    )
    answer = await node.ask(event, AnswerBroker)
    return reply(
        {
            "broker": name,
            "state": answer.state,
            "public_keys": node.keys.public_keys(),
            "heartbeat_every_s": node.settings.heartbeat_every_s,
            "incarnation": answer.incarnation,
        }
    )


@router.post("/{name}/heartbeats", response_model=coordination.HeartbeatAnswer, dependencies=_itself)
async def heartbeat(
    name: NameInPath, body: coordination.Heartbeat, node: Node, incarnation: IncarnationHeader = 0
) -> Response:
    """A broker reports what has changed. The answer is what it should know; 404 if it has to register first."""
    version, keys = node.users.revocations_version, node.keys.public_keys()
    changed = session_wire.known_people(body.changed, node.users.unforgotten_at(body.revocations_seen))
    event = ev.HeartbeatReceived(
        node.now_s(),
        name,
        session_wire.traffic(body),
        tuple(map(session_wire.reported, changed)),
        tuple(body.ended),
        body.draining,
        session_wire.pulled(body),
        tuple(body.prepared),
        body.locations,
        session_wire.counted(body),
        incarnation,
        session_wire.measured(body),
    )
    answer = await node.ask(event, AnswerHeartbeat)
    node.acknowledgements.note(name, body.revocations_seen)
    node.metrics.heartbeats.inc()
    return reply(
        {
            "state": answer.state,
            "lost": answer.lost,
            **session_wire.orders_body(answer.orders),
            "next_in_s": answer.next_in_s,
            "revoked": node.users.revoked_since(body.revocations_seen),
            "revocations_version": version,
            "public_keys": None if keys_version(keys) == body.keys_seen else keys,
            "peers": answer.peers[0] if answer.peers else None,
            "peers_version": answer.peers[1] if answer.peers else body.peers_seen,
        }
    )


@router.post("/{name}/sessions", response_model=coordination.SessionsAnswer, dependencies=_itself)
async def show_sessions(name: NameInPath, body: coordination.Subscribers, node: Node) -> Response:
    """The sessions of subscribers that have come to a broker, so that it can carry them on."""
    node.state.broker(name, node.now_s())
    known = [session for one in body.subscribers if (session := node.state.session(one)) is not None]
    bodies = session_wire.fitting_bodies(known)
    return reply({"sessions": bodies, "left_out": [one.subscriber for one in known[len(bodies) :]]})


@router.post("/{name}/claims", response_model=coordination.Claimed, dependencies=_itself)
async def claim(
    name: NameInPath, body: coordination.Subscribers, node: Node, incarnation: IncarnationHeader = 0
) -> Response:
    """A broker has taken subscribers over and keeps their sessions from now on; their former brokers lose them."""
    forgotten = node.users.unforgotten_at(node.acknowledgements.of(name))
    subscribers = tuple(one for one in body.subscribers if not forgotten or not session_wire.is_of(one, forgotten))
    answer = await node.ask(ev.SubscribersClaimed(name, subscribers, incarnation), AnswerClaim)
    node.metrics.claims.inc(len(answer.generations))
    return reply({"generations": answer.generations, "sessions": session_wire.fitting_bodies(answer.sessions)})


@router.post("/{name}/moves", response_model=coordination.MoveAnswer, dependencies=_itself)
async def move_away(
    name: NameInPath, body: coordination.Subscribers, node: Node, incarnation: IncarnationHeader = 0
) -> Response:
    """Where the subscribers of a draining broker should go. Subscribers that no broker can take now are left out."""
    event = ev.MovesAsked(node.now_s(), name, tuple(body.subscribers), incarnation)
    answer = await node.ask(event, AnswerMoves)
    for placed in answer.placements.values():
        node.metrics.placements.labels(placed.reason).inc()
    placements = {one: {"broker": placed.broker, "url": placed.url} for one, placed in answer.placements.items()}
    return reply({"placements": placements})


@router.get("", response_model=BrokersAnswer, dependencies=OPERATOR_ONLY)
async def list_brokers(node: Node) -> Response:
    """The brokers, by name."""
    return reply({"brokers": [_described(one) for one in node.state.brokers(node.now_s())]})


@router.get("/{name}", response_model=BrokerAnswer, dependencies=OPERATOR_ONLY)
async def show(name: NameInPath, node: Node) -> Response:
    """One broker."""
    return reply(_described(node.state.broker(name, node.now_s())))


@router.put("/{name}/state", response_model=StateAnswer, dependencies=OPERATOR_ONLY)
async def set_state(name: NameInPath, body: ModeRequest, node: Node) -> Response:
    """Cordon a broker (it takes no newcomers), drain it (its subscribers are moved away), or make it active again."""
    answer = await node.ask(ev.BrokerModeSet(name, coordination.BrokerState(body.state), body.by), AnswerBroker)
    node.balancer.wake()
    return reply({"broker": name, "state": answer.state})


@router.delete("/{name}", response_model=RemovedBroker, dependencies=OPERATOR_ONLY)
async def remove(name: NameInPath, node: Node) -> Response:
    """Forget a broker; refused while it is active and sends heartbeats."""
    subscribers = node.state.subscribers_of(name)
    await node.happened(ev.BrokerRemoved(node.now_s(), name))
    return reply({"broker": name, "subscribers": subscribers})


def _described(report: BrokerReport) -> dict[str, Any]:
    record = report.record
    return {
        "name": record.name,
        "state": report.state,
        "url": record.url,
        "location": record.location,
        "capacity": record.capacity,
        **asdict(report.traffic),
        "subscribers": report.subscribers,
        "silent_s": round(report.silent_s, 3),
        "loads": {"incoming": report.load.incoming, "outgoing": report.load.outgoing, "total": report.load.total},
        "deliveries": asdict(report.deliveries),
        "coordinate": report.coordinate,
    }


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url or parts.query or parts.fragment or parts.username is not None:
        raise InvalidValue("url must look like http://host:port, without user, query or fragment")
