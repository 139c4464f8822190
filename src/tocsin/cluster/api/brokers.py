"""Routes for brokers: registration, backend subscriptions, results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.faces import ERRORS, AnyCluster, ReadyCluster, reply
from tocsin.cluster.channels.parameters import check_values
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.results.store import Pulled, only
from tocsin.errors import HistoryGone, InvalidValue
from tocsin.model.catalogue import BackendSubscription, Broker, Channel, ParameterValue
from tocsin.model.position import Position

router = APIRouter(prefix="/v1", responses=ERRORS)

_ARROW = "application/vnd.apache.arrow.stream"
_NDJSON = "application/x-ndjson"
_CURSOR_HEADER = "Tocsin-Cursor"
_MAX_WAIT_S = 60.0
_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"


class BrokerRequest(BaseModel):
    callback_url: str = Field("", description="Where notifications are POSTed; empty for a broker that only pulls")
    push_limit_bytes: int = Field(0, ge=0, le=1 << 20, description="Results up to this size travel in the notification")


class Ask(BaseModel):
    channel: str
    parameters: dict[str, str | bool | int | float | None] = {}
    permission: str = Field("", max_length=255, description="Only subscriptions of one permission class are shared")


class Asks(BaseModel):
    subscriptions: list[Ask] = Field(max_length=100_000)


class Ids(BaseModel):
    ids: list[int] = Field(max_length=100_000)


class PullRequest(BaseModel):
    """Results of some subscriptions, each from its own position: what a broker needs to catch subscribers up."""

    after: dict[int, str] = Field(description="Subscription id to position, such as 7-4194305", max_length=10_000)
    limit: int = Field(10_000, ge=1, le=1_000_000)


@router.put("/brokers/{broker}", tags=["brokers"])
def register(broker: str, body: BrokerRequest, cluster: AnyCluster) -> Response:
    """Register a broker, or change what is known of it. Answers the cursor where its pulling may begin."""
    if not broker.isprintable() or not 1 <= len(broker) <= 64 or "/" in broker:
        raise InvalidValue("a broker's name has 1 to 64 printable characters and no slash")
    if body.callback_url and not body.callback_url.startswith(("http://", "https://")):
        raise InvalidValue(f"callback_url: expected http:// or https://, got {body.callback_url!r}")
    cluster.registry.put_broker(Broker(broker, body.callback_url, body.push_limit_bytes))
    return reply({"broker": broker, "cursor": cluster.results.last_sequence})


@router.get("/brokers", tags=["brokers"])
def list_brokers(cluster: AnyCluster) -> Response:
    return reply({"brokers": cluster.registry.brokers()})


@router.delete("/brokers/{broker}", tags=["brokers"])
def forget(broker: str, request: Request, cluster: ReadyCluster) -> Response:
    """Forget a broker. Subscriptions that only it held end."""
    ended = cluster.end_subscriptions(cluster.registry.remove_broker(broker))
    request.app.state.loop.call_soon_threadsafe(request.app.state.notifier.forget, broker)
    return reply({"broker": broker, "ended": ended})


@router.post("/brokers/{broker}/subscriptions", tags=["brokers"])
def subscribe(broker: str, body: Asks, cluster: ReadyCluster) -> Response:
    """Hold backend subscriptions for a broker; all of them, or, if one is wrong, none."""
    position = cluster.results.last_sequence
    by_group: dict[tuple[str, str], list[tuple[int, tuple[ParameterValue, ...]]]] = {}
    channels: dict[str, Channel] = {}
    for at, ask in enumerate(body.subscriptions):
        channel = cluster.catalogue.channel(ask.channel)
        channels[channel.name] = channel
        try:
            values = check_values(channel, ask.parameters)
        except InvalidValue as exc:
            raise InvalidValue(f"subscription {at + 1} of {len(body.subscriptions)}: {exc}") from exc
        by_group.setdefault((channel.name, ask.permission), []).append((at, values))
    answers: list[dict[str, Any]] = [{}] * len(body.subscriptions)
    for (name, permission), asks in by_group.items():
        done = cluster.subscribe(broker, name, [values for _, values in asks], permission)
        for (at, values), one in zip(asks, done.ids, strict=True):
            answers[at] = _described(channels[name], one, values, permission, position)
    return reply({"subscriptions": answers})


@router.get("/brokers/{broker}/subscriptions", tags=["brokers"])
def held(
    broker: str,
    cluster: AnyCluster,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """What a broker holds, by id, a page at a time."""
    cluster.registry.broker(broker)
    page = cluster.registry.held_by(broker, after, limit)
    position = cluster.results.last_sequence
    return reply({"subscriptions": [_describe_known(cluster, one, position) for one in page]})


@router.post("/brokers/{broker}/unsubscribe", tags=["brokers"])
def unsubscribe(broker: str, body: Ids, cluster: ReadyCluster) -> Response:
    """Let go of backend subscriptions. Those that no broker holds any more end."""
    ended = cluster.end_subscriptions(cluster.registry.unsubscribe(broker, body.ids))
    return reply({"released": len(set(body.ids)), "ended": ended})


@router.get("/brokers/{broker}/results", tags=["results"], responses={200: {"content": {_NDJSON: {}, _ARROW: {}}}})
async def pull(
    broker: str,
    request: Request,
    cluster: AnyCluster,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000,
    wait_s: Annotated[float, Query(ge=0, le=_MAX_WAIT_S)] = 0,
    accept: Annotated[str, Header()] = _NDJSON,
) -> Response:
    """Everything for a broker after a cursor, oldest first; the next cursor is in the header `Tocsin-Cursor`.

    With `wait_s` an empty answer waits that long for something to come.
    """
    await asyncio.to_thread(cluster.registry.broker, broker)
    deadline_s = cluster.clock.monotonic_s() + wait_s
    while True:
        waiting = asyncio.create_task(request.app.state.notifier.wait_for_results(wait_s or 1))
        pulled = await asyncio.to_thread(cluster.results.pull, after, limit_rows=limit, keep=_held_by(cluster, broker))
        left_s = deadline_s - cluster.clock.monotonic_s()
        if pulled.rows.num_rows or left_s <= 0:
            waiting.cancel()
            return _encoded(pulled, accept)
        after = pulled.through
        await asyncio.wait([waiting], timeout=left_s)
        waiting.cancel()


@router.post("/results", tags=["results"], responses={200: {"content": {_NDJSON: {}, _ARROW: {}}}})
def pull_subscriptions(
    body: PullRequest, cluster: AnyCluster, accept: Annotated[str, Header()] = _NDJSON
) -> Response:
    """Results of given subscriptions, each after its own position."""
    if not body.after:
        raise InvalidValue("after: name at least one subscription")
    known = cluster.registry.find(list(body.after))
    starts: dict[int, int] = {}
    for one, text in body.after.items():
        if one not in known:
            raise HistoryGone(f"subscription {one} has ended, and its history with it", earliest="")
        try:
            position = Position.parse(text)
        except ValueError as exc:
            raise InvalidValue(str(exc)) from exc
        if position.epoch != one:
            raise HistoryGone(f"position {text} is of another epoch than subscription {one}", earliest=f"{one}-0")
        starts[one] = position.sequence
    keep = only(list(starts))
    pulled = cluster.results.pull(min(starts.values()), limit_rows=body.limit, keep=lambda rows: _after(keep(rows), starts))
    return _encoded(pulled, accept)


def _after(rows: pa.Table, starts: dict[int, int]) -> pa.Table:
    if len(set(starts.values())) == 1:
        return rows
    pairs = zip(rows.column("subscription").to_pylist(), rows.column("sequence").to_pylist(), strict=True)
    return rows.filter(pa.array([sequence > starts[one] for one, sequence in pairs], pa.bool_()))


def _held_by(cluster: Cluster, broker: str) -> Callable[[pa.Table], pa.Table]:
    def keep(rows: pa.Table) -> pa.Table:
        ids = pc.unique(rows.column("subscription")).to_pylist()
        mine = cluster.registry.holders(ids).get(broker, [])
        return rows.filter(pc.is_in(rows.column("subscription"), value_set=pa.array(mine, pa.int64())))

    return keep


def _encoded(pulled: Pulled, accept: str) -> Response:
    headers = {_CURSOR_HEADER: str(pulled.through)}
    if _ARROW in accept:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pulled.rows.schema) as writer:
            writer.write_table(pulled.rows)
        return Response(sink.getvalue().to_pybytes(), headers=headers, media_type=_ARROW)
    return Response(to_ndjson(pulled.rows), headers=headers, media_type=_NDJSON)


def to_ndjson(rows: pa.Table) -> bytes:
    """One line per result. The payload is JSON already and is put in as it stands."""
    channels = {name: json.dumps(name) for name in pc.unique(rows.column("channel")).to_pylist()}
    columns = [rows.column(name).to_pylist() for name in ("subscription", "sequence", "channel", "payload")]
    stamps = rows.column("committed_at").cast(pa.int64()).to_pylist()
    return "".join(
        f'{{"subscription":{one},"channel":{channels[channel]},"position":"{one}-{sequence}",'
        f'"committed_at_us":{stamp},"payload":{payload}}}\n'
        for one, sequence, channel, payload, stamp in zip(*columns, stamps, strict=True)
    ).encode()


def to_messages(rows: pa.Table) -> list[dict[str, Any]]:
    """Results as values, for the few that travel inside a notification."""
    return [json.loads(line) for line in to_ndjson(rows).splitlines()]


def _described(
    channel: Channel, one: int, values: tuple[ParameterValue, ...], permission: str, sequence: int
) -> dict[str, Any]:
    parameters = {parameter.name: value for parameter, value in zip(channel.parameters, values, strict=True)}
    return {
        "id": one,
        "channel": channel.name,
        "parameters": parameters,
        "permission": permission,
        "position": str(Position(one, sequence)),
    }


def _describe_known(cluster: Cluster, one: BackendSubscription, sequence: int) -> dict[str, Any]:
    return _described(cluster.catalogue.channel(one.channel), one.id, one.values, one.permission, sequence)
