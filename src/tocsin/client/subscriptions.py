"""Subscriptions as the application sees them, and the handing out of their notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self, assert_never

import msgspec

from tocsin.client.core import events as ev
from tocsin.client.core.failures import NotConnected
from tocsin.client.notifications import Item, Notification, Snapshot
from tocsin.client.shell.driver import Driver
from tocsin.errors import HistoryGone
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.protocol import messages
from tocsin.protocol.calls import write_call


class Subscription:
    """A channel with its parameters, and a filter or none; iterate over it for its notifications."""

    def __init__(
        self,
        handout: Handout,
        request: int,
        channel: str,
        parameters: Mapping[str, ParameterValue],
        where: str = "",
    ) -> None:
        self.channel = channel
        self.parameters = dict(parameters)
        #: The filter that is in force; empty: none.
        self.where = where
        self.request = request
        #: The position of the notification that the application got last.
        self.handed: Position | None = None
        #: How the snapshot of a channel WITH SNAPSHOT ended, once everything of it was handed out.
        self.snapshot: Snapshot | None = None
        self._handout = handout

    def __repr__(self) -> str:
        return f"<Subscription {self} at {self.position or 'no position yet'}>"

    def __str__(self) -> str:
        return write_call(self.channel, self.parameters, self.where)

    @property
    def position(self) -> str:
        """The position of the last notification handed out: subscribing with it later carries on after that one."""
        return "" if self.handed is None else str(self.handed)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        self._handout.acknowledge_handed(self)
        notification = await self._handout.next_of(self)
        if notification is None:
            raise StopAsyncIteration
        return notification

    async def ack(self, position: str = "") -> None:
        """The application has dealt with everything up to `position`, or handed out so far; it won't come again."""
        if position or self.handed is not None:
            self._handout.acknowledge(self, messages.parse_position(position or self.position))

    async def change_filter(self, where: str) -> None:
        """Give it another filter, or none with an empty one. Returns when that is in force; if it is refused, or not
        answered in time, the one before stays, and the reason is raised.

        What was handed out is not repeated. Every later result follows the new filter, except those that arrived before
        this returns: they were chosen by one of the two.
        """
        await self._handout.change_filter(self, where)

    async def unsubscribe(self) -> None:
        """End it: no more notifications are handed out, and iterating over it ends. Returns when the broker knows."""
        await self._handout.unsubscribe(self)


OnHistoryGone = Callable[[Subscription, HistoryGone], None]
OnSnapshot = Callable[[Subscription, Snapshot], None]


class Handout:
    """Takes items out of the inbox. A notification is acknowledged when the next one is asked for."""

    def __init__(
        self,
        driver: Driver,
        *,
        auto_ack: bool,
        on_history_gone: OnHistoryGone | None,
        on_snapshot: OnSnapshot | None = None,
    ) -> None:
        self._driver = driver
        self._auto_ack = auto_ack
        self._on_history_gone = on_history_gone
        self._on_snapshot = on_snapshot

    async def next_of(self, subscription: Subscription) -> Notification | None:
        """The next notification; None when there will be no more: unsubscribed, or closed. Raises any other reason."""
        while (item := await self._driver.inbox.take(subscription.request)) is not None:
            if (notification := self._opened(item)) is not None:
                return notification
        if subscription.request in self._driver.subscriptions:
            self._driver.raise_failure()
        return None

    async def next_of_any(self) -> Notification | None:
        while (item := await self._driver.inbox.take_any()) is not None:
            if (notification := self._opened(item)) is not None:
                return notification
        self._driver.raise_failure()
        return None

    def acknowledge_handed(self, subscription: Subscription) -> None:
        if self._auto_ack and subscription.handed is not None:
            self.acknowledge(subscription, subscription.handed)

    def acknowledge(self, subscription: Subscription, position: Position) -> None:
        self._driver.tell(ev.Acknowledged(subscription.request, position))

    async def change_filter(self, subscription: Subscription, where: str) -> None:
        await self._driver.change_filter(subscription, where)

    async def unsubscribe(self, subscription: Subscription) -> None:
        with suppress(NotConnected):
            await self._driver.unsubscribe(subscription.request)

    def _end_snapshot(self, subscription: Subscription, payload: bytes) -> None:
        # The application is done with all of it: it has asked for more.
        self.acknowledge_handed(subscription)
        subscription.snapshot = msgspec.json.decode(payload, type=Snapshot)
        if self._on_snapshot is not None:
            self._on_snapshot(subscription, subscription.snapshot)

    def _opened(self, item: Item) -> Notification | None:
        """The notification, if it is one. Anything else is raised, or given to a callback."""
        match item:
            case Notification():
                item.subscription.handed = item.parsed_position
                if item.kind != ResultKind.SNAPSHOT_END:
                    return item
                self._end_snapshot(item.subscription, item.raw_payload)
                return None
            case ev.TellGap(request, position, message):
                subscription = self._driver.subscriptions[request]
                subscription.handed = position
                gone = HistoryGone(f"{subscription}: {message}", earliest=str(position))
                if self._on_history_gone is None:
                    raise gone
                self._on_history_gone(subscription, gone)
                return None
            case ev.TellRefused(request, error):
                self._driver.subscriptions.pop(request, None)
                # The broker still holds a subscription that has failed. This way it can be asked for anew.
                self._driver.tell(ev.UnsubscribeAsked(request))
                raise error
            case _:
                assert_never(item)
