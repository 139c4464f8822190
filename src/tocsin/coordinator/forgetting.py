"""Forgetting a person: the user, their sessions, and all other data of the coordinator and of brokers that names them.

Brokers learn of it with their heartbeats, as they do of revoked tokens. The coordinator does not keep the name for
that: a broker that is away gets a fingerprint of the name when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`brokers` have removed their data; those that are `away` do so when they are back."""

    #: Whether there was a user of that name.
    user: bool
    sessions: int
    brokers: tuple[str, ...]
    away: tuple[str, ...]


class Acknowledgements:
    """Which version of the revocations each broker has carried out. Runs on the event loop."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._changed = asyncio.Event()

    def note(self, broker: str, version: int) -> None:
        """Each heartbeat of a broker says its version."""
        if self._seen.get(broker) != version:
            self._seen[broker] = version
            self._changed.set()

    def of(self, broker: str) -> int:
        """The version that a broker reported last; 0 if none."""
        return self._seen.get(broker, 0)

    async def wait(self, brokers: Collection[str], version: int, timeout_s: float) -> tuple[str, ...]:
        """Wait until these have carried `version` out, for `timeout_s` at most. Returns those that have not."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while late := tuple(one for one in brokers if self.of(one) < version):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline_s - loop.time())
            except TimeoutError:
                return late
        return ()
