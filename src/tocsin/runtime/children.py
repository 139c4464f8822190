"""Child processes that are kept running: one that ends is started again, which is all the recovery there is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: A child that ends again and again is started less and less often.
_FIRST_PAUSE_S = 0.5
_LAST_PAUSE_S = 30.0
#: One that ran for this long had started well.
_STEADY_S = 60.0


@dataclass(slots=True)
class Child:
    """`tocsin ARGUMENTS`, its output in `log`, and beside that its process id while it runs."""

    name: str
    arguments: Sequence[str]
    log: Path
    stop_timeout_s: float = 30.0
    starts: int = 0
    process: asyncio.subprocess.Process | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep_running(self, ended: Callable[[Child, int], None]) -> None:
        """Run it until it is stopped; `ended` hears of each end that nobody asked for, with the exit code."""
        pause_s = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            code = await self._run()
            if self._stopping.is_set():
                return
            ended(self, code)
            pause_s = _FIRST_PAUSE_S if time.monotonic() - began_s > _STEADY_S else min(2 * pause_s, _LAST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def stop(self) -> None:
        """Ask it to end; end it if it does not."""
        self._stopping.set()
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), self.stop_timeout_s)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _run(self) -> int:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.starts += 1
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tocsin",
                *self.arguments,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal is for us alone: we stop them in order.
                start_new_session=True,
            )
        self.pid_file.write_text(f"{self.process.pid}\n")
        try:
            return await self.process.wait()
        finally:
            # Another process may have the number soon.
            self.pid_file.unlink(missing_ok=True)

    @property
    def pid_file(self) -> Path:
        return self.log.with_suffix(".pid")
