"""Places new subscribers. A placement is reserved in the broker's load until its reports include it (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tocsin.balancing.placement import Newcomer, PlacementPolicy, least_resulting_load
from tocsin.balancing.plugins import policy_named
from tocsin.balancing.views import BrokerView, NetworkView
from tocsin.coordinator.registry.instructions import Note
from tocsin.model.chance import Chance

#: A placement stays reserved for so many heartbeats: by then the broker's own reports include it.
_RESERVED_HEARTBEATS = 2.0


class Placements:
    """Without reservations, all newcomers between two heartbeats would be sent to the same broker."""

    def __init__(
        self, policies: Mapping[str, PlacementPolicy], policy: str, chance: Chance, heartbeat_every_s: float
    ) -> None:
        self._policies = policies
        self._chance = chance
        self._reserved_for_s = _RESERVED_HEARTBEATS * heartbeat_every_s
        self._last_placed = ""
        #: Until when, at which broker, how much load.
        self._reservations: deque[tuple[float, str, float]] = deque()
        self._reserved: dict[str, tuple[int, float]] = {}
        #: The last candidates, their views with reservations, and the brokers whose reservations have changed since.
        self._candidates: Sequence[BrokerView] = ()
        self._by_name: dict[str, BrokerView] = {}
        self._shown: dict[str, BrokerView] = {}
        self._outdated: set[str] = set()
        self.policy = policy

    @property
    def policies(self) -> list[str]:
        return sorted(self._policies)

    def choose_policy(self, name: str) -> None:
        policy_named("placement", name, self._policies)
        self.policy = name

    def place(self, now_s: float, candidates: Sequence[BrokerView], newcomer: Newcomer) -> tuple[str, str, Note | None]:
        """The broker, the policy that chose it, and a note if a policy failed. There is at least one candidate.

        If the caller passes the same tuple again, its candidates must not have changed.
        """
        self.release(now_s)
        brokers = self._show(candidates)
        view = NetworkView(tuple(brokers.values()), self._last_placed)
        policy, note = self.policy, None
        try:
            name = self._policies[policy](view, newcomer, self._chance)
            failure = "" if name in brokers else f"it chose {name!r}, which is not among the brokers to choose from"
        except Exception as exc:  # noqa: BLE001 - a stranger's policy must not keep subscribers from being placed
            name, failure = "", f"{type(exc).__name__}: {exc}"
        if failure:
            note = Note("placement policy failed", {"policy": policy, "reason": failure})
            policy = "least-resulting-load"
            name = least_resulting_load(view, newcomer, self._chance)
        self._last_placed = name
        self._reserve(now_s, name, brokers[name].added(newcomer.subscriptions))
        return name, policy, note

    def release(self, now_s: float) -> None:
        """Drop the reservations that have expired."""
        while self._reservations and self._reservations[0][0] <= now_s:
            _, broker, load = self._reservations.popleft()
            count, reserved = self._reserved.pop(broker)
            self._outdated.add(broker)
            if count > 1:
                self._reserved[broker] = (count - 1, reserved - load)

    def _reserve(self, now_s: float, broker: str, load: float) -> None:
        self._reservations.append((now_s + self._reserved_for_s, broker, load))
        count, reserved = self._reserved.get(broker, (0, 0.0))
        self._reserved[broker] = (count + 1, reserved + load)
        self._outdated.add(broker)

    def _show(self, candidates: Sequence[BrokerView]) -> dict[str, BrokerView]:
        """The candidates with their reservations; only changed views are made anew."""
        if candidates is not self._candidates:
            self._candidates = candidates
            self._by_name = {one.name: one for one in candidates}
            self._shown = {name: self._with_reservations(one) for name, one in self._by_name.items()}
        else:
            for name in self._outdated & self._by_name.keys():
                self._shown[name] = self._with_reservations(self._by_name[name])
        self._outdated.clear()
        return self._shown

    def _with_reservations(self, view: BrokerView) -> BrokerView:
        count, load = self._reserved.get(view.name, (0, 0.0))
        return replace(view, connections=view.connections + count, reserved=view.reserved + load) if count else view
