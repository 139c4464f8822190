"""Routes for balancing: the brokers' loads, and the settings of automatic balancing."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, Node
from tocsin.protocol.plans import BalancingBody
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1/balancing", responses=ERRORS, tags=["balancing"], dependencies=OPERATOR_ONLY)


class PromiseKept(BaseModel):
    """Of the last plans, up to a hundred, since the coordinator began."""

    plans: int = Field(description="Plans that were carried out more than a minute ago")
    promised_cov: float | None = Field(description="The mean of the covs that they promised; null without plans")
    kept_cov: float | None = Field(description="The mean of the covs that were measured in the minute after each")


class BalancingAnswer(BaseModel):
    settings: dict[str, Any] = Field(description="The settings, in the form that PUT /v1/balancing takes")
    verdict: str = Field(description="The plan under way, or the reason why there is none")
    cov: float | None = Field(
        description="Standard deviation of the brokers' scores over their mean; null without brokers. Cordoned brokers"
        " count only above the mean of the others"
    )
    max: float | None
    mean: float | None
    measured_cov: float | None = Field(description="The same over the bytes per second that brokers measured")
    under_way: int = Field(description="Moves that have begun and not ended")
    chance_cov: float = Field(description="The cov that bursts alone make, whatever is planned; 0 until it is known")
    promise_kept: PromiseKept
    moves_per_person_hour: float = Field(description="Over the last hour, or since the coordinator began")


@router.get("", response_model=BalancingAnswer)
async def show(node: Node) -> Response:
    """The brokers' loads, by the load model and as they measure them, and the settings."""
    return reply(_described(node))


@router.put("", response_model=BalancingAnswer)
async def change(body: BalancingBody, node: Node) -> Response:
    """Change some of the settings; they are remembered."""
    given = body.model_dump(exclude_unset=True, exclude={"by"})
    # Settings that are left out stay; only limits can be set to none.
    changes = {name: value for name, value in given.items() if value is not None or name in ("max_moves", "reach_ms")}
    await node.change_balancing(node.balancer.settings.changed(changes), body.by)
    return reply(_described(node))


def _described(node: Node) -> dict[str, Any]:
    balance, measured = node.state.balance(), node.state.measured()
    is_there = bool(balance.brokers)
    return {
        "settings": node.balancer.settings.listed(),
        "verdict": node.balancer.verdict,
        "cov": balance.cov if is_there else None,
        "max": balance.max if is_there else None,
        "mean": balance.mean if is_there else None,
        "measured_cov": measured.cov if is_there else None,
        "under_way": node.state.execution.under_way,
        "chance_cov": node.state.outlook.chance,
        "promise_kept": node.balancer.promises.summary(),
        "moves_per_person_hour": node.state.moves_per_person_hour(node.now_s()),
    }
