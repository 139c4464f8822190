"""Real servers in processes of their own, on loopback."""

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

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Returns once /healthz answers; raises TimeoutError with the end of the log."""
        deadline = time.monotonic() + timeout_s
        with httpx.Client(base_url=self.url, trust_env=False) as http:
            while time.monotonic() < deadline and self.process.poll() is None:
                try:
                    if http.get("/healthz").json()["state"] == "ready":
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
        log = self.log.read_text(errors="replace")
        raise TimeoutError(f"{self.url} was not ready within {timeout_s:g} s: {log[-2000:]}")


def start_server(
    role: str,
    data_dir: Path,
    port: int,
    log: Path,
    settings: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    *,
    module: Sequence[str] = ("tocsin",),
    environment: Mapping[str, str] = os.environ,
) -> subprocess.Popen[bytes]:
    """`tocsin cluster`, `coordinator` or `broker`; its output is appended to `log`."""
    variables = {variable_of(role, name): str(value) for name, value in (settings or {}).items()}
    command = [sys.executable, "-m", *module, role, *options, "--data-dir", str(data_dir), "--port", str(port)]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environment, **variables},
            start_new_session=True,
        )


@contextmanager
def running_server(
    role: str, folder: Path, settings: Mapping[str, Any] | None = None, options: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """A server that is starting. When the block ends it is stopped; its log stays."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{role}.log"
    process = start_server(role, folder / "data", port, log, settings, options)
    try:
        yield ServerProcess(f"http://127.0.0.1:{port}", process, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and kill it if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
