"""The current incarnation of each broker, in the catalogue's database.

The coordinator has the same rules: `protocol/incarnations.py`.
"""

from __future__ import annotations

import threading

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.errors import NotRegistered
from tocsin.protocol.incarnations import NOBODY, Holder, check_caller, check_identity, take_name
from tocsin.runtime.clock import Clock

_incarnations = sa.Table(
    "incarnation",
    metadata,
    sa.Column("broker", sa.String, primary_key=True),
    sa.Column("identity", sa.String, nullable=False),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
)


class Incarnations:
    """Any thread may call it. The times of brokers' last calls are not stored: a restart counts as a call from each."""

    def __init__(self, engine: sa.Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._started_s = clock.monotonic_s()
        self._heard_s: dict[str, float] = {}
        with engine.connect() as connection:
            rows = connection.execute(sa.select(_incarnations)).all()
        self._holders = {row.broker: Holder(row.identity, row.incarnation) for row in rows}

    def register(self, broker: str, identity: str, start: str = "") -> int:
        """The new incarnation. Raises AlreadyExists if another broker of that name is alive."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            holder = take_name(
                broker,
                self._holders.get(broker),
                identity,
                start,
                self._clock.now_us(),
                silent_s=now_s - self._heard_s.get(broker, self._started_s),
            )
            with self._engine.begin() as connection:
                connection.execute(_incarnations.delete().where(_incarnations.c.broker == broker))
                row = {"broker": broker, "identity": identity, "incarnation": holder.incarnation}
                connection.execute(_incarnations.insert().values(row))
            self._holders[broker], self._heard_s[broker] = holder, now_s
            return holder.incarnation

    def check(self, broker: str, incarnation: int) -> None:
        """A broker calls. Raises Superseded if it is an older incarnation."""
        with self._lock:
            check_caller(broker, self._holders.get(broker, NOBODY), incarnation)
            self._heard_s[broker] = self._clock.monotonic_s()

    def check_identity(self, broker: str, identity: str) -> None:
        """Raises Forbidden if the name belongs to another broker, and NotRegistered if it belongs to none."""
        with self._lock:
            holder = self._holders.get(broker)
        if holder is None:
            raise NotRegistered(f"no broker called {broker}; register it with PUT /v1/brokers/{broker}")
        check_identity(broker, holder, identity)

    def forget(self, broker: str) -> None:
        with self._lock:
            with self._engine.begin() as connection:
                connection.execute(_incarnations.delete().where(_incarnations.c.broker == broker))
            self._holders.pop(broker, None)
            self._heard_s.pop(broker, None)
