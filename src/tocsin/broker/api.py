"""The broker's HTTP API: Server-Sent Events, the example page, and how it is doing."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from tocsin.broker.shell.event_stream import EventStream, with_positions
from tocsin.broker.shell.node import BrokerNode
from tocsin.broker.shell.requests import CUT
from tocsin.coordinates.coordinate import Coordinate
from tocsin.errors import Forbidden, InvalidValue, Unauthorised
from tocsin.protocol import pings
from tocsin.protocol.calls import parse_call
from tocsin.protocol.messages import Hello, Subscribe
from tocsin.protocol.subscribers import NAME_PATTERN
from tocsin.runtime.http import ERRORS, reply
from tocsin.settings import BrokerSettings

router = APIRouter(responses=ERRORS)

EVENTS_PATH = "/v1/events"

#: More than this makes every event's `id` longer than the event.
_MAX_CALLS = 50

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events: `subscribed`, `notification`, `failed`, `history_gone`, `move`, `error`, `close`",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class StatusAnswer(BaseModel):
    broker: str
    state: str
    connections: int
    sessions: int
    backend_subscriptions: int
    frontend_subscriptions: int
    deliveries: int
    cache_hits: int
    cache_misses: int
    cache_bytes: int
    cursor: int


class Health(BaseModel):
    state: str


class CoordinateAnswer(BaseModel):
    broker: str
    coordinate: Coordinate
    peers: dict[str, str] = Field({}, description="Other brokers with their addresses, if they were asked for")


def _node(request: Request) -> BrokerNode:
    node = request.app.state.node
    assert isinstance(node, BrokerNode)
    return node


@router.get(EVENTS_PATH, tags=["subscribers"], response_class=StreamingResponse, responses={**ERRORS, **_EVENTS})
async def follow(
    request: Request,
    subscribe: Annotated[list[str], Query(min_length=1, max_length=_MAX_CALLS)],
    device: Annotated[str, Query(pattern=NAME_PATTERN)] = "",
    authorization: Annotated[str, Header()] = "",
    last_event_id: Annotated[str, Header(max_length=50 * _MAX_CALLS)] = "",
) -> Response:
    """Follow channels by Server-Sent Events.

    `subscribe` is a call such as `EmergenciesOfType(etype => 'flood')`, with a filter if one is wanted, as in
    `Emergencies WHERE severity >= 3`; give it again for each further channel. The token goes into the `Authorization`
    header. With `Last-Event-ID` the stream carries on where another one ended.
    """
    node, token = _node(request), _bearer(authorization)
    settings: BrokerSettings = request.app.state.settings
    origin = request.headers.get("origin", "")
    if not request.app.state.origins(origin, request.headers.get("host", "")):
        raise Forbidden("this origin is not in allowed_origins")
    calls = [Subscribe(channel, parameters, where=where) for channel, parameters, where in map(parse_call, subscribe)]
    subscribes = with_positions(calls, last_event_id)
    # Before the stream begins: a token that is not good is a plain 401.
    node.check(token)
    stream = EventStream(
        node.next_connection(),
        node,
        len(subscribes),
        max_queued_bytes=settings.max_queued_bytes,
        cut=request.scope.get(CUT, lambda: None),
    )
    node.opened(stream)
    try:
        node.greet(stream, Hello(token, device, subscribes))
    except BaseException:
        node.lost(stream)
        raise
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream.events(), media_type="text/event-stream", headers=headers)


@router.get(pings.PATH, response_model=CoordinateAnswer, tags=["subscribers"])
async def coordinate(
    request: Request, peers: bool = False, authorization: Annotated[str, Header(max_length=8192)] = ""
) -> Response:
    """The broker's network coordinate. The time that this takes is the round trip to it.

    For users, with their token; and for brokers, which sign request and answer with theirs.
    """
    node, settings = _node(request), request.app.state.settings
    known = node.peers
    named = {name: url for name, url in known.urls.items() if len(url) <= pings.MAX_PEER_URL} if peers else {}
    answer = pings.PingAnswer(node.state.name, known.coordinate, named)
    if authorization[: len(pings.SCHEME)].lower() != pings.SCHEME.lower():
        node.check(_bearer(authorization))
        return reply(answer)
    nonce = pings.nonce_of(authorization, settings.broker_token, node.state.name)
    body = msgspec.json.encode(answer)
    proof = pings.proof_of(settings.broker_token, node.state.name, nonce, body)
    return Response(body, headers={pings.PROOF_HEADER: proof}, media_type="application/json")


@router.get("/v1/status", response_model=StatusAnswer, tags=["operators"])
async def status(request: Request) -> Response:
    """How this broker is doing."""
    state = _node(request).state
    return reply(
        {
            "broker": state.name,
            "state": _state_word(request),
            "connections": state.connections,
            "sessions": state.sessions,
            "backend_subscriptions": state.backends,
            "frontend_subscriptions": state.frontends,
            "deliveries": state.deliveries,
            "cache_hits": state.cache.hits,
            "cache_misses": state.cache.misses,
            "cache_bytes": state.cache.size_bytes,
            "cursor": state.through,
        }
    )


@router.get("/healthz", response_model=Health, tags=["operators"], responses={503: {"model": Health}})
async def health(request: Request) -> Response:
    """200 when subscribers are served; 503 while starting or draining, so that nobody new is sent here."""
    word = _state_word(request)
    return reply({"state": word}, 200 if word == "ready" else 503)


@router.get("/metrics", tags=["operators"], response_class=Response)
async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(request.app.state.metrics.exposition(), media_type="text/plain; version=0.0.4")


@router.get("/", response_class=HTMLResponse, tags=["subscribers"])
async def page() -> Response:
    """A page that subscribes from the browser."""
    html, policy = _page()
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


def _bearer(authorization: str) -> str:
    kind, _, token = authorization.partition(" ")
    if kind.lower() != "bearer" or not token:
        raise Unauthorised("give your token in the header `Authorization: Bearer ...`")
    return token


def _state_word(request: Request) -> str:
    state = _node(request).state
    if not state.is_started:
        return "starting"
    return "draining" if state.is_draining else "ready"


@cache
def _page() -> tuple[str, str]:
    """The page, and a policy that lets its own script and style run and nothing else."""
    html = files("tocsin.broker").joinpath("page.html").read_text()
    script, style = (_hash_of(html, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self' ws: wss:; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def _hash_of(html: str, tag: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    if found is None:
        raise InvalidValue(f"page.html has no <{tag}>")
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    return f"'sha256-{digest}'"
