"""When commits happened and what time it is, precisely enough to remove rows older than their retention.

Rows carry the number of their commit, not a time. So from time to time a table's current commit number is written down
with the time: every commit up to that number is at least that old.
"""

from __future__ import annotations

from dataclasses import asdict

import sqlalchemy as sa
import structlog

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.datasets.core.retention_time import RetentionTime

log = structlog.get_logger(__name__)

_samples = sa.Table(
    "commit_time",
    metadata,
    #: Delta's own identity of the table: a dataset that is dropped and created again begins anew here too.
    sa.Column("table_id", sa.String, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
)


#: Retention's time when it was last read; one row.
_time = sa.Table(
    "retention_time",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("claimed_us", sa.BigInteger),
    sa.Column("doubted_s", sa.Float, nullable=False),
)


class RetentionClock:
    """Keeps retention's time, from one process to the next."""

    def __init__(self, engine: sa.Engine, monotonic_s: float) -> None:
        self._engine = engine
        self._looked_at_s = monotonic_s
        with engine.connect() as connection:
            row = connection.execute(sa.select(_time)).first()
        self._time = None if row is None else RetentionTime(row.now_us, row.claimed_us, row.doubted_s)

    def now_us(self, clock_us: int, monotonic_s: float, patience_s: float) -> int:
        """The time for retention, if history is kept for `patience_s`."""
        elapsed_s, self._looked_at_s = monotonic_s - self._looked_at_s, monotonic_s
        was_doubted = self._time is not None and self._time.claimed_us is not None
        time = RetentionTime(clock_us) if self._time is None else self._time.after(elapsed_s, clock_us, patience_s)
        if time.claimed_us is not None and not was_doubted:
            ahead_s = (time.claimed_us - time.now_us) // 1_000_000
            log.warning("the clock has jumped ahead; retention does not follow it yet", ahead_s=ahead_s)
        values = asdict(time)
        with self._engine.begin() as connection:
            if connection.execute(_time.update().values(**values)).rowcount == 0:
                connection.execute(_time.insert().values(id=1, **values))
        self._time = time
        return time.now_us


class CommitTimes:
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def note(self, table_id: str, sequence: int, now_us: int) -> None:
        """By `now_us` the table had reached `sequence`. The first time at which that was seen counts."""
        with self._engine.begin() as connection:
            known = sa.select(_samples).where(_samples.c.table_id == table_id, _samples.c.sequence >= sequence)
            if connection.execute(known).first() is None:
                connection.execute(_samples.insert().values(table_id=table_id, sequence=sequence, at_us=now_us))

    def through(self, table_id: str, oldest_us: int) -> int:
        """The last commit that is known to be older than `oldest_us`; 0 if none is. Earlier entries are forgotten."""
        old = sa.and_(_samples.c.table_id == table_id, _samples.c.at_us < oldest_us)
        with self._engine.begin() as connection:
            through = int(connection.execute(sa.select(sa.func.max(_samples.c.sequence)).where(old)).scalar() or 0)
            connection.execute(_samples.delete().where(old, _samples.c.sequence < through))
            return through
