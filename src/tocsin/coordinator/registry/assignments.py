"""The assignment as plans see it: all sessions at the brokers that subscribers may be at (pure)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.registry.brokers import Brokers
from tocsin.coordinator.registry.liveness import KnownBroker
from tocsin.coordinator.registry.round_trips import RoundTrips
from tocsin.coordinator.registry.sessions import Sessions
from tocsin.protocol.coordination import BrokerState


@dataclass(slots=True, eq=False)
class Assignments:
    _brokers: Brokers
    _sessions: Sessions
    _rates: Rates
    _round_trips: RoundTrips

    def of_present(self, resting: Collection[str], reach_ms: float | None) -> AssignmentView:
        """For plans that even out the load. Only ACTIVE brokers take subscribers."""
        candidates = [self._assigned(one, takes=one.state is BrokerState.ACTIVE) for one in self._brokers.present()]
        return AssignmentView.of(
            candidates, self._sessions, self._rates.of, resting, reach_ms=reach_ms, located_of=self._sessions.located_of
        )

    def of_leaving(self, leaving: Collection[str], reach_ms: float | None) -> AssignmentView:
        """For plans that empty the brokers that are leaving."""
        staying = [one for one in self._brokers.present() if one.record.name not in leaving]
        candidates = [self._assigned(one, takes=self._brokers.takes(one.record.name)) for one in staying]
        candidates += [AssignedBroker(name, 1.0, takes=False) for name in leaving]
        return AssignmentView.of(
            candidates,
            self._sessions,
            self._rates.of,
            leaving=leaving,
            reach_ms=reach_ms,
            located_of=self._sessions.located_of,
        )

    def _assigned(self, broker: KnownBroker, *, takes: bool) -> AssignedBroker:
        name = broker.record.name
        return AssignedBroker(name, broker.record.capacity, takes, self._round_trips.coordinate_of(name))
