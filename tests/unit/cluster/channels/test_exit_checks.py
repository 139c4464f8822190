"""Exits through the executor, with tables but without Spark: loops find what a run finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.executor import ChannelExecutor, ChannelState, RunLimits, Window
from tocsin.cluster.channels.runs import KEYED_OUTPUT, ChannelRuns, Part, RunFailed, RunTooLarge
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore
from tocsin.model.catalogue import BackendSubscription, Channel, ChannelKind, Dataset, DatasetKind, OncePer, Parameter
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.runtime.clock import SystemClock

pytestmark = pytest.mark.shell

_COLUMNS = (Column("id", ColumnType.INT, nullable=False), Column("zone", ColumnType.INT))
_REPORTS = Dataset("Reports", DatasetKind.KEYED, Schema(_COLUMNS, ("id",)))
_CONTEXT = SimpleNamespace(defaultParallelism=2, setLocalProperty=lambda *_: None)
_SPARK: Any = SimpleNamespace(sparkContext=_CONTEXT)
_LEAST = Parameter("least", ColumnType.INT)


def _channel(keys: str) -> Channel:
    body = "SELECT r.id FROM Reports r WHERE is_new(r) AND r.zone >= :least"
    return Channel("From", ChannelKind.CONTINUOUS, (_LEAST,), body, once=OncePer(keys, with_exits=True))


class Setup:
    """Subscriptions 1 to 3 want the reports of their zone and of all higher ones, once per report."""

    def __init__(self, folder: Path, keys: str) -> None:
        self.store = DatasetStore(folder / "datasets", recent_max_bytes=1 << 20)
        self.stored = self.store.open(_REPORTS)
        engine = open_catalogue(folder / "catalogue.sqlite")
        numbering = Numbering(engine, SystemClock().now_us())
        self.results = ResultStore(
            folder / "results", Removals(engine), numbering, recent_max_bytes=0, sync_datasets=self.store.sync
        )
        self.ended: set[int] = set()
        self.executor = ChannelExecutor(
            _SPARK,
            self.store,
            self.results,
            SystemClock(),
            Metrics(),
            folder,
            concurrency=2,
            limits=RunLimits(30, 1 << 20, 1 << 20),
            on_failed=lambda _state, _one, _reason: None,
            on_given_up=lambda _state, _reason: None,
            living=lambda _channel, ids: np.setdiff1d(ids, list(self.ended)),
            registry=SubscriptionRegistry(engine),
            subscription_lock=threading.RLock(),
            snapshot_max_rows=100,
        )
        channel = _channel(keys)
        self.compiled = compile_channel(channel, {"reports": _REPORTS})
        self.has_zone_key = keys != "r.id"
        self.state = self.executor.add(channel, self.compiled)
        self.state.subscriptions.add([BackendSubscription(one, "From", (one,), "") for one in (1, 2, 3)])
        self.checks = 0
        self.most_results = 10**9
        self.unclear: set[int] = set()

    def run(self, state: ChannelState, window: Window, part: Part | None = None) -> pa.Table:
        if not window.changed:
            return KEYED_OUTPUT.empty_table()
        new = part.rows if part is not None else self.stored.window(window.after["Reports"], window.through["Reports"])
        ids = [one for one in (1, 2, 3) if part is None or part.first <= one <= part.last]
        found: list[Any] = self._found(new, ids)
        if len(found) > self.most_results:
            raise RunTooLarge("planted")
        assert self.compiled.exits is not None
        found += [(None, None, key) for _, _, key in self._found(new, [-1]) if self.compiled.exits.by_row]
        return _table(found)

    def holding(self, _state: ChannelState, ids: npt.NDArray[np.int64]) -> pa.Table:
        self.checks += 1
        if self.unclear.intersection(ids.tolist()):
            raise RunFailed("planted")
        return _table(self._found(self.stored.living()[1], ids.tolist()))

    def _found(self, rows: pa.Table, ids: list[int]) -> list[tuple[int, str, str]]:
        return [
            (one, f'{{"id":{row["id"]}}}', f"{row['id']} {row['zone'] if self.has_zone_key else ''}")
            for one in ids
            for row in rows.to_pylist()
            if row["zone"] >= one
        ]

    def publish(self, *rows: tuple[int, int]) -> None:
        columns = [pa.array([row[at] for row in rows], pa.int32()) for at in range(2)]
        self.stored.commit(pa.table(columns, names=["id", "zone"]))
        self.run_now()

    def run_now(self) -> None:
        self.executor.run_continuous(["Reports"])
        deadline_s = time.monotonic() + 60
        while self.state.lock.locked() or not self.executor.window(self.state).empty:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)

    def take(self) -> list[tuple[int, str]]:
        """All so far: the subscription, and the report or `exit`."""
        rows = self.results.pull(0, limit_rows=10_000, keep=lambda all_of_them: all_of_them).rows.to_pylist()
        return [(row["subscription"], row["payload"][6:-1] if row["held"] else "exit") for row in rows]


def _table(found: list[Any]) -> pa.Table:
    return pa.table([[row[at] for row in found] for at in range(3)], schema=KEYED_OUTPUT)


@pytest.fixture(params=["r.id", "r.id, r.zone"])
def setup(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    setup = Setup(tmp_path, request.param)
    monkeypatch.setattr(ChannelRuns, "run", lambda _self, *arguments: setup.run(*arguments))
    monkeypatch.setattr(ChannelRuns, "holding", lambda _self, *arguments: setup.holding(*arguments))
    monkeypatch.setattr(ChannelRuns, "subscription_ids", lambda _self, _state: [1, 2, 3])
    monkeypatch.setattr(ChannelRuns, "cancel", lambda _self, _state: None)
    yield setup
    setup.executor.close()


def test_a_row_that_is_replaced_ends_results(setup: Setup) -> None:
    """By itself, if the key of ONCE PER is its primary key. Otherwise everything is checked."""
    setup.publish((7, 2), (8, 3))
    assert sorted(setup.take()) == [(1, "7"), (1, "8"), (2, "7"), (2, "8"), (3, "8")]
    setup.publish((7, 0))
    assert sorted(setup.take()[5:]) == [(1, "exit"), (2, "exit")]
    setup.publish((7, 1))
    assert setup.take()[7:] == [(1, "7")]
    assert bool(setup.checks) is setup.has_zone_key


def test_a_deleted_row_ends_results_without_any_new_row(setup: Setup) -> None:
    """All are checked, once. Who has ended meanwhile gets no exit."""
    setup.publish((7, 2), (8, 3))
    before = setup.checks
    setup.ended = {2}
    setup.stored.delete_keys(pa.table({"id": pa.array([7], pa.int32())}))
    setup.run_now()
    assert setup.take()[5:] == [(1, "exit")]
    setup.run_now()
    assert setup.checks == before + 1


def test_results_in_parts_come_with_their_exits(setup: Setup) -> None:
    """Part by part, everything is checked."""
    setup.publish((7, 3))
    setup.most_results = 1
    setup.publish((7, 0), (8, 3))
    assert sorted(setup.take()) == sorted([(one, what) for one in (1, 2, 3) for what in ("7", "8", "exit")])
    assert setup.checks


def test_who_can_not_be_checked_keeps_their_results_until_something_changes(setup: Setup) -> None:
    """The others get their exits, and nothing is tried again and again."""
    setup.publish((7, 3))
    setup.unclear = {2}
    setup.stored.delete_keys(pa.table({"id": pa.array([7], pa.int32())}))
    setup.run_now()
    assert sorted(setup.take()[3:]) == [(1, "exit"), (3, "exit")]
    before = setup.checks
    setup.run_now()
    assert setup.checks == before
    setup.unclear = set()
    setup.publish((9, 0))
    assert setup.take()[5:] == [(2, "exit")]
