"""Operators' requests to the coordinator about plans and balancing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_Share = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class PlanRequest(BaseModel):
    stage: Literal["migration", "shuffle"] = "migration"
    policy: str = Field("", max_length=64, description="Empty: the usual one of its stage")
    cov_at_most: _Share = Field(0.15, description="How even migration should make the scores")
    mean_above: float = Field(
        0, ge=0, allow_inf_nan=False, description="Below this mean score migration is not worth the trouble"
    )
    max_moves: int | None = Field(None, ge=0, le=1 << 40, description="The budget; none: as many as it takes")
    reason: str = Field("", max_length=1000, description="Why, for whoever looks at it later")


class ExecutionRequest(BaseModel):
    by: str = Field("operator", min_length=1, max_length=64, description="Who wants it, for the audit log")
    reason: str = Field("", max_length=1000, description="Why; empty: as the plan says")


class BalancingBody(BaseModel):
    """Settings of automatic balancing. Settings that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    automatic: bool | None = Field(None, description="Whether plans are made and carried out by themselves")
    every_s: float | None = Field(None, ge=0.1, le=3600, description="How often the loads are looked at")
    evacuate_after_s: float | None = Field(None, ge=0, le=1e6, description="When a dead broker is emptied")
    alpha: _Share | None = Field(None, description="Migration is due when cov is above it")
    beta: float | None = Field(None, ge=0, le=1e18, description="And the mean score above this, in bytes/s")
    gamma: _Share | None = Field(None, description="Shuffle is due when cov is above it")
    theta: float | None = Field(None, ge=0, le=1e18, description="And the mean score above this, in bytes/s")
    migration: str | None = Field(None, max_length=64, description="The policy; empty: no migration")
    shuffle: str | None = Field(None, max_length=64, description="The policy; empty: no shuffle")
    hits: int | None = Field(None, ge=1, le=1000, description="Looks in a row that find migration due")
    shuffle_hits: int | None = Field(None, ge=1, le=1000, description="Looks in a row that find shuffle due")
    settle_s: float | None = Field(None, ge=0, le=1e6, description="After a plan, nothing is done for so long")
    rest_s: float | None = Field(None, ge=0, le=1e6, description="Who was moved is not moved again for so long")
    idle_below: _Share | None = Field(None, description="A broker below this share of the mean idles")
    max_moves: int | None = Field(None, ge=0, le=1 << 40, description="The budget of a plan")
    by: str = Field("operator", min_length=1, max_length=64, description="Who wants it, for the audit log")
