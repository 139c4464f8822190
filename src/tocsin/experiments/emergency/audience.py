"""The people of the demonstration: each connects with a device of their own, subscribes and listens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Self

from rich.markup import escape

from tocsin.client import Notification, Subscriber
from tocsin.experiments.emergency.tally import Tally
from tocsin.experiments.emergency.workload import Interest, Record
from tocsin.protocol.calls import write_call

#: More lines than this a second scroll by unread.
_LINES_PER_S = 6
#: People come a few at a time: registering takes the coordinator a tenth of a second of work on purpose.
_AT_ONCE = 8


class Audience:
    def __init__(self, coordinator_url: str, tally: Tally, say: Callable[[str], None]) -> None:
        self._coordinator_url = coordinator_url
        self._tally = tally
        self._say = say
        self._stack = contextlib.AsyncExitStack()
        self._people: dict[str, Subscriber] = {}
        self._listening: list[asyncio.Task[None]] = []
        self._unsaid: dict[str, list[Record]] = defaultdict(list)
        self._heard = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        await self._stack.aclose()

    async def gather(self, interests: dict[str, list[Interest]], places: dict[str, tuple[float, float]]) -> None:
        """Let everybody register, connect and subscribe."""
        door = asyncio.Semaphore(_AT_ONCE)

        async def come(user: str, wanted: Sequence[Interest]) -> None:
            async with door:
                person = Subscriber(
                    coordinator=self._coordinator_url,
                    user=user,
                    password=f"the secret of {user}",
                    register=True,
                    device="phone",
                    place=places[user],
                )
                await self._stack.enter_async_context(person)
                self._people[user] = person
                for interest in wanted:
                    subscription = await person.subscribe(interest.channel, interest.parameters)
                    self._tally.received.setdefault((user, str(subscription)), [])
                    self._tally.channels[interest.channel].subscriptions += 1

        async with asyncio.TaskGroup() as arrivals:
            for user, wanted in interests.items():
                arrivals.create_task(come(user, wanted))
        for user, person in self._people.items():
            self._listening.append(asyncio.create_task(self._listen(user, person)))
        self._listening.append(asyncio.create_task(self._talk()))

    def at_brokers(self) -> Counter[str]:
        """How many people are at each broker."""
        return Counter(person.broker for person in self._people.values())

    async def quiet(self, seconds: float) -> None:
        """Returns when nobody has heard anything for so long."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._heard.clear()
                await asyncio.wait_for(self._heard.wait(), seconds)

    async def _listen(self, user: str, person: Subscriber) -> None:
        async for notification in person.notifications():
            self._take(user, notification)

    def _take(self, user: str, notification: Notification) -> None:
        self._heard.set()
        now = time.monotonic()
        call = str(notification.subscription)
        self._tally.received[user, call].append(notification.parsed_position.sequence)
        channel = self._tally.channels[notification.channel]
        channel.notifications += 1
        if (sent_at := self._tally.sent_at.get(notification.payload.get("id", ""))) is not None:
            channel.delays_s.append(now - sent_at)
        if len(channel.examples) < 2:
            channel.examples.append(notification.payload)
        self._unsaid[f"{user} [bold cyan]{escape(call)}[/]"].append(notification.payload)

    async def _talk(self) -> None:
        """Show what people are told, as much as can be read."""
        while True:
            await asyncio.sleep(1)
            unsaid, self._unsaid = self._unsaid, defaultdict(list)
            for whom, payloads in islice(unsaid.items(), _LINES_PER_S):
                more = f" [dim]and {len(payloads) - 1} more[/]" if len(payloads) > 1 else ""
                self._say(f"{whom} {escape(in_words(payloads[0]))}{more}")
            if (others := len(unsaid) - _LINES_PER_S) > 0:
                self._say(f"[dim]… and notifications for {others} more subscriptions[/]")


def call_of(interest: Interest) -> str:
    """The subscription as people write it."""
    return write_call(interest.channel, interest.parameters)


def in_words(payload: Record) -> str:
    """One result as a notification might put it."""
    message = str(payload.get("message", "")).partition(". ")[0]
    metres = f", {payload['metres']:.0f} m away" if "metres" in payload else ""
    shelter = (
        f"; shelter: {payload['shelter']}, {payload['shelter_metres']:.0f} m from you" if "shelter" in payload else ""
    )
    return f"{message}{metres}{shelter}"
