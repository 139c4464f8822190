"""What ONCE PER remembers: with results, after them, and no longer than it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results import remembered_keys
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.remembered_keys import Kept
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import SCHEMA, ResultStore
from tocsin.errors import ClusterFailure

pytestmark = pytest.mark.shell


def keyed(*rows: tuple[int, int]) -> pa.Table:
    """Rows of these subscriptions, with these numbers as keys and payloads."""
    return pa.table(
        {
            "subscription": pa.array([one for one, _ in rows], pa.int64()),
            "payload": pa.array([f'{{"who":"p{number}"}}' for _, number in rows], pa.string()),
            "key": pa.array([one.to_bytes(8) + number.to_bytes(8) for one, number in rows], pa.binary()),
        }
    )


def opened(folder: Path, most_keys: int = 10**6) -> ResultStore:
    engine = open_catalogue(folder / "catalogue.sqlite")
    numbering = Numbering(engine, 0)
    return ResultStore(folder / "results", Removals(engine), numbering, recent_max_bytes=0, most_keys=most_keys)


def commit(store: ResultStore, rows: Sequence[tuple[int, int]], now_us: int = 10, within_us: int | None = None) -> int:
    """How many of them were results."""
    done = store.commit([("C", keyed(*rows))], {}, now_us, within_us={} if within_us is None else {"C": within_us})
    return int(done.rows["C"].num_rows)


def kept(*ids: int, oldest_us: int | None = None) -> Any:
    def living() -> Iterator[Kept]:
        yield Kept(np.array(ids, np.int64), oldest_us)

    return living


def test_a_commit_that_seemed_to_fail_is_remembered_if_it_has_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not if it has not, whichever commit comes next."""
    store = opened(tmp_path)
    original = delta.commit
    for has_happened in (True, False):

        def failing(*arguments: Any, happens: bool = has_happened) -> None:
            if happens:
                original(*arguments)
            raise OSError("the disk is full")

        row = (1, int(has_happened))
        with monkeypatch.context() as patch:
            patch.setattr(delta, "commit", failing)
            patch.setattr(Table, "_has_happened", lambda self, sequence: self._read_again())
            with pytest.raises(ClusterFailure):
                commit(store, [row])
            store.table._is_unclear = True
        store.set_bounds({("C", "D"): 5})
        assert commit(store, [row]) == (0 if has_happened else 1)


def test_keys_of_ended_subscriptions_and_of_times_past_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory and on disk, in small runs and in large ones that are mapped; the others are not."""
    monkeypatch.setattr(remembered_keys, "SMALL_RUN", 2)
    store = opened(tmp_path)
    commit(store, [(1, number) for number in range(10)], now_us=10)
    commit(store, [(2, number) for number in range(10)], now_us=20)
    store.retain(0, 10**9)
    commit(store, [(3, 1)], now_us=30)
    for one in (store, opened(tmp_path)):
        one.load_keys()
        assert len(one.keys) == 21
        assert one.keys.size_bytes == 21 * 32
    store.keys.sweep(kept(2, 3, oldest_us=10))
    assert len(store.keys) == 11
    assert store.keys.table.count() == 10
    again = opened(tmp_path)
    assert commit(again, [(2, 5), (3, 1)]) == 0
    again.keys.sweep(kept(2, 3, oldest_us=20))
    assert len(again.keys) == 1
    last = opened(tmp_path)  # It has loaded nothing, as if the channel had been dropped.
    last.keys.sweep(lambda: iter(()))
    assert (len(last.keys), last.keys.table.count()) == (0, 0)


def test_beyond_the_limit_the_oldest_keys_are_forgotten(tmp_path: Path) -> None:
    """About as many are left as are allowed, and they are the newest."""
    store = opened(tmp_path, most_keys=2_000)
    for now_us in range(10):
        commit(store, [(1, 1000 * now_us + number) for number in range(1000)], now_us=now_us)
    store.keys.sweep(kept(1))
    assert 1_000 <= len(store.keys) <= 2_000
    assert commit(store, [(1, 9_000), (1, 9_999)]) == 0
    assert commit(store, [(1, 0)]) == 1


def test_the_keys_of_one_large_commit_are_not_all_forgotten(tmp_path: Path) -> None:
    """They are equally old: to forget them all would give everybody the same results again. Older ones go."""
    store = opened(tmp_path, most_keys=1_000)
    commit(store, [(1, number) for number in range(500)], now_us=10)
    large = [(1, number) for number in range(500, 2_500)]
    commit(store, large, now_us=20)
    store.keys.sweep(kept(1))
    assert len(store.keys) == 2_000
    assert commit(store, large, now_us=30) == 0
    commit(store, [(1, number) for number in range(2_500, 3_500)], now_us=40)
    store.keys.sweep(kept(1))
    assert len(store.keys) == 1_000


def test_keys_of_a_person_who_is_forgotten_are_gone(tmp_path: Path) -> None:
    """Those of results that name the person, and of subscriptions that do, on disk and in memory; nobody else's."""
    store = opened(tmp_path)
    commit(store, [(1, 7), (1, 8), (2, 8), (3, 8)])
    store.retain(0, 10**9)
    commit(store, [(1, 9)])
    assert store.forget([2], '"p7"') == 2
    assert store.keys.table.count() == 2
    for one in (store, opened(tmp_path)):
        one.load_keys()
        assert len(one.keys) == 3
    assert commit(store, [(1, 7), (2, 8), (3, 8), (1, 9)]) == 2


