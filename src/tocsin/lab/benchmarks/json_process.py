"""A process of one's own that is talked to in lines of JSON, over its standard input and output.

`JsonProcess` is the handle on a module that calls `serve` when it is run.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import uvloop

from tocsin.runtime.files import raise_open_files
from tocsin.runtime.usage import usage

_Answer = TypeVar("_Answer")


class JsonProcess:
    """`python -m MODULE`. When the block ends, so does the process."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def cpu_s(self) -> float:
        """CPU seconds that it has used so far."""
        return usage(self._process.pid).cpu_s

    def ask(self, command: msgspec.Struct, answer: type[_Answer]) -> _Answer:
        """Returns when it has been done."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of subscribers ended; its standard error has the reason")
        return msgspec.json.decode(line, type=answer)


def serve(commands: Any, start: Callable[[], Callable[[Any], Awaitable[Any]]]) -> None:
    """Do one command of these types after the other, until there are no more. `start` is called on the event loop."""
    raise_open_files()
    uvloop.run(_serve(commands, start))


async def _serve(commands: Any, start: Callable[[], Callable[[Any], Awaitable[Any]]]) -> None:
    do = start()
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(commands)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        sys.stdout.buffer.write(msgspec.json.encode(await do(decoder.decode(line))) + b"\n")
        sys.stdout.buffer.flush()
