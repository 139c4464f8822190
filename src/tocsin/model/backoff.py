"""How long to wait before trying again: exponential, with full jitter (pure).

Full jitter means a random delay between nothing and the bound: after a broker has failed, its subscribers come back
spread evenly rather than all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bound is `first_s` at the first try and doubles up to `last_s`.

    >>> [Backoff().bound_s(attempt) for attempt in (0, 1, 2, 20)]
    [0.1, 0.2, 0.4, 10.0]
    """

    first_s: float = 0.1
    last_s: float = 10.0

    def bound_s(self, attempt: int) -> float:
        # 2**30 tries of a tenth of a second are years: beyond that floats would only overflow.
        return min(self.last_s, self.first_s * 2.0 ** min(attempt, 30))

    def delay_s(self, attempt: int, chance: Callable[[], float]) -> float:
        """A delay for try number `attempt`, from 0. `chance` gives numbers from 0 up to, but not including, 1."""
        return chance() * self.bound_s(attempt)


class Pauses:
    """The pauses of one loop that tries until it succeeds."""

    def __init__(self, backoff: Backoff, chance: Callable[[], float]) -> None:
        self._backoff = backoff
        self._chance = chance
        self._attempt = 0

    def next_s(self) -> float:
        """How long to wait after another failure."""
        self._attempt += 1
        return self._backoff.delay_s(self._attempt - 1, self._chance)

    def reset(self) -> None:
        """A try has succeeded: the next pause is short again."""
        self._attempt = 0
