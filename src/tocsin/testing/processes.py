"""A real cluster in a process of its own, on loopback, for tests, benchmarks and demonstrations."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tocsin.client import ClusterClient

_STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class ClusterProcess:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def client(self) -> ClusterClient:
        return ClusterClient(self.url)

    def cpu_s(self) -> float:
        """CPU seconds that the cluster and its Java and Python children have used so far."""
        return sum(_cpu_s(one) for one in self._processes())

    def memory_mb(self) -> int:
        return int(sum(one.memory_info().rss for one in self._processes())) >> 20

    def _processes(self) -> list[psutil.Process]:
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[ClusterProcess]:
    """`tocsin cluster` on `folder`, not waiting until it is ready. When the block ends it is stopped; its log stays."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "cluster.log"
    environment = {**os.environ, **{f"TOCSIN_{name.upper()}": str(value) for name, value in (settings or {}).items()}}
    command = [sys.executable, "-m", "tocsin", "cluster", "--data-dir", str(folder / "data"), "--port", str(port)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        yield ClusterProcess(f"http://127.0.0.1:{port}", process, log)
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


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
