"""The result store: results and window bounds are one commit, and pulls lose and double nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.retention import ResultRetention
from tocsin.cluster.results.store import SCHEMA, Pulled, ResultStore, only
from tocsin.errors import ClusterFailure, HistoryGone, HistoryRewound
from tocsin.model.position import ROWS_PER_NUMBER, commit_of, end_of, sequence_of

pytestmark = pytest.mark.shell


def output(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table(
        {"subscription": pa.array([one for one, _ in pairs], pa.int64()), "payload": [text for _, text in pairs]}
    )


def everything(rows: pa.Table) -> pa.Table:
    return rows


def opened(folder: Path, recent_max_bytes: int = 0, now_us: int = 0) -> ResultStore:
    """Also again, in the same folder, as after a restart."""
    engine = open_catalogue(folder / "catalogue.sqlite")
    registry = SubscriptionRegistry(engine)
    registry.put_broker("b")
    registry.subscribe("b", "C", [(number,) for number in range(5)])  # These have the ids 1 to 5.
    return ResultStore(
        folder / "results", Removals(engine), Numbering(engine, now_us), recent_max_bytes=recent_max_bytes
    )


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return opened(tmp_path, 1 << 20)


def test_results_and_bounds_are_one_commit(store: ResultStore, tmp_path: Path) -> None:
    """After a commit both are there, also for another process; a window without results is known in memory."""
    assert store.bound("C", "D") is None
    assert store.commit([("C", output((1, "a"), (2, "b")))], {("C", "D"): 5}, 10).number == 1
    assert store.commit([("C", output())], {("C", "D"): 7}, 11).number is None
    assert store.bound("C", "D") == 7
    again = opened(tmp_path)
    assert again.bound("C", "D") == 5  # Run again over nothing, it finds nothing again.
    store.flush()
    again = opened(tmp_path)
    assert again.bound("c", "d") == 7
    pulled = again.pull(0, limit_rows=10, keep=everything)
    assert pulled.rows.column("payload").to_pylist() == ["a", "b"]
    assert pulled.rows.column("channel").to_pylist() == ["C", "C"]


def test_any_number_of_results_is_one_commit(store: ResultStore, tmp_path: Path) -> None:
    """However many they are: all at once, with the bound, in growing positions; and whole when pulled in parts."""
    store.commit([("C", output((1, "before")))], {}, 10)
    version, many = store.table.version, 2 * ROWS_PER_NUMBER + 5
    rows = pa.table({"subscription": pa.array([1] * many, pa.int64()), "payload": [str(at) for at in range(many)]})
    assert store.commit([("C", rows)], {("C", "D"): 5}, 10).number == 4
    assert store.table.version == version + 1
    store.commit([("C", output((1, "after")))], {}, 10)
    for one in (store, opened(tmp_path)):
        cursor, found = 0, []
        while cursor < one.last_sequence:
            pulled = one.pull(cursor, limit_rows=10_000, keep=everything)
            assert cursor < pulled.through <= one.last_sequence
            found += pulled.rows.to_pylist()
            cursor = pulled.through
        assert [row["payload"] for row in found] == ["before", *map(str, range(many)), "after"]
        assert [row["sequence"] for row in found] == sorted({row["sequence"] for row in found})
        in_the_middle = one.pull_subscriptions({1: found[ROWS_PER_NUMBER + 7]["sequence"]}, limit_rows=3)
        assert in_the_middle.rows.to_pylist() == found[ROWS_PER_NUMBER + 8 :][:3]


def test_nobody_hears_of_what_a_power_cut_could_take_away(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that are committed and not durable yet can't be pulled, and no cursor lies beyond them."""
    store.commit([("C", output((1, "a")))], {}, 10)
    cursor = store.last_sequence

    def fails() -> int:
        raise ClusterFailure("planted")

    with monkeypatch.context() as patch:
        patch.setattr(store.table, "sync", fails)
        with pytest.raises(ClusterFailure):
            store.commit([("C", output((1, "b")))], {("C", "D"): 9}, 10)
        assert store.bound("C", "D") == 9  # It happened, and is not run again.
        assert store.last_sequence == cursor
        assert store.pull(cursor, limit_rows=10, keep=everything).rows.num_rows == 0
        assert store.pull_subscriptions({1: cursor}, limit_rows=10) == Pulled(SCHEMA.empty_table(), cursor)
    store.set_bounds({("C", "D"): 10})
    assert store.pull(cursor, limit_rows=10, keep=everything).rows.column("payload").to_pylist() == ["b"]


