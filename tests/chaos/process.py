"""The cluster as a child process: started, watched, killed in several ways, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from enum import StrEnum
from pathlib import Path

import httpx
import psutil

from own_modules import knowing_tests
from tocsin.client import ClusterClient, ServerError
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server

#: What `tocsin cluster` exits with when it can't go on; whoever runs it starts it again.
EXIT_FAILED = 70
READY_WITHIN_S = 120.0
#: The watch looks once a second; a machine with other work may be slow to give it its turn.
EXIT_WITHIN_S = 45.0
_STOP_WITHIN_S = 60.0

#: Small, so that in minutes the log rolls segments, tables are compacted and windows are read from files.
_SETTINGS = {
    "spark_driver_memory": "1g",
    "landing_segment_bytes": 128 << 10,
    "batch_max_bytes": 256 << 10,
    "compact_every_commits": 20,
    "recent_rows_max_bytes": 64 << 10,
    "recent_results_max_bytes": 256 << 10,
    "log_level": "warning",
}


class Target(StrEnum):
    """What a kill hits."""

    #: The Python process; its Java process is left behind and must end by itself.
    DRIVER = "driver"
    #: The Java process; the Python process must notice and exit.
    JAVA = "java"
    #: Every process of the cluster at once.
    ALL = "all"


class Misbehaved(Exception):
    """The process did not do what it promises to, apart from records and results."""


def environment() -> dict[str, str]:
    """Of a child: nothing of whoever runs this, and where the tests are."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return knowing_tests(inherited) | {"PYTHONWARNINGS": "ignore"}


class ClusterProcess:
    """One data directory, and one process after the other that serves it. `up` is set while one accepts records."""

    def __init__(self, folder: Path, bug: str = "", clock: Path | None = None) -> None:
        """With `clock`, its wall clock is off by what that file says."""
        self.data_dir = folder / "data"
        self.log_file = folder / "cluster.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.up = threading.Event()
        self.recovery_s: list[float] = []
        self._module = ["chaos.planted", bug] if bug else ["chaos.shifted", str(clock)] if clock else ["tocsin"]
        self._process: subprocess.Popen[bytes] | None = None
        self._killing = threading.Lock()
        self._started_s = 0.0
        self._left_behind: list[psutil.Process] = []

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def start(self) -> None:
        self._started_s = time.monotonic()
        self._process = start_server(
            "cluster",
            self.data_dir,
            self.port,
            self.log_file,
            _SETTINGS,
            module=self._module,
            environment=environment(),
        )

    def wait_ready(self, within_s: float = READY_WITHIN_S) -> bool:
        """Whether it was ready within that time. Raises Misbehaved if it ended instead."""
        deadline_s = time.monotonic() + within_s
        with ClusterClient(self.url, timeout_s=5.0) as client:
            while time.monotonic() < deadline_s:
                if (code := self.process.poll()) is not None:
                    self.up.clear()
                    raise Misbehaved(f"exited with {code} instead of getting ready: {self.last_words()}")
                try:
                    state = client.status()["state"]
                    self.up.set()
                    if state == "ready":
                        self.recovery_s.append(time.monotonic() - self._started_s)
                        return True
                except (httpx.TransportError, ServerError):
                    pass
                time.sleep(0.05)  # There is nothing to wait on: it is another process that has no port yet.
        return False

    def kill(self, target: Target) -> Target:
        """Kill at once, see that the process ended as it should, and return what was really hit."""
        with self._killing:
            process = self.process
            if process.poll() is not None:
                raise Misbehaved(f"exited by itself with {process.returncode}: {self.last_words()}")
            if target is Target.DRIVER:
                process.kill()  # First of all, or the moment has passed.
            members = self._members()
            if target is Target.JAVA and not any(map(_is_java, members)):
                target = Target.DRIVER
            if target is not Target.JAVA:
                process.kill()
            for victim in members:
                if target is Target.ALL or (target is Target.JAVA and _is_java(victim)):
                    _kill(victim)
            self._left_behind += members
            try:
                code = process.wait(EXIT_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise Misbehaved(f"went on for {EXIT_WITHIN_S:g} s without its Java process") from None
            finally:
                self.up.clear()
            if target is Target.JAVA and code != EXIT_FAILED:
                raise Misbehaved(f"exited with {code}, not {EXIT_FAILED}, after its Java process was killed")
            return target

    def pause(self) -> None:
        """Stop every process of it where it is, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if (code := self.process.poll()) is not None:
            raise Misbehaved(f"exited by itself with {code}: {self.last_words()}")
        self.process.send_signal(number)
        for one in self._members():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def stop(self) -> None:
        """Stop in the orderly way."""
        members = self._members()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise Misbehaved(f"did not stop within {_STOP_WITHIN_S:g} s of SIGTERM") from None
        finally:
            self.up.clear()
            self._left_behind += members
        if code not in {0, -signal.SIGTERM}:
            raise Misbehaved(f"exited with {code} after SIGTERM: {self.last_words()}")

    def check_nothing_left(self) -> None:
        """The Java and Python processes of killed ones must have ended by themselves."""
        _, alive = psutil.wait_procs(self._left_behind, timeout=15)
        if alive:
            raise Misbehaved(f"left processes behind: {[_describe(one) for one in alive]}")

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self._left_behind += self._members()
            self._process.kill()
            self._process.wait()
        for one in self._left_behind:
            _kill(one)

    def last_words(self) -> str:
        text = self.log_file.read_bytes()[-4000:].decode(errors="replace")
        lines = [line for line in text.splitlines() if '"level": "error"' in line or "Error" in line]
        return " | ".join(lines[-3:])[-1500:]

    def _members(self) -> list[psutil.Process]:
        """The other processes of the cluster's session, which is its own."""
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if pid != self.process.pid and os.getsid(pid) == self.process.pid:
                    found.append(psutil.Process(pid))
        return found


def _is_java(process: psutil.Process) -> bool:
    try:
        return str(process.name()).startswith("java")
    except psutil.NoSuchProcess:
        return False


def _kill(process: psutil.Process) -> None:
    """By its own id; psutil refuses if that id is by now another process's."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.name()}"
    except psutil.NoSuchProcess:
        return str(process.pid)
