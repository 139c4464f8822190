"""A whole system in which every API asks for a token: what attackers are let loose on."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tocsin.client import ClusterClient
from tocsin.runtime.processes import ServerProcess
from tocsin.runtime.usage import usage
from tocsin.testing.network import ClusterProcess, running_network

SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, topic STRING, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL OnTopic (topic STRING) AS
  SELECT r.id, r.topic, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
CREATE FEED others INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL Own (owner STRING IS USER, class STRING IS CLASS) AS
  SELECT r.id, r.message FROM Reports r WHERE is_new(r) AND r.topic = concat(:owner, :class);
CREATE CONTINUOUS CHANNEL Staff (topic STRING) AS
  SELECT r.id, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
REVOKE SUBSCRIBE ON CHANNEL Staff FROM ALL;
GRANT SUBSCRIBE ON CHANNEL Staff TO CLASS staff;
CREATE PUBLISHER station;
GRANT PUBLISH ON FEED others TO PUBLISHER station;
CREATE PUBLISHER former;
GRANT PUBLISH ON FEED others TO PUBLISHER former;
DROP PUBLISHER former;
"""
PASSWORD = "correct horse battery"
CHANNEL = "OnTopic"
#: Its parameters are filled in with who has connected.
OWN_CHANNEL = "Own"
#: Granted to the class staff.
STAFF_CHANNEL = "Staff"


@dataclass(frozen=True, slots=True)
class Secured:
    """`cluster_token` and `operator_token` open the cluster and the coordinator, `broker_token` a part of both."""

    folder: Path
    cluster: ClusterProcess
    coordinator: ServerProcess
    broker: ServerProcess
    cluster_token: str
    operator_token: str
    broker_token: str
    #: May publish to the feed `others`.
    publisher_token: str
    #: Might.
    dropped_publisher_token: str

    def servers(self) -> tuple[ServerProcess, ...]:
        return (self.cluster, self.coordinator, self.broker)

    def check_alive(self) -> list[str]:
        """Those that have ended, which none should."""
        return [
            f"{server.url} ended with {server.process.poll()}: {server.log.read_text()[-300:]}"
            for server in self.servers()
            if server.process.poll() is not None
        ]

    def memory_bytes(self) -> dict[str, int]:
        """Of each process. Java's grows up to the size that it was given, whatever it is asked for."""
        named = {"cluster": self.cluster, "coordinator": self.coordinator, "broker": self.broker}
        used = {name: usage(server.process.pid) for name, server in named.items()}
        return {name: one.own_bytes for name, one in used.items()} | {
            "java": sum(one.children_bytes for one in used.values())
        }

    def register(self, user: str, password: str = PASSWORD) -> str:
        """Make a user; returns a token."""
        answer = httpx.post(f"{self.coordinator.url}/v1/users", json={"name": user, "password": password})
        answer.raise_for_status()
        return str(answer.json()["token"])

    def as_operator(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.operator_token}"}
        return httpx.request(method, f"{self.coordinator.url}{path}", headers=headers, timeout=30, **request)

    def publish(self, *records: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.cluster_token}", "Content-Type": "application/x-ndjson"}
        lines = "\n".join(map(json.dumps, records))
        answer = httpx.post(f"{self.cluster.url}/v1/feeds/reports/records", content=lines, headers=headers)
        answer.raise_for_status()

    @contextmanager
    def subscribed(self, token: str, topic: str) -> Iterator[ClientConnection]:
        """A proper subscriber, who follows a topic."""
        with self.socket() as socket:
            socket.send(json.dumps({"type": "hello", "token": token, "device": "phone"}))
            await_message(socket, "welcome")
            wanted = {"type": "subscribe", "channel": CHANNEL, "parameters": {"topic": topic}, "request": 1}
            socket.send(json.dumps(wanted))
            await_message(socket, "subscribed")
            yield socket

    @contextmanager
    def socket(self, **options: Any) -> Iterator[ClientConnection]:
        address = self.broker.url.replace("http", "ws", 1) + "/v1/connect"
        with connect(address, compression=None, open_timeout=30, **options) as socket:
            yield socket


def await_message(socket: ClientConnection, kind: str, within_s: float = 60.0) -> dict[str, Any]:
    """The next message of this type. Raises TimeoutError, or RuntimeError for an error that comes instead."""
    while (message := json.loads(socket.recv(within_s)))["type"] != kind:
        if message["type"] == "error":
            raise RuntimeError(f"{message} instead of {kind}")
    return dict(message)


@contextmanager
def secured(broker_settings: dict[str, Any] | None = None) -> Iterator[Secured]:
    """Ready, and with its channel."""
    cluster_token, operator_token, broker_token = (secrets.token_urlsafe() for _ in range(3))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-scorecard-")))
        network = stack.enter_context(
            running_network(
                folder,
                cluster={"api_token": cluster_token, "broker_token": broker_token},
                coordinator={"api_token": operator_token, "broker_token": broker_token},
                brokers={"broker-1": {"broker_token": broker_token, **(broker_settings or {})}},
            )
        )
        with ClusterClient(network.cluster.url, token=cluster_token) as client:
            created = [answer for answer in client.sql(SCHEMA) if "token" in answer["columns"]]
            publisher_tokens = [str(answer["rows"][0][1]) for answer in created]
        opening = (cluster_token, operator_token, broker_token, *publisher_tokens)
        yield Secured(folder, network.cluster, network.coordinator, network.brokers["broker-1"], *opening)