def test_rows_are_durable_before_the_bound_that_is_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could leave a bound without its rows, and no run would look at them when they come again."""
    engine = open_catalogue(tmp_path / "catalogue.sqlite")
    events: list[object] = []
    store = ResultStore(
        tmp_path / "results",
        Removals(engine),
        Numbering(engine, 0),
        recent_max_bytes=0,
        sync_datasets=lambda names: events.append(sorted(names)),
    )
    append = store.table.append

    def note(*args: Any, **kwargs: Any) -> int:
        events.append("append")
        return append(*args, **kwargs)

    monkeypatch.setattr(store.table, "append", note)
    store.commit([("C", output())], {("C", "D"): 7}, 11)
    store.commit([("A", output((1, "a")))], {("A", "E"): 3}, 10)
    store.commit([("C", output())], {("C", "D"): 8}, 11)
    store.flush()
    store.set_bounds({("A", "E"): 4})
    assert events == [["D", "E"], "append", ["D"], "append", ["E"], "append"]


def test_a_window_whose_commit_seemed_to_fail_is_not_run_again(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bound is what the table says, also where an earlier window without results had left one in memory."""
    store.commit([("C", output())], {("C", "D"): 5}, 10)
    commit = DeltaTable.create_write_transaction

    def fails_afterwards(*args: Any, **kwargs: Any) -> None:
        commit(*args, **kwargs)
        raise OSError("planted")

    def fails(_self: Table) -> None:
        raise ClusterFailure("planted")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", fails_afterwards)
        patch.setattr(Table, "_read_again", fails)
        with pytest.raises(ClusterFailure):
            store.commit([("C", output((1, "a")))], {("C", "D"): 9}, 10)
    assert store.bound("C", "D") == 9
    store.commit([("C", output((1, "b")))], {("C", "D"): 12}, 10)
    assert store.pull(0, limit_rows=10, keep=everything).rows.column("payload").to_pylist() == ["a", "b"]


