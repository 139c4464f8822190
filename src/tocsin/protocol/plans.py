"""What operators say to the coordinator about plans."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

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
