"""Answers subscribers that ask for a broker, and brokers that ask where their leaving subscribers should go (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin.balancing.placement import Newcomer
from tocsin.balancing.views import BrokerView
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.moves.execution import Execution
from tocsin.coordinator.registry.brokers import Brokers
from tocsin.coordinator.registry.events import MovesAsked, PlacementAsked
from tocsin.coordinator.registry.instructions import AnswerMoves, AnswerPlacement, Instruction, Placed
from tocsin.coordinator.registry.liveness import KnownBroker, Liveness
from tocsin.coordinator.registry.placement import Placements
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.coordinator.registry.round_trips import RoundTrips
from tocsin.coordinator.registry.sessions import Sessions
from tocsin.errors import Unavailable
from tocsin.protocol.subscription_keys import KeyText

_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class _Choice:
    """The brokers that newcomers may be placed at. It stays valid while only placements happen, until a broker falls
    silent."""

    views: tuple[BrokerView, ...]
    until_s: float
    rates_version: int


@dataclass(slots=True, eq=False)
class Newcomers:
    _brokers: Brokers
    _liveness: Liveness
    _sessions: Sessions
    _rates: Rates
    _execution: Execution
    _placements: Placements
    _round_trips: RoundTrips
    #: Kept between placements: looking at every broker for every newcomer would be most of the work of placing a
    #: million.
    _choice: _Choice | None = field(init=False, default=None)

    def network_changed(self) -> None:
        """Something else than a placement has happened."""
        self._choice = None

    def placement_asked(self, event: PlacementAsked) -> list[Instruction]:
        session = self._sessions.get(f"{event.user}/{event.device}") if event.device else None
        if session is not None and session.owner not in event.avoid:
            owner = self._execution.destination_of(session.subscriber) or session.owner
            if owner in self._brokers and self._brokers[owner].is_present:
                return [AnswerPlacement(Placed(owner, self._brokers[owner].record.url, "sticky"))]
        notes: list[Instruction] = []
        newcomer = Newcomer(event.location, _held(session), event.located)
        placed = self._place(event.now_s, self._candidates(event), newcomer, notes)
        if placed is None:
            raise Unavailable("there is no broker that takes subscribers", retry_after_s=_RETRY_AFTER_S)
        return [*notes, AnswerPlacement(placed)]

    def moves_asked(self, event: MovesAsked) -> list[Instruction]:
        source = self._brokers.caller(event.broker, event.incarnation)
        brokers = self._brokers.open_to_newcomers(event.now_s, leaving=event.broker)
        candidates = tuple(map(self._view, brokers))
        notes: list[Instruction] = []
        placements: dict[str, Placed] = {}
        for subscriber in dict.fromkeys(event.subscribers):
            session = self._sessions.get(subscriber)
            # Without a known location, its broker's location stands for it: that broker was chosen for it.
            location = self._sessions.location_of(subscriber) or source.record.location
            newcomer = Newcomer(location, _held(session), self._sessions.located_of(subscriber))
            placed = self._place(event.now_s, candidates, newcomer, notes)
            if placed is not None:
                placements[subscriber] = placed
        return [*notes[:1], AnswerMoves(placements)]

    def _place(
        self,
        now_s: float,
        candidates: Sequence[BrokerView],
        newcomer: Newcomer,
        notes: list[Instruction],
    ) -> Placed | None:
        if not candidates:
            return None
        name, policy, note = self._placements.place(now_s, candidates, newcomer)
        if note is not None:
            notes.append(note)
        return Placed(name, self._brokers[name].record.url, policy)

    def _candidates(self, event: PlacementAsked) -> tuple[BrokerView, ...]:
        choice, now_s = self._choice, event.now_s
        if event.avoid:
            return tuple(map(self._view, self._brokers.open_to_newcomers(now_s, event.avoid)))
        if choice is None or now_s >= choice.until_s or choice.rates_version != self._rates.version:
            brokers = self._brokers.open_to_newcomers(now_s)
            until_s = min(map(self._liveness.suspect_at_s, brokers), default=now_s)
            self._choice = choice = _Choice(tuple(map(self._view, brokers)), until_s, self._rates.version)
        return choice.views

    def _view(self, broker: KnownBroker) -> BrokerView:
        name, loads = broker.record.name, self._sessions.loads
        return BrokerView(
            name,
            broker.record.location,
            broker.record.capacity,
            broker.state,
            broker.traffic.connections,
            loads.of(name),
            self._execution.reserved(name),
            held=loads.held(name),
            rate_of=self._rates.of,
            coordinate=self._round_trips.coordinate_of(name),
        )


def _held(session: SessionRecord | None) -> tuple[KeyText, ...]:
    return tuple(held.key for held in session.subscriptions) if session else ()
