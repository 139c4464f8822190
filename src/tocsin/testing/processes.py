"""Real servers in processes of their own, on loopback, for tests, benchmarks and demonstrations."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tocsin.client import ClusterClient
from tocsin.client.shell.trust import usual_trust
from tocsin.runtime.ports import free_port
from tocsin.runtime.usage import usage
from tocsin.variables import variable_of

_STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class ServerProcess:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def cpu_s(self) -> float:
        """CPU seconds that the process and its children have used so far."""
        return usage(self.process.pid).cpu_s

    def memory_bytes(self) -> int:
        """Resident memory of the process and its children."""
        used = usage(self.process.pid)
        return used.own_bytes + used.children_bytes

    def memory_mb(self) -> int:
        return self.memory_bytes() >> 20

    def wait_healthy(self, timeout_s: float = 60.0) -> None:
        """Returns once /healthz says so; raises TimeoutError with the end of the log."""
        deadline = time.monotonic() + timeout_s
        with httpx.Client(base_url=self.url, verify=usual_trust()) as http:
            while time.monotonic() < deadline and self.process.poll() is None:
                try:
                    if http.get("/healthz").is_success:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
        raise TimeoutError(f"{self.url} was not healthy within {timeout_s:g} s: {self.log.read_text()[-2000:]}")


@dataclass(frozen=True, slots=True)
class ClusterProcess(ServerProcess):
    """The Spark driver, with its Java and Python children."""

    def client(self) -> ClusterClient:
        return ClusterClient(self.url)


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[ClusterProcess]:
    """`tocsin cluster` on `folder`, not waiting until it is ready. When the block ends it is stopped; its log stays."""
    with _running("cluster", folder, settings) as (url, process, log):
        yield ClusterProcess(url, process, log)


@contextmanager
def running_coordinator(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[ServerProcess]:
    """`tocsin coordinator` on `folder`, healthy. When the block ends it is stopped; its log stays."""
    with _running("coordinator", folder, settings) as (url, process, log):
        server = ServerProcess(url, process, log)
        server.wait_healthy()
        yield server


@contextmanager
def running_broker(
    name: str, folder: Path, cluster_url: str, coordinator_url: str, settings: Mapping[str, Any] | None = None
) -> Iterator[ServerProcess]:
    """`tocsin broker` on `folder`, healthy. When the block ends it is stopped; its log stays."""
    options = ["--name", name, "--cluster-url", cluster_url, "--coordinator-url", coordinator_url]
    with _running("broker", folder, settings, options) as (url, process, log):
        server = ServerProcess(url, process, log)
        server.wait_healthy()
        yield server


@contextmanager
def _running(
    command: str, folder: Path, settings: Mapping[str, Any] | None, options: Sequence[str] = ()
) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{command}.log"
    environment = {**os.environ, **{variable_of(command, key): str(value) for key, value in (settings or {}).items()}}
    arguments = [sys.executable, "-m", "tocsin", command, "--data-dir", str(folder / "data"), "--port", str(port)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*arguments, *options], stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield f"http://127.0.0.1:{port}", process, log
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and end it if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
