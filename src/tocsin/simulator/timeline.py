"""The record of a simulated run: samples of the network, the plans made, and the totals."""

from dataclasses import dataclass

from tocsin.balancing.evenness import cov_of


@dataclass(frozen=True, slots=True)
class Sample:
    """The network at one moment. Per-broker figures are in the order of the run's brokers."""

    time_s: float
    subscribers: tuple[int, ...]
    """Connected subscribers, by broker."""
    loads_bytes_per_s: tuple[float, ...]
    """By the model: the bytes per second that a broker fetches and delivers, at the averaged rates."""
    scores: tuple[float, ...]
    """The loads divided by the brokers' capacities."""
    in_bytes: tuple[float, ...]
    """Counted: fetched since the last sample."""
    out_bytes: tuple[float, ...]
    """Counted: delivered since the last sample."""
    deliveries: tuple[int, ...]
    """Notifications delivered since the last sample."""
    migrations: int
    """Subscribers moved by plans, so far."""
    alive: tuple[bool, ...] = ()
    """The brokers that the coordinator takes for alive; the others carry no load and are not counted. Empty: all."""

    @property
    def _compared(self) -> list[float]:
        if not self.alive:
            return list(self.scores)
        return [score for score, is_alive in zip(self.scores, self.alive, strict=True) if is_alive]

    @property
    def mean(self) -> float:
        """The mean score."""
        scores = self._compared
        return sum(scores) / len(scores) if scores else 0.0

    @property
    def max(self) -> float:
        """The score of the most loaded broker."""
        return max(self._compared, default=0.0)

    @property
    def cov(self) -> float:
        """The coefficient of variation of the scores: 0 when even."""
        return cov_of(self._compared)


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan that was begun, and the scores that it leads to."""

    time_s: float
    stage: str
    policy: str
    reason: str
    moves: int
    cov_before: float
    cov_after: float
    max_before: float
    max_after: float
    gap: float
    """The highest score after the plan over the lower bound of all assignments."""
    promised_cov: float | None = None
    """The cov to be expected after the plan, with what chance adds to it."""
    kept_cov: float | None = None
    """Counted: the cov of what brokers carried in the minute after it; None if the run ended before."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of the whole run, and of the holds at its end."""

    control_messages: int
    placements: int
    logins: int
    logouts: int
    subscribes: int
    unsubscribes: int
    frontend_subscriptions: int
    backend_subscriptions: int
    deliveries: int
    out_bytes: float
    in_bytes: float
    migrations: int
    plans: int
    failures: int


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario, run once: equal scenarios and seeds give equal runs. A policy's name is "" when off."""

    scenario: str
    label: str
    seed: int
    duration_s: float
    placement: str
    migration: str
    shuffle: str
    alpha: float
    beta: float
    gamma: float
    theta: float
    brokers: tuple[str, ...]
    capacities: tuple[float, ...]
    samples: tuple[Sample, ...]
    plans: tuple[PlanRecord, ...]
    totals: Totals
    round_trips_ms: tuple[float, ...] = ()
    """Those of the subscribers that are connected at the end to their brokers, sorted. Empty: there are no sites."""
