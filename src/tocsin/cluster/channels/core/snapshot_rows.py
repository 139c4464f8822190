"""What a run for snapshots found, as results (pure): for each subscription a beginning, its rows, and an end that says
how many there are and whether these are all."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.results import ResultKind


def snapshot_outputs(
    found: pa.Table, subscriptions: Sequence[int], first: Collection[int], *, most_rows: int, reason: str = ""
) -> list[pa.Table]:
    """Tables to commit, in this order. `found` has `subscription`, `payload` and perhaps `key`. Of rows with equal keys
    one is kept. Only the rows of subscriptions that are in `first` keep their keys: what others are shown is known to
    one subscriber alone. With a `reason`, no snapshot was possible.

    >>> found = pa.table({"subscription": [7, 7, 7], "payload": ['{"a":1}', '{"a":2}', '{"a":3}']})
    >>> begin, rows, end = snapshot_outputs(found, [7, 8], [], most_rows=2)
    >>> rows.column("payload").to_pylist(), end.column("payload").to_pylist()
    (['{"a":1}', '{"a":2}'], ['{"results":2,"complete":false}', '{"results":0,"complete":true}'])
    """
    rows = _without_repeats(found) if "key" in found.column_names else found
    whose = rows.column("subscription").to_numpy()
    is_within = _rank(whose) < most_rows
    rows = rows.filter(pa.array(is_within))
    counts = dict(zip(*np.unique(whose[is_within], return_counts=True), strict=True))
    cut = set(whose[~is_within].tolist())
    ends = [
        _end(int(counts.get(one, 0)), is_complete=not reason and one not in cut, reason=reason) for one in subscriptions
    ]
    outputs = [_marks(subscriptions, ResultKind.SNAPSHOT_BEGIN, ["null"] * len(ends))]
    kinds = pa.repeat(pa.scalar(ResultKind.SNAPSHOT.value, pa.string()), rows.num_rows)
    rows = rows.append_column("kind", kinds)
    if "key" in rows.column_names:
        is_first = pc.is_in(rows.column("subscription"), value_set=pa.array(list(first), pa.int64()))
        outputs += [rows.filter(is_first), rows.filter(pc.invert(is_first)).drop_columns(["key"])]
    else:
        outputs.append(rows)
    return [*outputs, _marks(subscriptions, ResultKind.SNAPSHOT_END, ends)]


def _marks(subscriptions: Sequence[int], kind: ResultKind, payloads: Sequence[str]) -> pa.Table:
    return pa.table(
        {
            "subscription": pa.array(subscriptions, pa.int64()),
            "payload": pa.array(payloads, pa.string()),
            "kind": pa.repeat(pa.scalar(kind.value, pa.string()), len(payloads)),
        }
    )


def _end(results: int, *, is_complete: bool, reason: str) -> str:
    what = {"results": results, "complete": is_complete} | ({"reason": reason} if reason else {})
    return json.dumps(what, separators=(",", ":"), ensure_ascii=False)


def _without_repeats(rows: pa.Table) -> pa.Table:
    """One row for each subscription and key."""
    numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    kept = numbered.group_by(["subscription", "key"]).aggregate([("row", "min")]).column("row_min")
    return rows.take(kept.take(pc.sort_indices(kept)))


def _rank(subscriptions: np.ndarray) -> np.ndarray:
    """The number of each row among those of its subscription, from 0."""
    order = np.argsort(subscriptions, kind="stable")
    ordered = subscriptions[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.intp)
    lengths = np.diff(np.r_[begins, len(ordered)])
    rank = np.empty(len(ordered), np.int64)
    rank[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return rank
