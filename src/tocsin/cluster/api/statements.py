"""Routes for statements and for the cluster's state."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.dependencies import AnyCluster, ReadyCluster
from tocsin.cluster.interpreter import run_script
from tocsin.cluster.status import status_of
from tocsin.model.catalogue import ChannelKind, DatasetKind, FeedSource
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(responses=ERRORS)


class Script(BaseModel):
    sql: str = Field(max_length=1 << 20, examples=["SHOW CHANNELS"])


class StatementAnswer(BaseModel):
    message: str
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


class ScriptAnswer(BaseModel):
    results: list[StatementAnswer]


class Health(BaseModel):
    state: str


class DatasetStatus(BaseModel):
    name: str
    kind: DatasetKind
    commits: int = Field(description="The number of its last commit")


class FeedStatus(BaseModel):
    name: str
    dataset: str
    source: FeedSource
    accepted: int = Field(description="Records since the process began that are in the table")
    rejected: int = Field(description="Records since the process began that became dead letters")


class ChannelStatus(BaseModel):
    name: str
    kind: ChannelKind
    period_s: float | None
    retention_s: float | None = Field(description="How long its results are kept; null: `result_retention_s`")
    is_paused: bool
    pause_reason: str = Field(description="Why the cluster paused it; empty if a person did")
    subscriptions: int = Field(description="Subscriptions that it runs for")
    failed_subscriptions: int = Field(description="Subscriptions that it can't be run for")
    rows_set_aside: int = Field(description="Records since the process began that it could not be run over")
    runs: int = Field(description="Since the process began, as are overruns and the cost")
    overruns: int = Field(description="Runs that outlasted their period")
    last_run_s: float
    last_results: int = Field(description="The number of results of the last run")
    last_error: str = Field(description="Why the last run failed, or empty")
    window_lag_commits: int = Field(description="Commits that it has not run over yet")
    spark_s: float = Field(description="Seconds in which Spark worked for it, also in vain")
    results: int
    result_bytes: int = Field(description="Bytes of the results' payloads")
    last_hour_spark_s: float = Field(description="The cost of the last hour, to the minute")
    last_hour_results: int
    last_hour_result_bytes: int


class StatusAnswer(BaseModel):
    """Enough to see what exists and whether it keeps up; /metrics has the numbers over time."""

    state: str
    version: str
    failure: str = Field(description="Why it could not start, or empty")
    landing: dict[str, int] = Field(description="The landing log: its end, how far it is in tables, bytes in between")
    results: dict[str, int]
    datasets: list[DatasetStatus]
    feeds: list[FeedStatus]
    channels: list[ChannelStatus] = Field(description="Empty while the cluster starts")
    memory: dict[str, int] = Field(description="Resident bytes of this process and of the processes that it started")


@router.post("/v1/statements", response_model=ScriptAnswer, tags=["statements"])
def run_statements(script: Script, cluster: ReadyCluster) -> Response:
    """Carry out statements, in order. The first failure ends the script; earlier statements stay carried out."""
    return reply({"results": run_script(cluster, script.sql)})


@router.get("/v1/status", response_model=StatusAnswer, tags=["operations"])
def status(cluster: AnyCluster) -> Response:
    """The cluster's condition: its state, feeds, channels and memory."""
    return reply(status_of(cluster))


@router.get("/healthz", response_model=Health, tags=["operations"])
def healthz(cluster: AnyCluster) -> Response:
    """200 while the process works, whether it is ready yet or not."""
    return reply({"state": cluster.state})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    tags=["operations"],
)
def metrics(cluster: AnyCluster) -> Response:
    """Metrics for Prometheus."""
    return Response(cluster.metrics.render(), media_type="text/plain; version=0.0.4")
