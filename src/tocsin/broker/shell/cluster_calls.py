"""The broker's calls to the data cluster, repeated until they are answered; the answers become events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from tocsin.broker.core import events as ev
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.server_links import ENDING
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import (
    HistoryGone,
    HistoryRewound,
    InvalidValue,
    NotFound,
    NotGranted,
    NotRegistered,
    TocsinError,
    Unavailable,
    WrongEntries,
)
from tocsin.model.backoff import Backoff, Pauses
from tocsin.model.location import Location
from tocsin.protocol.ports import BackendHold, ClusterPort
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)

#: A cluster that stops waits for open pulls to end, so none stays open for long.
_PULL_WAIT_S = 3.0
_BACKOFF = Backoff(0.1, 2.0)
#: How long a subscriber waits for the cluster before it is told to try again.
_ACQUIRE_PATIENCE_S = 10.0

_Answer = TypeVar("_Answer")


@dataclass(slots=True, eq=False)
class ClusterCalls:
    _link: ClusterPort
    _clock: Clock
    _metrics: BrokerMetrics
    _happened: Callable[[ev.Event], None]
    _pull: int = field(init=False, default=0)
    _run: str = field(init=False, default="")
    #: Why the last attempt failed, so that the same reason is not logged every second.
    _locations_refused: str = field(init=False, default="")

    async def close(self) -> None:
        await self._link.close()

    async def start(self, store: SessionStore) -> None:
        """Register at the cluster, and tell the machine what we hold there."""
        cursor = await self._until_answered(self._link.register, "register at the cluster")
        self._run = self._link.run
        held = await self._until_answered(self._link.held, "ask the cluster for our subscriptions")
        self._happened(ev.Started(store.sessions(), held, cursor, self._now_s()))

    async def follow(self, through: Callable[[], int], held: Callable[[], frozenset[int]]) -> None:
        """Pull results after `through`, for ever. Raises NotFound if the cluster no longer knows us, or something that
        is in `held`."""
        pauses = Pauses(_BACKOFF, random.random)
        while True:
            self._pull += 1
            number = self._pull
            try:
                deliveries, reached, size_bytes = await self._link.pull(through(), _PULL_WAIT_S)
                await self._check_held(held)
            except HistoryGone as exc:
                await self._check_held(held)
                is_rewound = isinstance(exc, HistoryRewound)
                log.warning("results are gone; going on after them", reason=exc.message)
                self._happened(ev.CursorLost(int(exc.earliest or 0), self._now_s(), is_rewound))
            except (NotFound, *ENDING):
                # The cluster knows us no longer, or has lost its memory: our view of it is void.
                raise
            except TocsinError as exc:
                self._metrics.pulls.labels("failed").inc()
                log.warning("could not pull; trying again", reason=exc.message)
                await asyncio.sleep(pauses.next_s())
            else:
                pauses.reset()
                self._metrics.pulls.labels("done").inc()
                self._metrics.bytes_in += size_bytes
                self._happened(ev.ResultsPulled(number, deliveries, reached, self._now_s()))

    async def _check_held(self, held: Callable[[], frozenset[int]]) -> None:
        """A restarted cluster may have been restored from a back-up that lacks some of our newer holds; and the columns
        of results may have changed."""
        if self._link.run == self._run:
            return
        run, before = self._link.run, held()
        listed = await self._until_answered(self._link.held, "ask the cluster for our subscriptions")
        # Holds that came or went meanwhile may be in the list or not.
        lost = (before & held()) - {one.id for one in listed}
        if lost:
            raise NotFound(f"the cluster holds {len(lost)} of our subscriptions no longer, such as {min(lost)}")
        self._run = run
        self._happened(ev.HoldsListed(listed))

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> None:
        acquired, refused = await self._acquire_or_split(list(keys), self._now_s() + _ACQUIRE_PATIENCE_S)
        self._happened(ev.BackendsAcquired(acquired, refused, self._pull + 1, self._now_s()))

    async def request_snapshots(self, ids: Sequence[int]) -> None:
        await self._until_answered(partial(self._link.request_snapshots, ids), "request snapshots")

    async def release(self, ids: Sequence[int]) -> None:
        """Release all or none. A hold that ended by itself, because its channel was dropped, counts as released."""
        left = list(ids)
        while left:
            try:
                await self._until_answered(partial(self._link.release, left), "release subscriptions")
                break
            except NotRegistered:
                raise
            except NotFound:
                held = await self._until_answered(self._link.held, "ask the cluster for our subscriptions")
                still = {one.id for one in held}
                left = [one for one in left if one in still]
        self._happened(ev.BackendsReleased(self._now_s()))

    async def fetch_history(self, after: dict[int, int], through: int) -> None:
        try:
            deliveries, reached = await self._until_answered(lambda: self._link.history(after), "pull history")
        except HistoryGone as exc:
            if len(after) == 1:
                earliest = int(exc.earliest) if exc.earliest.isdecimal() else through
                self._happened(ev.HistoryLost(after, earliest, isinstance(exc, HistoryRewound)))
            else:
                for one, at in after.items():
                    await self.fetch_history({one: at}, through)
        else:
            self._happened(ev.HistoryPulled(after, deliveries, reached))

    async def publish_locations(self, feed: str, locations: Mapping[str, Location]) -> None:
        records = [{"user_id": user, "x": x, "y": y} for user, (x, y) in locations.items()]
        try:
            await self._link.publish(feed, records)
        except TocsinError as exc:
            if exc.message != self._locations_refused:
                log.warning("locations could not be published; trying again", feed=feed, reason=exc.message)
            self._locations_refused = exc.message
            self._happened(ev.LocationsPublished(is_done=False))
        else:
            self._locations_refused = ""
            self._happened(ev.LocationsPublished(is_done=True))

    async def _acquire_or_split(
        self, keys: list[SubscriptionKey], deadline_s: float
    ) -> tuple[list[tuple[SubscriptionKey, BackendHold]], list[tuple[SubscriptionKey, TocsinError]]]:
        """Hold all that can be held: the cluster takes all or none and says which are wrong. If it refuses the call as
        a whole, halving finds them."""
        pauses = Pauses(_BACKOFF, random.random)
        refused: list[tuple[SubscriptionKey, TocsinError]] = []
        while keys:
            try:
                held = await self._link.acquire(keys)
                return list(zip(keys, held, strict=True)), refused
            except WrongEntries as exc:
                wrong = {at: error for at, error in exc.wrong.items() if 0 <= at < len(keys)}
                if not wrong:
                    break
                refused += [(keys[at], error) for at, error in wrong.items()]
                keys = [key for at, key in enumerate(keys) if at not in wrong]
            except (NotRegistered, *ENDING):
                raise  # The error is about us: the subscriptions may be right, and must not be given up.
            except (NotFound, InvalidValue, NotGranted) as exc:
                if len(keys) == 1:
                    return [], [*refused, (keys[0], exc)]
                break
            except TocsinError as exc:
                if not isinstance(exc, Unavailable) and len(keys) > 1:
                    break  # It may be too much for one call.
                if self._now_s() >= deadline_s:
                    return [], [*refused, *((key, _for_now(exc)) for key in keys)]
                await asyncio.sleep(pauses.next_s())
        if not keys:
            return [], refused
        middle = len(keys) // 2
        first = await self._acquire_or_split(keys[:middle], deadline_s)
        second = await self._acquire_or_split(keys[middle:], deadline_s)
        return first[0] + second[0], refused + first[1] + second[1]

    async def _until_answered(self, call: Callable[[], Awaitable[_Answer]], what: str) -> _Answer:
        """Repeat `call` until the cluster answers, however long it is away."""
        pauses = Pauses(_BACKOFF, random.random)
        while True:
            try:
                return await call()
            except Unavailable as exc:
                log.warning("trying again", what=what, reason=exc.message)
                await asyncio.sleep(pauses.next_s())

    def _now_s(self) -> float:
        return self._clock.monotonic_s()


def _for_now(error: TocsinError) -> Unavailable:
    """A refusal that says nothing about the request itself, such as that of a token: it may succeed later."""
    if isinstance(error, Unavailable):
        return error
    return Unavailable(f"the cluster refuses this broker: {error.message}", retry_after_s=_BACKOFF.last_s)
