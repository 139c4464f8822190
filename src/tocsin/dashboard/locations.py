"""Subscribers' locations for the map: a few thousand at most, always of the same ones, so that moves are visible."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tocsin.coordinator.node import CoordinatorNode

#: As many points as can be told apart on a screen.
MAX_SHOWN = 4000
#: Newcomers appear within this time. Choosing looks at all subscribers, so it is not done more often.
_CHOSEN_FOR_S = 5.0
#: With very many subscribers, choosing happens less often.
_LOOKED_AT_PER_S = 200_000


class Locations:
    def __init__(self, node: CoordinatorNode) -> None:
        self._node = node
        self._chosen: list[str] = []
        self._version = 0
        self._until_s = float("-inf")

    def now(self, known_version: int) -> dict[str, Any]:
        """Locations and brokers of the chosen subscribers. `names` is left out if the page has them already."""
        self._choose()
        brokers: dict[str, int] = {}
        points: list[float] = []
        for _subscriber, broker, x, y in self.locations():
            points += (round(x, 1), round(y, 1), brokers.setdefault(broker, len(brokers)))
        answer: dict[str, Any] = {"version": self._version, "brokers": list(brokers), "points": points}
        if known_version != self._version:
            answer["names"] = self._chosen
        return answer

    def locations(self) -> Iterator[tuple[str, str, float, float]]:
        """Name, broker, x and y of each chosen subscriber; those that have gone since have no broker."""
        state = self._node.state
        for subscriber in self._chosen:
            session, location = state.session(subscriber), state.location_of(subscriber)
            if location is not None:
                yield subscriber, session.owner if session is not None else "", *location

    def _choose(self) -> None:
        now_s = self._node.now_s()
        if now_s < self._until_s:
            return
        state = self._node.state
        step = max(1, -(-state.subscriber_count // MAX_SHOWN))
        chosen = [one.subscriber for one in islice(state.sessions(), 0, None, step)]
        chosen = [one for one in chosen if state.location_of(one) is not None]
        if chosen != self._chosen:
            self._chosen = chosen
            self._version += 1
        self._until_s = now_s + max(_CHOSEN_FOR_S, state.subscriber_count / _LOOKED_AT_PER_S)
