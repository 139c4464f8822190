"""What one user may take up at a broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tocsin.errors import Overloaded, TocsinError


@dataclass(frozen=True, slots=True)
class Limits:
    max_connections: int = 20_000
    max_connections_per_user: int = 20
    max_subscriptions_per_user: int = 1000
    max_queued_bytes: int = 256 << 10
    slow_after_s: float = 10
    device_retention_s: float = 7 * 24 * 3600
    nameless_retention_s: float = 60


class Quotas:
    """Counts what each user takes up."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._connections: Counter[str] = Counter()
        self._subscriptions: Counter[str] = Counter()

    def refuse_connection(self, user: str, connections: int) -> TocsinError | None:
        """Why another connection can't be taken; None if it can."""
        if connections >= self._limits.max_connections:
            return Overloaded(f"this broker holds {connections} connections, its most", retry_after_s=5)
        if self._connections[user] >= self._limits.max_connections_per_user:
            most = self._limits.max_connections_per_user
            return Overloaded(f"{user} has {most} connections here, the most for one user; close one", retry_after_s=5)
        return None

    def refuse_subscription(self, user: str) -> TocsinError | None:
        """Why another subscription can't be taken; None if it can. Those being asked for count too."""
        if self._subscriptions[user] >= self._limits.max_subscriptions_per_user:
            most = self._limits.max_subscriptions_per_user
            return Overloaded(f"{user} has {most} subscriptions, the most for one user; unsubscribe", retry_after_s=60)
        return None

    def count_connection(self, user: str, change: int) -> None:
        _count(self._connections, user, change)

    def count_subscription(self, user: str, change: int) -> None:
        _count(self._subscriptions, user, change)


def _count(counter: Counter[str], user: str, change: int) -> None:
    counter[user] += change
    if counter[user] <= 0:
        del counter[user]
