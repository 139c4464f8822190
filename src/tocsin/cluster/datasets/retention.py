"""When commits happened, well enough to remove what is older than a dataset's retention.

Rows carry the number of their commit, not a time. So every now and then the number that a table has come to is
written down with the time: what was committed by then is at least that old.
"""

from __future__ import annotations

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata

_samples = sa.Table(
    "commit_time",
    metadata,
    #: Delta's own identity of the table: a dataset dropped and made anew begins anew here too.
    sa.Column("table_id", sa.String, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
)


class CommitTimes:
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def note(self, table_id: str, sequence: int, now_us: int) -> None:
        """By `now_us` the table had come to `sequence`. The first time that was seen counts."""
        with self._engine.begin() as connection:
            known = sa.select(_samples).where(_samples.c.table_id == table_id, _samples.c.sequence >= sequence)
            if connection.execute(known).first() is None:
                connection.execute(_samples.insert().values(table_id=table_id, sequence=sequence, at_us=now_us))

    def through(self, table_id: str, oldest_us: int) -> int:
        """The last commit that is known to be older than `oldest_us`; 0 if none is. What lies before is forgotten."""
        old = sa.and_(_samples.c.table_id == table_id, _samples.c.at_us < oldest_us)
        with self._engine.begin() as connection:
            through = int(connection.execute(sa.select(sa.func.max(_samples.c.sequence)).where(old)).scalar() or 0)
            connection.execute(_samples.delete().where(old, _samples.c.sequence < through))
            return through
