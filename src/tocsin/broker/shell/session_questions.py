"""Asking the coordinator what is kept for those who have come: one call at a time, for all who came meanwhile.

A newcomer who is alone is asked about at once; when a plan sends hundreds, a call asks about dozens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tocsin.errors import TocsinError
from tocsin.protocol.ports import KeptSession

_MAX_PER_CALL = 1_000

#: Asks about some; returns what is known of each (None: nothing is), and of whom to ask again.
FetchSessions = Callable[[Sequence[str]], Awaitable[tuple[dict[str, KeptSession | None], list[str]]]]


class SessionQuestions:
    def __init__(self, fetch: FetchSessions) -> None:
        self._fetch = fetch
        self._waiting: dict[str, asyncio.Future[KeptSession | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def session(self, subscriber: str) -> KeptSession | None:
        """What is kept for a subscriber. Raises what the call raised that asked about it."""
        answer = self._waiting.get(subscriber)
        if answer is None:
            answer = self._waiting[subscriber] = asyncio.get_running_loop().create_future()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        # Others may wait for the same answer, and each has its own patience.
        return await asyncio.shield(answer)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask_all(self) -> None:
        while self._waiting:
            # Whoever asks from now on is asked about anew: what is known may change while the answer is on its way.
            asked = {one: self._waiting.pop(one) for one in list(self._waiting)[:_MAX_PER_CALL]}
            try:
                left = list(asked)
                while left:
                    found, left = await self._fetch(left)
                    for one, session in found.items():
                        asked.pop(one).set_result(session)
            except TocsinError as exc:
                for answer in asked.values():
                    answer.set_exception(exc)
                    answer.exception()  # Nobody may be waiting any more.
