"""The numbers that results commits may take, in the catalogue's database."""

from __future__ import annotations

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.results.backend_subscriptions import counter_table
from tocsin.cluster.results.core.numbers import Gaps, number_floor

_gaps = sa.Table(
    "number_gap",
    metadata,
    sa.Column("after", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("through", sa.BigInteger, nullable=False),
)
_COUNTER = "results"
#: Numbers reserved at a time: one write to the database covers several seconds of commits. Reserved numbers must not
#: run ahead of the clock's floor: two processes that begin from the same back-up would both begin at the end of the
#: same block. The clock passes this many in a third of a second, less than a process takes to start.
_BLOCK = 64
#: Each start leaves a gap. This many starts take years, unless something is very wrong.
_MOST_GAPS = 10_000


class Numbering:
    """Numbers up to `reserved` may be used: it is stored durably before they are."""

    def __init__(self, engine: sa.Engine, now_us: int) -> None:
        self._engine = engine
        self._now_us = now_us
        self._reserved = 0

    def begin(self, last: int) -> tuple[int, Gaps]:
        """The number after which this process continues, if `last` is the last one committed; and all gaps."""
        with self._engine.begin() as connection:
            found = connection.scalar(sa.select(counter_table.c.value).where(counter_table.c.name == _COUNTER))
            if found is None:
                connection.execute(counter_table.insert().values(name=_COUNTER, value=0))
            end = _end_of_idle_starts(connection, last)
            begin = max(end, int(found or 0), number_floor(self._now_us))
            if begin > end:
                # Later gaps belong to a history that is gone.
                connection.execute(_gaps.delete().where(_gaps.c.after >= end))
                connection.execute(_gaps.insert().values(after=end, through=begin))
            kept = connection.execute(sa.select(_gaps).order_by(_gaps.c.after.desc()).limit(_MOST_GAPS)).all()
            connection.execute(_gaps.delete().where(_gaps.c.after < kept[-1].after if kept else sa.false()))
            self._reserve(connection, begin)
        return begin, Gaps((row.after, row.through) for row in kept)

    def reserve(self, number: int) -> None:
        """Numbers up to `number` are about to be used."""
        if number > self._reserved:
            with self._engine.begin() as connection:
                self._reserve(connection, number)

    def _reserve(self, connection: sa.Connection, number: int) -> None:
        reserved = number + _BLOCK
        connection.execute(counter_table.update().where(counter_table.c.name == _COUNTER).values(value=reserved))
        self._reserved = reserved


def _end_of_idle_starts(connection: sa.Connection, last: int) -> int:
    """The end of the chain of gaps after `last`. Each start without commits has left one, and gave its end to brokers
    as a cursor, so that must stay valid."""
    end = last
    for row in connection.execute(sa.select(_gaps).where(_gaps.c.after >= last).order_by(_gaps.c.after)):
        if row.after != end:
            break
        end = row.through
    return end
