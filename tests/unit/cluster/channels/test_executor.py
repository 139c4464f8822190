"""The executor, with tables but without Spark: whatever a run comes to, nothing is lost, doubled or held up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.executor import ChannelExecutor, ChannelState, RunLimits, Window
from tocsin.cluster.channels.runs import ChannelRuns, Part, RunCancelled, RunFailed, RunTooLarge
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore
from tocsin.model.catalogue import BackendSubscription, Channel, ChannelKind, Dataset, DatasetKind, Parameter
from tocsin.model.position import commit_of
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.runtime.clock import SystemClock

pytestmark = pytest.mark.shell

_REPORTS = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT),), ("id",)))
_CHANNEL = Channel(
    "Each",
    ChannelKind.CONTINUOUS,
    (Parameter("who", ColumnType.INT),),
    "SELECT r.id, :who AS who FROM Reports r WHERE is_new(r)",
)
_CONTEXT = SimpleNamespace(defaultParallelism=2, setLocalProperty=lambda *_: None)
_SPARK: Any = SimpleNamespace(sparkContext=_CONTEXT)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


class Setup:
    """A channel over a dataset, and what its runs come to: every row for every subscription, unless something fails."""

    def __init__(self, folder: Path, subscriptions: int = 4, channel: Channel = _CHANNEL) -> None:
        self.store = DatasetStore(folder / "datasets", recent_max_bytes=1 << 20)
        self.stored = self.store.open(_REPORTS)
        engine = open_catalogue(folder / "catalogue.sqlite")
        numbering = Numbering(engine, SystemClock().now_us())
        self.results = ResultStore(folder / "results", Removals(engine), numbering, recent_max_bytes=1 << 20)
        self.failed: dict[int, str] = {}
        self.given_up: list[str] = []
        self.metrics = Metrics()
        self.executor = ChannelExecutor(
            _SPARK,
            self.store,
            self.results,
            SystemClock(),
            self.metrics,
            folder,
            concurrency=2,
            limits=RunLimits(30, 1 << 20, 1 << 20),
            on_failed=lambda _state, one, reason: self.failed.update({one: reason}),
            on_given_up=self._give_up,
            living=lambda _channel, ids: ids,
            registry=SubscriptionRegistry(engine),
            subscription_lock=threading.RLock(),
            snapshot_max_rows=100,
        )
        self.channel = channel
        self.subscriptions = [BackendSubscription(one, "Each", (one,), "") for one in range(1, subscriptions + 1)]
        self.state = self.put_to_work()
        self.windows: list[Window] = []
        self.bad_rows: set[int] = set()
        self.bad_subscriptions: set[int] = set()
        self.most_results = 10**9
        self.hold: Callable[[], object] = lambda: None

    def put_to_work(self) -> ChannelState:
        state = self.executor.add(self.channel, compile_channel(self.channel, {"reports": _REPORTS}))
        state.subscriptions.add(self.subscriptions)
        return state

    def subscribe(self, most: int) -> None:
        """Up to this id."""
        new = [BackendSubscription(one, "Each", (one,), "") for one in range(len(self.subscriptions) + 1, most + 1)]
        self.subscriptions += new
        self.state.subscriptions.add(new)

    def _give_up(self, state: ChannelState, reason: str) -> None:
        self.given_up.append(reason)
        self.executor.set_paused(state, True, reason)

    def run(self, state: ChannelState, window: Window, part: Part | None = None) -> pa.Table:
        self.windows.append(window)
        self.hold()
        rows = part.rows if part is not None else self.stored.window(window.after["Reports"], window.through["Reports"])
        ids = [one for one in self.ids(state) if part is None or (part.first <= one <= part.last)]
        ids = [one for one in ids if part is None or one not in part.without]
        numbers = rows.column("id").to_pylist()
        if self.bad_rows.intersection(numbers) or (numbers and self.bad_subscriptions.intersection(ids)):
            raise RunFailed("planted")
        if len(numbers) * len(ids) > self.most_results:
            raise RunTooLarge("planted")
        pairs = [(one, f'{{"id":{number}}}') for number in numbers for one in ids]
        columns = {"subscription": [one for one, _ in pairs], "payload": [payload for _, payload in pairs]}
        return pa.table(columns, schema=pa.schema([("subscription", pa.int64()), ("payload", pa.string())]))

    def ids(self, state: ChannelState) -> list[int]:
        return [one.id for one in self.subscriptions if one.id not in state.failed]

    def commit(self, *numbers: int) -> None:
        self.stored.commit(pa.table({"id": pa.array(numbers, pa.int32())}))

    def settle(self) -> list[tuple[int, int]]:
        """Once the channel is idle: all results so far, as subscription and record."""
        wait_until(lambda: not self.state.lock.locked() and self.executor.window(self.state).empty)
        rows = self.results.pull(0, limit_rows=10_000, keep=lambda all_of_them: all_of_them).rows.to_pylist()
        return sorted((row["subscription"], int(row["payload"][6:-1])) for row in rows)

    def letters(self) -> list[tuple[int, str]]:
        rows = self.stored.dead_letters.read().to_pylist()
        return [(row["line"], row["reason"]) for row in rows]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    setup = Setup(tmp_path)
    monkeypatch.setattr(ChannelRuns, "run", lambda _self, *arguments: setup.run(*arguments))
    monkeypatch.setattr(ChannelRuns, "subscription_ids", lambda _self, state: setup.ids(state))
    monkeypatch.setattr(ChannelRuns, "cancel", lambda _self, _state: None)
    monkeypatch.setattr("tocsin.cluster.channels.executor.PATIENCE_S", 0.2)
    monkeypatch.setattr("tocsin.cluster.channels.executor._RETRY_S", 0.05)
    yield setup
    setup.hold = lambda: None
    setup.executor.close()


def everything(*numbers: int, subscriptions: tuple[int, ...] = (1, 2, 3, 4)) -> list[tuple[int, int]]:
    return sorted((one, number) for one in subscriptions for number in numbers)


def test_a_bad_record_is_a_dead_letter_and_the_rest_are_results(setup: Setup) -> None:
    """Several commits at once, one of which has a bad record: all others are results, once, and the bad one is a dead
    letter that names the channel."""
    setup.bad_rows = {5}
    for first in (1, 4, 7):
        setup.commit(first, first + 1, first + 2)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(1, 2, 3, 4, 6, 7, 8, 9)
    assert setup.letters() == [(2, "channel Each: planted")]
    assert setup.stored.dead_letters.read().column("position").to_pylist() == [-2]


def test_a_bad_subscription_fails_after_a_few_records(setup: Setup) -> None:
    """It is failed once, with the reason; the others have everything."""
    setup.bad_subscriptions = {3}
    setup.commit(*range(8))
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(*range(8), subscriptions=(1, 2, 4))
    assert setup.failed == {3: "planted"}
    assert len(setup.letters()) == 4
    assert all(reason == "channel Each, subscription 3: planted" for _, reason in setup.letters())


def test_what_is_too_much_at_once_comes_in_parts(setup: Setup) -> None:
    """A record for everybody is committed subscription by subscription if need be; the bound moves with the last. It is
    not taken for a bad one, however many parts it takes."""
    setup.most_results = 1
    setup.subscribe(16)
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(1, subscriptions=tuple(range(1, 17)))
    rows = setup.results.pull(0, limit_rows=10_000, keep=lambda all_of_them: all_of_them).rows
    assert len({commit_of(sequence) for sequence in rows.column("sequence").to_pylist()}) == 16
    assert setup.letters() == []


def test_a_part_that_fails_to_commit_is_done_later(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are there are not run again, and the dead letters of before are not written twice."""
    commit_part, calls = ResultStore.commit_part, [0]

    def sometimes(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError("no room")
        return commit_part(*arguments)

    monkeypatch.setattr(ResultStore, "commit_part", sometimes)
    setup.most_results, setup.bad_rows = 1, {2}
    setup.commit(1, 2)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(1)
    assert calls[0] > 2
    assert len(setup.letters()) == len(set(setup.letters()))


def test_a_commit_that_fails_stops_nobody(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever brought the records hears nothing of it; the window is tried again, though nothing new comes."""
    commit, calls = ResultStore.commit, [0]

    def sometimes(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise OSError("no room")
        return commit(*arguments, **options)

    monkeypatch.setattr(ResultStore, "commit", sometimes)
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(1)


def test_who_brings_records_does_not_wait_for_a_run_that_takes_long(setup: Setup) -> None:
    """The caller goes on, and so does the next one, at once; what came meanwhile is run over when the run has ended."""
    release = threading.Event()
    setup.hold = lambda: release.wait(20)
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    begin_s = time.monotonic()
    for number in range(2, 5):
        setup.commit(number)
        setup.executor.run_continuous(["reports"])
    assert time.monotonic() - begin_s < 2
    assert len(setup.windows) == 1
    release.set()
    assert setup.settle() == everything(1, 2, 3, 4)


def test_a_dropped_channel_commits_nothing(setup: Setup) -> None:
    """DROP does not wait for the run under way; its results are for nobody, and a successor's window is its own."""
    begun, release = threading.Event(), threading.Event()
    setup.hold = lambda: (begun.set(), release.wait(20))
    setup.commit(1)
    running = threading.Thread(target=setup.executor.run_continuous, args=(["reports"],))
    running.start()
    assert begun.wait(20)
    old = setup.executor.withdraw("Each")
    assert old is setup.state
    setup.executor.release(old)
    setup.results.set_bounds({("Each", "Reports"): setup.stored.sequence})
    setup.state = setup.put_to_work()
    setup.commit(2)
    release.set()
    running.join()
    wait_until(lambda: not old.lock.locked())
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(2)


def test_a_channel_that_fails_with_everything_is_paused(setup: Setup) -> None:
    """When record after record fails, a person has to look: the channel is paused with the reason, and its window
    waits."""
    setup.bad_rows = set(range(300))
    setup.commit(*range(150))
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: bool(setup.given_up))
    wait_until(lambda: not setup.state.lock.locked())
    assert "planted" in setup.state.pause_reason
    assert not setup.executor.window(setup.state).empty
    setup.bad_rows = set()
    setup.executor.set_paused(setup.state, False)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(*range(150))


def test_a_window_begun_in_parts_is_ended_in_parts(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was too much at once may not be later: other subscriptions, other tasks. Those who have their part get no
    second one, also when more commits have come meanwhile."""
    commit_part, calls = ResultStore.commit_part, [0]

    def sometimes(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            setup.most_results = 10**9
            setup.commit(2)
            raise OSError("no room")
        return commit_part(*arguments)

    monkeypatch.setattr(ResultStore, "commit_part", sometimes)
    setup.most_results = 1
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(1, 2)


def test_who_resumes_a_channel_has_looked(setup: Setup) -> None:
    """What was set aside before no longer counts against it: the next bad record is one, and not one too many."""
    setup.bad_rows = {7}
    setup.state.set_aside_in_a_row = 100
    setup.executor.set_paused(setup.state, True, "100 records in a row failed")
    setup.executor.set_paused(setup.state, False)
    setup.commit(7)
    setup.commit(8)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(8)
    assert setup.given_up == []


def test_who_resumes_a_channel_gets_past_the_commit_it_was_paused_for(setup: Setup) -> None:
    """However many of its records fail, they are set aside then, and the rest are results. The next commit of that kind
    is another matter."""
    setup.bad_rows = set(range(150))
    setup.commit(*range(200))
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: len(setup.given_up) == 1)
    wait_until(lambda: not setup.state.lock.locked())
    setup.executor.set_paused(setup.state, False)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(*range(150, 200))
    assert [line for line, _ in setup.letters()] == list(range(1, 151))
    assert len(setup.given_up) == 1
    setup.commit(*range(150))
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: len(setup.given_up) == 2)


def test_a_resumed_channel_that_fails_no_more_has_its_limits_again(setup: Setup) -> None:
    """The cause was removed before it was resumed, so nobody has looked at what fails later."""
    setup.bad_rows = set(range(150))
    setup.commit(*range(150))
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: len(setup.given_up) == 1)
    wait_until(lambda: not setup.state.lock.locked())
    setup.bad_rows = set()
    setup.executor.set_paused(setup.state, False)
    setup.executor.run_continuous(["reports"])
    assert setup.settle() == everything(*range(150))
    setup.bad_rows = set(range(200, 350))
    setup.commit(*range(200, 350))
    setup.executor.run_continuous(["reports"])
    wait_until(lambda: len(setup.given_up) == 2)


@pytest.mark.parametrize("ends_in_time", [True, False])
def test_a_run_that_was_cancelled_for_a_change_is_made_up_for(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, ends_in_time: bool
) -> None:
    """Also if the change fails, or is given up because the run does not end: no new record need come."""
    monkeypatch.setattr("tocsin.cluster.channels.executor._CANCEL_ATTEMPTS", 2)
    begun, cancelled, release = threading.Event(), threading.Event(), threading.Event()

    def held() -> None:
        begun.set()
        (cancelled if ends_in_time else release).wait(20)
        setup.hold = lambda: None
        raise RunCancelled

    setup.hold = held
    monkeypatch.setattr(ChannelRuns, "cancel", lambda _self, _state: cancelled.set())
    setup.commit(1)
    setup.executor.run_continuous(["reports"])
    assert begun.wait(20)
    with pytest.raises(Exception, match="the disk is full" if ends_in_time else "does not end"):  # noqa: SIM117
        with setup.executor.between_runs(setup.state):
            raise OSError("the disk is full")
    release.set()
    assert setup.settle() == everything(1)
