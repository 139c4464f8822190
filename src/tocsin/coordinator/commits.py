"""Group commit: what many requests want stored at the same time shares one transaction, and one wait for the disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import sqlalchemy as sa
import structlog

from tocsin.coordinator.instructions import (
    Audit,
    ForgetBroker,
    ForgetSession,
    StoreBroker,
    StoreMove,
    StorePlanRun,
    StorePolicy,
    StoreSession,
    Storing,
)
from tocsin.coordinator.store import Store
from tocsin.errors import Unavailable

log = structlog.get_logger(__name__)

_RETRY_AFTER_S = 1.0


class GroupCommit:
    """Runs on the event loop. Of several instructions about the same thing, the last is stored; of what is only ever
    added to, all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[tuple[str, str], Storing] = {}
        self._added = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    async def store(self, instructions: Iterable[Storing]) -> None:
        """Returns once they are on disk. Raises Unavailable if the database fails; they are tried again
        later all the same: what is in memory is what holds."""
        changes = {self._about(one): one for one in instructions}
        self._pending.update(changes)
        if changes:
            await self._committed()

    async def retry(self) -> None:
        """Try again what failed before, if anything did."""
        if self._pending and self._task is None:
            with contextlib.suppress(Unavailable):
                await self._committed()

    async def close(self) -> None:
        """Store what is left."""
        try:
            await self._committed()
        except Unavailable:
            log.error("what was not stored is lost", changes=len(self._pending))

    async def _committed(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = asyncio.create_task(self._commit_all())
        await future

    async def _commit_all(self) -> None:
        while self._waiting:
            pending, self._pending = self._pending, {}
            waiting, self._waiting = self._waiting, []
            failure = None
            try:
                if pending:
                    await asyncio.to_thread(self._store.apply, pending.values())
            except (sa.exc.SQLAlchemyError, OSError) as exc:
                log.error("the database does not take changes", reason=str(exc.__cause__ or exc))
                self._pending = {**pending, **self._pending}
                failure = Unavailable("the coordinator can't write to its database", retry_after_s=_RETRY_AFTER_S)
            for future in waiting:
                if not future.done():
                    future.set_result(None) if failure is None else future.set_exception(failure)
        self._task = None

    def _about(self, instruction: Storing) -> tuple[str, str]:
        match instruction:
            case StoreSession(session):
                return "session", session.subscriber
            case ForgetSession(subscriber):
                return "session", subscriber
            case StoreBroker(broker):
                return "broker", broker.name
            case ForgetBroker(name):
                return "broker", name
            case StorePolicy():
                return "policy", ""
            case StorePlanRun(run):
                return "plan", run.plan
            case StoreMove(move):
                return "move", f"{move.plan}/{move.number}"
            case Audit():
                self._added += 1
                return "audit", str(self._added)
