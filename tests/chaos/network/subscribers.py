"""A process full of subscribers that come and go: `python -m chaos.network.subscribers CONFIG`.

Each is a `tocsin.client.Subscriber` with real connections, and writes down what it was told and handed. The process is
led over standard input (`calm`, `who`, `finish`) and tells over standard output how it is getting on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from chaos.network import wire
from chaos.network.history import records_of
from chaos.network.recording import Recorder
from chaos.network.workload import last_of, one_hold, permission_of, user_name
from tocsin.client import NotConnected, Subscriber, Subscription
from tocsin.errors import HistoryGone, TocsinError
from tocsin.model.position import Position

#: Longer than anything that is killed stays away: giving up would unsubscribe.
_PATIENCE_S = 600.0
_TELL_EVERY_S = 0.25
#: A program that comes back without positions relies on what its broker kept and told the coordinator. While the
#: coordinator is away nobody can tell it, so it is asked whether it knows.
_ASK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Config:
    run: str
    seed: str
    coordinator: str
    #: User → token.
    tokens: dict[str, str]
    #: Numbers of the subscribers that are there from the start, and of those that may come later.
    first: list[int]
    later: list[int]
    #: Between two things that a subscriber does, on average, and the longest it stays away.
    act_every_s: float
    away_s: float
    history: str


@dataclass(slots=True, eq=False)
class Hold:
    """What a subscriber holds, over all its lives, until it unsubscribes."""

    number: int
    channel: str
    topic: str
    #: The coordinator knows of it.
    is_reported: bool = False
    #: Where it began.
    first_position: str = ""
    #: Of what was handed out last.
    position: str = ""
    subscription: Subscription | None = None
    has_last: bool = False


@dataclass(slots=True)
class World:
    config: Config
    recorder: Recorder
    calm: asyncio.Event = field(default_factory=asyncio.Event)
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    #: Shared: making one takes as long as a hundred connections.
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    devices: list[Device] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    got: int = 0
    not_connected: int = 0

    def arrive(self, number: int) -> None:
        device = Device(self, number)
        self.devices.append(device)
        task = asyncio.create_task(device.run(), name=device.name)
        task.add_done_callback(_check)
        self.tasks.append(task)

    def status(self) -> dict[str, Any]:
        holds = [hold for device in self.devices for hold in device.holds]
        return {
            "got": self.got,
            "subscribers": len(self.devices),
            "settled": sum(device.is_settled for device in self.devices),
            "missing": sum(not hold.has_last for hold in holds),
            "not_connected": self.not_connected,
        }


class Device:
    """One subscriber: a task that lives, stays away and comes back, until all is calm."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._chance = random.Random(f"{world.config.seed}/{number}")
        self._user = user_name(number)
        self._permission = permission_of(number)
        self._device = f"device-{number:03d}"
        self.name = f"{self._user}/{self._device}"
        #: Some applications take their time, and some acknowledge only now and then.
        self._pause_s = self._chance.choice((0.0,) * 5 + (0.4,))
        self._ack_every = self._chance.choice((0, 0, 4))
        self.holds: list[Hold] = []
        self._held = 0
        self._me: Subscriber | None = None
        self._consumers: dict[Hold, asyncio.Task[None]] = {}
        self._failed = asyncio.Event()
        #: Gone for good, or everything that it wants is subscribed.
        self.is_settled = False
        self.is_stopped = False
        for _ in range(self._chance.randint(1, 3)):
            self._want()

    @property
    def broker(self) -> str:
        return "" if self._me is None else self._me.broker

    async def run(self) -> None:
        while not self._world.finish.is_set() and not self.is_stopped:
            await self._live()
            self.is_settled = self.is_stopped
            await self._wait(self._chance.uniform(0.1, self._world.config.away_s))

    # One life

    async def _live(self) -> None:
        world, here = self._world, wire.Wire(lambda what: self._note("stray", message=what))
        wire.follow(here)
        brings = self._chance.random() < 0.5 or not all(one.is_reported for one in self.holds)
        me = Subscriber(
            coordinator=world.config.coordinator,
            token=world.config.tokens[self._user],
            device=self._device,
            connect_timeout_s=_PATIENCE_S,
            subscribe_timeout_s=_PATIENCE_S,
            auto_ack=not self._ack_every,
            on_history_gone=self._history_gone,
            tls=world.tls,
        )
        self._failed.clear()
        is_cut = False
        try:
            await me.__aenter__()
            self._me = me
            for hold in list(self.holds):
                await self._subscribe(hold, brings=brings)
            is_cut = await self._act(here)
        except NotConnected:
            world.not_connected += 1
        except TocsinError as exc:
            self._note("failed", message=f"{type(exc).__name__}: {exc}")
        finally:
            await self._die(here, is_cut=is_cut)

    async def _die(self, here: wire.Wire, *, is_cut: bool) -> None:
        me, self._me = self._me, None
        for task in self._consumers.values():
            task.cancel()
        await asyncio.gather(*self._consumers.values(), return_exceptions=True)
        for hold in self._consumers:
            self._note("away", hold)
        self._consumers.clear()
        if me is None:
            return
        if is_cut:
            here.cut()
            await me._driver.close()  # It has nobody left to say goodbye to.
        else:
            await me.__aexit__(None, None, None)

    async def _act(self, here: wire.Wire) -> bool:
        """Do things until this life is over; returns whether it ends without a goodbye."""
        world, chance = self._world, self._chance
        while True:
            self.is_settled = True
            await self._wait(chance.expovariate(1 / world.config.act_every_s))
            if self._failed.is_set():
                return False
            if world.calm.is_set():
                await world.finish.wait()
                return False
            self.is_settled = False
            choice = chance.choices(
                ("break", "die", "leave", "again", "swap", "more", "stop"), (20, 15, 25, 20, 10, 7, 3)
            )[0]
            if choice == "break":
                # The subscriber finds a way back by itself.
                chance.choice((here.cut, here.half_close))()
            elif choice in ("die", "leave"):
                return choice == "die"
            elif choice == "again":
                await self._subscribe_again(chance.choice(self.holds))
            elif choice == "swap":
                await self._unsubscribe(chance.choice(self.holds))
                await self._subscribe(self._want())
            elif choice == "more" and len(self.holds) < 5:
                await self._subscribe(self._want())
            elif choice == "stop" and world.later:
                self._note("stopped")
                self.is_stopped = True
                self.holds.clear()
                world.arrive(world.later.pop())
                return chance.random() < 0.5

    # Subscriptions

    def _want(self) -> Hold:
        held = {(one.channel, one.topic) for one in self.holds}
        while (wanted := one_hold(self._world.config.run, self._chance)) in held:
            pass
        self._held += 1
        hold = Hold(self._held, *wanted)
        self.holds.append(hold)
        return hold

    async def _subscribe(self, hold: Hold, *, brings: bool = True) -> None:
        assert self._me is not None
        position = hold.position if brings else ""
        hold.subscription = await self._me.subscribe(hold.channel, topic=hold.topic, position=position)
        self._note(
            "subscribed",
            hold,
            permission=self._permission,
            channel=hold.channel,
            topic=hold.topic,
            position=hold.subscription.position,
            brought=bool(position),
        )
        hold.first_position = hold.first_position or hold.subscription.position
        hold.position = hold.position or hold.subscription.position
        self._consumers[hold] = asyncio.create_task(self._consume(hold, hold.subscription))

    async def _unsubscribe(self, hold: Hold) -> None:
        assert hold.subscription is not None
        self.holds.remove(hold)
        self._note("leaving", hold)
        await hold.subscription.unsubscribe()
        self._note("unsubscribed", hold)

    async def _subscribe_again(self, hold: Hold) -> None:
        """Give it up, and soon after want it anew: from then on, and nothing of what was between."""
        await self._unsubscribe(hold)
        await self._wait(self._chance.uniform(0.0, 2.0))
        self._held += 1
        anew = Hold(self._held, hold.channel, hold.topic)
        self.holds.append(anew)
        await self._subscribe(anew)

    async def _consume(self, hold: Hold, subscription: Subscription) -> None:
        number = 0
        try:
            async for notification in subscription:
                self._note("got", hold, position=notification.position, payload=notification.payload)
                hold.position = notification.position
                hold.has_last |= last_of(hold.topic) in records_of(notification.payload)
                self._world.got += 1
                number += 1
                if self._ack_every and number % self._ack_every == 0:
                    await notification.ack()
                if self._pause_s and not self._world.calm.is_set():
                    await asyncio.sleep(self._pause_s)  # The application at its work.
        except TocsinError as exc:
            self._note("failed", message=f"{hold.channel}({hold.topic}): {type(exc).__name__}: {exc}")
            self._failed.set()

    def _history_gone(self, subscription: Subscription, gone: HistoryGone) -> None:
        for hold in self._consumers:
            if hold.subscription is subscription:
                self._note("gone", hold, message=str(gone))
                hold.position = subscription.position

    # Parts

    def _note(self, event: str, hold: Hold | None = None, **more: Any) -> None:
        self._world.recorder.write(event, self.name, hold.number if hold is not None else 0, **more)

    async def _wait(self, pause_s: float) -> None:
        """For a while; shorter if all is to be calm, or this life has failed."""
        events = (self._world.calm, self._failed)
        waits = [asyncio.ensure_future(one.wait()) for one in events]
        await asyncio.wait(waits, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()


async def main(config: Config) -> None:
    wire.install()
    world = World(config, Recorder(Path(config.history)), later=list(config.later))
    for number in config.first:
        world.arrive(number)
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    telling = asyncio.create_task(_tell(world))
    asking = asyncio.create_task(_ask(world))
    while (command := (await commands.readline()).decode().strip()) not in ("finish", ""):
        if command == "calm":
            world.calm.set()
        elif command == "who":
            connected = {one.name: one.broker for one in world.devices if not one.is_stopped}
            print(json.dumps({"who": connected, "holds": sum(len(one.holds) for one in world.devices)}), flush=True)
    world.calm.set()
    world.finish.set()
    await asyncio.wait(world.tasks, timeout=30)
    telling.cancel()
    asking.cancel()
    world.recorder.close()


def _check(task: asyncio.Task[None]) -> None:
    """Whatever is no error of Tocsin's is a mistake in the run, which then proves nothing."""
    if not task.cancelled() and (exc := task.exception()) is not None:
        traceback.print_exception(exc)
        os._exit(1)


async def _ask(world: World) -> None:
    """Mark the subscriptions that the coordinator knows of, at the broker that their subscriber is at.

    Their number alone does not tell: a subscription that was given up while the coordinator was away may still count.
    """
    async with httpx.AsyncClient(base_url=world.config.coordinator, trust_env=False) as http:
        while True:
            await asyncio.sleep(_ASK_EVERY_S)
            with contextlib.suppress(httpx.HTTPError, KeyError, ValueError):
                answer = await http.get("/v1/subscribers", params={"limit": 10_000})
                brokers = {one["subscriber"]: one["broker"] for one in answer.json()["subscribers"]}
                for device in world.devices:
                    broker, holds = device.broker, [one for one in device.holds if not one.is_reported]
                    if holds and broker and brokers.get(device.name) == broker:
                        session = (await http.get(f"/v1/subscribers/{device.name}")).json()
                        if device.broker == broker:
                            _mark_reported(holds, session["subscriptions"])


def _mark_reported(holds: list[Hold], listed: list[dict[str, Any]]) -> None:
    known = {(one["channel"], one["parameters"]["topic"]): _sequence(one["position"]) for one in listed}
    for hold in holds:
        is_there = hold.first_position and (hold.channel, hold.topic) in known
        # An earlier position is that of an earlier subscription to the same.
        if is_there and known[hold.channel, hold.topic] >= _sequence(hold.first_position):
            hold.is_reported = True


def _sequence(position: str) -> int:
    return Position.parse(position).sequence


async def _tell(world: World) -> None:
    while True:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(world.status()), flush=True)
        await asyncio.sleep(_TELL_EVERY_S)


if __name__ == "__main__":
    asyncio.run(main(Config(**json.loads(Path(sys.argv[1]).read_text()))))
