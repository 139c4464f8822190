"""The subscriber for programs without asyncio: the same, with plain `with` and `for`.

::

    with SyncSubscriber(coordinator="http://127.0.0.1:8500", user="ann", password="…") as me:
        for notification in me.subscribe("EmergenciesOfType", etype="flood"):
            print(notification.payload)

A thread of its own runs the event loop; calls wait for it. One thread at a time may iterate.

Ctrl-C may interrupt a call anywhere. So the calling thread takes no lock, which the interrupt could leave locked, and
owns nothing of asyncio: to free a task runs the code of weak references, in which Python drops the interrupt. Nor does
it wait for long at a time: an interrupt that comes just before a wait begins does not end that wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, cast

from tocsin.client.notifications import ChannelResult, Notification, Snapshot
from tocsin.client.subscriber import Subscriber
from tocsin.client.subscriptions import Subscription
from tocsin.model.catalogue import ParameterValue
from tocsin.protocol import messages

#: The longest single wait of the calling thread, and so the longest delay of an interrupt.
_WAIT_S = 1.0

T = TypeVar("T")
#: Begins the work. It is called on the loop's thread, so that work which never begins is no forgotten coroutine.
Call: TypeAlias = Callable[[], Coroutine[Any, Any, T]]
#: What came of it, or the error.
_Outcome: TypeAlias = tuple[T | None, BaseException | None]


class SyncSubscriber:
    """Takes the same arguments as `Subscriber`, and promises the same."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="tocsin-subscriber", daemon=True)
        self._numbers = count()
        #: By call. Only the loop's thread has them.
        self._tasks: dict[int, asyncio.Task[Any]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._me = self.run(self._open)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.run(partial(self._me.__aexit__, kind, exc, tb))
        finally:
            self._stop()

    @property
    def name(self) -> str:
        """USER/DEVICE, as brokers know it."""
        return self._me.name

    @property
    def broker(self) -> str:
        """The name of the broker that it is, or was last, connected to."""
        return self._me.broker

    @property
    def kept(self) -> list[messages.Subscribed]:
        """As `Subscriber.kept`."""
        return self._me.kept

    def subscribe(
        self,
        channel: str,
        values: Mapping[str, ParameterValue] | None = None,
        /,
        *,
        position: str = "",
        where: str = "",
        **parameters: ParameterValue,
    ) -> SyncSubscription:
        """As `Subscriber.subscribe`."""
        asked = partial(self._me.subscribe, channel, values, position=position, where=where, **parameters)
        return SyncSubscription(self, self.run(asked))

    def tell_location(self, x: float, y: float) -> None:
        """As `Subscriber.tell_location`."""
        self.run(partial(self._tell_location, x, y))

    def subscribe_kept(self) -> list[SyncSubscription]:
        return [SyncSubscription(self, one) for one in self.run(self._me.subscribe_kept)]

    def notifications(self) -> Iterator[SyncNotification]:
        """The notifications of all subscriptions together, in the order in which they arrived."""
        yield from self.follow(self._me.notifications())

    def follow(self, source: AsyncIterator[Notification]) -> Iterator[SyncNotification]:
        while (notification := self.run(partial(_next, source))) is not None:
            yield SyncNotification(self, notification)

    async def _tell_location(self, x: float, y: float) -> None:
        self._me.tell_location(x, y)

    async def _open(self) -> Subscriber:
        # Made on the loop's thread: parts of it belong to the loop.
        return await Subscriber(**self._options).__aenter__()

    def run(self, call: Call[T]) -> T:
        """Do this on the loop's thread, and wait for it. If the wait is interrupted, the work is cancelled."""
        number = next(self._numbers)
        outcomes: SimpleQueue[_Outcome[T]] = SimpleQueue()
        try:
            self._loop.call_soon_threadsafe(self._begin, number, call, outcomes)
            result, error = _first(outcomes)
        except BaseException:
            self._loop.call_soon_threadsafe(self._cancel, number)
            raise
        if error is not None:
            raise error
        return cast(T, result)

    def _begin(self, number: int, call: Call[T], outcomes: SimpleQueue[_Outcome[T]]) -> None:
        def ended(task: asyncio.Task[T]) -> None:
            del self._tasks[number]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            outcomes.put((None if error is not None else task.result(), error))

        self._tasks[number] = self._loop.create_task(_awaited(call))
        self._tasks[number].add_done_callback(ended)

    def _cancel(self, number: int) -> None:
        if (task := self._tasks.get(number)) is not None:
            task.cancel()

    def _run_loop(self) -> None:
        """Until it is stopped; what is still under way then is cancelled."""
        with asyncio.Runner(loop_factory=lambda: self._loop):
            self._loop.run_forever()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _first(outcomes: SimpleQueue[_Outcome[T]]) -> _Outcome[T]:
    while True:
        try:
            return outcomes.get(timeout=_WAIT_S)
        except Empty:
            continue


class SyncSubscription:
    """A channel with its parameters; iterate over it for its notifications."""

    def __init__(self, subscriber: SyncSubscriber, subscription: Subscription) -> None:
        self._subscriber = subscriber
        self._subscription = subscription

    def __repr__(self) -> str:
        return repr(self._subscription)

    def __str__(self) -> str:
        return str(self._subscription)

    def __iter__(self) -> Iterator[SyncNotification]:
        yield from self._subscriber.follow(self._subscription)

    @property
    def channel(self) -> str:
        return self._subscription.channel

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self._subscription.parameters

    @property
    def position(self) -> str:
        """As `Subscription.position`."""
        return self._subscription.position

    @property
    def snapshot(self) -> Snapshot | None:
        """How its snapshot ended, once everything of it was handed out."""
        return self._subscription.snapshot

    @property
    def where(self) -> str:
        """As `Subscription.where`."""
        return self._subscription.where

    def change_filter(self, where: str) -> None:
        """As `Subscription.change_filter`."""
        self._subscriber.run(partial(self._subscription.change_filter, where))

    def ack(self, position: str = "") -> None:
        self._subscriber.run(partial(self._subscription.ack, position))

    def unsubscribe(self) -> None:
        self._subscriber.run(self._subscription.unsubscribe)


class SyncNotification(ChannelResult):
    """One result of a channel; see `Notification`."""

    def __init__(self, subscriber: SyncSubscriber, notification: Notification) -> None:
        super().__init__(notification.subscription, notification.arrived)
        self._subscriber = subscriber

    def ack(self) -> None:
        self._subscriber.run(partial(self._subscription.ack, self.position))


async def _awaited(call: Call[T]) -> T:
    """A call with the wrong arguments is an error of the work, too."""
    return await call()


async def _next(source: AsyncIterator[Notification]) -> Notification | None:
    """StopAsyncIteration can't leave a coroutine as itself."""
    return await anext(source, None)
