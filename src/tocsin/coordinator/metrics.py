"""The coordinator's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tocsin.coordinator.load.promises import Kept
from tocsin.protocol.coordination import BrokerState


class Metrics:
    """One registry per coordinator, so that two in one process (as in tests) don't mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.placements = counter("tocsin_coordinator_placements", "Placements by reason", ["reason"])
        self.heartbeats = counter("tocsin_coordinator_heartbeats", "Heartbeats received")
        self.claims = counter("tocsin_coordinator_claims", "Subscribers taken over by brokers")
        self.tokens = counter("tocsin_coordinator_tokens", "Tokens by outcome: issued, refused", ["outcome"])
        self._moves = counter(
            "tocsin_coordinator_moves", "Moves of plans by outcome: done, failed, cancelled", ["outcome"]
        )
        self._move_seconds = Histogram(
            "tocsin_coordinator_move_seconds",
            "From when a move began until the destination had claimed the subscriber",
            buckets=(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50),
            registry=self.registry,
        )
        self._brokers = gauge("tocsin_coordinator_brokers", "Brokers by state", ["state"])
        self._subscribers = gauge("tocsin_coordinator_subscribers", "Subscribers that a session is kept for")
        self._mass_outage = gauge(
            "tocsin_coordinator_mass_outage", "1 while so many brokers are silent that none is taken for dead"
        )
        self._under_way = gauge("tocsin_coordinator_moves_under_way", "Moves under way")
        self._cov = gauge("tocsin_coordinator_cov", "Standard deviation of the brokers' scores over their mean")
        self._max_score = gauge("tocsin_coordinator_max_score", "The highest score, in bytes per second")
        self._estimate_error = gauge(
            "tocsin_coordinator_estimate_error",
            "Median error of round trips estimated between brokers, relative to those measured",
        )
        self._chance_cov = gauge("tocsin_coordinator_chance_cov", "The cov that bursts alone make, whatever is planned")
        self._promised_cov = gauge("tocsin_coordinator_promised_cov", "What the last plan promised")
        self._kept_cov = gauge("tocsin_coordinator_kept_cov", "What was measured in the minute after the last plan")
        self._move_rate = gauge("tocsin_coordinator_moves_per_person_hour", "Moves of plans, over the last hour")

    def balance(self, cov: float, max_score: float, under_way: int) -> None:
        self._cov.set(cov)
        self._max_score.set(max_score)
        self._under_way.set(under_way)

    def estimates(self, median_error: float) -> None:
        self._estimate_error.set(median_error)

    def outlook(self, chance_cov: float, moves_per_person_hour: float, kept: Kept | None) -> None:
        self._chance_cov.set(chance_cov)
        self._move_rate.set(moves_per_person_hour)
        if kept is not None:
            self._promised_cov.set(kept.promised_cov)
            self._kept_cov.set(kept.kept_cov)

    def moved(self, outcome: str, took_s: float) -> None:
        self._moves.labels(outcome).inc()
        if outcome == "done":
            self._move_seconds.observe(took_s)

    def render(self, brokers: Mapping[BrokerState, int], subscribers: int, *, mass_outage: bool) -> bytes:
        for state in BrokerState:
            self._brokers.labels(state.value).set(brokers.get(state, 0))
        self._subscribers.set(subscribers)
        self._mass_outage.set(mass_outage)
        return generate_latest(self.registry)
