"""Routes for subscribers: where to connect, and their sessions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tocsin.coordinates.located import Located
from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, NameInPath, Node, User
from tocsin.coordinator.registry.events import PlacementAsked, PolicyChosen
from tocsin.coordinator.registry.instructions import AnswerPlacement
from tocsin.coordinator.registry.session_wire import session_body
from tocsin.errors import NotFound
from tocsin.protocol.coordination import Location, PlacementRequest, Session
from tocsin.protocol.subscribers import Placement
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS)


class SubscriberAnswer(BaseModel):
    subscriber: str
    broker: str = Field(description="The broker that keeps its session, dead or alive")
    generation: int
    connected: bool
    subscriptions: int
    location: Location | None = Field(description="Its last location, in metres, if it reports one")
    located: Located | None = Field(
        description="Its coordinate and the round trips that it measured, if it reports them"
    )


class SubscribersAnswer(BaseModel):
    subscribers: list[SubscriberAnswer]


class PolicyRequest(BaseModel):
    policy: str = Field(max_length=255)
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")


class PolicyAnswer(BaseModel):
    policy: str
    policies: list[str] = Field(description="All placement policies")


@router.post("/placements", response_model=Placement, tags=["subscribers"])
async def place(body: PlacementRequest, user: User, node: Node) -> Response:
    """The broker to connect to. A device that was at a broker before gets the same one, as long as that takes it."""
    event = PlacementAsked(
        node.now_s(), user.user, body.device or "", body.location, frozenset(body.avoid), body.located
    )
    placed = (await node.ask(event, AnswerPlacement)).placed
    node.metrics.placements.labels(placed.reason).inc()
    return reply({"broker": placed.broker, "url": placed.url})


@router.get("/subscribers", response_model=SubscribersAnswer, tags=["subscribers"], dependencies=OPERATOR_ONLY)
async def list_subscribers(
    node: Node,
    after: Annotated[str, Query(max_length=129, description="Only subscribers whose names come later")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    broker: Annotated[str, Query(max_length=64, description="Only subscribers whose sessions this broker keeps")] = "",
) -> Response:
    """The subscribers that have a session, by name, a page at a time."""
    found = sorted(
        one.subscriber
        for one in node.state.sessions()
        if one.subscriber > after and (not broker or one.owner == broker)
    )
    sessions = [session for one in found[:limit] if (session := node.state.session(one)) is not None]
    return reply(
        {
            "subscribers": [
                {
                    "subscriber": one.subscriber,
                    "broker": one.owner,
                    "generation": one.generation,
                    "connected": one.connected,
                    "subscriptions": len(one.subscriptions),
                    "location": node.state.location_of(one.subscriber),
                    "located": node.state.located_of(one.subscriber),
                }
                for one in sessions
            ]
        }
    )


@router.get("/subscribers/{user}/{device}", response_model=Session, tags=["subscribers"], dependencies=OPERATOR_ONLY)
async def show_session(user: NameInPath, device: NameInPath, node: Node) -> Response:
    """A subscriber's session, with all that another broker needs to carry it on."""
    session = node.state.session(f"{user}/{device}")
    if session is None:
        raise NotFound(f"no session is kept for {user}/{device}")
    return reply(session_body(session))


@router.get("/placement-policy", response_model=PolicyAnswer, tags=["operations"], dependencies=OPERATOR_ONLY)
async def show_policy(node: Node) -> Response:
    """How newcomers are placed."""
    return reply({"policy": node.state.policy, "policies": node.state.policies})


@router.put("/placement-policy", response_model=PolicyAnswer, tags=["operations"], dependencies=OPERATOR_ONLY)
async def choose_policy(body: PolicyRequest, node: Node) -> Response:
    """Place newcomers by another policy from now on; remembered over restarts."""
    await node.happened(PolicyChosen(body.policy, body.by))
    return reply({"policy": node.state.policy, "policies": node.state.policies})
