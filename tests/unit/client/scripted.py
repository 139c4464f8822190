"""A broker in memory, reached over real WebSockets, that can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tocsin.protocol import messages


@dataclass
class Results:
    """What the cluster has: shared by all brokers. A backend subscription's id is also its epoch."""

    ids: dict[str, int] = field(default_factory=dict)
    #: By id: sequence and payload.
    rows: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)
    sequence: int = 100
    followers: list[Callable[[int], None]] = field(default_factory=list)

    def id_of(self, channel: str, parameters: dict[str, Any]) -> int:
        key = json.dumps([channel, sorted(parameters.items())])
        if key not in self.ids:
            self.ids[key] = len(self.rows) + 1
            self.rows[self.ids[key]] = []
        return self.ids[key]

    def publish(self, subscription: int, *payloads: Any) -> None:
        for payload in payloads:
            self.sequence += 1
            self.rows[subscription].append((self.sequence, payload))
        for follow in list(self.followers):
            follow(subscription)

    def begin_anew(self, subscription: int) -> None:
        """Its history is over; whoever asks next gets another id."""
        self.ids = {key: one for key, one in self.ids.items() if one != subscription}


#: The only filter that a scripted broker refuses.
WRONG_FILTER = "wrong"


class ScriptedBroker:
    """Serves `results` faithfully. Tests close connections, send what they like, and read what was said."""

    def __init__(self, results: Results, name: str = "b1") -> None:
        self.results = results
        self.name = name
        self.hellos: list[messages.Hello] = []
        self.said: list[messages.FromSubscriber] = []
        self.connections: list[ServerConnection] = []
        self.refuse_tokens: set[str] = set()
        self.kept: dict[int, tuple[str, dict[str, Any], int]] = {}
        #: Given a `subscribe`, an error instead of serving it, or None.
        self.objection: Callable[[messages.Subscribe], messages.Error | None] = lambda _ask: None
        #: Of kept subscriptions, by number. This broker lets everything through.
        self.filters: dict[int, str] = {}
        self._sent: dict[ServerConnection, dict[int, int]] = {}
        self._server: Server | None = None
        self.changed = asyncio.Condition()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    @property
    def live(self) -> ServerConnection:
        return self.connections[-1]

    @property
    def acks(self) -> list[str]:
        return [position for one in self.said if isinstance(one, messages.Ack) for position in one.positions]

    async def start(self) -> None:
        self._server = await serve(self._serve, "127.0.0.1", 0, compression=None, ping_interval=None)
        self.results.followers.append(self._follow)

    async def stop(self) -> None:
        assert self._server is not None
        self.results.followers.remove(self._follow)
        self._server.close()
        await self._server.wait_closed()

    async def send(self, message: messages.FromBroker) -> None:
        await self.live.send(messages.encode(message), text=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when something said here makes it true."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(holds)

    async def _serve(self, socket: ServerConnection) -> None:
        self._sent[socket] = {}
        try:
            async for text in socket:
                message = messages.decode_from_subscriber(text)
                self.said.append(message)
                await self._answer(socket, message)
                async with self.changed:
                    self.changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            del self._sent[socket]

    async def _answer(self, socket: ServerConnection, message: messages.FromSubscriber) -> None:
        match message:
            case messages.Hello():
                self.hellos.append(message)
                self.connections.append(socket)
                if message.token in self.refuse_tokens:
                    error = messages.Error("unauthorised", "the token has expired")
                    await socket.send(messages.encode(error), text=True)
                    await socket.close(messages.CLOSE_REFUSED, "the token has expired")
                    return
                device = message.device or "~made-up"
                kept = [
                    messages.Subscribed(
                        number, channel, parameters, f"{number}-{sequence}", where=self.filters.get(number, "")
                    )
                    for number, (channel, parameters, sequence) in self.kept.items()
                ]
                welcome = messages.Welcome(f"ann/{device}", device, self.name, kept)
                await socket.send(messages.encode(welcome), text=True)
                for number, (_, _, sequence) in self.kept.items():
                    self._sent[socket][number] = sequence
                    self._follow(number)
                for subscribe in message.subscriptions:
                    await self._subscribe(socket, subscribe)
            case messages.Subscribe():
                await self._subscribe(socket, message)
            case messages.Unsubscribe(number, request):
                self._sent[socket].pop(number, None)
                self.kept.pop(number, None)
                await socket.send(messages.encode(messages.Unsubscribed(number, request)), text=True)
            case messages.Ping(request):
                await socket.send(messages.encode(messages.Pong(request)), text=True)
            case messages.Ack():
                pass

    async def _subscribe(self, socket: ServerConnection, subscribe: messages.Subscribe) -> None:
        if (error := self.objection(subscribe)) is not None:
            await socket.send(messages.encode(error), text=True)
            return
        if subscribe.where == WRONG_FILTER:
            refusal = messages.Error("statement", "line 1, column 1: no column wrong", request=subscribe.request)
            await socket.send(messages.encode(refusal), text=True)
            return
        number = self.results.id_of(subscribe.channel, subscribe.parameters)
        after, recovered = self.results.sequence, True
        if subscribe.position:
            position = messages.parse_position(subscribe.position)
            recovered = position.epoch == number
            after = position.sequence if recovered else after
        answer = messages.Subscribed(
            number,
            subscribe.channel,
            subscribe.parameters,
            f"{number}-{after}",
            recovered,
            subscribe.request,
            subscribe.where,
        )
        await socket.send(messages.encode(answer), text=True)
        self._sent[socket][number] = after
        self._follow(number)

    def _follow(self, subscription: int) -> None:
        for socket, sent in self._sent.items():
            if subscription in sent:
                new = [row for row in self.results.rows[subscription] if row[0] > sent[subscription]]
                for sequence, payload in new:
                    sent[subscription] = sequence
                    line = {
                        "type": "notification",
                        "subscription": subscription,
                        "channel": "C",
                        "position": f"{subscription}-{sequence}",
                        "committed_at_us": 1_750_000_000_000_000,
                        "payload": payload,
                    }
                    # `send` would have to be awaited; the order of these is the order of tasks.
                    _keep(asyncio.ensure_future(_quietly(socket, json.dumps(line))))


_tasks: set[asyncio.Future[None]] = set()


def _keep(task: asyncio.Future[None]) -> None:
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _quietly(socket: ServerConnection, text: str) -> None:
    with suppress(ConnectionClosed):
        await socket.send(text)


@asynccontextmanager
async def scripted(results: Results, name: str = "b1") -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker(results, name)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
