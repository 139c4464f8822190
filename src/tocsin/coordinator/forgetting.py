"""Forgetting a person: the user, their sessions, and whatever of the coordinator's names them; and brokers do the same.

Brokers are told by their heartbeats, as they are of revoked tokens. Nobody keeps the name for that: those who have yet
to be told, because they are away, are told a fingerprint of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`brokers` have removed what they kept; `away` do when they are back."""

    was_user: bool
    sessions: int
    brokers: tuple[str, ...]
    away: tuple[str, ...]


class Acknowledgements:
    """Which version of the revocations each broker has carried out. Runs on the event loop."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._changed = asyncio.Event()

    def note(self, broker: str, version: int) -> None:
        """A broker says so with each heartbeat."""
        if self._seen.get(broker) != version:
            self._seen[broker] = version
            self._changed.set()

    def of(self, broker: str) -> int:
        """What a broker said last; 0 if nothing."""
        return self._seen.get(broker, 0)

    async def wait(self, brokers: Collection[str], version: int, timeout_s: float) -> tuple[str, ...]:
        """Returns once these have carried `version` out, or after `timeout_s`; those that have not."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while late := tuple(one for one in brokers if self.of(one) < version):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline_s - loop.time())
            except TimeoutError:
                return late
        return ()
