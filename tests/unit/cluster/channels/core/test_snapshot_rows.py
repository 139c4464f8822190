"""A run's rows as snapshots."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.core.snapshot_rows import snapshot_outputs


def _rows(outputs: list[pa.Table]) -> list[dict[str, Any]]:
    """All rows, in the order in which they are committed."""
    return [row for one in outputs for row in one.to_pylist()]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=30),
    st.sets(st.integers(1, 4)),
    st.integers(1, 5),
    st.booleans(),
)
def test_each_snapshot_is_whole_and_in_order(
    pairs: list[tuple[int, int]], first: set[int], most_rows: int, is_keyed: bool
) -> None:
    """For any rows: a beginning, then rows of this subscription, each key once, as many as allowed, then an end that
    says how many there are and whether these are all. Only first snapshots keep keys."""
    columns = {"subscription": [one for one, _ in pairs], "payload": [f'{{"n":{n}}}' for _, n in pairs]}
    schema = pa.schema([("subscription", pa.int64()), ("payload", pa.string())])
    found = pa.table(columns, schema=schema)
    if is_keyed:
        found = found.append_column("key", pa.array([str(n) for _, n in pairs], pa.string()))
    rows = _rows(snapshot_outputs(found, [1, 2, 3, 4], first, most_rows=most_rows))
    for one in (1, 2, 3, 4):
        mine = [row for row in rows if row["subscription"] == one]
        begin, *held, end = mine
        assert (begin["kind"], begin["payload"]) == ("snapshot_begin", "null")
        assert {row["kind"] for row in held} <= {"snapshot"}
        expected = [payload for whose, payload in zip(*columns.values(), strict=True) if whose == one]
        expected = list(dict.fromkeys(expected)) if is_keyed else expected
        assert [row["payload"] for row in held] == expected[:most_rows]
        assert end["kind"] == "snapshot_end"
        assert json.loads(end["payload"]) == {"results": len(held), "complete": len(expected) <= most_rows}
        assert all(("key" in row) == (is_keyed and one in first) for row in held)


def test_an_end_says_why_there_was_no_snapshot() -> None:
    """In a payload that is an object, whatever the reason has in it."""
    nothing = pa.table({"subscription": pa.array([], pa.int64()), "payload": pa.array([], pa.string())})
    _, end = _rows(snapshot_outputs(nothing, [7], [], most_rows=1, reason='no "zone"'))
    assert json.loads(end["payload"]) == {"results": 0, "complete": False, "reason": 'no "zone"'}
