"""The network's processes: each is killed, and started again by the same command."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from chaos.process import EXIT_WITHIN_S, Misbehaved, environment
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server

READY_WITHIN_S = 90.0


class Server:
    """A coordinator or a broker: one data directory and one port, and one process after the other that serves them."""

    def __init__(
        self,
        name: str,
        folder: Path,
        module: Sequence[str],
        options: Sequence[str],
        settings: Mapping[str, Any],
        port: int = 0,
    ) -> None:
        self.name = name
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = folder / f"{name}.log"
        self._start = partial(
            start_server,
            module[-1],
            folder / name,
            self.port,
            self.log_file,
            settings,
            options,
            module=module[:-1],
            environment=environment(),
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = self._start()

    def kill(self) -> None:
        """Raises Misbehaved if it had ended by itself."""
        assert self._process is not None, "not started"
        if (code := self._process.poll()) is not None:
            raise Misbehaved(f"{self.name} exited by itself with {code}: {self.last_words()}")
        self._process.kill()
        self._process.wait(EXIT_WITHIN_S)

    def pause(self) -> None:
        """Stop it where it is, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None, "not started"
        if (code := self._process.poll()) is not None:
            raise Misbehaved(f"{self.name} exited by itself with {code}: {self.last_words()}")
        self._process.send_signal(number)

    def wait_ready(self, within_s: float = READY_WITHIN_S) -> None:
        deadline_s = time.monotonic() + within_s
        with httpx.Client(base_url=self.url, trust_env=False) as http:
            while time.monotonic() < deadline_s:
                if not self.is_up:
                    raise Misbehaved(f"{self.name} ended instead of getting ready: {self.last_words()}")
                try:
                    if http.get("/healthz", timeout=5).is_success:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.05)  # There is nothing to wait on: it is another process that has no port yet.
        raise Misbehaved(f"{self.name} was not ready within {within_s:g} s: {self.last_words()}")

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        return self.log_file.read_bytes()[-1500:].decode(errors="replace")


def coordinator(folder: Path, module: Sequence[str], port: int = 0) -> Server:
    # Quick to notice, or a run would be spent waiting.
    settings = {"heartbeat_every_s": 1, "dead_after_s": 2}
    return Server("coordinator", folder, [*module, "coordinator"], [], settings, port)


def broker(
    name: str, folder: Path, module: Sequence[str], cluster_url: str, coordinator_url: str, port: int = 0, url: str = ""
) -> Server:
    """`url` is where subscribers are sent, if not to the broker's own port."""
    options = ["--name", name, "--cluster-url", cluster_url, "--coordinator-url", coordinator_url]
    # Small, so that subscribers are parked and history comes from the cluster.
    settings: dict[str, Any] = {
        "max_connections_per_user": 1000,
        "max_queued_bytes": 8 << 10,
        "cache_max_bytes": 64 << 10,
    }
    if url:
        settings["url"] = url
    return Server(name, folder, [*module, "broker"], options, settings, port)


class SubscriberProcess:
    """A process of `chaos.network.subscribers`, and what it last said."""

    def __init__(self, number: int, folder: Path, module: Sequence[str], config: Mapping[str, Any]) -> None:
        self.history = folder / f"subscribers-{number}.ndjson"
        self.log_file = folder / f"subscribers-{number}.log"
        config_file = folder / f"subscribers-{number}.json"
        config_file.write_text(json.dumps({**config, "history": str(self.history)}))
        self._command = [sys.executable, "-m", *module, str(config_file)]
        self.status: dict[str, int] = {}
        self._who: dict[str, Any] = {}
        self._answered = threading.Event()
        self._is_down = False
        self.start()

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        self._is_down = False
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def kill(self) -> None:
        """kill -9; what they were handed and wrote down stays."""
        self._is_down = True
        self.end()
        self.status = {**self.status, "settled": 0}

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

    def who(self) -> dict[str, Any]:
        """Who is connected where, and how many subscriptions they hold."""
        self._answered.clear()
        self.tell("who")
        if not self._answered.wait(30):
            raise Misbehaved("the subscribers did not answer")
        return self._who

    def check_alive(self) -> None:
        if self._process.poll() is not None and not self._is_down:
            raise Misbehaved(f"the subscribers ended: {self.log_file.read_text()[-1500:]}")

    def finish(self) -> None:
        self.tell("finish")
        self._process.wait(60)

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._listener.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what was still to be told
                    pipe.close()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith(b"\n"):
                break  # It was killed while it spoke.
            said = json.loads(line)
            if "who" in said:
                self._who = said
                self._answered.set()
            else:
                self.status = said
