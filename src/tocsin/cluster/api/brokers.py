"""Routes for brokers: registration, backend subscriptions, results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.access import GivenRole, OwnName, Role
from tocsin.cluster.api.dependencies import AnyCluster, ReadyCluster
from tocsin.cluster.channels.compiler.parameters import check_class, check_filled, check_values
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.results.store import Pulled
from tocsin.cluster.results.wire import ARROW, NDJSON, encode_results
from tocsin.errors import Forbidden, HistoryGone, InvalidValue, NotFound, NotGranted, TocsinError, WrongEntries
from tocsin.model.catalogue import Channel, FilledBy, ParameterValue
from tocsin.model.position import Position
from tocsin.model.schema import ResultColumn
from tocsin.runtime.http import ERRORS, IncarnationHeader, reply

router = APIRouter(prefix="/v1", responses=ERRORS)

_CURSOR_HEADER = "Tocsin-Cursor"
#: Names the process that answers. A broker that sees a new name asks again for its subscriptions.
RUN_HEADER = "Tocsin-Run"
_MAX_WAIT_S = 60.0
#: For OpenAPI: results have two forms, and the next cursor is in a header.
_RESULTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Results, oldest first",
        "content": {NDJSON: {"schema": {"type": "string"}}, ARROW: {"schema": {"type": "string"}}},
        "headers": {
            _CURSOR_HEADER: {"description": "The cursor to go on from", "schema": {"type": "string"}},
            RUN_HEADER: {
                "description": "A new value after each start of the cluster, and when columns of results change",
                "schema": {"type": "string"},
            },
        },
    }
}
#: The largest value of a BIGINT column.
_MAX_INT = (1 << 63) - 1

_Id = Annotated[int, Field(ge=0, le=_MAX_INT)]
_Value = str | bool | int | float


class BrokerRequest(BaseModel):
    identity: str = Field(
        "", max_length=64, description="The secret of its data folder: no other folder's broker gets its name meanwhile"
    )
    start: str = Field(
        "", max_length=64, description="Random for each start, so that a repeated registration changes nothing"
    )


class Registered(BaseModel):
    broker: str
    cursor: int = Field(description="The cursor at which its pulls may begin: all earlier results lie before it")
    incarnation: int = Field(description="To be given with each later call, as `Tocsin-Incarnation`")


class BrokerAnswer(BaseModel):
    name: str


class BrokersAnswer(BaseModel):
    brokers: list[BrokerAnswer]


class Forgotten(BaseModel):
    broker: str
    ended: int = Field(description="Subscriptions that nobody holds any more")


class WantedSubscription(BaseModel):
    channel: str
    parameters: dict[str, _Value | None] = {}
    permission: str = Field("", max_length=255, description="Only subscriptions of one permission class are shared")
    filled: list[str] = Field([], max_length=100, description="The parameters that the broker has filled in")


class WantedSubscriptions(BaseModel):
    subscriptions: list[WantedSubscription] = Field(max_length=100_000)


class SubscriptionAnswer(BaseModel):
    id: int
    channel: str
    parameters: dict[str, _Value]
    filled: dict[str, FilledBy] = Field(
        description="Parameters that are filled in for the subscriber, and their sources"
    )
    permission: str
    position: str = Field(description="EPOCH-SEQUENCE: the results that follow come after it")
    failure: str = Field(description="The sentence that says why it has no more results, or empty")
    snapshot: bool = Field(description="Whether subscribers get what holds first: `WITH SNAPSHOT`")


class ColumnAnswer(BaseModel):
    name: str
    type: str


class SubscriptionsAnswer(BaseModel):
    subscriptions: list[SubscriptionAnswer]
    columns: dict[str, list[ColumnAnswer]] = Field(
        description="By channel: the columns of its results, with their types in Spark SQL; for filters"
    )


class Ids(BaseModel):
    ids: list[_Id] = Field(max_length=100_000)


class SnapshotsRequested(BaseModel):
    requested: int = Field(description="How many of the subscriptions the broker holds: these get a snapshot")


class Unsubscribed(BaseModel):
    released: int
    ended: int = Field(description="Subscriptions that nobody holds any more")


class PullRequest(BaseModel):
    """Results of some subscriptions, each from its own position: a broker needs them to catch subscribers up."""

    after: dict[_Id, str] = Field(
        description="Subscription id to position, such as 7-4194305", min_length=1, max_length=10_000
    )
    limit: int = Field(10_000, ge=1, le=1_000_000)


@router.put("/brokers/{broker}", response_model=Registered, tags=["brokers"])
def register(broker: str, body: BrokerRequest, cluster: AnyCluster, role: GivenRole) -> Response:
    """Register a broker. Answers with the cursor at which it may begin to pull."""
    if not broker.isprintable() or not 1 <= len(broker) <= 64 or "/" in broker:
        raise InvalidValue("a broker's name has 1 to 64 printable characters and no slash")
    if role is Role.BROKER and not body.identity:
        raise Forbidden(
            "identity: with the brokers' token, a broker registers only with an identity, so that names stay apart"
        )
    # Changes that an earlier incarnation has begun are finished before this, or refused.
    with cluster.subscription_lock:
        incarnation = cluster.incarnations.register(broker, body.identity, body.start)
        cluster.registry.put_broker(broker)
        cluster.registry.forget_ended(broker)
    return reply({"broker": broker, "cursor": cluster.results.last_sequence, "incarnation": incarnation})


@router.get("/brokers", response_model=BrokersAnswer, tags=["brokers"])
def list_brokers(cluster: AnyCluster) -> Response:
    """The registered brokers."""
    return reply({"brokers": [{"name": name} for name in cluster.registry.brokers()]})


@router.delete("/brokers/{broker}", response_model=Forgotten, tags=["brokers"])
def forget(broker: str, cluster: ReadyCluster) -> Response:
    """Forget a broker. Subscriptions that only it held end."""
    return reply({"broker": broker, "ended": cluster.forget_broker(broker)})


@router.post(
    "/brokers/{broker}/subscriptions", response_model=SubscriptionsAnswer, tags=["brokers"], dependencies=[OwnName]
)
def subscribe(
    broker: str, body: WantedSubscriptions, cluster: ReadyCluster, incarnation: IncarnationHeader = 0
) -> Response:
    """Hold backend subscriptions for a broker: all of them or, if some are wrong, none. The error then lists all wrong
    ones, so that the broker can ask for the rest at once."""
    cluster.registry.check_registered(broker)
    by_group: dict[tuple[str, str], list[tuple[int, tuple[ParameterValue, ...]]]] = {}
    channels: dict[str, Channel] = {}
    answers: list[dict[str, Any]] = [{}] * len(body.subscriptions)
    # Until all are held, none of their channels may be dropped.
    with cluster.subscription_lock:
        cluster.incarnations.check(broker, incarnation)
        wrong: dict[int, TocsinError] = {}
        for at, wanted in enumerate(body.subscriptions):
            try:
                cluster.catalogue.channel(wanted.channel)  # Its error lists the channels there are.
                channel = cluster.channel_at_work(wanted.channel).channel
                check_filled(channel, wanted.filled)
                values = check_values(channel, wanted.parameters)
                check_class(channel, values, wanted.permission)
                cluster.grants.check_subscribe(channel.name, wanted.permission)
            except (NotFound, InvalidValue, NotGranted) as exc:
                wrong[at] = exc
                continue
            channels[channel.name] = channel
            by_group.setdefault((channel.name, wanted.permission), []).append((at, values))
        _refuse_wrong(wrong, len(body.subscriptions))
        position = cluster.results.last_sequence
        for (name, permission), many in by_group.items():
            done = cluster.subscribe(broker, name, [values for _, values in many], permission)
            failures = cluster.registry.failures(name)
            for (at, values), one in zip(many, done.ids, strict=True):
                failure = failures.get(one, "")
                answers[at] = _described(channels[name], one, values, permission, position, failure)
    return reply({"subscriptions": answers, "columns": _columns(cluster, channels)})


@router.get(
    "/brokers/{broker}/subscriptions", response_model=SubscriptionsAnswer, tags=["brokers"], dependencies=[OwnName]
)
def held(
    broker: str,
    cluster: AnyCluster,
    after: Annotated[int, Query(ge=0, le=_MAX_INT)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """A broker's backend subscriptions, by id, a page at a time; operators may look too."""
    cluster.registry.check_registered(broker)
    position = cluster.results.last_sequence
    with cluster.subscription_lock:  # Values must go with the parameters of their channel, which may be replaced.
        page = cluster.registry.held_by(broker, after, limit)
        channels = {channel.name: channel for channel in cluster.catalogue.channels.values()}
    failures = {name: cluster.registry.failures(name) for name in {one.channel for one in page}}
    return reply(
        {
            "subscriptions": [
                _described(
                    channels[one.channel],
                    one.id,
                    one.values,
                    one.permission,
                    position,
                    failures[one.channel].get(one.id, ""),
                )
                for one in page
                if one.channel in channels  # otherwise it is being dropped just now
            ],
            "columns": _columns(cluster, failures),
        }
    )


