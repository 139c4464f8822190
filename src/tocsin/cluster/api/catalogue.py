"""Routes for programs that show the catalogue and the newest rows of a dataset."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tocsin.cluster.api.dependencies import AnyCluster
from tocsin.cluster.datasets.arrow import wire_values
from tocsin.model.catalogue import ChannelKind, DatasetKind, FeedSource, FilledBy
from tocsin.model.grants import Action
from tocsin.model.schema import ColumnType
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS)

#: Limits an answer of large rows: it takes some seconds on a slow line.
_MAX_RECENT_BYTES = 8 << 20


class Typed(BaseModel):
    name: str
    type: ColumnType


class DatasetEntry(BaseModel):
    name: str
    kind: DatasetKind
    columns: list[Typed]
    primary_key: list[str]


class ParameterEntry(Typed):
    maximum: float | None = Field(description="Values from 0 to this are allowed; null if none was declared")
    filled_by: FilledBy | None = Field(
        description="The source that the server fills it in from; null if subscribers give it"
    )


class ChannelEntry(BaseModel):
    name: str
    kind: ChannelKind
    period_s: float | None = Field(description="Seconds between runs; null for continuous channels")
    once: str | None = Field(description="`ONCE PER` as it is written, with seconds; null for channels without it")
    snapshot: bool = Field(description="Whether subscribers get what holds first: `WITH SNAPSHOT`")
    retention_s: float | None = Field(description="How long its results are kept; null: `result_retention_s`")
    is_paused: bool
    parameters: list[ParameterEntry]
    granted_to: list[str] | None = Field(description="The permission classes that may subscribe; null if all may")


class FeedEntry(BaseModel):
    name: str
    dataset: str
    source: FeedSource
    publishers: list[str] = Field(description="The publishers that it is granted to")


class CatalogueAnswer(BaseModel):
    datasets: list[DatasetEntry]
    channels: list[ChannelEntry]
    feeds: list[FeedEntry]


class RecentRowsAnswer(BaseModel):
    dataset: str
    commit: int = Field(description="The value of `after` for the next request")
    columns: list[str]
    rows: list[list[Any]] = Field(description="Oldest first")


@router.get("/catalogue", response_model=CatalogueAnswer, tags=["operations"])
def catalogue(cluster: AnyCluster) -> Response:
    """What exists, and who may use it: datasets with their columns, channels with their parameters, feeds. Each sorted
    by name."""
    known, grants = cluster.catalogue, cluster.grants
    datasets = [
        {
            "name": one.name,
            "kind": one.kind,
            "columns": [{"name": column.name, "type": column.type} for column in one.schema],
            "primary_key": one.schema.primary_key,
        }
        for _, one in sorted(known.datasets.items())
    ]
    channels = [
        {
            "name": one.name,
            "kind": one.kind,
            "period_s": one.period_s,
            "once": None if one.once is None else str(one.once),
            "snapshot": one.snapshot,
            "retention_s": one.retention_s,
            "is_paused": known.is_paused(one.name),
            "parameters": one.parameters,
            "granted_to": None if grants.is_open(one.name) else grants.grantees(Action.SUBSCRIBE, one.name),
        }
        for _, one in sorted(known.channels.items())
    ]
    feeds = [
        {
            "name": one.name,
            "dataset": one.dataset,
            "source": one.source,
            "publishers": grants.grantees(Action.PUBLISH, one.name),
        }
        for _, one in sorted(known.feeds.items())
    ]
    return reply({"datasets": datasets, "channels": channels, "feeds": feeds})


@router.get("/datasets/{dataset}/recent", response_model=RecentRowsAnswer, tags=["operations"])
def recent_rows(
    dataset: str,
    cluster: AnyCluster,
    after: Annotated[int, Query(ge=0, le=(1 << 63) - 1, description="Only rows of later commits")] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> Response:
    """The newest rows of a dataset that are still in memory. They are a sample; channels deliver all rows."""
    stored = cluster.store[cluster.catalogue.dataset(dataset).name]
    table = stored.rows
    commit, columns = table.sequence, list(stored.dataset.schema.names)
    parts = table.recent.newest(after, commit, max_rows=limit, max_bytes=_MAX_RECENT_BYTES)
    found = pa.concat_tables([table.schema.empty_table(), *parts], promote_options="default")
    rows = list(zip(*(wire_values(found.column(name)) for name in columns), strict=True))
    return reply({"dataset": stored.dataset.name, "commit": commit, "columns": columns, "rows": rows})
