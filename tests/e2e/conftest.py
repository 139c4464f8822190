"""One whole Tocsin for all tests here, begun as a reader of the tutorial begins it: `tocsin up`, on free ports."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.terminal import Terminal
from tocsin.client import CoordinatorClient, SyncSubscriber
from tocsin.runtime.ports import free_port

_BROKERS = 3
_READY_TIMEOUT_S = 180.0
_STOPPING_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class System:
    folder: Path
    cluster_port: int
    coordinator_port: int
    broker_port: int
    up: Terminal

    @property
    def cluster_url(self) -> str:
        return f"http://127.0.0.1:{self.cluster_port}"

    @property
    def coordinator_url(self) -> str:
        return f"http://127.0.0.1:{self.coordinator_port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **shell_environment(self.folder),
            "TOCSIN_CLUSTER_URL": self.cluster_url,
            "TOCSIN_COORDINATOR_URL": self.coordinator_url,
        }

    def adapt(self, text: str) -> str:
        """With the ports of this system instead of the usual ones."""
        ports = (self.cluster_port, self.coordinator_port, self.broker_port)
        return with_ports(text, *ports)


def with_ports(text: str, cluster: int, coordinator: int, broker: int) -> str:
    given = f"tocsin up --cluster-port {cluster} --coordinator-port {coordinator} --broker-port {broker}\n"
    text = text.replace("tocsin up\n", given)
    usual = {8600: cluster, 8500: coordinator, **{8701 + one: broker + one for one in range(_BROKERS)}}
    for before, after in usual.items():
        text = text.replace(f":{before}", f":{after}")
    return text


def shell_environment(folder: Path) -> dict[str, str]:
    """`tocsin` and `python` are those that the tests run with; what they print is seen at once, and not cut short."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, arguments in (("tocsin", "-m tocsin"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1", "COLUMNS": "160"}


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("parcels")
    ports = (free_port(), free_port(), _free_ports(_BROKERS))
    up = Terminal("up", with_ports("tocsin up\n", *ports), folder, shell_environment(folder))
    try:
        up.expect("logs … data/logs", _READY_TIMEOUT_S)
        up.look_again()
        system = System(folder, *ports, up)
        yield system
        _stop_with_somebody_connected(system)
    finally:
        up.kill()


def _stop_with_somebody_connected(system: System) -> None:
    """Ctrl-C ends everything at once: brokers that end together have nobody to hand over to."""
    with CoordinatorClient(system.coordinator_url) as client:
        client.register("last", "is still here")
    with SyncSubscriber(coordinator=system.coordinator_url, user="last", password="is still here"):
        began_s = time.monotonic()
        assert system.up.interrupt() == 0, "\n".join(system.up.lines())
        assert time.monotonic() - began_s < _STOPPING_TIMEOUT_S


def _free_ports(count: int) -> int:
    """The first of so many in a row."""
    for _ in range(100):
        first = free_port()
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return first
    raise RuntimeError(f"no {count} free ports in a row")
