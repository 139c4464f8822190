"""A coordinator and brokers beside the shared cluster, and a stock WebSocket client to talk to them with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from integration.live import PATIENCE_S, Live
from tocsin.runtime.processes import ServerProcess
from tocsin.testing import network


@dataclass
class Socket:
    """A plain WebSocket: sends and receives messages as they are."""

    raw: ClientConnection
    welcome: dict[str, Any] = field(default_factory=dict)

    def send(self, **message: Any) -> None:
        self.raw.send(json.dumps(message))

    def next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.raw.recv(PATIENCE_S))
        return message

    def next_of(self, kind: str) -> dict[str, Any]:
        """The next message, which must be of this type."""
        message = self.next()
        assert message["type"] == kind, message
        return message

    def subscribe(self, channel: str, position: str = "", **parameters: Any) -> dict[str, Any]:
        self.send(type="subscribe", channel=channel, parameters=parameters, request=7, position=position)
        answer = self.next_of("subscribed")
        assert answer["request"] == 7
        return answer

    def payloads(self, count: int) -> list[dict[str, Any]]:
        return [self.next_of("notification")["payload"] for _ in range(count)]


class Network:
    def __init__(self, live: Live, processes: network.RunningNetwork) -> None:
        self.live = live
        self.coordinator = processes.coordinator
        self.folder = processes.folder
        self._processes = processes

    def token(self, user: str, permission: str | None = None) -> str:
        body = {"name": user, "password": "correct horse"} | ({"permission": permission} if permission else {})
        answer = httpx.post(f"{self.coordinator.url}/v1/users", json=body)
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    def broker(self, name: str, **settings: Any) -> AbstractContextManager[ServerProcess]:
        """One more broker. When it is stopped, it does not wait long for somebody to hand its subscribers over to."""
        return self._processes.running_broker(name, {"drain_timeout_s": 2, **settings})

    @contextmanager
    def hello(self, broker: ServerProcess, token: str, device: str = "phone", **more: Any) -> Iterator[Socket]:
        with socket_to(broker) as socket:
            socket.send(type="hello", token=token, device=device, **more)
            socket.welcome = socket.next_of("welcome")
            yield socket


@contextmanager
def socket_to(broker: ServerProcess, **options: Any) -> Iterator[Socket]:
    with connect(f"{broker.url.replace('http', 'ws')}/v1/connect", compression=None, **options) as raw:
        yield Socket(raw)


@contextmanager
def running_network(live: Live, folder: Path, **settings: Any) -> Iterator[Network]:
    settings = {"dead_after_s": 2, **settings}
    with network.running_network(folder, cluster_url=live.url, coordinator=settings) as processes:
        yield Network(live, processes)
