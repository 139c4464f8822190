"""Child processes that are kept running: a child that ends is started again, which is the whole recovery.

Nothing that fails on the way, such as a full disk, leaves a child without somebody who starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tocsin.model.backoff import Backoff
from tocsin.runtime.last_words import last_words

#: A child that keeps ending is started less and less often.
_BACKOFF = Backoff(0.5, 30.0)
#: A child that ran for this long had started well.
_STEADY_S = 60.0
#: A log of this size becomes the former one: weeks of a quiet system, and a disk that nobody can fill from outside.
MAX_LOG_BYTES = 32 << 20
#: How often its size is looked at. A process writes far less than the limit in this time.
_LOOK_EVERY_S = 10.0
#: The code of a child that could not be started at all.
_NOT_STARTED = -1
#: Enough for the last lines of a process, with a stack trace.
_LAST_WORDS_BYTES = 16 << 10
#: From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


class Watcher(Protocol):
    """Learns when children start and end."""

    def started(self, child: Child) -> None: ...

    def ended(self, child: Child, code: int) -> bool:
        """The child ended without being stopped; returns whether to start it again."""


@dataclass(slots=True)
class Child:
    """`tocsin ARGUMENTS`, with its output in `log` and, beside that, its process id while it runs. It ends with us.

    Its log is bounded: beside it lies at most one former log, of about the same size.
    """

    name: str
    arguments: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    stop_timeout_s: float
    starts: int = 0
    process: asyncio.subprocess.Process | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _log_began_at: int = 0
    #: Why it could not be started; empty if it could.
    _trouble: str = ""

    async def keep_running(self, watcher: Watcher) -> None:
        """Run it until it is stopped, or `watcher` does not want it any more. The main thread must call this."""
        failures = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                code = await self._run(watcher)
            except OSError as exc:  # There is no room, no memory or no process left for it; perhaps later.
                code, self._trouble = _NOT_STARTED, f"it could not be started: {exc}"
            if self._stopping.is_set() or not watcher.ended(self, code):
                return
            failures = 0 if time.monotonic() - began_s > _STEADY_S else failures + 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _BACKOFF.bound_s(failures))

    async def stop(self) -> None:
        """Ask it to end; if it does not, kill it and the processes it has started."""
        self._stopping.set()
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), self.stop_timeout_s)
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """Kill it and the processes it has started, now: they are one process group."""
        self._stopping.set()
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Why it ended, according to its output since it was started."""
        if self._trouble:
            return self._trouble
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self._log_began_at, self.log.stat().st_size - _LAST_WORDS_BYTES))
            return last_words(log.read().decode(errors="replace"))
        return ""

    async def _run(self, watcher: Watcher) -> int:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.starts += 1
            self._log_began_at, self._trouble = output.tell(), ""
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tocsin",
                *self.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                # Ctrl-C at the terminal is for us alone: we stop the children in order.
                start_new_session=True,
                preexec_fn=_ending_with(os.getpid()),
            )
        own = f"{self.process.pid}\n"
        with contextlib.suppress(OSError):  # The file is for people; on a full disk the child runs without it.
            self.pid_file.write_text(own)
        watcher.started(self)
        try:
            return await self._ended(self.process)
        finally:
            # Another process may soon have the number. If somebody else wrote the file meanwhile, it is theirs.
            with contextlib.suppress(OSError):
                if self.pid_file.read_text() == own:
                    self.pid_file.unlink()

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """The code of the process, when it has ended. Until then its log is kept within bounds."""
        while True:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), _LOOK_EVERY_S)
            with contextlib.suppress(OSError):
                if self.log.stat().st_size > MAX_LOG_BYTES:
                    await asyncio.to_thread(self._begin_log_anew)

    def _begin_log_anew(self) -> None:
        """The process goes on writing to the same file, at its end: lines that it writes in this moment may be lost."""
        try:
            shutil.copyfile(self.log, self.log.with_suffix(".former.log"))
        finally:  # If the disk is full, this log may be what fills it.
            os.truncate(self.log, 0)
            self._log_began_at = 0

    @property
    def pid_file(self) -> Path:
        return self.log.with_suffix(".pid")


def _ending_with(parent_pid: int) -> Callable[[], None] | None:
    """A function that a child calls before it becomes another program, so that the system kills it when `parent_pid`
    ends.

    The parent's main thread must start the child: on Linux a child ends with the thread that started it. Other systems
    have no such function (None); there, the next start must look for processes that are left.
    """
    if sys.platform != "linux":
        return None
    # Loaded now: between fork and exec any lock may be held.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # The parent ended before the call.
            os._exit(1)

    return end_with_parent
