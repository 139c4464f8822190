"""The registered brokers, in the order of their names (pure)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tocsin.coordinator.registry.events import BrokerRegistered
from tocsin.coordinator.registry.liveness import KnownBroker, Liveness
from tocsin.coordinator.registry.records import BrokerRecord
from tocsin.errors import NotFound
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.incarnations import check_caller, take_name


class Brokers:
    def __init__(self, records: Iterable[BrokerRecord], now_s: float, liveness: Liveness) -> None:
        self._liveness = liveness
        self._by_name = {
            record.name: KnownBroker(replace(record, dead=False), now_s, was_dead=record.dead)
            for record in sorted(records, key=lambda one: one.name)
        }

    def __iter__(self) -> Iterator[KnownBroker]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> KnownBroker:
        """Raises NotFound."""
        if (broker := self._by_name.get(name)) is None:
            raise NotFound(f"no broker called {name} is registered")
        return broker

    @property
    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def caller(self, name: str, incarnation: int) -> KnownBroker:
        """The calling broker; raises Superseded if another one has the name now."""
        broker = self[name]
        check_caller(name, broker.record.holder, incarnation)
        return broker

    def register(self, event: BrokerRegistered) -> KnownBroker:
        """Raises AlreadyExists or InUse if the name is another broker's."""
        known = self._by_name.get(event.broker)
        mode = known.record.mode if known else BrokerState.ACTIVE
        holder = take_name(
            event.broker,
            known.record.holder if known else None,
            event.identity,
            event.start,
            event.now_us,
            silent_s=self._liveness.silent_s(known, event.now_s) if known and not known.was_dead else math.inf,
            takes_over=event.takes_over,
        )
        record = BrokerRecord(event.broker, event.url, event.location, event.capacity, mode, holder=holder)
        if known is None:
            known = KnownBroker(record, event.now_s)
            self._by_name = dict(sorted({**self._by_name, event.broker: known}.items()))
        known.record, known.heard_s = record, event.now_s
        known.shutting_down = known.was_dead = False
        return known

    def remove(self, name: str) -> None:
        del self._by_name[name]

    # Which brokers may be used

    def takes(self, name: str) -> bool:
        return name in self and self[name].state is BrokerState.ACTIVE

    def is_current(self, name: str) -> bool:
        return name in self and self[name].has_reported

    def is_dead(self, name: str) -> bool:
        return name not in self or self[name].state is BrokerState.DEAD

    def present(self) -> list[KnownBroker]:
        """Those that subscribers may be at."""
        return [one for one in self if one.is_present]

    def to_be_emptied(self, now_s: float, dead_for_s: float) -> set[str]:
        """Those that are drained by operators, or have been dead for `dead_for_s`."""
        return {
            one.record.name
            for one in self
            if (one.state is BrokerState.DEAD and now_s - one.died_s >= dead_for_s)
            or (one.state is BrokerState.DRAINING and not one.shutting_down)
        }

    def open_to_newcomers(
        self, now_s: float, avoid: frozenset[str] = frozenset(), leaving: str = ""
    ) -> list[KnownBroker]:
        """The brokers that may take a newcomer: those that reported lately, if there are any. `avoid` is a wish: if no
        other brokers are left, those to avoid may have come back meanwhile."""
        active = [one for one in self if one.state is BrokerState.ACTIVE and one.record.name != leaving]
        wished = [one for one in active if one.record.name not in avoid] or active
        return [one for one in wished if not one.was_dead and not self._liveness.is_suspect(one, now_s)] or wished
