"""Which subscriptions wait for a snapshot, in the catalogue's database.

A request has a number that is used once and grows. The results table holds, beside the snapshots themselves, up to
which number each channel's requests are served: so a request is served together with its snapshot, or not at all. Rows
here that are served already are left over, and are removed some time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.runtime.sql_rows import among

request_table = sa.Table(
    "snapshot_request",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("subscription", sa.BigInteger, nullable=False),
    #: It is the first snapshot of a new subscription.
    sa.Column("is_first", sa.Boolean, nullable=False),
    sa.Index("snapshot_request_subscription", "subscription"),
)


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    number: int
    subscription: int
    is_first: bool


def waiting_among(connection: sa.Connection, served: Mapping[int, int], chunks: Iterator[Sequence[int]]) -> set[int]:
    """The subscriptions that have a request with a higher number than `served` has for them."""
    found: set[int] = set()
    for chunk in chunks:
        query = sa.select(request_table.c.subscription, request_table.c.number).where(
            among(connection, request_table.c.subscription, chunk)
        )
        found.update(row.subscription for row in connection.execute(query) if row.number > served[row.subscription])
    return found
