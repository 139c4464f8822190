"""Brokers that are not to be emptied, because an operator has stopped their evacuation (pure).

It stays stopped over restarts, until the operator drains or removes the broker once more, or the broker is back and
need not be emptied any longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.coordinator.registry.instructions import StoreStoppedEvacuations


class StoppedEvacuations:
    """`stop` and `allow` return what is to be stored, if they change anything."""

    def __init__(self, brokers: Iterable[str] = ()) -> None:
        self._brokers = frozenset(brokers)

    def __contains__(self, broker: str) -> bool:
        return broker in self._brokers

    @property
    def brokers(self) -> frozenset[str]:
        return self._brokers

    def stop(self, brokers: Iterable[str]) -> list[StoreStoppedEvacuations]:
        return self._become(self._brokers | set(brokers))

    def allow(self, broker: str) -> list[StoreStoppedEvacuations]:
        return self._become(self._brokers - {broker})

    def _become(self, brokers: frozenset[str]) -> list[StoreStoppedEvacuations]:
        if brokers == self._brokers:
            return []
        self._brokers = brokers
        return [StoreStoppedEvacuations(tuple(sorted(brokers)))]
