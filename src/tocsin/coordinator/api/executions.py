"""Routes for plans that are carried out, or were, and for the audit log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, NameInPath, Node
from tocsin.coordinator.api.plans import ShownMoves
from tocsin.coordinator.store.plan_store import AuditEntry, StoredRun
from tocsin.protocol.plans import ExecutionRequest
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS, tags=["plans"], dependencies=OPERATOR_ONLY)

Limit = Annotated[int, Query(ge=1, le=10_000)]


class RunAnswer(BaseModel):
    plan: str
    state: str = Field(description="running, done; or stopping, stopped on an operator's request")
    stage: str
    policy: str
    by: str
    reason: str
    moves: int
    done: int
    failed: int
    cancelled: int
    begun_at_us: int
    changed_at_us: int
    expected: dict[str, Any] = Field(description="The plan's figures: balance before and after, lower bound")
    promised_cov: float | None = Field(
        description="The cov to be expected after it, with what chance adds; null for evacuations"
    )
    kept_cov: float | None = Field(
        description="The cov of what brokers carried in the minute after it; null until that is over"
    )


class MoveStep(BaseModel):
    subscriber: str
    source: str
    destination: str
    load: float = Field(description="Bytes per second that the subscriber is sent")
    reason: str
    step: str = Field(description="queued, preparing, moving, adopting, done, failed, cancelled")
    outcome: str = Field(description="Why it ended")


class RunDetails(RunAnswer):
    steps: list[MoveStep] = Field(description="As many as the request asks for")


class RunsAnswer(BaseModel):
    executions: list[RunAnswer]


class AuditAnswer(BaseModel):
    entries: list[AuditEntry]


class Begun(BaseModel):
    plan: str
    moves: int


class Stopped(BaseModel):
    plan: str


@router.post("/plans/{plan}/execution", response_model=Begun)
async def execute(plan: NameInPath, body: ExecutionRequest, node: Node) -> Response:
    """Carry out a plan; refused if the network has changed since, or another plan is being carried out."""
    run = await node.balancer.execute(plan, body.by, body.reason)
    return reply({"plan": run.plan, "moves": run.moves})


@router.delete("/plans/{plan}/execution", response_model=Stopped)
async def stop(plan: NameInPath, node: Node, by: Annotated[str, Query(max_length=64)] = "operator") -> Response:
    """Begin no more moves of this plan. Moves that are under way go on."""
    await node.balancer.stop(plan, by)
    return reply({"plan": plan})


@router.get("/plans/{plan}/execution", response_model=RunDetails)
async def show(plan: NameInPath, node: Node, moves: ShownMoves = 100) -> Response:
    """The progress of a plan."""
    stored, steps = await asyncio.to_thread(node.plans.run, plan, moves)
    shown = [{name: getattr(one, name) for name in MoveStep.model_fields} for one in steps]
    return reply({**_described(stored), "steps": shown})


@router.get("/executions", response_model=RunsAnswer)
async def list_executions(node: Node, limit: Limit = 100) -> Response:
    """Plans that are being carried out or were, newest first."""
    runs = await asyncio.to_thread(node.plans.runs, limit)
    return reply({"executions": [_described(one) for one in runs]})


@router.get("/audit", response_model=AuditAnswer)
async def audit(
    node: Node, before: Annotated[int | None, Query(ge=0, le=1 << 53)] = None, limit: Limit = 100
) -> Response:
    """Who did what and why, newest first: plans, moves, changed settings and states."""
    entries = await asyncio.to_thread(node.plans.audit, before, limit)
    return reply({"entries": entries})


def _described(stored: StoredRun) -> dict[str, Any]:
    run = stored.run
    figures = msgspec.json.decode(run.figures)
    names = ("plan", "state", "stage", "policy", "by", "reason", "moves", "done", "failed", "cancelled")
    return {
        **{name: getattr(run, name) for name in names},
        "begun_at_us": stored.begun_at_us,
        "changed_at_us": stored.changed_at_us,
        "promised_cov": figures.pop("promised_cov", None),
        "kept_cov": figures.pop("kept_cov", None),
        "expected": figures,
    }
