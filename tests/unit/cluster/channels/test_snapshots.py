"""Serving snapshots, with tables but without Spark: whatever fails, everybody who waits gets one, or hears why not."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.channels.runs import ChannelRuns, RunFailed, RunTooLarge, SnapshotPart
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.results.store import ResultStore
from unit.cluster.channels import test_executor
from unit.cluster.channels.test_executor import Setup, wait_until

pytestmark = pytest.mark.shell

_CHANNEL = replace(test_executor._CHANNEL, snapshot=True)
_NO_ROWS = pa.schema([("subscription", pa.int64()), ("payload", pa.string())])


class Serving(Setup):
    """Subscriptions are in the registry, and a snapshot has every row so far, for each of them."""

    def __init__(self, folder: Path) -> None:
        self.parts: list[SnapshotPart] = []
        self.most_at_once = 10**9
        self.bad: dict[int, Exception] = {}
        super().__init__(folder, subscriptions=0, channel=_CHANNEL)
        self.registry = self.executor.registry
        self.registry.put_broker("b")

    def come(self, *who: int) -> None:
        done = self.registry.subscribe("b", "Each", [(one,) for one in who], snapshot=True)
        self.subscriptions += done.created
        self.state.subscriptions.add(done.created)
        self.executor.serve_snapshots(self.state)

    def run_snapshot(self, _state: ChannelState, through: Mapping[str, int], part: SnapshotPart) -> pa.Table:
        self.parts.append(part)
        self.hold()
        hidden = part.left_out.get("Reports")
        left_out = set() if hidden is None else set(hidden.column("id").to_pylist())
        rows = self.stored.window(0, through["Reports"])
        numbers = [one for one in rows.column("id").to_pylist() if one not in left_out]
        if self.bad_rows.intersection(numbers):
            raise RunFailed("planted")
        if len(part.subscriptions) > self.most_at_once:
            raise RunTooLarge("planted")
        if part.most_rows is None and (bad := self.bad.keys() & set(part.subscriptions)):
            raise self.bad[min(bad)]
        pairs = [(one, f'{{"id":{number}}}') for number in numbers for one in part.subscriptions]
        columns = {"subscription": [one for one, _ in pairs], "payload": [payload for _, payload in pairs]}
        return pa.table(columns, schema=_NO_ROWS)

    def rows(self) -> list[tuple[int, str, Any]]:
        """Once nobody waits any more: subscription, kind and payload of all results."""
        served = self.results.snapshots_served
        wait_until(lambda: not self.registry.snapshot_requests("Each", served("Each")))
        wait_until(lambda: not self.state.lock.locked())
        rows = self.results.pull(0, limit_rows=10_000, keep=lambda all_of_them: all_of_them).rows.to_pylist()
        return [(row["subscription"], row["kind"] or "result", json.loads(row["payload"])) for row in rows]

    def holding(self) -> dict[int, list[int]]:
        """By subscription, what its snapshots had, which are all complete."""
        found: dict[int, list[int]] = {}
        for one, kind, payload in self.rows():
            if kind == "snapshot_end":
                assert payload == {"results": len(found.setdefault(one, [])), "complete": True}
            elif kind == "snapshot":
                found.setdefault(one, []).append(payload["id"])
        return found


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    made: list[Serving] = []
    monkeypatch.setattr(ChannelRuns, "run", lambda _self, *arguments: made[0].run(*arguments))
    monkeypatch.setattr(ChannelRuns, "run_snapshot", lambda _self, *arguments: made[0].run_snapshot(*arguments))
    monkeypatch.setattr(ChannelRuns, "subscription_ids", lambda _self, state: made[0].ids(state))
    monkeypatch.setattr(ChannelRuns, "cancel", lambda _self, _state: None)
    monkeypatch.setattr("tocsin.cluster.channels.executor.PATIENCE_S", 0.2)
    monkeypatch.setattr("tocsin.cluster.channels.executor._RETRY_S", 0.05)
    made.append(Serving(tmp_path))
    yield made[0]
    made[0].hold = lambda: None
    made[0].executor.close()


def _run(setup: Serving, *numbers: int) -> None:
    setup.commit(*numbers)
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: setup.executor.window(setup.state).empty)


def test_those_who_come_together_are_served_by_one_run(setup: Serving) -> None:
    """Although no record comes; those who come during that run, by the next."""
    _run(setup, 1)
    release = threading.Event()
    setup.hold = lambda: release.wait(20)
    setup.come(1)
    wait_until(lambda: bool(setup.parts))
    setup.come(2)
    setup.come(3, 4)
    release.set()
    assert setup.holding() == {1: [1], 2: [1], 3: [1], 4: [1]}
    assert [list(part.subscriptions) for part in setup.parts] == [[1], [2, 3, 4]]


def test_a_channel_that_is_put_to_work_stays_at_work(setup: Serving) -> None:
    """Nothing is served for it before it can be found: it would be taken for a dropped one, and lose its files."""
    pool = setup.executor._serving
    made: list[ChannelState] = []
    work = threading.Thread(target=lambda: made.append(setup.put_to_work()))
    with setup.executor._lock:  # It can't be found until this is released.
        work.start()
        work.join(0.2)
        for served in [pool.submit(lambda: None) for _ in range(10)]:
            served.result(20)
    work.join()
    assert not made[0].subscriptions._is_closed


def test_what_a_window_finds_for_newcomers_is_left_to_their_snapshot(
    setup: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window may be run first: what it has for them comes once, in the snapshot."""
    setup.executor.set_paused(setup.state, True)
    setup.come(1)
    wait_until(lambda: not setup.state.is_snapshot_due)
    with monkeypatch.context() as without_snapshots:
        without_snapshots.setattr(setup.executor, "serve_snapshots", lambda _state: None)
        setup.executor.set_paused(setup.state, False)
        _run(setup, 1)
    setup.executor.serve_snapshots(setup.state)
    assert setup.holding() == {1: [1]}
    _run(setup, 2)
    assert [row for row in setup.rows() if row[1] == "result"] == [(1, "result", {"id": 2})]


