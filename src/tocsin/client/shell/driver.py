"""Carries out the session's decisions: connections, the coordinator, timers, the inbox. Decides nothing itself."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, assert_never

import httpx

from tocsin.client.core import events as ev
from tocsin.client.core.failures import NotConnected
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.client.notifications import Item, Notification
from tocsin.client.shell.broker_pings import BrokerPings
from tocsin.client.shell.connection import Connection
from tocsin.client.shell.inbox import Inbox
from tocsin.coordinates.located import Located
from tocsin.errors import AlreadyExists, InvalidValue, TocsinError
from tocsin.model.position import Position
from tocsin.model.story import Story
from tocsin.protocol import messages
from tocsin.protocol.client_ports import ClientCoordinatorPort, ConnectionPort
from tocsin.protocol.subscribers import Placement

if TYPE_CHECKING:
    from tocsin.client.subscriptions import Subscription

#: The standard library's logger, since this runs inside other people's programs.
log = logging.getLogger(__name__)

#: A notification's memory beside its payload, roughly.
_OVERHEAD_BYTES = 500
#: The limit for closing: the last acknowledgements, and the closing handshake.
_GOODBYE_S = 2.0
#: The wait for another filter, as long as for a subscription.
_FILTER_TIMEOUT_S = 30.0
#: Entries of the session's story: what happened to its last twenty connections.
_REMEMBERED = 60


class Driver:
    """Runs on one event loop, from `start` to `close`."""

    def __init__(
        self,
        options: SessionOptions,
        open_coordinator: Callable[[], ClientCoordinatorPort] | None,
        user: str,
        password: str,
        register: bool,
        tls: ssl.SSLContext | None,
        queue_count: int,
        queue_bytes: int,
        *,
        measures: bool = False,
    ) -> None:
        self.session = Session(options, random.Random().random, Story(_REMEMBERED))
        self.inbox: Inbox[Item] = Inbox(queue_count, queue_bytes)
        self.subscriber = ""
        self.device = ""
        self.broker = ""
        self._open_coordinator = open_coordinator
        self._coordinator: ClientCoordinatorPort | None = None
        self._user, self._password, self._register = user, password, register
        self._tls = tls
        self._pings: BrokerPings | None = None
        if measures:
            self._pings = BrokerPings(
                lambda: self.session.token, lambda located: self.tell(ev.CoordinateFound(located)), tls
            )
        self._connections: dict[int, ConnectionPort] = {}
        #: Given up, and closing.
        self._leaving: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None
        #: When the timer is due. The timer itself is not asked: uvloop's can't tell once their time has come.
        self._timer_s: float | None = None
        self._subscribing: dict[int, asyncio.Future[Position]] = {}
        self._unsubscribing: dict[int, asyncio.Future[None]] = {}
        self._filtering: dict[int, asyncio.Future[None]] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self._failure: BaseException | None = None
        self._closed = False

    @property
    def trouble(self) -> str:
        return self.session.trouble

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        if self._open_coordinator is not None:
            self._coordinator = self._open_coordinator()
        if self._pings is not None:
            self._spawn(self._pings.run(), self._tasks)
        self.tell(ev.Started())

    async def connected(self) -> None:
        await asyncio.shield(self._connected)

    async def close(self) -> None:
        """Send the last acknowledgements and close; received notifications can still be taken."""
        self.tell(ev.CloseAsked())
        self._closed = True
        self._give_up(NotConnected("the subscriber was closed"))
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._leaving, return_exceptions=True)
        if self._coordinator is not None:
            await self._coordinator.close()

    def raise_failure(self) -> None:
        """Nothing will come any more; raises the reason, unless the application closed it."""
        if self._failure is not None:
            raise self._failure

    async def subscribe(self, asked: ev.SubscribeAsked, subscription: Subscription) -> None:
        """Returns when the broker has taken the subscription. If the wait ends early, it is taken back."""
        self._check_open()
        self.inbox.open_lane(asked.request)
        self.subscriptions[asked.request] = subscription
        future: asyncio.Future[Position] = self._loop.create_future()
        self._subscribing[asked.request] = future
        try:
            self.tell(asked)
            position = await future
            # Unless notifications have been handed out in between.
            subscription.handed = subscription.handed or position
        except BaseException:
            del self.subscriptions[asked.request]
            self.inbox.end_lane(asked.request, drop=True)
            self.tell(ev.UnsubscribeAsked(asked.request))
            raise
        finally:
            del self._subscribing[asked.request]

    async def change_filter(self, subscription: Subscription, where: str) -> None:
        """Returns when the filter is in force. If the wait ends early, the former one is asked for again."""
        self._check_open()
        request, former = subscription.request, subscription.where
        if request in self._filtering:
            raise AlreadyExists("the filter is being changed already; wait for that")
        future = self._filtering[request] = self._loop.create_future()
        try:
            self.tell(ev.FilterAsked(request, where))
            async with asyncio.timeout(_FILTER_TIMEOUT_S):
                await future
        except TimeoutError:
            self.tell(ev.FilterAsked(request, former))
            trouble = self.trouble or "the broker did not answer"
            raise NotConnected(f"the filter of {subscription} was not changed: {trouble}; try again later") from None
        except asyncio.CancelledError:
            self.tell(ev.FilterAsked(request, former))
            raise
        finally:
            del self._filtering[request]
        subscription.where = where

    async def unsubscribe(self, request: int) -> None:
        """Returns when the broker knows. None of its notifications is handed out from now on."""
        self.subscriptions.pop(request, None)
        self.inbox.end_lane(request, drop=True)
        self._check_open()
        # Several callers may wait for the same.
        future = self._unsubscribing.setdefault(request, self._loop.create_future())
        self.tell(ev.UnsubscribeAsked(request))
        await asyncio.shield(future)

    def tell(self, event: ev.Event) -> None:
        """Tell the session, and carry out its instructions."""
        for instruction in self.session.handle(event, self._loop.time()):
            self._perform(instruction)
        self._set_timer()

    def _check_open(self) -> None:
        if self._closed or self._failure is not None:
            raise self._failure or NotConnected("the subscriber was closed; open another one")

    def _report(self, event: ev.Opened | ev.Closed | ev.Received) -> None:
        """Take an event of a connection."""
        if isinstance(event, ev.Received) and isinstance(event.message, messages.Notification):
            # A new notification makes nothing due earlier, and there are many.
            instructions = self.session.handle(event, self._loop.time())
            for instruction in instructions:
                self._perform(instruction)
            if not instructions:
                self._set_timer()
            return
        self.tell(event)
        if isinstance(event, ev.Closed):
            # This is the connection's last event. The session may have given it up already, because of an earlier one.
            self._connections.pop(event.link, None)

    async def _may_read(self) -> None:
        if self.inbox.is_full:
            self.tell(ev.ReadingChanged(is_paused=True))
            await self.inbox.wait_for_room()
            self.tell(ev.ReadingChanged(is_paused=False))

    def _set_timer(self) -> None:
        at_s = self.session.wake_at_s()
        if self._timer is not None:
            if self._timer_s == at_s and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at_s, self._time_passed) if at_s is not None and not self._closed else None
        self._timer_s = at_s

    def _time_passed(self) -> None:
        self._timer = None
        self.tell(ev.TimePassed())

    def _perform(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Deliver() | ev.TellGap() | ev.TellSubscribed() | ev.TellRefused() | ev.TellUnsubscribed():
                self._tell_application(instruction)
            case ev.TellFiltered(request, error):
                if (asked := self._filtering.get(request)) is not None and not asked.done():
                    asked.set_result(None) if error is None else asked.set_exception(error)
            case ev.Send(link, message):
                self._connections[link].send(message)
            case ev.Connect(link, url):
                log.debug("connecting to %s", url)
                self._connections[link] = Connection(link, url, self._tls, self._report, self._may_read, self._check)
            case ev.Disconnect(link):
                connection = self._connections.pop(link)
                connection.close()
                self._spawn(connection.wait(_GOODBYE_S), self._leaving)
            case ev.RequestPlacement():
                self._spawn(self._ask_for_broker(instruction), self._tasks)
            case ev.RenewToken():
                self._spawn(self._ask_for_token(), self._tasks)
            case ev.TellConnected(subscriber, device, broker):
                log.debug("connected to %s as %s", broker, subscriber)
                self.subscriber, self.device, self.broker = subscriber, device, broker
                if self._pings is not None:
                    self._pings.connected(broker, self.session.url_of(broker))
                if not self._connected.done():
                    self._connected.set_result(None)
            case ev.Fail(error):
                self._failure = error
                self._give_up(error)
            case _:
                assert_never(instruction)

    def _tell_application(
        self, instruction: ev.Deliver | ev.TellGap | ev.TellSubscribed | ev.TellRefused | ev.TellUnsubscribed
    ) -> None:
        request = instruction.request
        subscription = self.subscriptions.get(request)
        match instruction:
            case ev.Deliver(_, _, notification) if subscription is not None:
                size_bytes = len(bytes(notification.payload)) + _OVERHEAD_BYTES
                self.inbox.put(request, Notification(subscription, instruction), size_bytes)
            case ev.TellGap(_, position, message) if subscription is not None:
                log.warning("%s: results before %s are gone: %s", subscription, position, message)
                self.inbox.put(request, instruction, _OVERHEAD_BYTES)
            case ev.TellSubscribed(_, position):
                if (asked := self._subscribing.get(request)) is not None and not asked.done():
                    asked.set_result(position)
            case ev.TellUnsubscribed():
                if (leaving := self._unsubscribing.pop(request, None)) is not None and not leaving.done():
                    leaving.set_result(None)
            case ev.TellRefused(_, error):
                if (asked := self._subscribing.get(request)) is not None and not asked.done():
                    asked.set_exception(error)
                elif subscription is not None:
                    self.inbox.put(request, instruction, _OVERHEAD_BYTES)
                    self.inbox.end_lane(request, drop=False)

    def _give_up(self, error: BaseException) -> None:
        """End all waits with `error`."""
        self.inbox.end()
        waiting: list[asyncio.Future[Any]] = [self._connected]
        waiting += [*self._subscribing.values(), *self._unsubscribing.values(), *self._filtering.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # if nobody waits for it, that is fine

    def _spawn(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = self._loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(self._check)

    def _check(self, task: asyncio.Task[None]) -> None:
        """A mistake of our own must not leave the application waiting."""
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._failure = self._failure or exc
            self._give_up(exc)

    async def _ask_for_token(self) -> None:
        assert self._coordinator is not None
        try:
            token = await self._coordinator.token(self._user, self._password, register=self._register)
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            self.tell(ev.TokenFailed(str(exc) or type(exc).__name__))
        except TocsinError as exc:
            self.tell(ev.TokenFailed(str(exc), exc, exc.temporary))
        else:
            self.tell(ev.TokenGiven(token))

    async def _ask_for_broker(self, wanted: ev.RequestPlacement) -> None:
        try:
            placement = await self._place(wanted, wanted.located)
            if self._pings is not None and wanted.located is None:
                # Only now it knows a broker to measure. Knowing where it is, it may be better placed.
                await self._pings.look_around(placement.broker, placement.url)
                if (located := self.session.located) is not None:
                    placement = await self._place(wanted, located)
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            self.tell(ev.PlacementFailed(str(exc) or type(exc).__name__))
        except TocsinError as exc:
            self.tell(ev.PlacementFailed(str(exc), exc, exc.temporary))
        except ValueError as exc:
            self.tell(ev.PlacementFailed(f"not a placement: {exc}", InvalidValue(str(exc)), temporary=False))
        else:
            self.tell(ev.Placed(placement.broker, placement.url))

    async def _place(self, wanted: ev.RequestPlacement, located: Located | None) -> Placement:
        assert self._coordinator is not None
        return await self._coordinator.place(wanted.token, wanted.device, wanted.location, wanted.avoid, located)
