"""The backend subscriptions that this broker holds at the cluster, and the sessions that want them.

Calls to the cluster that change holds go one at a time: an acquisition that overtook a release on its way would be
undone by it. Requests that come meanwhile go with the next call.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tocsin.broker.core.instructions import Acquire, Instruction, Release
from tocsin.broker.core.matching import RecentRows
from tocsin.broker.core.sessions import Backend, Session
from tocsin.model.position import Position
from tocsin.protocol.ports import BackendHold
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Subscriptions in one call; the cluster takes 100,000.
_MAX_PER_CALL = 5_000
#: Out-of-date entries are removed when they outnumber the others, in a heap of more than this many entries.
_FEW_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class Waiter:
    """A session that waits for a backend subscription. With `restoring`, nobody has asked and nobody is answered."""

    session: Session
    position: Position | None
    request: int
    restoring: bool
    #: Whether our own store has it, at `position`.
    is_stored: bool = False
    where: str = ""

    def left_alone(self) -> Waiter | None:
        """The waiter that is left when the connection is gone: only one whose position would be lost."""
        if self.restoring:
            return self
        return None if self.position is None else replace(self, request=0, restoring=True, is_stored=True)


class Holdings:
    def __init__(self, out: list[Instruction]) -> None:
        self._out = out
        self._backends: dict[int, Backend] = {}
        self._ids: dict[SubscriptionKey, int] = {}
        self._wanted: dict[SubscriptionKey, list[Waiter]] = {}
        self._asked: dict[SubscriptionKey, list[Waiter]] = {}
        self._unwanted: dict[int, Backend] = {}
        self._rows: RecentRows = {}
        #: Unwanted backends in a heap, by the time of their release, so that no event looks at all of them. An entry is
        #: out of date when its backend is wanted again or has got another time; the number decides between equal times.
        self._releases: list[tuple[float, int, Backend]] = []
        self._entries_made = 0
        self._busy = False

    def __len__(self) -> int:
        return len(self._backends)

    def backends(self) -> Iterable[Backend]:
        return self._backends.values()

    def get(self, subscription: int) -> Backend | None:
        return self._backends.get(subscription)

    def find(self, key: SubscriptionKey) -> Backend | None:
        found = self._ids.get(key)
        return None if found is None else self._backends[found]

    def want(self, key: SubscriptionKey, waiter: Waiter) -> None:
        (self._asked if key in self._asked else self._wanted).setdefault(key, []).append(waiter)

    def want_for_later(self, key: SubscriptionKey) -> None:
        """Acquire it although no session waits for it yet."""
        if key not in self._asked:
            self._wanted.setdefault(key, [])

    def add(self, held: BackendHold, next_pull: int) -> Backend:
        """The cluster holds this one for us."""
        backend = self._backends.get(held.id)
        if backend is None:
            key = SubscriptionKey.of(held.channel, held.parameters, held.permission, held.filled)
            backend = Backend(held.id, key, dict(held.parameters), held.sequence, next_pull, held.columns, self._rows)
            self._backends[held.id] = backend
            self.spell(backend, key)
        backend.failure = backend.failure or held.failure
        backend.has_snapshot = held.snapshot
        return backend

    def spell(self, backend: Backend, key: SubscriptionKey) -> None:
        """`key` is another way to ask for `backend`."""
        backend.spellings.add(key)
        self._ids[key] = backend.id

    def unspell(self, backend: Backend) -> None:
        """Later requests for it get a new one from the cluster; sessions that have `backend` keep it until they go."""
        for key in backend.spellings:
            if self._ids.get(key) == backend.id:
                del self._ids[key]

    def answered(self, keys: Iterable[SubscriptionKey]) -> dict[SubscriptionKey, list[Waiter]]:
        """The cluster has answered for these; returns the waiters of each."""
        self._busy = False
        return {key: self._asked.pop(key, []) for key in keys}

    def released(self) -> None:
        self._busy = False

    def keep(self, backend: Backend) -> None:
        """A session wants it (again)."""
        backend.release_at_s = None
        self._unwanted.pop(backend.id, None)

    def let_go(self, backend: Backend, at_s: float) -> None:
        """Nobody wants it any more; it is released at `at_s`, or when it need not be kept, if that stays so."""
        backend.release_at_s = max(at_s, backend.keep_until_s)
        self._unwanted[backend.id] = backend
        self._entries_made += 1
        heapq.heappush(self._releases, (backend.release_at_s, self._entries_made, backend))
        if len(self._releases) > max(2 * len(self._unwanted), _FEW_ENTRIES):
            self._releases = [entry for entry in self._releases if self._is_current(entry)]
            heapq.heapify(self._releases)

    def leave_alone(self, session: Session, *, is_session_over: bool = False) -> None:
        """A connection that is gone does not wait for answers any more. Its session still gets the subscriptions that
        it carries on, unless it is over."""
        for waiting in (self._wanted, self._asked):
            for key, waiters in waiting.items():
                left = [one if one.session is not session else one.left_alone() for one in waiters]
                waiting[key] = [
                    one for one in left if one is not None and not (is_session_over and one.session is session)
                ]

    def call(self, now_s: float) -> list[Backend]:
        """Make the next call to the cluster if none is under way; returns the backend subscriptions that go with it."""
        if self._busy:
            return []
        if self._wanted:
            keys = list(self._wanted)[:_MAX_PER_CALL]
            self._asked = {key: self._wanted.pop(key) for key in keys}
            self._busy = True
            self._out.append(Acquire(keys))
            return []
        due = self._take_due(now_s)
        if due:
            self._busy = True
            self._out.append(Release([one.id for one in due]))
        return due

    def violations(self) -> Iterator[tuple[str, str]]:
        for backend in self._backends.values():
            if bool(backend.frontends) == (backend.id in self._unwanted):
                yield str(backend.id), "a backend subscription has a hold, or is to be released"
        yield from ((str(key), "points at nothing") for key, one in self._ids.items() if one not in self._backends)
        if self._asked and not self._busy:
            yield str(next(iter(self._asked))), "was asked for, and no call is under way"

    def _take_due(self, now_s: float) -> list[Backend]:
        """The backends to release now, as many as one call takes; they are held no longer."""
        due: list[Backend] = []
        while self._releases and self._releases[0][0] <= now_s and len(due) < _MAX_PER_CALL:
            entry = heapq.heappop(self._releases)
            if not self._is_current(entry):
                continue
            backend = entry[-1]
            del self._unwanted[backend.id]
            del self._backends[backend.id]
            self.unspell(backend)
            due.append(backend)
        return due

    def _is_current(self, entry: tuple[float, int, Backend]) -> bool:
        at_s, _, backend = entry
        return self._unwanted.get(backend.id) is backend and backend.release_at_s == at_s
