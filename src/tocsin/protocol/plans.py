"""Operators' requests to the coordinator about plans and balancing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tocsin.coordinates.coordinate import MAX_MS

_Share = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class PlanRequest(BaseModel):
    stage: Literal["migration", "shuffle"] = "migration"
    policy: str = Field("", max_length=64, description="The policy; empty: the default policy of the stage")
    cov_at_most: _Share = Field(0.15, description="The cov that migration aims at")
    mean_above: float = Field(0, ge=0, allow_inf_nan=False, description="Migration is not due below this mean score")
    max_moves: int | None = Field(None, ge=0, le=1 << 40, description="The most moves; null: no limit")
    reason: str = Field("", max_length=1000, description="The reason, for the audit log")


class ExecutionRequest(BaseModel):
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")
    reason: str = Field("", max_length=1000, description="The reason; empty: the plan's reason")


class BalancingBody(BaseModel):
    """Settings of automatic balancing. Settings that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    automatic: bool | None = Field(None, description="Whether the coordinator makes and carries out plans by itself")
    every_s: float | None = Field(None, ge=0.1, le=3600, description="Seconds between two checks of the loads")
    evacuate_after_s: float | None = Field(
        None, ge=0, le=1e6, description="A broker that has been dead for this long is evacuated"
    )
    reach_ms: float | None = Field(
        None,
        gt=0,
        le=MAX_MS,
        allow_inf_nan=False,
        description="The longest round trip to a broker that a plan may move a subscriber to; null: any",
    )
    rule: Literal["worthwhile", "plain"] | None = Field(
        None, description="Whether a plan that is due must be worth its moves, or not, as in the paper"
    )
    least_worth: float | None = Field(
        None, ge=0, le=1e6, description="A worthwhile plan gains at least this many times what its moves cost"
    )
    alpha: _Share | None = Field(None, description="Migration is due when cov is above this")
    beta: float | None = Field(None, ge=0, le=1e18, description="And the mean score above this, in bytes/s")
    gamma: _Share | None = Field(None, description="Shuffle is due when cov is above this")
    theta: float | None = Field(None, ge=0, le=1e18, description="And the mean score above this, in bytes/s")
    migration: str | None = Field(None, max_length=64, description="The migration policy; empty: no migration")
    shuffle: str | None = Field(None, max_length=64, description="The shuffle policy; empty: no shuffle")
    hits: int | None = Field(
        None, ge=1, le=1000, description="Migration begins after this many checks in a row find it due"
    )
    shuffle_hits: int | None = Field(
        None, ge=1, le=1000, description="Shuffle begins after this many checks in a row find it due"
    )
    settle_s: float | None = Field(None, ge=0, le=1e6, description="After a plan, no other plan begins for this long")
    rest_s: float | None = Field(
        None, ge=0, le=1e6, description="A subscriber that was moved is not moved again for this long"
    )
    idle_below: _Share | None = Field(None, description="A broker whose load is below this share of the mean is idle")
    max_moves: int | None = Field(None, ge=0, le=1 << 40, description="The most moves of a plan; null: no limit")
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")
