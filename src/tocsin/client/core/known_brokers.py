"""Which brokers a client knows, which of them failed, and how long to wait before the next try (pure)."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.model.backoff import Backoff

#: How many brokers' addresses are worth remembering for when the coordinator is away.
MAX_KNOWN = 16


class KnownBrokers:
    def __init__(self, urls: tuple[str, ...], backoff: Backoff, chance: Callable[[], float]) -> None:
        #: Addresses, latest first, and names as far as they are known.
        self._known: dict[str, str] = dict.fromkeys(urls, "")
        #: Names of brokers that failed since the last success.
        self._failed: dict[str, None] = {}
        self._backoff = backoff
        self._chance = chance
        self._attempts = 0

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(self._failed)

    def remember(self, url: str, broker: str) -> None:
        if next(iter(self._known.items()), None) == (url, broker):
            return
        others = [(known, name) for known, name in self._known.items() if known != url]
        self._known = {url: broker, **dict(others[: MAX_KNOWN - 1])}

    def next_known(self) -> tuple[str, str] | None:
        """Address and name of a broker to try without asking anybody: each in turn, the latest first."""
        known = list(self._known.items())
        return known[self._attempts % len(known)] if known else None

    def note_failure(self, broker: str) -> None:
        if broker:
            self._failed[broker] = None

    def forgive(self) -> None:
        """Somebody could be reached, or nobody else is left."""
        self._failed.clear()

    def note_steady(self) -> None:
        """A connection lasted: the next pause is short again."""
        self._attempts = 0

    def pause_s(self) -> float:
        """How long to wait before trying again, longer each time."""
        self._attempts += 1
        return self._backoff.delay_s(self._attempts - 1, self._chance)
