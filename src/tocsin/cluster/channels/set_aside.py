"""The rows that a channel can't be run for, found again by their dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.channels.recovery import about, letter_of, record
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.datasets.store import DatasetStore, StoredDataset


def rows_set_aside(
    store: DatasetStore, state: ChannelState, through: Mapping[str, int], for_any: bool
) -> dict[str, pa.Table]:
    """By dataset, the rows of commits up to `through` that were set aside for all subscriptions of a channel, or, with
    `for_any`, for one of them."""
    whole = letter_of(state.channel.name, None)

    def is_meant(letter: str) -> bool:
        return letter == whole or (for_any and letter.startswith(f"{whole}, "))

    found = {dataset: _rows_of(store[dataset], last, is_meant) for dataset, last in through.items()}
    return {dataset: rows for dataset, rows in found.items() if rows.num_rows}


def _rows_of(stored: StoredDataset, last: int, is_meant: Callable[[str], bool]) -> pa.Table:
    where = (pc.field("position") < 0) & (pc.field("position") >= -last)
    letters = stored.dead_letters.read(where=where, columns=["position", "line", "reason", "raw"]).to_pylist()
    commits: dict[int, pa.Table] = {}
    hidden = []
    for letter in letters:
        if not is_meant(about(letter["reason"])):
            continue
        commit = -letter["position"]
        if commit not in commits:
            commits[commit] = stored.window(commit - 1, commit)
        rows = commits[commit]
        # Compaction may have dropped rows of a keyed dataset, and so have changed the numbers of others.
        likely = [letter["line"] - 1] if letter["line"] <= rows.num_rows else []
        numbers = (one for one in (*likely, *range(rows.num_rows)) if record(rows, one) == letter["raw"])
        if (number := next(numbers, None)) is not None:
            hidden.append(rows.slice(number, 1))
    return pa.concat_tables([stored.rows.schema.empty_table(), *hidden])
