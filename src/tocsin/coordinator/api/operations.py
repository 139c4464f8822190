"""Routes for probes and operators."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tocsin import __version__
from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, Node
from tocsin.protocol.coordination import BrokerState
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(responses=ERRORS, tags=["operations"])


class Health(BaseModel):
    state: str


class StatusAnswer(BaseModel):
    state: str
    version: str
    brokers: dict[BrokerState, int]
    subscribers: int
    policy: str
    mass_outage: bool = Field(
        description="A mass outage: so many brokers fell silent at once that none is taken for dead"
    )


@router.get("/healthz", response_model=Health)
async def health() -> Response:
    """For probes: it answers, so it is ready."""
    return reply({"state": "ready"})


@router.get("/v1/status", response_model=StatusAnswer, dependencies=OPERATOR_ONLY)
async def status(node: Node) -> Response:
    """The state of the network, in short."""
    states = node.broker_states()
    return reply(
        {
            "state": "ready",
            "version": __version__,
            "brokers": {state.value: states[state] for state in BrokerState},
            "subscribers": node.state.subscriber_count,
            "policy": node.state.policy,
            "mass_outage": node.state.mass_outage,
        }
    )


@router.get(
    "/metrics",
    dependencies=OPERATOR_ONLY,
    response_class=Response,
    responses={
        200: {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
)
async def metrics(node: Node) -> Response:
    """For Prometheus."""
    balance = node.state.balance()
    if balance.brokers:
        node.metrics.balance(balance.cov, balance.max, node.state.execution.under_way)
    last_kept = node.balancer.promises.kept[-1:]
    moves_per_person_hour = node.state.moves_per_person_hour(node.now_s())
    node.metrics.outlook(node.state.outlook.chance, moves_per_person_hour, last_kept[0] if last_kept else None)
    if (error := node.state.round_trips.median_error) is not None:
        node.metrics.estimates(error)
    text = node.metrics.render(node.broker_states(), node.state.subscriber_count, mass_outage=node.state.mass_outage)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
