"""Limits how many connections there may be that have not shown a valid token yet."""

from __future__ import annotations

from collections import Counter


class Strangers:
    """Counts connections from when they are opened until they show a token, overall and by address.

    >>> strangers = Strangers(most=3, most_per_address=2)
    >>> [strangers.enter(address) for address in ("a", "a", "a", "b", "c")]
    [True, True, False, True, False]
    >>> strangers.leave("a")
    >>> strangers.enter("c")
    True
    """

    def __init__(self, *, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._by_address: Counter[str] = Counter()
        self._count = 0

    def enter(self, address: str) -> bool:
        """Whether there is room for one more from this address; if so, it is counted until it leaves."""
        if self._count >= self._most or self._by_address[address] >= self._most_per_address:
            return False
        self._count += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