def test_a_commit_after_one_that_seemed_to_fail_has_numbers_of_its_own(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that began before, and so comes without asking first how far the table is."""
    commit = DeltaTable.create_write_transaction

    def fails_afterwards(*args: Any, **kwargs: Any) -> None:
        commit(*args, **kwargs)
        raise OSError("planted")

    def fails(_self: Table) -> None:
        raise ClusterFailure("planted")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", fails_afterwards)
        patch.setattr(Table, "_read_again", fails)
        with pytest.raises(ClusterFailure):
            store.commit([("C", output((1, "a")))], {("C", "D"): 9}, 10)
    number = store.commit([("Other", output((2, "b")))], {("Other", "D"): 9}, 10).number
    assert number == 2
    pulled = store.pull(0, limit_rows=10, keep=everything).rows
    assert pulled.column("sequence").to_pylist() == [sequence_of(1, 0), sequence_of(2, 0)]
    assert pulled.column("payload").to_pylist() == ["a", "b"]


_NOW_US = 1_800_000_000_000_000


def restored(folder: Path) -> ResultStore:
    """A store that has gone on after its back-up was made, and was put back to it."""
    back_up = folder.with_name("back-up")
    shutil.copytree(back_up, folder, dirs_exist_ok=False)
    return opened(folder, now_us=_NOW_US + 1_000_000)


def test_a_restored_back_up_gives_no_number_a_second_time(tmp_path: Path) -> None:
    """New results come after every position that the lost ones had. Who names one of those is told where to go on, and
    misses nothing there; who was not that far goes on as if nothing had happened."""
    folder = tmp_path / "data"
    folder.mkdir()
    store = opened(folder, now_us=_NOW_US)
    store.commit([("C", output((1, "kept")))], {("C", "D"): 1}, 10)
    early = store.last_sequence
    shutil.copytree(folder, tmp_path / "back-up")
    store.commit([("C", output((1, "lost")))], {("C", "D"): 2}, 10)
    (row,) = store.pull(early, limit_rows=10, keep=everything).rows.to_pylist()
    lost = [row["sequence"], store.last_sequence]
    shutil.rmtree(folder)
    store = restored(folder)
    store.commit([("C", output((1, "new")))], {("C", "D"): 2}, 10)
    for cursor in lost:
        for pull in (
            lambda at: store.pull(at, limit_rows=10, keep=everything),
            lambda at: store.pull_subscriptions({1: at}, limit_rows=10),
        ):
            with pytest.raises(HistoryRewound, match="history that is gone") as caught:
                pull(cursor)
            goes_on = int(caught.value.earliest)
            assert goes_on > cursor
            assert pull(goes_on).rows.column("payload").to_pylist() == ["new"]
            assert pull(early).rows.column("payload").to_pylist() == ["new"]
    assert store.pull(0, limit_rows=10, keep=everything).rows.column("payload").to_pylist() == ["kept", "new"]


def test_a_cursor_beyond_the_end_is_of_a_history_that_is_gone(store: ResultStore) -> None:
    """It is answered with where the end is, not with silence until the numbers have caught up."""
    store.commit([("C", output((1, "a")))], {}, 10)
    for pull in (
        lambda at: store.pull(at, limit_rows=10, keep=everything),
        lambda at: store.pull_subscriptions({1: at}, limit_rows=10),
    ):
        assert pull(store.last_sequence).rows.num_rows == 0
        with pytest.raises(HistoryRewound) as caught:
            pull(store.last_sequence + 1)
        assert caught.value.earliest == str(store.last_sequence)


def test_numbers_are_reserved_before_they_are_given_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock that can be believed, and with all results gone, new ones still come after the lost ones."""
    monkeypatch.setattr("tocsin.cluster.results.numbering._BLOCK", 2)  # What was reserved at the start is soon used up.
    store = opened(tmp_path)
    for number in range(3):
        store.commit([("C", output((1, str(number))))], {}, 10)
    cursor = store.last_sequence
    shutil.rmtree(tmp_path / "results")
    again = opened(tmp_path)
    with pytest.raises(HistoryRewound) as caught:
        again.pull(cursor, limit_rows=10, keep=everything)
    assert int(caught.value.earliest) > cursor
    again.commit([("C", output((1, "new")))], {}, 10)
    found = again.pull(int(caught.value.earliest), limit_rows=10, keep=everything)
    assert found.rows.column("payload").to_pylist() == ["new"]


def test_a_cursor_from_a_start_that_committed_nothing_stays_good(tmp_path: Path) -> None:
    """A broker may have pulled, and got nothing but a cursor, before the process was killed."""
    store = opened(tmp_path)
    store.commit([("C", output((1, "a")))], {}, 10)
    cursors = [store.last_sequence]
    for turn in range(3):
        store = opened(tmp_path, now_us=_NOW_US + turn * 10**12)
        cursors.append(store.pull(cursors[-1], limit_rows=9, keep=everything).through)
    store.commit([("C", output((1, "b")))], {}, 10)
    assert len(set(cursors)) == 4
    for cursor in cursors:
        assert store.pull(cursor, limit_rows=9, keep=everything).rows.column("payload").to_pylist() == ["b"]


def test_starts_that_commit_nothing_leave_one_gap(tmp_path: Path) -> None:
    """However often it was started: what was pulled before goes on after it, in one step, and nothing is told."""
    store = opened(tmp_path)
    store.commit([("C", output((1, "a")))], {}, 10)
    cursor = store.last_sequence
    for turn in range(3):
        store = opened(tmp_path, now_us=_NOW_US + turn * 10**12)
    store.commit([("C", output((1, "b"), (1, "c")))], {}, 10)
    pulled = store.pull(cursor, limit_rows=1, keep=everything)
    assert pulled.rows.column("payload").to_pylist() == ["b"]
    assert store.pull(pulled.through, limit_rows=9, keep=everything).rows.column("payload").to_pylist() == ["c"]
    assert store.pull(cursor, limit_rows=9, keep=only([2])) == Pulled(SCHEMA.empty_table(), store.last_sequence)


def test_several_channels_commit_together(store: ResultStore) -> None:
    """What continuous channels found in one batch is one commit, with every bound in it."""
    done = store.commit([("A", output((1, "a"))), ("B", output((2, "b")))], {("A", "D"): 3, ("B", "D"): 4}, 10)
    commit = done.number
    assert commit == 1
    assert (store.bound("A", "D"), store.bound("B", "D")) == (3, 4)
    assert store.pull(0, limit_rows=10, keep=only([2])).rows.column("payload").to_pylist() == ["b"]


def test_an_empty_flush_commits_nothing(store: ResultStore) -> None:
    """An idle cluster writes nothing."""
    store.flush()
    assert store.table.sequence == 0
    store.set_bounds({("C", "D"): 1})
    store.flush()
    assert store.table.sequence == 1


def test_retention_by_age(store: ResultStore) -> None:
    """What is older goes, whole commits of it; whoever asks for it is told from where there is history."""
    for at_us in (10, 20, 30):
        store.commit([("C", output((1, str(at_us))))], {("C", "D"): at_us}, at_us)
    assert store.retain(20, 1 << 40) == 1
    assert store.retain(20, 1 << 40) == 0
    for after in (0, 1):
        with pytest.raises(HistoryGone) as caught:
            store.pull(after, limit_rows=10, keep=everything)
    assert caught.value.earliest == str(store.earliest_sequence)
    found = store.pull(store.earliest_sequence, limit_rows=10, keep=everything)
    assert found.rows.column("payload").to_pylist() == ["20", "30"]
    assert store.bound("C", "D") == 30


def named(*pairs: tuple[int, int]) -> pa.Table:
    """Subscriptions and numbers, as payloads that are objects."""
    return output(*((one, f'{{"n":{number}}}') for one, number in pairs))


def test_channels_keep_their_results_for_different_times(store: ResultStore, tmp_path: Path) -> None:
    """Results of a channel go at its own time, sooner or later than others. Who has lost none is told nothing, however
    old its position is; that of the others is told from where there is history."""
    store.commit([("Short", named((1, 1))), ("Plain", named((2, 2))), ("Long", named((3, 3)))], {}, 10)
    store.commit([("Short", named((1, 4))), ("Plain", named((2, 5)))], {}, 20)
    assert store.retain(5, 1 << 40, {"Short": 15, "Long": 0}) == 1
    store.table.sync()
    for holder in (store, opened(tmp_path)):
        with pytest.raises(HistoryGone, match="of subscription 1") as caught:
            holder.pull_subscriptions({1: 0}, limit_rows=10)
        assert caught.value.earliest == str(end_of(1))
        found = holder.pull_subscriptions({2: 0, 3: 0}, limit_rows=10).rows
        assert found.column("payload").to_pylist() == ['{"n":2}', '{"n":3}', '{"n":5}']
        found = holder.pull_subscriptions({1: end_of(1)}, limit_rows=10).rows
        assert found.column("payload").to_pylist() == ['{"n":4}']
    assert store.earliest_sequence == 0
    assert store.retain(15, 1 << 40, {"Short": 15, "Long": 0}) == 1
    with pytest.raises(HistoryGone, match="of subscription 2"):
        store.pull_subscriptions({2: 0}, limit_rows=10)
    assert store.pull_subscriptions({3: 0}, limit_rows=10).rows.num_rows == 1
    assert store.retain(30, 1 << 40) == 3  # Nobody keeps them for longer any more.
    assert store.earliest_sequence >= end_of(2)
    assert store.table.count() == 0


def test_what_says_that_a_subscription_has_failed_outlasts_its_channels_results(store: ResultStore) -> None:
    """A broker that was away for longer than a channel keeps its results still hears of it."""
    store.commit([("Short", named((1, 1)))], {}, 10)
    store.tell_failed("Short", {1: "no zone"}, 11)
    assert store.retain(5, 1 << 40, {"Short": 100}) == 1
    found = store.pull_subscriptions({1: end_of(1)}, limit_rows=10).rows
    assert found.column("payload").to_pylist() == ['"no zone"']


def test_a_lost_end_is_told_though_older_results_are_kept_for_longer(store: ResultStore) -> None:
    """A subscription has failed, and that is kept for a shorter time than the results of its channel. Whoever has seen
    these and not the failure is told, also once these are removed too."""
    store.commit([("Long", named((1, 1)))], {}, 10)
    store.tell_failed("Long", {1: "no zone"}, 20)
    seen = end_of(1)
    for oldest_us in (0, 15):
        store.retain(30, 1 << 40, {"Long": oldest_us})
        with pytest.raises(HistoryGone, match="of subscription 1"):
            store.pull_subscriptions({1: seen}, limit_rows=10)
    assert store.table.count() == 0


def test_a_broker_is_told_only_of_what_it_holds(store: ResultStore, tmp_path: Path) -> None:
    """A cursor from before a removal goes on as if nothing had been, unless results for this broker were removed."""
    registry = SubscriptionRegistry(open_catalogue(tmp_path / "catalogue.sqlite"))
    registry.put_broker("other")
    registry.subscribe("other", "C", [(1,)])  # This is subscription 2.
    store.commit([("Short", named((1, 1))), ("Plain", named((2, 2)))], {}, 10)
    store.retain(5, 1 << 40, {"Short": 15})
    keep, holds = only([2]), store.retention.check_holds
    pulled = store.pull(0, limit_rows=10, keep=keep, check=lambda after: holds("other", after))
    assert pulled.rows.column("payload").to_pylist() == ['{"n":2}']
    with pytest.raises(HistoryGone, match="results for b") as caught:
        store.pull(0, limit_rows=10, keep=everything, check=lambda after: holds("b", after))
    store.pull(int(caught.value.earliest), limit_rows=10, keep=everything, check=lambda after: holds("b", after))


@pytest.mark.parametrize("step", ["note", "_remove", "mark", "delete_between", "first_number"])
def test_a_removal_that_dies_half_way_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whichever step a process dies at: the next one has all results, or says that they are gone; and it removes them
    when it is their time."""
    store = opened(tmp_path)
    store.commit([("Short", named((1, 1))), ("Plain", named((2, 2)))], {}, 10)

    def die(*_args: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    if step == "mark":
        monkeypatch.setattr(store.retention, "_mark", die)
    else:
        owner = {"note": Removals, "_remove": ResultRetention}.get(step, Table)
        monkeypatch.setattr(owner, step, die)
    with pytest.raises(KeyboardInterrupt):
        store.retain(5, 1 << 40, {"Short": 15})
    monkeypatch.undo()
    again = opened(tmp_path)
    assert again.pull_subscriptions({2: 0}, limit_rows=10).rows.column("payload").to_pylist() == ['{"n":2}']
    try:
        found = again.pull_subscriptions({1: 0}, limit_rows=10).rows.column("payload").to_pylist()
    except HistoryGone:
        pass
    else:
        assert found == ['{"n":1}']
    again.retain(5, 1 << 40, {"Short": 15})
    with pytest.raises(HistoryGone):
        again.pull_subscriptions({1: 0}, limit_rows=10)
    assert again.table.count() == 1


@settings(max_examples=60)
@given(
    commits=st.lists(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4), min_size=1, max_size=8),
    retained=st.lists(
        st.tuples(st.integers(0, 9), st.dictionaries(st.sampled_from(["C1", "C2"]), st.integers(0, 9))), max_size=4
    ),
    after=st.integers(0, 9),
)
def test_each_subscription_gets_everything_or_is_told_whatever_is_removed_when(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[int]],
    retained: list[tuple[int, dict[str, int]]],
    after: int,
) -> None:
    """However often and in which order times change: history is gone for a subscription if and only if results of its
    own, after its position, were past the time of their channel at one of the removals."""
    store = opened(tmp_path_factory.mktemp("r"))
    rows: list[tuple[int, int]] = []  # The subscription and the number of its commit, which is also its time.
    for number, ids in enumerate(commits, 1):
        outputs = [(f"C{one}", named((one, number))) for one in ids]
        store.commit(outputs, {}, number)
        rows += [(one, number) for one in ids]
    lost: dict[int, int] = {}
    for oldest_us, by_channel in retained:
        store.retain(oldest_us, 1 << 40, by_channel)
        for one, number in rows:
            if number < by_channel.get(f"C{one}", oldest_us):
                lost[one] = max(lost.get(one, 0), number)
    position = end_of(after) if after else 0
    for one in (1, 2, 3):
        wanted = [f'{{"n":{number}}}' for mine, number in rows if mine == one and number > after]
        told, is_told = 0, False
        try:
            found = store.pull_subscriptions({one: min(position, store.last_sequence)}, limit_rows=1000).rows
        except HistoryGone as gone:
            told, is_told = int(gone.earliest), True
        if is_told:
            assert lost[one] > after
            assert told == end_of(lost[one])
        else:
            assert lost.get(one, 0) <= after
            assert found.column("payload").to_pylist() == wanted


def test_retention_by_size(store: ResultStore) -> None:
    """Beyond the size the oldest go first, and the newest stay."""
    for number in range(20):
        store.commit([("C", output((1, str(number) * 3000)))], {}, number)
    size = store.table.size_bytes()
    assert store.retain(0, size // 2) >= 5
    assert store.table.size_bytes() < size
    left = store.pull(store.earliest_sequence, limit_rows=100, keep=everything).rows.column("payload").to_pylist()
    assert left == [str(number) * 3000 for number in range(20 - len(left), 20)]
    assert 5 <= len(left) <= 15


@given(
    commits=st.lists(st.lists(st.integers(1, 4), max_size=8), max_size=20),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    wanted=st.sets(st.integers(1, 4), min_size=1),
    in_memory=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_pages_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[int]],
    limits: list[int],
    wanted: set[int],
    in_memory: bool,
) -> None:
    """For any commits, page sizes and subscriptions: the pages, put together, are the whole, in order, each once."""
    store = opened(tmp_path_factory.mktemp("r"), 1 << 20 if in_memory else 0)
    expected = []
    for number, ids in enumerate(commits):
        store.commit([("C", output(*((one, f"{number}.{at}") for at, one in enumerate(ids))))], {("C", "D"): number}, 1)
        expected += [f"{number}.{at}" for at, one in enumerate(ids) if one in wanted]
    keep, cursor, pages = only(list(wanted)), 0, []
    for turn in range(1000):
        pulled = store.pull(cursor, limit_rows=limits[turn % len(limits)], keep=keep)
        assert pulled.rows.num_rows <= limits[turn % len(limits)]
        assert pulled.through >= cursor
        pages += pulled.rows.column("payload").to_pylist()
        if pulled.through == cursor or commit_of(pulled.through + 1) > store.table.sequence:
            break
        cursor = pulled.through
    assert pages == expected


@given(
    commits=st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=12),
    asked=st.dictionaries(st.integers(1, 5), st.tuples(st.integers(0, 13), st.integers(0, 6)), min_size=1),
    reopened_after=st.integers(0, 12),
    removed=st.lists(st.integers(0, 12), max_size=2),
    limit_rows=st.integers(1, 9),
    in_memory=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_each_subscription_is_pulled_from_its_own_position(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[int]],
    asked: dict[int, tuple[int, int]],
    reopened_after: int,
    removed: list[int],
    limit_rows: int,
    in_memory: bool,
) -> None:
    """For any positions, also old ones, and whatever was removed or restarted before: what came after a position is
    pulled, in order, each once; if, and only if, some of it has been removed, that is said."""
    folder = tmp_path_factory.mktemp("r")
    store = opened(folder, 1 << 20 if in_memory else 0)
    numbers = [0]
    for number, ids in enumerate(commits):
        if number == reopened_after:
            store = opened(folder, 1 << 20 if in_memory else 0)
        outputs = [("C", output(*((one, f"{number}.{at}") for at, one in enumerate(ids))))]
        numbers.append(store.commit(outputs, {}, number).number or numbers[-1])
    whole = store.pull(0, limit_rows=1000, keep=everything).rows.to_pylist()
    for oldest_us in removed:
        store.retain(oldest_us, 1 << 40)
    positions = {one: sequence_of(numbers[min(at, len(numbers) - 1)], row) for one, (at, row) in asked.items()}
    wanted = [row for row in whole if row["sequence"] > positions.get(row["subscription"], 1 << 60)]
    lost = [row for row in wanted if row["sequence"] <= store.earliest_sequence]
    found: list[dict[str, object]] = []
    try:
        for _ in range(1000):
            pulled = store.pull_subscriptions(positions, limit_rows=limit_rows)
            found += pulled.rows.to_pylist()
            if pulled.through >= store.last_sequence:
                break
            positions = {one: max(at, pulled.through) for one, at in positions.items()}
    except HistoryGone:
        assert lost
    else:
        assert not lost
        assert found == wanted


def test_who_has_missed_nothing_costs_no_reading(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago its last result was, and however many results others had since."""
    store.commit([("C", output((1, "old")))], {}, 1)
    position = sequence_of(1, 0)
    store.commit([("C", output((2, "new")))], {}, 1)
    monkeypatch.setattr(store.table, "read", None)
    pulled = store.pull_subscriptions({1: position}, limit_rows=10)
    assert (pulled.rows.num_rows, pulled.through) == (0, store.last_sequence)


def test_a_part_that_is_done_is_known_to_be(store: ResultStore, tmp_path: Path) -> None:
    """Results of a commit that come in parts say up to which subscription they are there, also to another process; for
    another commit that says nothing."""
    assert store.part_done("C", "D", 5) == 0
    assert store.commit_part("C", output((1, "a"), (2, "b")), ("D", 5, 2), 10).number is not None
    again = opened(tmp_path)
    assert (again.part_done("c", "d", 5), again.part_done("C", "D", 6), again.bound("C", "D")) == (2, 0, None)
    assert again.commit_part("C", output(), ("D", 5, 3), 11).number is None  # Found again with nothing, like its bound.


def test_holders_are_told_once_that_a_subscription_has_failed(store: ResultStore, tmp_path: Path) -> None:
    """The reason is the last of its history, as a JSON string; telling again, also after a restart, adds nothing."""
    store.commit([("C", output((1, '{"n":1}')))], {}, 10)
    assert store.tell_failed("C", {1: 'no zone "x"'}, 11) is not None
    assert store.tell_failed("C", {1: 'no zone "x"'}, 12) is None
    again = opened(tmp_path)
    assert again.tell_failed("C", {1: 'no zone "x"', 2: "late"}, 13) is not None
    payloads = again.pull(0, limit_rows=10, keep=everything).rows.column("payload").to_pylist()
    assert payloads == ['{"n":1}', '"no zone \\"x\\""', '"late"']


def test_who_ever_had_a_result_is_known(tmp_path: Path) -> None:
    """Also of results that were committed by an earlier process, or that retention has removed."""
    opened(tmp_path).commit([("C", output((1, "a"), (2, "b")))], {}, 10)
    store = opened(tmp_path)
    assert [store.has_results(one) for one in (1, 2, 3)] == [True, True, False]
    store.commit([("C", output((2, "c")))], {}, 20)
    store.retain(15, 1 << 30)
    assert [store.has_results(one) for one in (1, 2, 3)] == [True, True, False]


def test_a_pull_is_bounded_in_bytes(store: ResultStore) -> None:
    """Large results come a few at a time, and the next pull goes on after them; a larger one comes alone."""
    sizes = [6 << 20, 6 << 20, 6 << 20, 20 << 20, 1, 1]
    for first in (0, 3):
        store.commit([("C", output(*((1, "x" * size) for size in sizes[first : first + 3])))], {}, 10)
    position = 0
    pulls: list[list[int]] = []
    while position < store.last_sequence:
        pulled = store.pull(position, limit_rows=10, keep=everything)
        pulls.append([len(payload) for payload in pulled.rows.column("payload").to_pylist()])
        position = pulled.through
    assert pulls == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]


