"""A coordinator and brokers beside the shared cluster, and a stock WebSocket client to talk to them with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from integration.live import PATIENCE_S, Live
from tocsin.testing.processes import ServerProcess, running_broker, running_coordinator


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


@dataclass
class Network:
    live: Live
    coordinator: ServerProcess
    folder: Path

    def token(self, user: str, permission: str | None = None) -> str:
        body = {"name": user, "password": "correct horse"} | ({"permission": permission} if permission else {})
        answer = httpx.post(f"{self.coordinator.url}/v1/users", json=body)
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    @contextmanager
    def broker(self, name: str, **settings: Any) -> Iterator[ServerProcess]:
        with running_broker(name, self.folder / name, self.live.url, self.coordinator.url, settings) as process:
            yield process

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
    with running_coordinator(folder / "coordinator", {"dead_after_s": 2, **settings}) as coordinator:
        yield Network(live, coordinator, folder)