@router.post("/brokers/{broker}/snapshots", response_model=SnapshotsRequested, tags=["brokers"], dependencies=[OwnName])
def request_snapshots(broker: str, body: Ids, cluster: ReadyCluster, incarnation: IncarnationHeader = 0) -> Response:
    """Put a snapshot into the results of each of these backend subscriptions, soon and after all results so far: for
    subscribers who come to share it. New backend subscriptions of channels WITH SNAPSHOT get one without this call."""
    cluster.registry.check_registered(broker)
    with cluster.subscription_lock:
        cluster.incarnations.check(broker, incarnation)
        requested = cluster.request_snapshots(broker, body.ids)
    return reply({"requested": requested})


@router.post("/brokers/{broker}/unsubscribe", response_model=Unsubscribed, tags=["brokers"], dependencies=[OwnName])
def unsubscribe(broker: str, body: Ids, cluster: ReadyCluster, incarnation: IncarnationHeader = 0) -> Response:
    """Release backend subscriptions. Those that no broker holds any more end."""
    with cluster.subscription_lock:
        cluster.incarnations.check(broker, incarnation)
        ended = cluster.unsubscribe(broker, body.ids)
    return reply({"released": len(set(body.ids)), "ended": ended})


@router.get(
    "/brokers/{broker}/results",
    tags=["results"],
    response_class=Response,
    responses=_RESULTS,
    dependencies=[OwnName],
)
async def pull(
    broker: str,
    cluster: AnyCluster,
    after: Annotated[int, Query(ge=0, le=_MAX_INT)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000,
    wait_s: Annotated[float, Query(ge=0, le=_MAX_WAIT_S)] = 0,
    accept: Annotated[str, Header()] = NDJSON,
    incarnation: IncarnationHeader = 0,
) -> Response:
    """Everything for a broker after a cursor, oldest first; the next cursor is in the header `Tocsin-Cursor`.

    With `wait_s` an empty answer waits that long for results.
    """
    await asyncio.to_thread(cluster.registry.check_registered, broker)
    deadline_s = cluster.clock.monotonic_s() + wait_s

    def look() -> Pulled:
        cluster.incarnations.check(broker, incarnation)
        return cluster.results.pull(
            after,
            limit_rows=limit,
            keep=_held_by(cluster, broker),
            check=partial(cluster.results.retention.check_holds, broker),
        )

    while True:
        # Registered before the look, so that no commit falls in between.
        with cluster.results.committed.next() as commit:
            pulled = await asyncio.to_thread(look)
            left_s = deadline_s - cluster.clock.monotonic_s()
            if pulled.rows.num_rows or left_s <= 0:
                return _answered(pulled, accept)
            after = pulled.through
            await asyncio.wait([commit], timeout=left_s)


@router.post("/results", tags=["results"], response_class=Response, responses=_RESULTS)
def pull_subscriptions(body: PullRequest, cluster: AnyCluster, accept: Annotated[str, Header()] = NDJSON) -> Response:
    """Results of given subscriptions, each after its own position."""
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
        starts[one] = position.in_history
    return _answered(cluster.results.pull_subscriptions(starts, limit_rows=body.limit), accept)


def _refuse_wrong(wrong: dict[int, TocsinError], count: int) -> None:
    if not wrong:
        return
    first, error = next(iter(wrong.items()))
    if count == 1:
        raise error
    others = f"; {len(wrong) - 1} more are wrong" if len(wrong) > 1 else ""
    raise WrongEntries(f"no subscription was made: subscription {first + 1} of {count}: {error}{others}", wrong)


def _held_by(cluster: Cluster, broker: str) -> Callable[[pa.Table], pa.Table]:
    def keep(rows: pa.Table) -> pa.Table:
        ids = pc.unique(rows.column("subscription")).to_pylist()
        mine = cluster.registry.held_among(broker, ids)
        return rows.filter(pc.is_in(rows.column("subscription"), value_set=pa.array(mine, pa.int64())))

    return keep


def _answered(pulled: Pulled, accept: str) -> Response:
    media_type, content = encode_results(pulled.rows, accept)
    return Response(content, headers={_CURSOR_HEADER: str(pulled.through)}, media_type=media_type)


def _columns(cluster: Cluster, channels: Iterable[str]) -> dict[str, tuple[ResultColumn, ...]]:
    known = ((name, cluster.catalogue.result_columns(name)) for name in channels)
    return {name: columns for name, columns in known if columns}


def _described(
    channel: Channel, one: int, values: tuple[ParameterValue, ...], permission: str, sequence: int, failure: str
) -> dict[str, Any]:
    parameters = {parameter.name: value for parameter, value in zip(channel.parameters, values, strict=True)}
    return {
        "id": one,
        "channel": channel.name,
        "parameters": parameters,
        "filled": channel.filled,
        "permission": permission,
        "position": str(Position(one, sequence)),
        "failure": failure,
        "snapshot": channel.snapshot,
    }