def test_a_paused_channel_serves_when_it_is_resumed(setup: Serving) -> None:
    """And not before."""
    _run(setup, 1)
    setup.executor.set_paused(setup.state, True)
    setup.come(1)
    wait_until(lambda: not setup.state.is_snapshot_due)
    assert not setup.parts
    setup.executor.set_paused(setup.state, False)
    assert setup.holding() == {1: [1]}


def test_a_snapshot_that_is_too_large_is_halved(setup: Serving) -> None:
    """By subscriptions; each gets its own once."""
    _run(setup, 1, 2)
    setup.most_at_once = 1
    setup.come(1, 2, 3)
    assert setup.holding() == {1: [1, 2], 2: [1, 2], 3: [1, 2]}


def test_one_that_is_too_large_alone_has_its_first_rows(setup: Serving) -> None:
    """So many as are allowed, and one more, which tells that these are not all."""
    _run(setup, 1)
    setup.bad = {2: RunTooLarge("planted")}
    setup.come(1, 2)
    assert setup.holding() == {1: [1], 2: [1]}
    assert [part.most_rows for part in setup.parts if part.most_rows] == [101]


def test_one_that_fails_stops_nobody_else(setup: Serving) -> None:
    """It hears why it has no snapshot, and gets what is new all the same."""
    _run(setup, 1)
    setup.bad = {2: RunFailed("no such zone")}
    setup.come(1, 2, 3)
    rows = setup.rows()
    assert [one for one, kind, _ in rows if kind == "snapshot"] == [1, 3]
    end = {"results": 0, "complete": False, "reason": "there is no snapshot: no such zone"}
    assert (2, "snapshot_end", end) in rows
    _run(setup, 5)
    assert {one for one, kind, _ in setup.rows() if kind == "result"} == {1, 2, 3}


def test_windows_do_not_wait_for_ever_for_snapshots_that_fail(setup: Serving) -> None:
    """Each attempt may take as long as a run may: after a while, those who are left hear that there is none."""
    times_s = itertools.count(0.0, 25.0)
    setup.executor._snapshots = replace(setup.executor._snapshots, now_s=lambda: next(times_s))
    _run(setup, 1)
    setup.most_at_once = 0
    setup.come(*range(1, 1001))
    ends = [payload for _, kind, payload in setup.rows() if kind == "snapshot_end"]
    assert len(ends) == 1000
    assert {end["reason"] for end in ends} == {"there is no snapshot: planted"}
    assert len(setup.parts) < 20


def test_rows_that_were_set_aside_are_left_out(setup: Serving) -> None:
    """A record that no run can take is in the dataset all the same, and would make every snapshot fail."""
    setup.come(1, 2, 3, 4)
    setup.holding()
    setup.bad_rows = {2}
    _run(setup, 1, 2, 3)
    wait_until(lambda: bool(setup.letters()))
    setup.come(5, 6)
    assert setup.holding() == {1: [], 2: [], 3: [], 4: [], 5: [1, 3], 6: [1, 3]}


def test_rows_that_failed_for_somebody_else_are_left_out_if_need_be(setup: Serving) -> None:
    """And the end of the snapshot says so: they may hold for this one."""
    setup.come(1)
    setup.holding()
    setup.bad_rows = {2}
    _run(setup, 1, 2, 3)
    wait_until(lambda: bool(setup.letters()))
    setup.come(2)
    assert [payload for one, _, payload in setup.rows() if one == 2] == [
        None,
        {"id": 1},
        {"id": 3},
        {"results": 2, "complete": False, "reason": "records that failed for others are left out"},
    ]


def test_a_commit_that_is_begun_comes_first(setup: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the snapshot of a subscription that has its part already would be without that part."""
    setup.come(1, 2)
    setup.holding()
    commit_part, release = ResultStore.commit_part, threading.Event()

    def held_up(*arguments: Any) -> Any:
        done = commit_part(*arguments)
        assert release.wait(20)
        return done

    monkeypatch.setattr(ResultStore, "commit_part", held_up)
    setup.most_results = 1
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: bool(setup.results.part_done("Each", "Reports", 1)))
    setup.registry.request_snapshots({1: setup.results.snapshots_served("Each")})
    setup.executor.serve_snapshots(setup.state)
    release.set()
    wait_until(lambda: setup.executor.window(setup.state).empty)
    assert [(kind, payload) for one, kind, payload in setup.rows() if one == 1][2:] == [
        ("result", {"id": 1}),
        ("snapshot_begin", None),
        ("snapshot", {"id": 1}),
        ("snapshot_end", {"results": 1, "complete": True}),
    ]


def test_trouble_of_the_machine_is_no_reason_to_give_up(setup: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit fails once: the snapshot is tried again, though nobody asks."""
    commit, calls = ResultStore.commit_snapshots, [0]

    def sometimes(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise OSError("no room")
        return commit(*arguments, **options)

    monkeypatch.setattr(ResultStore, "commit_snapshots", sometimes)
    _run(setup, 1)
    setup.come(1)
    assert setup.holding() == {1: [1]}
