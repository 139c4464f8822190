"""How a broker waits for results: a pull leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.api.brokers import pull
from tocsin.cluster.results.commit_event import CommitEvent
from tocsin.cluster.results.store import Pulled
from tocsin.errors import NotRegistered
from tocsin.runtime.clock import SystemClock


def _nothing(after: int) -> Pulled:
    names = ("subscription", "sequence", "channel", "payload", "committed_at", "key", "held", "kind")
    rows = pa.table({name: [] for name in names})
    return Pulled(rows, after)


def _begin(look: Callable[[int], Pulled], wait_s: float) -> tuple[CommitEvent, asyncio.Task[Any]]:
    """A pull that has begun."""
    committed = CommitEvent()
    cluster = SimpleNamespace(
        registry=SimpleNamespace(check_registered=lambda _name: None),
        clock=SystemClock(),
        incarnations=SimpleNamespace(check=lambda *_: None),
        results=SimpleNamespace(
            pull=lambda after, **_: look(after),
            committed=committed,
            retention=SimpleNamespace(check_holds=lambda *_: None),
        ),
    )
    return committed, asyncio.create_task(pull("b", cluster, 0, 10, wait_s, "", 0))  # type: ignore[arg-type]


async def _ends(committed: CommitEvent, task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])
    assert not committed._waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("error", [NotRegistered("no broker called b"), RuntimeError("the database is locked")])
async def test_a_pull_that_fails_leaves_nothing_behind(error: Exception) -> None:
    """Whatever goes wrong, nobody goes on waiting for the next commit."""

    def fail(_after: int) -> Pulled:
        raise error

    committed, task = _begin(fail, 60)
    await _ends(committed, task)
    assert task.exception() is error


async def test_a_pull_that_is_given_up_leaves_nothing_behind() -> None:
    """Nor when the server ends while a broker waits."""
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(after: int) -> Pulled:
        loop.call_soon_threadsafe(looked.set)
        return _nothing(after)

    committed, task = _begin(look, 60)
    await looked.wait()
    task.cancel()
    await _ends(committed, task)


async def test_a_commit_ends_the_waiting() -> None:
    """The broker looks again at once."""
    afters: list[int] = []
    loop = asyncio.get_running_loop()
    first = asyncio.Event()

    def look(after: int) -> Pulled:
        afters.append(after)
        loop.call_soon_threadsafe(first.set)
        rows = _nothing(after).rows
        if len(afters) == 1:
            return Pulled(rows, 7)
        one = {"subscription": 1, "sequence": 8, "channel": "C", "payload": "{}", "committed_at": 0}
        return Pulled(pa.Table.from_pylist([one | {"key": None, "held": None, "kind": None}]), 8)

    committed, task = _begin(look, 60)
    await first.wait()
    await asyncio.to_thread(committed.announce)
    await _ends(committed, task)
    assert afters == [0, 7]
    assert task.result().headers["Tocsin-Cursor"] == "8"
