"""Routes for plans: possible moves, and the loads they would lead to."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, NameInPath, Node
from tocsin.protocol.plans import PlanRequest
from tocsin.runtime.http import ERRORS, reply

if TYPE_CHECKING:
    from tocsin.coordinator.load.requested_plans import KeptPlan

router = APIRouter(prefix="/v1/plans", responses=ERRORS, tags=["plans"], dependencies=OPERATOR_ONLY)

ShownMoves = Annotated[int, Query(ge=0, le=100_000, description="The number of moves to show")]


class BrokerLoads(BaseModel):
    broker: str
    before: float = Field(description="Bytes per second, by the load model")
    after: float
    score_before: float = Field(description="Load divided by capacity")
    score_after: float


class BalanceAnswer(BaseModel):
    cov: float = Field(description="Standard deviation of the scores over their mean")
    max: float = Field(description="The highest score")
    mean: float
    total: float = Field(description="The sum of all loads")


class MoveAnswer(BaseModel):
    subscriber: str
    source: str
    destination: str
    load: float = Field(description="Bytes per second that it is sent")
    reason: str


class PlanSummary(BaseModel):
    plan: str
    made_at_us: int = Field(description="Since 1970")
    stage: str
    policy: str
    reason: str
    move_count: int
    before: BalanceAnswer
    after: BalanceAnswer
    lower_bound: float = Field(description="A highest score that no assignment can be below")
    gap: float = Field(description="The highest score after it, over the lower bound")
    confined: int = Field(description="Subscribers that can't be moved: no other broker is within `reach_ms` of them")


class PlanAnswer(PlanSummary):
    brokers: list[BrokerLoads]
    moves: list[MoveAnswer] = Field(description="As many as the request asks for; `migrations` says how many there are")


class PlansAnswer(BaseModel):
    plans: list[PlanSummary]


@router.post("", response_model=PlanAnswer)
async def make(body: PlanRequest, node: Node, moves: ShownMoves = 100) -> Response:
    """Make a plan for the network as it is now. Nothing is moved."""
    return reply(_described(await node.balancer.plan(body), moves))


@router.get("", response_model=PlansAnswer)
async def list_plans(node: Node) -> Response:
    """The last plans, newest first."""
    return reply({"plans": [_summary(one) for one in node.balancer.planning.all()]})


@router.get("/{plan}", response_model=PlanAnswer)
async def show(plan: NameInPath, node: Node, moves: ShownMoves = 100) -> Response:
    """A plan, with its moves and their reasons."""
    return reply(_described(node.balancer.planning.get(plan), moves))


def _summary(kept: KeptPlan) -> dict[str, Any]:
    plan = kept.plan
    return {
        "plan": kept.id,
        "made_at_us": kept.made_at_us,
        "stage": plan.stage,
        "policy": plan.policy,
        "reason": kept.wish.reason,
        "move_count": plan.move_count,
        "before": plan.before.figures(),
        "after": plan.after.figures(),
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "confined": plan.confined,
    }


def _described(kept: KeptPlan, moves: int) -> dict[str, Any]:
    plan = kept.plan
    figures = zip(plan.brokers, plan.before.loads, plan.after.loads, plan.before.scores, plan.after.scores, strict=True)
    names = ("broker", "before", "after", "score_before", "score_after")
    return {
        **_summary(kept),
        "brokers": [dict(zip(names, one, strict=True)) for one in figures],
        "moves": list(islice(plan.moves(), moves)),
    }
