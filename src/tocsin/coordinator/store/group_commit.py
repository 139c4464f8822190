"""Group commit: changes of many requests at the same time share one transaction, and one wait for the disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import sqlalchemy as sa
import structlog

from tocsin.coordinator.registry import instructions as ins
from tocsin.coordinator.store.registry_store import Store
from tocsin.errors import ClusterFailure, TocsinError, Unavailable

log = structlog.get_logger(__name__)

_RETRY_AFTER_S = 1.0
#: Errors of the database itself, rather than of a change: a later attempt may succeed.
_AWAY = (Unavailable, sa.exc.OperationalError, sa.exc.InternalError, sa.exc.TimeoutError, OSError)

#: The kind of thing that a change is about, and its name.
_About = tuple[str, str]
_Changes = dict[_About, ins.Storing]
#: A waiting caller, and the changes it waits for.
_Waiter = tuple[asyncio.Future[None], frozenset[_About]]


class GroupCommit:
    """Runs on the event loop. Of several instructions about the same thing, only the last is stored; additions, such as
    audit entries, are all stored.

    A database that is away gets everything later. A change that it will never take is set aside with its reason, so
    that it does not hold up other changes; until the next start it is in memory only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: _Changes = {}
        self._added = 0
        self._waiting: list[_Waiter] = []
        self._task: asyncio.Task[None] | None = None

    async def store(self, instructions: Iterable[ins.Storing]) -> None:
        """Returns once they are on disk. Raises Unavailable if the database fails; they are tried again later all the
        same, since the state in memory already has them. Raises ClusterFailure if one can't be stored at all."""
        changes = {self._about(one): one for one in instructions}
        self._pending.update(changes)
        if changes:
            await self._committed(changes.keys())

    async def retry(self) -> None:
        """Try again to store changes that failed before."""
        if self._pending and self._task is None:
            with contextlib.suppress(Unavailable):
                await self._committed(())

    async def close(self) -> None:
        """Store the remaining changes."""
        try:
            await self._committed(())
        except Unavailable:
            log.error("changes that were not stored are lost", changes=len(self._pending))

    async def _committed(self, about: Iterable[_About]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, frozenset(about)))
        if self._task is None:
            self._task = asyncio.create_task(self._commit_all())
            self._task.add_done_callback(self._ended)
        await future

    def _ended(self, task: asyncio.Task[None]) -> None:
        """If the task did not end by itself, waiting callers get an error, and the next change starts a new task."""
        if self._task is task:
            self._task = None
            waiting, self._waiting = self._waiting, []
            _answer(waiting, _unavailable())

    async def _commit_all(self) -> None:
        while self._waiting:
            pending, self._pending = self._pending, {}
            waiting, self._waiting = self._waiting, []
            try:
                refused = await self._commit(pending)
            except BaseException as exc:
                self._pending = {**pending, **self._pending}
                _answer(waiting, _unavailable())
                if not isinstance(exc, _AWAY):
                    raise
                log.error("the database does not take changes", reason=str(exc.__cause__ or exc))
            else:
                failure = ClusterFailure("the coordinator's database can't take this change; the log says why")
                _answer([one for one in waiting if not one[1].isdisjoint(refused)], failure)
                _answer(waiting, None)
        self._task = None

    async def _commit(self, changes: _Changes) -> set[_About]:
        """Returns the changes that can't be stored. Raises one of `_AWAY` if none can be now; all may be retried."""
        if not changes:
            return set()
        try:
            await asyncio.to_thread(self._store.apply, changes.values())
        except _AWAY:
            raise
        except Exception as exc:
            if len(changes) == 1:
                log.error("a change can't be stored, and is set aside", change=repr(changes)[:500], exc_info=exc)
                return set(changes)
        else:
            return set()
        # Nothing was stored. The wrong changes are found by halving.
        items = list(changes.items())
        middle = len(items) // 2
        return await self._commit(dict(items[:middle])) | await self._commit(dict(items[middle:]))

    def _about(self, instruction: ins.Storing) -> _About:
        match instruction:
            case ins.StoreSession(session):
                return "session", session.subscriber
            case ins.ForgetSession(subscriber):
                return "session", subscriber
            case ins.StoreBroker(broker):
                return "broker", broker.name
            case ins.ForgetBroker(name):
                return "broker", name
            case ins.StorePolicy():
                return "policy", ""
            case ins.StoreStoppedEvacuations():
                return "stopped evacuations", ""
            case ins.StorePlanRun(run):
                return "plan", run.plan
            case ins.StoreKeptCov(plan):
                return "kept cov", plan
            case ins.StoreMove(move):
                return "move", f"{move.plan}/{move.number}"
            case ins.Audit():
                self._added += 1
                return "audit", str(self._added)


def _answer(waiting: Iterable[_Waiter], failure: TocsinError | None) -> None:
    for future, _ in waiting:
        if not future.done():
            future.set_result(None) if failure is None else future.set_exception(failure)


def _unavailable() -> Unavailable:
    return Unavailable("the coordinator can't write to its database", retry_after_s=_RETRY_AFTER_S)
