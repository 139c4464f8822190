"""The subscriber's API: connect, subscribe, iterate, acknowledge.

::

    async with Subscriber(coordinator="http://127.0.0.1:8500", user="ann", password="…", device="phone") as me:
        floods = await me.subscribe("EmergenciesOfType", etype="flood")
        async for notification in floods:
            print(notification.payload)

Each notification is handed out once and in order, whatever happens to connections and brokers meanwhile. It is
acknowledged when the next one is asked for. So if an application dies while it deals with one, that one comes again.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from tocsin.client.core import events as ev
from tocsin.client.core.failures import NotConnected
from tocsin.client.core.options import SessionOptions
from tocsin.client.notifications import Notification
from tocsin.client.shell.coordinator_calls import CoordinatorCalls
from tocsin.client.shell.driver import Driver
from tocsin.client.subscriptions import Handout, OnHistoryGone, OnSnapshot, Subscription
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import ParameterValue
from tocsin.protocol import messages
from tocsin.protocol.messages import MAX_METRES
from tocsin.protocol.subscribers import NAME_PATTERN

#: About a second's worth for a busy subscriber, in little memory.
_QUEUE_COUNT = 1000
_QUEUE_BYTES = 8 << 20


class Subscriber:
    """One device of one user, connected while inside `async with`.

    * Give `coordinator`, which names a broker, and another one when that fails, or `broker` to stay with one.
    * Give `user` and `password`, so that it can get a token whenever it needs one, or a `token` alone.
      `register=True` registers an unknown user.
    * `device` names this device: its subscriptions and positions are kept while it is away. Without a name, they are
      kept for a minute. Two programs must not use the same name at the same time.
    * `location`, in metres, helps to find a near broker. `tell_location` changes it later.
    * `measures=True`: it measures the round trips to its broker and a few others, and tells where in the network it is.
      A network with placement by round trips, or a reach, needs that.
    * `auto_ack=False`: the application calls `notification.ack()`.
    * `on_history_gone` is called where results are missing because they were past retention. Without it, the iteration
      raises HistoryGone at that point; iterating again carries on after it.
    * `on_snapshot` is called where the snapshot of a channel WITH SNAPSHOT ends; `subscription.snapshot` has the same.
    * While more than `queue_count` notifications, or `queue_bytes`, wait for the application, nothing more is read.
    """

    def __init__(
        self,
        *,
        coordinator: str = "",
        broker: str = "",
        user: str = "",
        password: str = "",
        token: str = "",
        register: bool = False,
        device: str = "",
        location: tuple[float, float] | None = None,
        measures: bool = False,
        auto_ack: bool = True,
        on_history_gone: OnHistoryGone | None = None,
        on_snapshot: OnSnapshot | None = None,
        connect_timeout_s: float = 30.0,
        subscribe_timeout_s: float = 30.0,
        queue_count: int = _QUEUE_COUNT,
        queue_bytes: int = _QUEUE_BYTES,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        _check(coordinator, broker, user, password, token)
        if device and not re.match(NAME_PATTERN, device):
            raise InvalidValue(
                f"not a name for a device: {device!r}; use up to 64 letters, digits and any of _ . @ ~ -"
            )
        can_renew = bool(coordinator and user and password)
        brokers = (broker,) if broker else ()
        options = SessionOptions(device, token, brokers, bool(coordinator), can_renew, _checked(location))
        open_coordinator = (lambda: CoordinatorCalls(coordinator, tls)) if coordinator else None
        self._driver = Driver(
            options, open_coordinator, user, password, register, tls, queue_count, queue_bytes, measures=measures
        )
        self._handout = Handout(
            self._driver, auto_ack=auto_ack, on_history_gone=on_history_gone, on_snapshot=on_snapshot
        )
        self._connect_timeout_s = connect_timeout_s
        self._subscribe_timeout_s = subscribe_timeout_s
        self._asked = 0

    async def __aenter__(self) -> Self:
        """Returns when connected. Raises an error that names the cause if that is not possible, NotConnected after a
        while."""
        self._driver.start()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._driver.connected()
        except TimeoutError:
            trouble = self._driver.trouble or "nobody answered"
            await self._driver.close()
            raise NotConnected(
                f"not connected within {self._connect_timeout_s:g} s: {trouble}; "
                "check the address, and that coordinator and brokers are running"
            ) from None
        except BaseException:
            await self._driver.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        # After an error, the application has not dealt with the last notification.
        if exc is None:
            for subscription in self.subscriptions:
                self._handout.acknowledge_handed(subscription)
        await self._driver.close()

    @property
    def name(self) -> str:
        """USER/DEVICE, as brokers know it."""
        return self._driver.subscriber

    @property
    def device(self) -> str:
        """The device's name: the given one, or the one that the broker made up."""
        return self._driver.device

    @property
    def broker(self) -> str:
        """The name of the broker that it is, or was last, connected to."""
        return self._driver.broker

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._driver.subscriptions.values())

    @property
    def kept(self) -> list[messages.Subscribed]:
        """Subscriptions that were kept for this device from an earlier time, and have not been asked for since.

        Their results arrive once they are asked for: by `subscribe`, which carries one on where it was acknowledged, or
        by `subscribe_kept` for all.
        """
        return self._driver.session.kept()

    async def subscribe(
        self,
        channel: str,
        values: Mapping[str, ParameterValue] | None = None,
        /,
        *,
        position: str = "",
        where: str = "",
        **parameters: ParameterValue,
    ) -> Subscription:
        """Subscribe to a channel with these parameters; for one named `position` or `where`, give `values` as a
        mapping.

        With `where`, a filter such as `severity >= 3`, only results that match it come. With `position`, later results
        that still exist are sent first. A subscription that was kept for this device is carried on.
        """
        self._asked += 1
        request = self._asked
        subscription = Subscription(self._handout, request, channel, {**(values or {}), **parameters}, where)
        asked = ev.SubscribeAsked(request, channel, subscription.parameters, position, where)
        try:
            async with asyncio.timeout(self._subscribe_timeout_s):
                await self._driver.subscribe(asked, subscription)
        except TimeoutError:
            trouble = self._driver.trouble or "the broker did not answer"
            advice = "try again later"
            if self._driver.inbox.is_full:
                trouble = (
                    f"{len(self._driver.inbox)} notifications wait to be taken, and nothing more is read until then"
                )
                advice = "iterate over them in a task of its own while you subscribe"
            message = f"not subscribed to {channel} within {self._subscribe_timeout_s:g} s: {trouble}; {advice}"
            raise NotConnected(message) from None
        return subscription

    def tell_location(self, x: float, y: float) -> None:
        """Tell this subscriber's location, in metres, as often as it moves. While not connected, the last location is
        kept and sent later."""
        location = _checked((x, y))
        assert location is not None
        self._driver.tell(ev.LocationTold(*location))

    async def subscribe_kept(self) -> list[Subscription]:
        """Carry on everything that was kept for this device."""
        return [await self.subscribe(one.channel, one.parameters, where=one.where) for one in self.kept]

    async def notifications(self) -> AsyncIterator[Notification]:
        """The notifications of all subscriptions together, in the order in which they arrived."""
        while (notification := await self._handout.next_of_any()) is not None:
            yield notification
            self._handout.acknowledge_handed(notification.subscription)


def _checked(location: tuple[float, float] | None) -> tuple[float, float] | None:
    if location is None:
        return None
    x, y = map(float, location)
    if not (abs(x) <= MAX_METRES and abs(y) <= MAX_METRES):
        raise InvalidValue(f"not a location: {location}; give x and y in metres, each within ±{MAX_METRES:g}")
    return (x, y)


def _check(coordinator: str, broker: str, user: str, password: str, token: str) -> None:
    if bool(coordinator) == bool(broker):
        raise InvalidValue("give either the coordinator's address or a broker's")
    if not token and not (user and password):
        raise InvalidValue("give user and password, or a token")
    if not token and not coordinator:
        raise InvalidValue("a broker alone gives no tokens; give a token, or the coordinator's address")
