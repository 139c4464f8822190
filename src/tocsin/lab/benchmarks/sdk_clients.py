"""Programs by the thousand that use the SDK, in a process of their own: they follow moves as any application would.

`SdkClients` is the handle on such a process; `python -m` this module is the process itself.
"""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass

import msgspec

from tocsin.client import Subscriber
from tocsin.lab.benchmarks.json_process import JsonProcess, serve
from tocsin.lab.benchmarks.load_wire import Seat

#: Connections that are being opened at a time.
_OPENING = 50
_CONNECT_TIMEOUT_S = 120.0


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Connect these to a broker, and answer when all are subscribed."""

    url: str
    token: str
    channel: str
    seats: list[Seat]


class Kick(msgspec.Struct, frozen=True, tag="kick"):
    """Cut these off, so many each second, and have each come back at another broker, from where it was."""

    url: str
    devices: list[str]
    per_s: float


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Answer with what has arrived since the beginning."""


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """What an application was handed, and when."""

    device: str
    number: int
    #: Where it stands in its subscription's history.
    sequence: int
    received_us: int
    broker: str = ""


class Answer(msgspec.Struct, frozen=True):
    failures: list[str] = []
    arrivals: list[Arrival] = []
    #: Where each is, or was last.
    brokers: dict[str, str] = {}


_Command = Join | Kick | Report


class SdkClients(JsonProcess):
    """The handle. When the block ends, so does the process."""

    def __init__(self) -> None:
        super().__init__(__name__)

    def do(self, command: _Command) -> Answer:
        """Returns when it is done. Raises RuntimeError if a program failed."""
        answer = self.ask(command, Answer)
        if answer.failures:
            raise RuntimeError(f"subscribers failed: {'; '.join(answer.failures[:5])}")
        return answer


@dataclass(eq=False)
class _Program:
    """One application: subscribed, and noting what it is handed."""

    seat: Seat
    token: str
    channel: str
    arrivals: list[Arrival]

    def __post_init__(self) -> None:
        self._positions: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self.broker = ""
        self.failure = ""

    async def join(self, url: str) -> None:
        """Returns when it is subscribed to everything, or has failed."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(url, ready))
        self._task.add_done_callback(lambda _: ready.set())
        await ready.wait()

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, url: str, ready: asyncio.Event) -> None:
        device, arrivals = self.seat.device, self.arrivals
        try:
            subscriber = Subscriber(broker=url, token=self.token, device=device, connect_timeout_s=_CONNECT_TIMEOUT_S)
            async with subscriber as me:
                for topic in self.seat.topics:
                    await me.subscribe(self.channel, topic=topic, position=self._positions.get(topic, ""))
                self.broker = me.broker
                ready.set()
                async for notification in me.notifications():
                    payload = notification.payload
                    at = notification.parsed_position
                    self.broker = me.broker
                    received_us = time.time_ns() // 1000
                    arrivals.append(Arrival(device, payload["number"], at.sequence, received_us, me.broker))
                    self._positions[payload["topic"]] = notification.position
        except Exception as exc:  # noqa: BLE001 - whatever it was, it is told with the next answer
            self.failure = f"{device}: {exc!r}"


class _Programs:
    def __init__(self) -> None:
        self._programs: dict[str, _Program] = {}
        self._arrivals: list[Arrival] = []

    async def do(self, command: _Command) -> Answer:
        match command:
            case Join():
                turn = asyncio.Semaphore(_OPENING)

                async def join(seat: Seat) -> None:
                    program = _Program(seat, command.token, command.channel, self._arrivals)
                    self._programs[seat.device] = program
                    async with turn:
                        await program.join(command.url)

                await asyncio.gather(*map(join, command.seats))
                # Thousands of programs in one process: to look through all they hold would stop them for tenths of a
                # second, which are not the network's.
                gc.freeze()
                gc.disable()
            case Kick():
                await self._kick(command)
            case Report():
                brokers = {device: one.broker for device, one in self._programs.items()}
                return Answer(self._failures(), self._arrivals, brokers)
        return Answer(self._failures())

    async def _kick(self, order: Kick) -> None:
        async def kick(number: int, program: _Program) -> None:
            await asyncio.sleep(number / order.per_s)
            await program.leave()
            await program.join(order.url)

        programs = [self._programs[device] for device in order.devices]
        await asyncio.gather(*(kick(number, one) for number, one in enumerate(programs)))

    def _failures(self) -> list[str]:
        return [one.failure for one in self._programs.values() if one.failure]


if __name__ == "__main__":
    serve(_Command, lambda: _Programs().do)
