"""Routes for publishers: records in, receipts, dead letters."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

import pyarrow.compute as pc
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.faces import AnyCluster, ReadyCluster
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.feeds.bodies import decode_body
from tocsin.cluster.feeds.dead_letters import newest_letters
from tocsin.cluster.feeds.receipts import Receipt
from tocsin.cluster.feeds.replay import replay_dead_letters
from tocsin.cluster.interpreter import rejections
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import FeedSource
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS)

#: Where records come in. Their bodies are received by a reader that has limits of its own.
RECORDS_PATH = re.compile(r"/v1/feeds/[^/]+/records")

#: How many rejections an answer lists; all of them are in the dead-letter table.
_MAX_LISTED = 100


#: A dead letter can be as large as a body; the list shows so much of it.
_MAX_SHOWN_CHARACTERS = 4000


class Rejection(BaseModel):
    line: int = Field(description="Line of the request's body, from 1")
    reason: str


class ReceiptAnswer(BaseModel):
    receipt: str
    records: int
    state: Literal["durable", "committed"]
    accepted: int | None = None
    rejected: int | None = None
    rejections: list[Rejection] | None = None


class DeadLetter(BaseModel):
    position: int
    line: int
    feed: str
    reason: str
    raw: str
    rejected_at: str


class DeadLetters(BaseModel):
    total: int
    dead_letters: list[DeadLetter]


class ReplayRequest(BaseModel):
    """Which dead letters to publish again: all of them, or those of some frames."""

    positions: list[Annotated[int, Field(ge=0, le=(1 << 63) - 1)]] | None = Field(None, max_length=100_000)


class ReplayAnswer(BaseModel):
    replayed: int
    accepted: int
    rejected: int


_RECORD_BODIES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}
            },
            "application/x-ndjson": {"schema": {"type": "string"}},
            "application/cloudevents+json": {"schema": {"type": "object"}},
            "application/cloudevents-batch+json": {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    }
}


@router.post(
    "/feeds/{feed}/records",
    status_code=202,
    response_model=ReceiptAnswer,
    responses={200: {"model": ReceiptAnswer, "description": "Committed, with `wait=commit`"}},
    openapi_extra=_RECORD_BODIES,
    tags=["feeds"],
)
async def publish(
    feed: str, request: Request, cluster: AnyCluster, wait: Annotated[Literal["durable", "commit"], Query()] = "durable"
) -> Response:
    """Publish records. Answered when they are on disk, or with `wait=commit` when they are in the table."""
    target = cluster.catalogue.feed(feed)
    if target.source is not FeedSource.HTTP:
        raise InvalidValue(f"feed {target.name} takes records from {target.source}, not over HTTP")
    limit = cluster.settings.feed_max_body_bytes
    raw = await request.app.state.receiving.body(request, limit)
    body = decode_body(request.headers.get("content-type", ""), request.headers, raw, max_body_bytes=limit)
    receipt = await asyncio.wrap_future(cluster.intake.accept(target, body))
    if wait == "durable":
        return reply({"receipt": str(receipt), "records": receipt.count, "state": "durable"}, 202)
    await asyncio.wrap_future(cluster.intake.wait_ingested(receipt.end))
    return reply(await asyncio.to_thread(_outcome, cluster, target.dataset, receipt))


@router.get("/feeds/{feed}/receipts/{receipt}", response_model=ReceiptAnswer, tags=["feeds"])
def ask_receipt(feed: str, receipt: str, cluster: AnyCluster) -> Response:
    """What became of a request's records."""
    target = cluster.catalogue.feed(feed)
    known = Receipt.parse(receipt)
    if not cluster.intake.is_ingested(known):
        return reply({"receipt": str(known), "records": known.count, "state": "durable"})
    return reply(_outcome(cluster, target.dataset, known))


@router.get("/datasets/{dataset}/dead-letters", response_model=DeadLetters, tags=["feeds"])
def list_dead_letters(
    dataset: str, cluster: AnyCluster, limit: Annotated[int, Query(ge=1, le=1000)] = _MAX_LISTED
) -> Response:
    """Records that did not fit, or that a channel could not be run for, with the reason, newest first."""
    letters = cluster.store[cluster.catalogue.dataset(dataset).name].dead_letters
    listed = newest_letters(letters, limit)
    for letter in listed:
        del letter["_seq"]
        if len(letter["raw"]) > _MAX_SHOWN_CHARACTERS:
            letter["raw"] = letter["raw"][:_MAX_SHOWN_CHARACTERS] + "…"
    return reply({"total": letters.count(), "dead_letters": listed})


@router.post("/datasets/{dataset}/dead-letters/replay", response_model=ReplayAnswer, tags=["feeds"])
async def replay(dataset: str, cluster: ReadyCluster, body: ReplayRequest | None = None) -> Response:
    """Publish dead letters again, as when their schema has grown a column or a limit was raised."""
    name = cluster.catalogue.dataset(dataset).name
    chosen = None if body is None or body.positions is None else pc.field("position").isin(body.positions)
    return reply(await asyncio.to_thread(replay_dead_letters, cluster.store[name], cluster.intake, chosen))


def _outcome(cluster: Cluster, dataset: str, receipt: Receipt) -> dict[str, Any]:
    rejected = rejections(cluster, dataset, receipt.position, receipt.end)
    return {
        "receipt": str(receipt),
        "records": receipt.count,
        "state": "committed",
        "accepted": receipt.count - len(rejected),
        "rejected": len(rejected),
        "rejections": rejected[:_MAX_LISTED],
    }
