"""Results and exits of a channel WITH EXITS, as they are committed, remembered and sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.exits import Exits
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.remembered_keys import Kept
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore
from tocsin.cluster.results.wire import encode_results
from tocsin.protocol.messages import Notification, decode_from_broker, decode_result, notification_of

pytestmark = pytest.mark.shell

Pair = tuple[int, str]


def opened(folder: Path, most_keys: int = 10**6) -> ResultStore:
    engine = open_catalogue(folder / "catalogue.sqlite")
    numbering = Numbering(engine, 0)
    return ResultStore(folder / "results", Removals(engine), numbering, recent_max_bytes=0, most_keys=most_keys)


def pairs(*found: Pair) -> pa.Table:
    columns = [pa.array([pair[at] for pair in found], type_) for at, type_ in enumerate((pa.int64(), pa.string()))]
    return pa.table(columns, names=["subscription", "key"])


def commit(
    store: ResultStore, found: list[Pair], holding: list[Pair] | None = None, *, now_us: int = 10, channel: str = "C"
) -> list[tuple[int, str]]:
    """All are checked: what was committed, as subscription and payload."""
    rows = pairs(*found).append_column("payload", pa.array([f'{{"who":"{key}"}}' for _, key in found], pa.string()))
    exits = Exits(None, pairs(*(found if holding is None else holding)), lambda ids: np.ones(len(ids), bool))
    done = store.commit([(channel, rows)], {}, now_us, exits={channel: exits}).rows[channel]
    return list(zip(done.column("subscription").to_pylist(), done.column("payload").to_pylist(), strict=True))


def sweep(store: ResultStore, *ids: int) -> None:
    def living() -> Iterator[Kept]:
        yield Kept(np.array(ids, np.int64), None)

    store.keys.sweep(living)


def test_a_result_an_exit_and_a_result_again(tmp_path: Path) -> None:
    """Each in its turn, whenever the process ends. Channels know nothing of each other's keys."""
    ann = (1, "a")
    assert commit(opened(tmp_path), [ann]) == [(1, '{"who":"a"}')]
    assert commit(opened(tmp_path), [ann]) == []
    assert commit(opened(tmp_path), [], channel="Other") == []
    assert commit(opened(tmp_path), []) == [(1, "{}")]
    assert commit(opened(tmp_path), []) == []
    assert commit(opened(tmp_path), [ann, (2, "a")]) == [(1, '{"who":"a"}'), (2, '{"who":"a"}')]
    assert commit(opened(tmp_path), [], [(2, "a")]) == [(1, "{}")]


def test_what_is_held_outlives_results_and_time(tmp_path: Path) -> None:
    """What has ended is forgotten, on disk too, and so are subscriptions that have ended."""
    store = opened(tmp_path)
    commit(store, [(1, "a"), (1, "b"), (2, "a")], now_us=10)
    commit(store, [], [(1, "a"), (2, "a")], now_us=20)
    store.retain(10**9, 0)
    assert store.table.count() == 0
    assert store.keys.table.count() == 4
    sweep(store, 1)
    assert store.keys.table.count() == 1
    for one in (store, opened(tmp_path)):
        assert one.subscriptions_that_hold("C").tolist() == [1]
    assert commit(opened(tmp_path), [], now_us=30) == [(1, "{}")]


def test_an_exit_that_is_not_stored_yet_does_not_come_again_after_a_sweep(tmp_path: Path) -> None:
    """The result is in the table of keys, and the exit only in that of the results."""
    store = opened(tmp_path)
    commit(store, [(1, "a")])
    store.keys.store(store.table.durable)
    commit(store, [])
    sweep(store, 1)
    assert store.keys.table.count() == 1
    assert commit(opened(tmp_path), []) == []


def test_the_oldest_are_forgotten_if_there_are_too_many(tmp_path: Path) -> None:
    """No exit follows them, and none comes without a result."""
    store = opened(tmp_path, most_keys=2000)
    old, new = ([(1, f"{age}-{number}") for number in range(2000)] for age in ("old", "new"))
    commit(store, old, now_us=10)
    commit(store, new, old + new, now_us=20)
    sweep(store, 1)
    ended = commit(store, [], now_us=30)
    assert ended == [(1, "{}")] * 2000
    assert commit(store, [], now_us=40) == []


def test_a_forgotten_person_is_in_no_key(tmp_path: Path) -> None:
    """No exit follows the results that name the person; others stay."""
    store = opened(tmp_path)
    commit(store, [(1, "ann"), (1, "bob")])
    store.keys.store(store.table.durable)
    assert store.forget([], '"ann"') == 1
    for one in (store, opened(tmp_path)):
        assert one.keys.table.count() == 1
    assert commit(store, []) == [(1, "{}")]


def test_only_rows_of_channels_with_exits_have_a_kind(tmp_path: Path) -> None:
    """A result and its exit have the same key, and other keys have others."""
    store = opened(tmp_path)
    commit(store, [(1, "a"), (1, "b")])
    commit(store, [], [(1, "b")])
    plain = pa.table({"subscription": pa.array([5], pa.int64()), "payload": ["{}"], "key": ["a"]})
    store.commit([("Plain", plain)], {}, 10)
    _, content = encode_results(store.pull(0, limit_rows=10, keep=lambda rows: rows).rows, "")
    lines = content.splitlines()
    one, other, gone, last = map(decode_result, lines)
    assert [result.kind for result in (one, other, gone, last)] == ["result", "result", "exit", "result"]
    assert one.key == gone.key != other.key
    assert (len(one.key), last.key) == (32, "")
    assert b"kind" not in lines[3]
    notification = decode_from_broker(notification_of(lines[2]))
    assert isinstance(notification, Notification)
    assert (notification.kind, bytes(notification.payload)) == ("exit", b"{}")
