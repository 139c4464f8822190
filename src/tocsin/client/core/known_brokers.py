"""The brokers that a client knows, those of them that failed, and the pause before the next try (pure)."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.model.backoff import Backoff

#: How many brokers' addresses are remembered for when the coordinator is away.
MAX_KNOWN = 16


class KnownBrokers:
    __slots__ = ("_attempts", "_backoff", "_chance", "_failed", "_known")

    def __init__(self, urls: tuple[str, ...], backoff: Backoff, chance: Callable[[], float]) -> None:
        #: Addresses, latest first, and names as far as they are known.
        self._known: tuple[tuple[str, str], ...] = tuple((url, "") for url in dict.fromkeys(urls))
        #: Names of brokers that failed since the last success.
        self._failed: tuple[str, ...] = ()
        self._backoff = backoff
        self._chance = chance
        self._attempts = 0

    @property
    def failed(self) -> tuple[str, ...]:
        return self._failed

    def remember(self, url: str, broker: str) -> None:
        others = tuple(one for one in self._known if one[0] != url)
        self._known = ((url, broker), *others[: MAX_KNOWN - 1])

    def next_known(self) -> tuple[str, str] | None:
        """Address and name of a broker to try without asking the coordinator: each in turn, the latest first."""
        return self._known[self._attempts % len(self._known)] if self._known else None

    def note_failure(self, broker: str) -> None:
        if broker and broker not in self._failed:
            self._failed = (*self._failed, broker)

    def forgive(self) -> None:
        """Forget failures: a broker could be reached, or no other is left."""
        self._failed = ()

    def note_steady(self) -> None:
        """A connection lasted: the next pause is short again."""
        self._attempts = 0

    def pause_s(self) -> float:
        """How long to wait before trying again, longer each time."""
        self._attempts += 1
        return self._backoff.delay_s(self._attempts - 1, self._chance)
