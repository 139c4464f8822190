"""The fan-out benchmark's peers: nats-server and Mosquitto, each a process of its own on loopback.

Their settings are their defaults, but for what would drop or keep messages.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tocsin.lab.benchmarks.load_clients import MQTT, NATS
from tocsin.lab.benchmarks.load_wire import mqtt_connect, mqtt_publish
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import ServerProcess, stop

#: Where Debian puts servers; not on everyone's PATH.
_ALSO_LOOK_IN = ("/usr/sbin", "/usr/local/sbin")
_START_TIMEOUT_S = 10.0


class Peer(ABC):
    """A server that delivers what is published to a topic to everyone who is subscribed to it."""

    kind: ClassVar[str]
    #: Both the program and the Debian package.
    program: ClassVar[str]

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self._publisher = socket.create_connection((server.host, server.port))
        self._publisher.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._greet(self._publisher)

    @classmethod
    def path(cls) -> str | None:
        """Where the program is, or None."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ALSO_LOOK_IN])
        return shutil.which(cls.program, path=path)

    @staticmethod
    @abstractmethod
    def settings(port: int) -> str:
        """Its settings file, for a server on `port` of loopback."""

    def publish(self, topics: Sequence[str], payloads: Sequence[bytes]) -> None:
        """Publish a payload to each topic, all together."""
        self._publisher.sendall(b"".join(map(self._publication, topics, payloads)))
        self._look_after(self._publisher)

    def close(self) -> None:
        self._publisher.close()

    @abstractmethod
    def _greet(self, publisher: socket.socket) -> None:
        """Make the publisher's connection known."""

    @abstractmethod
    def _publication(self, topic: str, payload: bytes) -> bytes: ...

    @abstractmethod
    def _look_after(self, publisher: socket.socket) -> None:
        """Answer what the server asks of a publisher."""


class Nats(Peer):
    kind = NATS
    program = "nats-server"

    @staticmethod
    def settings(port: int) -> str:
        return f"listen: 127.0.0.1:{port}\n"

    def _greet(self, publisher: socket.socket) -> None:
        publisher.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        received = b""
        while b"PONG\r\n" not in received:
            received += _receive(publisher)

    def _publication(self, topic: str, payload: bytes) -> bytes:
        return b"PUB %s %d\r\n%s\r\n" % (topic.encode(), len(payload), payload)

    def _look_after(self, publisher: socket.socket) -> None:
        try:
            if b"PING" in publisher.recv(4096, socket.MSG_DONTWAIT):
                publisher.sendall(b"PONG\r\n")
        except BlockingIOError:
            pass


class Mosquitto(Peer):
    kind = MQTT
    program = "mosquitto"

    @staticmethod
    def settings(port: int) -> str:
        # 0 is no limit: with the default, what does not fit into a subscriber's socket at once could be dropped.
        return f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n"

    def _greet(self, publisher: socket.socket) -> None:
        publisher.sendall(mqtt_connect("publisher"))
        answer = _receive(publisher)
        if answer != b"\x20\x02\x00\x00":
            raise RuntimeError(f"mosquitto refused the publisher: {answer!r}")

    def _publication(self, topic: str, payload: bytes) -> bytes:
        return mqtt_publish(topic, payload)

    def _look_after(self, publisher: socket.socket) -> None:
        """It connected without a keep-alive, so it is asked nothing."""


PEERS: tuple[type[Peer], ...] = (Nats, Mosquitto)


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise RuntimeError("the peer closed the publisher's connection")
    return data


@contextmanager
def running_peer(kind: type[Peer], folder: Path) -> Iterator[Peer]:
    """A peer's server, ready; stopped when the block ends. Its program must be there."""
    path = kind.path()
    if path is None:
        raise FileNotFoundError(f"{kind.program} is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    log = folder / f"{kind.program}.log"
    file = folder / f"{kind.program}.conf"
    file.write_text(kind.settings(port))
    with log.open("ab") as output:
        process = subprocess.Popen([path, "-c", str(file)], stdout=output, stderr=output)
    try:
        _wait_listening(process, port, log)
        peer = kind(ServerProcess(f"tcp://127.0.0.1:{port}", process, log))
        try:
            yield peer
        finally:
            peer.close()
    finally:
        stop(process)


def _wait_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start: {log.read_text()[-1000:]}")
