"""Terminals as a reader has them: commands typed into a shell, and what is seen of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Far beyond what any command of the documentation takes, so that one that hangs ends with a message.
PATIENCE_S = 60.0
_STOP_TIMEOUT_S = 60.0
#: Lines of tables that hold nothing but their frame.
_RULE = re.compile(r"[\s━─╇┼┃│+-]*")


def look_for(expected: str, seen: Sequence[str]) -> tuple[str | None, int]:
    """The first line of `expected` that was not seen after those before it, None if all were; and how many of the lines
    seen that took.

    Other lines may have been seen in between. `…` stands for anything, any white space for any other, and what tables
    are framed with does not count.
    """
    at = 0
    for line in expected.splitlines():
        if _RULE.fullmatch(line) or line.strip() == "…":
            continue
        pattern = re.compile(".*".join(re.escape(_plain(part)) for part in line.split("…")))
        while at < len(seen) and not pattern.fullmatch(_plain(seen[at])):
            at += 1
        if at == len(seen):
            return line, at
        at += 1
    return None, at


def _plain_environment() -> dict[str, str]:
    """Nothing of the settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}


def _plain(line: str) -> str:
    return " ".join(re.sub("[┃│]", " ", line).split())


class Terminal:
    """One command that goes on, and what it has printed so far."""

    def __init__(self, name: str, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name, self.command = name, command
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env={**_plain_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        #: What has been looked at already.
        self._shown = 0
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, name=f"terminal {name}", daemon=True)
        self._reader.start()

    def expect(self, expected: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all of this has been printed, after what was expected before."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                missing, took = look_for(expected, self._lines[self._shown :])
                if missing is None:
                    self._shown += took
                    return
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"{self.name} did not print {missing!r} within {timeout_s:g} s but\n{self._tail()}"
                assert not self._ended, f"{self.name} ended without printing {missing!r} but\n{self._tail()}"
                self._changed.wait(left_s)

    def look_again(self) -> None:
        """What has been printed so far may be expected once more."""
        with self._changed:
            self._shown = 0

    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def finish(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it has ended by itself; its exit code."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} has not ended after {timeout_s:g} s\n{self._tail()}") from None
        self._close()
        return code

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        return self.finish(_STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _tail(self) -> str:
        return "\n".join(self._lines[-40:])
