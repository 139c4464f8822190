"""The people of the city: each has a device, logs in and out, subscribes, listens, and tells its location."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tocsin.client import Notification, Subscriber, Subscription
from tocsin.lab.experiments.emergency.scenario import Interaction
from tocsin.lab.experiments.emergency.tally import MOST_EXAMPLES, Hold, Tally
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload
from tocsin.model.catalogue import ParameterValue
from tocsin.protocol.calls import write_call

_DEVICE = "phone"
#: Everybody tells their location this often.
LOCATIONS_EVERY_S = 1.0


class _Reported(msgspec.Struct):
    """As much of a payload as tells which report it is of."""

    id: str = ""


_reported = msgspec.json.Decoder(_Reported)


@dataclass(eq=False)
class Person:
    """One device of one user. What it holds is carried on after every login, after what it was handed last."""

    name: str
    coordinator_url: str
    token: str
    tally: Tally
    heard: Callable[[str, Notification], None]

    def __post_init__(self) -> None:
        self._me: Subscriber | None = None
        self._listening: asyncio.Task[None] | None = None
        self._logged_in_at_s = 0.0
        #: The broker that the last notification came through since the login.
        self._through = ""
        #: By how the subscription is written, with its parameters.
        self._holds: dict[str, tuple[Hold, dict[str, ParameterValue]]] = {}
        self._hold_of: dict[Subscription, Hold] = {}

    @property
    def broker(self) -> str:
        return self._me.broker if self._me is not None else ""

    async def do(self, one: Interaction, location: tuple[float, float]) -> None:
        match one.action:
            case "login":
                await self.log_in(location)
            case "logout":
                await self.log_out()
            case "subscribe":
                await self._subscribe(one.channel, {**one.parameters})
            case "unsubscribe":
                await self._unsubscribe(one.channel, {**one.parameters})

    async def log_in(self, location: tuple[float, float]) -> None:
        me = Subscriber(
            coordinator=self.coordinator_url,
            token=self.token,
            device=_DEVICE,
            location=location,
            connect_timeout_s=60,
            subscribe_timeout_s=60,
        )
        self._me = await me.__aenter__()
        self._logged_in_at_s = time.time()
        self._through = me.broker
        self.tally.logins += 1
        # Before carrying on: what was missed of the first may fill the queue before the second is answered.
        self._listening = asyncio.create_task(self._listen(me))
        for hold, parameters in self._holds.values():
            subscription = await me.subscribe(hold.channel, parameters, position=str(hold.position))
            self._hold_of[subscription] = hold

    async def log_out(self) -> None:
        if self._me is None:
            return
        assert self._listening is not None
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        await self._me.__aexit__(None, None, None)
        self._me = None
        self._hold_of.clear()
        self.tally.logouts += 1

    def tell_location(self, location: tuple[float, float]) -> None:
        if self._me is not None:
            self._me.tell_location(*location)

    def raise_failure(self) -> None:
        """If listening has ended, that is an error: nobody has asked for it."""
        if self._listening is not None and self._listening.done() and not self._listening.cancelled():
            self._listening.result()
            raise RuntimeError(f"{self.name} has stopped listening")

    async def _subscribe(self, channel: str, parameters: dict[str, ParameterValue]) -> None:
        assert self._me is not None
        hold = Hold(self.name, channel)
        # Before it is asked for: notifications may be handed out before we know that it was taken.
        self._holds[write_call(channel, parameters)] = (hold, parameters)
        subscription = await self._me.subscribe(channel, parameters)
        hold.begin_after(subscription.handed)
        self._hold_of[subscription] = hold
        self.tally.holds.append(hold)
        self.tally.channels[channel].subscriptions += 1

    async def _unsubscribe(self, channel: str, parameters: dict[str, ParameterValue]) -> None:
        hold, _ = self._holds.pop(write_call(channel, parameters))
        subscription = next(one for one, its in self._hold_of.items() if its is hold)
        await subscription.unsubscribe()
        hold.is_given_up = True
        del self._hold_of[subscription]

    async def _listen(self, me: Subscriber) -> None:
        async for notification in me.notifications():
            self._take(me, notification)

    def _take(self, me: Subscriber, notification: Notification) -> None:
        hold = self._hold_of.get(notification.subscription)
        if hold is None:
            hold, _ = self._holds[str(notification.subscription)]
        tally, now = self.tally, time.monotonic()
        hold.take(notification.parsed_position)
        channel = tally.channels[hold.channel]
        channel.notifications += 1
        tally.by_broker[me.broker] += 1
        if me.broker != self._through:
            self._through = me.broker
            tally.moved(self.name)
        committed_at_s = notification.committed_at.timestamp()
        # What somebody missed while away was waiting for them, not under way.
        if committed_at_s >= self._logged_in_at_s:
            tally.delivered(self.name, time.time() - committed_at_s)
            if (sent_at := tally.sent_at.get(_reported.decode(notification.raw_payload).id)) is not None:
                channel.delays_s.append(now - sent_at)
        if len(channel.examples) < MOST_EXAMPLES:
            channel.examples.append(notification.payload)
        self.heard(self.name, notification)


@dataclass(frozen=True, slots=True)
class People:
    """All of them. The city's clock runs `speed_up` times as fast as ours."""

    people: Mapping[str, Person]
    workload: EmergencyWorkload
    speed_up: float

    async def follow(self, interactions: Iterable[Interaction], until: Callable[[float], Awaitable[None]]) -> None:
        """Do what the interactions say; `until` waits for a moment of the city's clock."""
        of_user: dict[str, list[Interaction]] = defaultdict(list)
        for one in interactions:
            of_user[one.user].append(one)

        async def live(user: str) -> None:
            for one in of_user[user]:
                await until(one.at_s)
                await self.people[user].do(one, self.workload.location_of(user))

        async with asyncio.TaskGroup() as lives:
            for user in of_user:
                lives.create_task(live(user))

    async def move_about(self) -> None:
        """For ever: everybody goes on, and tells where they are."""
        looked_at_s = time.monotonic()
        while True:
            await asyncio.sleep(LOCATIONS_EVERY_S)
            now_s = time.monotonic()
            self.workload.move_users((now_s - looked_at_s) * self.speed_up)
            looked_at_s = now_s
            for name, person in self.people.items():
                person.raise_failure()
                person.tell_location(self.workload.location_of(name))

    async def all_log_in(self) -> None:
        """Those who are away come back, to be told what they missed."""
        away = [person for person in self.people.values() if not person.broker]
        await asyncio.gather(*(one.log_in(self.workload.location_of(one.name)) for one in away))

    async def all_log_out(self) -> None:
        await asyncio.gather(*(person.log_out() for person in self.people.values()))
