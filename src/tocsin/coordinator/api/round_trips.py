"""The route for round trips between brokers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, Node
from tocsin.coordinator.registry.round_trips import RoundTrip
from tocsin.errors import InvalidValue
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1/round-trips", responses=ERRORS, tags=["brokers"], dependencies=OPERATOR_ONLY)

#: All pairs of more brokers than this make an answer of many megabytes.
_MAX_BROKERS = 200


class RoundTripAnswer(BaseModel):
    source: str
    destination: str
    measured_ms: float | None = Field(
        description="The median of the last three; null if it does not measure that broker"
    )
    estimated_ms: float | None = Field(description="From the two coordinates; null until both are known")
    error: float | None = Field(description="How far off the estimate is, relative to what was measured")
    age_s: float | None = Field(description="Seconds since the last ping")
    answered: bool = Field(
        description="False if the last ping was not answered: the estimate does not say that they reach each other"
    )


class RoundTripsAnswer(BaseModel):
    round_trips: list[RoundTripAnswer] = Field(description="By source and destination")


@router.get("", response_model=RoundTripsAnswer)
async def show(
    node: Node, broker: Annotated[str, Query(max_length=64, description="Only from this broker")] = ""
) -> Response:
    """Round trips between brokers. Each measures one peer a second, at random."""
    now_s = node.now_s()
    names = [one.record.name for one in node.state.brokers(now_s)]
    if broker:
        node.state.broker(broker, now_s)
    elif len(names) > _MAX_BROKERS:
        raise InvalidValue(
            f"broker: there are {len(names)} brokers; say from which one, if they are over {_MAX_BROKERS}"
        )
    return reply({"round_trips": [_described(one, now_s) for one in node.state.round_trips.all(names, broker)]})


def _described(one: RoundTrip, now_s: float) -> dict[str, Any]:
    return {
        "source": one.source,
        "destination": one.destination,
        "measured_ms": one.measured_ms,
        "estimated_ms": None if one.estimated_ms is None else round(one.estimated_ms, 3),
        "error": None if one.error is None else round(one.error, 4),
        "age_s": None if one.measured_at_s is None else round(now_s - one.measured_at_s, 1),
        "answered": one.answered,
    }