def test_what_is_removed_while_it_is_pulled_is_told(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention may come between the look at what is kept and the reading: nobody goes on as if nothing had been."""
    for number in range(4):
        store.commit([("C", output((1 + number % 2, "x" * number)))], {}, 10 + number)
    read = Table.read

    def after_retention(table: Table, *args: Any, **kwargs: Any) -> pa.Table:
        monkeypatch.setattr(Table, "read", read)
        store.retain(12, 1 << 30)
        return table.read(*args, **kwargs)

    monkeypatch.setattr(Table, "read", after_retention)
    with pytest.raises(HistoryGone):
        store.pull(0, limit_rows=10, keep=everything)
    assert store.earliest_sequence == end_of(2)


def test_what_is_removed_before_reading_begins_is_told(store: ResultStore) -> None:
    """Retention may come between the look at the marks and the choice of where to begin, and leave nothing to read."""
    store.commit([("C", output((1, "x")))], {}, 10)
    checks: list[int] = []

    def check(after: int) -> None:
        store.retention.check(after)
        checks.append(after)
        if len(checks) == 1:
            store.retain(12, 1 << 30)

    with pytest.raises(HistoryGone):
        store.pull(0, limit_rows=10, keep=everything, check=check)


def test_who_lost_nothing_is_not_told_of_what_is_removed_meanwhile(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull of subscriptions that retention overtakes answers for these subscriptions."""
    for number, one in enumerate((1, 1, 2, 2)):
        store.commit([("C", output((one, "x" * number)))], {}, 10 + number)
    read = Table.read

    def after_retention(table: Table, *args: Any, **kwargs: Any) -> pa.Table:
        monkeypatch.setattr(Table, "read", read)
        store.retain(12, 1 << 30)
        return table.read(*args, **kwargs)

    for one in (1, 2):
        store.pull_subscriptions({one: 1}, limit_rows=10)  # What is the newest of each is known from now on.
    monkeypatch.setattr(Table, "read", after_retention)
    pulled = store.pull_subscriptions({2: 1}, limit_rows=10)
    assert pulled.rows.column("payload").to_pylist() == ["xx", "xxx"]
    with pytest.raises(HistoryGone, match="of subscription 1"):
        store.pull_subscriptions({1: 1}, limit_rows=10)
