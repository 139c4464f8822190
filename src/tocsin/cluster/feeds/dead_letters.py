"""Dead letters read a part at a time: each may be as large as a request, and there may be millions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.cluster.datasets.tables import Table
from tocsin.model.schema import SEQUENCE_COLUMN

#: A letter's place: its commit, the position of its frame in the landing log, and its line in it.
_PLACE = [SEQUENCE_COLUMN, "position", "line"]
_NEWEST_FIRST = [(SEQUENCE_COLUMN, "descending"), ("position", "descending"), ("line", "ascending")]
#: Places held at once while the newest are looked for: a few megabytes.
_MOST_PLACES = 1 << 18


def newest_letters(letters: Table, limit: int) -> list[dict[str, Any]]:
    """The newest `limit`. Only texts of the commits that they came in are read."""
    places = _newest_places(letters, limit)
    if not places.num_rows:
        return []
    oldest = pc.min(places.column(SEQUENCE_COLUMN)).as_py()
    found = letters.read(after=oldest - 1).sort_by(_NEWEST_FIRST).slice(0, limit)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _newest_places(letters: Table, limit: int) -> pa.Table:
    newest = letters.schema.empty_table().select(_PLACE)
    for batch in letters.dataset().to_batches(columns=_PLACE):
        newest = pa.concat_tables([newest, pa.Table.from_batches([batch])])
        if newest.num_rows > _MOST_PLACES:
            newest = newest.sort_by(_NEWEST_FIRST).slice(0, limit)
    return newest.sort_by(_NEWEST_FIRST).slice(0, limit)


def in_parts(letters: Table, where: ds.Expression | None, rows: int) -> Iterator[tuple[Sequence[int], pa.Table]]:
    """The chosen letters, oldest first: positions, with all of their letters, which come to about `rows` at a time."""
    chosen = letters.read(where=where, columns=["position"])
    counts = chosen.group_by("position").aggregate([([], "count_all")]).sort_by("position")
    part: list[int] = []
    size = 0
    for position, count in zip(
        counts.column("position").to_pylist(), counts.column("count_all").to_pylist(), strict=True
    ):
        part.append(position)
        size += count
        if size >= rows:
            yield part, letters.read(where=pc.field("position").isin(part))
            part, size = [], 0
    if part:
        yield part, letters.read(where=pc.field("position").isin(part))
