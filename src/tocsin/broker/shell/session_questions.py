"""Asks the coordinator for the sessions of arriving subscribers: one call at a time, for all who came meanwhile.

A single newcomer's call is made at once; when a plan sends hundreds, a call asks about dozens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tocsin.errors import TocsinError
from tocsin.protocol.ports import KeptSession

_MAX_PER_CALL = 1_000

#: Asks about some; returns the known session of each (None: there is none), and the subscribers to ask about again.
FetchSessions = Callable[[Sequence[str]], Awaitable[tuple[dict[str, KeptSession | None], list[str]]]]


class SessionQuestions:
    def __init__(self, fetch: FetchSessions) -> None:
        self._fetch = fetch
        self._waiting: dict[str, asyncio.Future[KeptSession | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def session(self, subscriber: str) -> KeptSession | None:
        """The kept session of a subscriber. Raises the error of the call that asked about it."""
        answer = self._waiting.get(subscriber)
        if answer is None:
            answer = self._waiting[subscriber] = asyncio.get_running_loop().create_future()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        # Others may wait for the same answer, and each has its own timeout.
        return await asyncio.shield(answer)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask_all(self) -> None:
        while self._waiting:
            # Later requests need a new call: a session may change while the answer is on its way.
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
