"""Limits of what one user may use at a broker."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.broker.core.sessions import Session
from tocsin.errors import Overloaded, TocsinError, TooLarge
from tocsin.filters.words import MAX_CHARACTERS
from tocsin.model.token_bucket import TokenBucket

#: Characters of filters that one user's programs may have read: enough for a thousand subscriptions at once. A thousand
#: characters take 10 ms of CPU at most, as measured, so that one user has a fiftieth of a core all the time.
_FILTER_CHARACTERS_AT_ONCE = 200_000
_FILTER_CHARACTERS_PER_S = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    max_connections: int = 20_000
    max_connections_per_user: int = 20
    max_subscriptions_per_user: int = 1000
    max_sessions_per_user: int = 100
    max_filters_per_session: int = 100
    max_filter_characters: int = 4096
    max_queued_bytes: int = 256 << 10
    slow_after_s: float = 10
    device_retention_s: float = 7 * 24 * 3600
    nameless_retention_s: float = 60


class Quotas:
    """Counts what each user uses."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._connections: dict[str, int] = {}
        self._subscriptions: dict[str, int] = {}
        self._sessions: dict[str, tuple[Session, ...]] = {}
        #: What users may still have read, of those who have filters.
        self._filter_characters: dict[str, TokenBucket] = {}

    def refuse_connection(self, user: str, connections: int) -> TocsinError | None:
        """Why another connection can't be taken; None if it can."""
        if connections >= self._limits.max_connections:
            return Overloaded(f"this broker holds {connections} connections, the most that it allows", retry_after_s=5)
        if self._connections.get(user, 0) >= self._limits.max_connections_per_user:
            most = self._limits.max_connections_per_user
            return Overloaded(f"{user} has {most} connections here, the most for one user; close one", retry_after_s=5)
        return None

    def refuse_subscription(self, user: str) -> TocsinError | None:
        """Why another subscription can't be taken; None if it can. Pending requests count too."""
        if self._subscriptions.get(user, 0) >= self._limits.max_subscriptions_per_user:
            most = self._limits.max_subscriptions_per_user
            return Overloaded(f"{user} has {most} subscriptions, the most for one user; unsubscribe", retry_after_s=60)
        return None

    def spend_on_filter(self, user: str, where: str, now_s: float) -> None:
        """Raises TooLarge, or Overloaded, if a filter may not be read."""
        most = min(self._limits.max_filter_characters, MAX_CHARACTERS)
        if len(where) > most:
            raise TooLarge(f"where: a filter may have {most:,} characters at most, not {len(where):,}")
        bucket = self._filter_characters.get(user)
        if bucket is None:
            bucket = TokenBucket(_FILTER_CHARACTERS_PER_S, _FILTER_CHARACTERS_AT_ONCE)
            self._filter_characters[user] = bucket
        if not bucket.take(now_s, len(where)):
            raise Overloaded(f"{user} changes filters too often", retry_after_s=1)

    def forget_full_buckets(self, now_s: float) -> None:
        """Of users who have not asked for filters of late."""
        for user in [one for one, bucket in self._filter_characters.items() if bucket.is_full(now_s)]:
            del self._filter_characters[user]

    def check_filters(self, others: int) -> None:
        """Raises Overloaded if a session with so many other filters can't have one more."""
        if others >= (most := self._limits.max_filters_per_session):
            raise Overloaded(
                f"this device has {most} subscriptions with filters, the most for one device; unsubscribe",
                retry_after_s=60,
            )

    def subscriptions_of(self, user: str) -> int:
        return self._subscriptions.get(user, 0)

    def free_subscriptions(self, user: str) -> int:
        """How many more can be taken."""
        return max(0, self._limits.max_subscriptions_per_user - self.subscriptions_of(user))

    def hold_session(self, session: Session) -> None:
        user = session.user
        self._sessions[user] = (*self._sessions.get(user, ()), session)

    def drop_session(self, session: Session) -> None:
        user = session.user
        self._sessions[user] = tuple(one for one in self._sessions[user] if one is not session)
        if not self._sessions[user]:
            del self._sessions[user]

    def refuse_session(self, user: str) -> TocsinError | None:
        """Why nothing can be kept for another device; None if it can."""
        most = self._limits.max_sessions_per_user
        if len(self._sessions.get(user, ())) < most:
            return None
        return Overloaded(
            f"{user} has {most} devices here, the most for one user; connect as one of them, or wait until the session"
            " of one has ended",
            retry_after_s=60,
        )

    def oldest_nameless(self, user: str) -> Session | None:
        """The user's nameless session that has been without a connection for longest."""
        left = [one for one in self._sessions.get(user, ()) if one.is_nameless and one.connection is None]
        return min(left, key=lambda one: one.left_at_s, default=None)

    def count_connection(self, user: str, change: int) -> None:
        _count(self._connections, user, change)

    def count_subscription(self, user: str, change: int) -> None:
        _count(self._subscriptions, user, change)


def _count(counts: dict[str, int], user: str, change: int) -> None:
    count = counts.get(user, 0) + change
    if count > 0:
        counts[user] = count
    else:
        counts.pop(user, None)
