"""Routes for publishers: publishing records, and receipts."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.dependencies import AnyCluster
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.feeds.core.bodies import decode_body
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.dead_letters import rejections
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import FeedSource
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS)

#: Where publishers send records. A reader with limits of its own receives these bodies.
RECORDS_PATH = re.compile(r"/v1/feeds/[^/]+/records")

#: How many rejections an answer lists; all of them are in the dead-letter table.
_MAX_LISTED = 100


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
    """Publish records. Answers when they are on disk, or with `wait=commit` when they are in the table."""
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
    """The outcome of a request's records."""
    target = cluster.catalogue.feed(feed)
    known = Receipt.parse(receipt)
    if not cluster.intake.is_ingested(known):
        return reply({"receipt": str(known), "records": known.count, "state": "durable"})
    return reply(_outcome(cluster, target.dataset, known))


def _outcome(cluster: Cluster, dataset: str, receipt: Receipt) -> dict[str, Any]:
    rejected = rejections(cluster.store[dataset].dead_letters, receipt.position, receipt.end)
    return {
        "receipt": str(receipt),
        "records": receipt.count,
        "state": "committed",
        "accepted": receipt.count - len(rejected),
        "rejected": len(rejected),
        "rejections": rejected[:_MAX_LISTED],
    }
