"""The broker's dealings with the data cluster: calls that are repeated until they are answered, told as events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import structlog

from tocsin.broker.core.events import (
    BackendsAcquired,
    BackendsReleased,
    CursorLost,
    Event,
    HistoryLost,
    HistoryPulled,
    LocationsPublished,
    ResultsPulled,
    Started,
)
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.refusals import ENDING
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

#: A cluster that is told to stop waits for pulls that wait, so none waits for long.
_PULL_WAIT_S = 3.0
_BACKOFF = Backoff(0.1, 2.0)
#: How long a subscriber waits for the cluster before it is told to try again.
_ACQUIRE_PATIENCE_S = 10.0

_Answer = TypeVar("_Answer")


class ClusterCalls:
    def __init__(
        self, link: ClusterPort, clock: Clock, metrics: BrokerMetrics, happened: Callable[[Event], None]
    ) -> None:
        self._link = link
        self._clock = clock
        self._metrics = metrics
        self._happened = happened
        self._pull = 0
        self._run = ""
        #: Why the last attempt failed, so that the same is not told every second.
        self._locations_refused = ""

    async def close(self) -> None:
        await self._link.close()

    async def start(self, store: SessionStore) -> None:
        """Make the cluster know us, and tell what we hold there."""
        cursor = await self._until_answered(self._link.register, "register at the cluster")
        self._run = self._link.run
        held = await self._until_answered(self._link.held, "ask the cluster what we hold")
        self._happened(Started(store.sessions(), held, cursor, self._now_s()))

    async def follow(self, through: Callable[[], int], held: Callable[[], frozenset[int]]) -> None:
        """Pull results after `through`, for ever. Raises NotFound if the cluster does not know us, or something that we
        have `held`, any more."""
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
                self._happened(CursorLost(int(exc.earliest or 0), self._now_s(), is_rewound))
            except (NotFound, *ENDING):
                # The cluster knows us no longer, or has lost its memory: what we know of it is void.
                raise
            except TocsinError as exc:
                self._metrics.pulls.labels("failed").inc()
                log.warning("could not pull; trying again", reason=exc.message)
                await asyncio.sleep(pauses.next_s())
            else:
                pauses.reset()
                self._metrics.pulls.labels("done").inc()
                self._metrics.bytes_in += size_bytes
                self._happened(ResultsPulled(number, deliveries, reached, self._now_s()))

    async def _check_held(self, held: Callable[[], frozenset[int]]) -> None:
        """A cluster that was started again may have been started from a back-up, and not know what we hold since."""
        if self._link.run == self._run:
            return
        run, before = self._link.run, held()
        listed = await self._until_answered(self._link.held, "ask the cluster what we hold")
        # What came or went meanwhile may be in the list or not.
        lost = (before & held()) - {one.id for one in listed}
        if lost:
            raise NotFound(f"the cluster holds {len(lost)} subscriptions no more that we had, such as {min(lost)}")
        self._run = run

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> None:
        acquired, refused = await self._acquire_or_split(list(keys), self._now_s() + _ACQUIRE_PATIENCE_S)
        self._happened(BackendsAcquired(acquired, refused, self._pull + 1, self._now_s()))

    async def release(self, ids: Sequence[int]) -> None:
        """The cluster lets go of all or none; what ended there by itself, since its channel was dropped, is let go."""
        left = list(ids)
        while left:
            try:
                await self._until_answered(partial(self._link.release, left), "release subscriptions")
                break
            except NotRegistered:
                raise
            except NotFound:
                held = await self._until_answered(self._link.held, "ask the cluster what we hold")
                still = {one.id for one in held}
                left = [one for one in left if one in still]
        self._happened(BackendsReleased(self._now_s()))

    async def fetch_history(self, after: dict[int, int], through: int) -> None:
        try:
            deliveries, reached = await self._until_answered(lambda: self._link.history(after), "pull history")
        except HistoryGone as exc:
            if len(after) == 1:
                earliest = int(exc.earliest) if exc.earliest.isdecimal() else through
                self._happened(HistoryLost(after, earliest, isinstance(exc, HistoryRewound)))
            else:
                for one, at in after.items():
                    await self.fetch_history({one: at}, through)
        else:
            self._happened(HistoryPulled(after, deliveries, reached))

    async def publish_locations(self, feed: str, locations: Mapping[str, Location]) -> None:
        records = [{"user_id": user, "x": x, "y": y} for user, (x, y) in locations.items()]
        try:
            await self._link.publish(feed, records)
        except TocsinError as exc:
            if exc.message != self._locations_refused:
                log.warning("locations could not be published; trying again", feed=feed, reason=exc.message)
            self._locations_refused = exc.message
            self._happened(LocationsPublished(is_done=False))
        else:
            self._locations_refused = ""
            self._happened(LocationsPublished(is_done=True))

    async def _acquire_or_split(
        self, keys: list[SubscriptionKey], deadline_s: float
    ) -> tuple[list[tuple[SubscriptionKey, BackendHold]], list[tuple[SubscriptionKey, TocsinError]]]:
        """Hold all that can be held: the cluster takes all or none and says which are wrong. Where it doesn't, for it
        refuses the call as a whole, they are found by halving."""
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
                raise  # It is about us: what was asked for may be right, and must not be given up.
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
        """The answer to `call`, however long the cluster is away."""
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
    """A refusal that says nothing about what was asked for, such as that of a token: it may be taken later."""
    if isinstance(error, Unavailable):
        return error
    return Unavailable(f"the cluster refuses this broker: {error.message}", retry_after_s=_BACKOFF.last_s)