def test_results_are_removed_only_after_their_keys_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If keys can't be stored, retention waits."""
    store = opened(tmp_path)
    commit(store, [(1, 7)])
    with monkeypatch.context() as patch:
        patch.setattr(store.keys.table, "append", lambda *_: (_ for _ in ()).throw(ClusterFailure("the disk is full")))
        with pytest.raises(ClusterFailure):
            store.retain(100, 10**9)
        assert store.table.count() == 1
    assert store.retain(100, 10**9)
    assert store.table.count() == 0
    assert commit(opened(tmp_path), [(1, 7)]) == 0


def test_while_no_channel_has_once_per_results_are_not_searched_for_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep reads none of them; the first channel that has it is remembered all the same."""
    store = opened(tmp_path)
    plain = keyed((1, 1)).drop_columns(["key"])
    store.commit([("P", plain)], {}, 10)
    store.keys.leave_unused(store.table.durable)
    with monkeypatch.context() as patch:
        patch.setattr(store.keys, "_read", lambda *_: pytest.fail("results were read"))
        store.load_keys()
        store.keys.leave_unused(store.table.durable)
        for _ in range(2):
            store.commit([("P", plain)], {}, 10)
            store.keys.store(store.table.durable)
    assert commit(store, [(1, 7)]) == 1
    store.retain(100, 10**9)
    assert commit(opened(tmp_path), [(1, 7)]) == 0


def test_a_results_table_from_before_there_were_keys_gets_them(tmp_path: Path) -> None:
    """Its results stay as they are, and have none."""
    before = pa.schema([field for field in SCHEMA if field.name not in {"key", "held", "kind"}])
    table = Table(tmp_path / "results", before)
    old = [[1 << 14], [1], ["C"], ["{}"], [10]]
    table.append(pa.table([pa.array(column, one.type) for column, one in zip(old, before, strict=True)], schema=before))
    table.sync()
    store = opened(tmp_path)
    assert commit(store, [(1, 7), (1, 7)]) == 1
    store = opened(tmp_path)
    assert commit(store, [(1, 7)]) == 0
    pulled = store.pull(0, limit_rows=10, keep=lambda rows: rows)
    assert pulled.rows.column("payload").to_pylist() == ["{}", '{"who":"p7"}']


def test_keys_may_have_any_size_and_must_be_there(tmp_path: Path) -> None:
    """They are remembered as digests, of each subscription apart. A row without a key is an error of ours."""
    store = opened(tmp_path)
    texts = ["", "x", "x" * 8, "x" * 10**6, "", "x" * 8]
    rows = keyed((1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (2, 1)).set_column(2, "key", pa.array(texts))
    assert store.commit([("C", rows)], {}, 10).rows["C"].num_rows == 5
    assert opened(tmp_path).commit([("C", rows)], {}, 10).rows["C"].num_rows == 0
    with pytest.raises(ClusterFailure, match="has no key"):
        store.commit([("C", rows.set_column(2, "key", pa.nulls(6, pa.string())))], {}, 10)
