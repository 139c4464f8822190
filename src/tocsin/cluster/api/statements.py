"""Routes for statements and for looking at what exists."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.faces import ERRORS, AnyCluster, ReadyCluster, reply
from tocsin.cluster.interpreter import Interpreter
from tocsin.cluster.status import status_of

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


@router.post("/v1/statements", response_model=ScriptAnswer, tags=["statements"])
def run_statements(script: Script, cluster: ReadyCluster) -> Response:
    """Carry out statements, in order. The first that fails ends the script; those before it have happened."""
    return reply({"results": Interpreter(cluster).run_script(script.sql)})


@router.get("/v1/status", tags=["operations"])
def status(cluster: AnyCluster) -> Response:
    """How the cluster is: its state, feeds, channels and memory."""
    return reply(status_of(cluster))


@router.get("/healthz", tags=["operations"])
def healthz(cluster: AnyCluster) -> Response:
    """200 while the process works, whether ready yet or not."""
    return reply({"state": cluster.state})


@router.get("/metrics", tags=["operations"])
def metrics(cluster: AnyCluster) -> Response:
    """Metrics for Prometheus."""
    return Response(cluster.metrics.render(), media_type="text/plain; version=0.0.4")
