"""Up to which sequence results have been removed, for each subscription, in the catalogue's database.

A subscriber that comes back after a long time, with a position older than all kept results, has missed something only
if results of that very subscription were removed. Most subscriptions are quiet and have lost none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.results.backend_subscriptions import hold_table, subscription_table
from tocsin.runtime.sql_rows import among, in_chunks

_removed = sa.Table(
    "removed",
    metadata,
    sa.Column("subscription", sa.BigInteger, primary_key=True, autoincrement=False),
    #: The sequence of the newest removed result.
    sa.Column("through", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)


_same = subscription_table.c.id == _removed.c.subscription


class Removals:
    """Subscription → the sequence of its newest removed result; only for subscriptions that have not ended."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()

    def note(self, newest: Mapping[int, int]) -> None:
        """These results are about to be removed. Forgets subscriptions that have ended.

        Newer ones may have been removed before: results of one subscription are kept for different times."""
        with self._lock, self._engine.begin() as connection:
            known = sa.select(subscription_table.c.id)
            # PostgreSQL compares each with all if it is asked for those that are not in a long list.
            connection.execute(_removed.delete().where(~known.where(_same).exists()))
            for chunk in in_chunks(list(newest)):
                still = connection.scalars(known.where(among(connection, subscription_table.c.id, chunk))).all()
                mine = among(connection, _removed.c.subscription, chunk)
                before = {row.subscription: row.through for row in connection.execute(sa.select(_removed).where(mine))}
                connection.execute(_removed.delete().where(mine))
                if still:
                    rows = [{"subscription": one, "through": max(newest[one], before.get(one, 0))} for one in still]
                    connection.execute(_removed.insert(), rows)

    def newest_held(self, broker: str) -> int:
        """The sequence of the newest removed result among those of subscriptions that a broker holds; 0 if none was
        removed."""
        held = sa.select(hold_table.c.subscription).where(hold_table.c.broker == broker)
        query = sa.select(sa.func.max(_removed.c.through)).where(_removed.c.subscription.in_(held))
        with self._engine.connect() as connection:
            return int(connection.scalar(query) or 0)

    def find(self, ids: Sequence[int]) -> dict[int, int]:
        """Only those that have lost results."""
        found: dict[int, int] = {}
        with self._engine.connect() as connection:
            for chunk in in_chunks(ids):
                rows = connection.execute(sa.select(_removed).where(among(connection, _removed.c.subscription, chunk)))
                found.update({row.subscription: row.through for row in rows})
        return found
