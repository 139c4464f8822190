"""Dead letters: listed, discarded, and published again, because records that were rejected may fit by now.

They are read a part at a time: each may be as large as a request, and there may be millions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.core.letter_ids import LetterCursor, LetterId, lines_by_position
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.errors import InvalidValue, NotFound
from tocsin.model.catalogue import Feed, FeedSource
from tocsin.model.schema import SEQUENCE_COLUMN

#: A letter's address: its commit, the position of its frame in the landing log, and its line there.
_ORDER = [SEQUENCE_COLUMN, "position", "line"]
_NEWEST_FIRST = [(SEQUENCE_COLUMN, "descending"), ("position", "descending"), ("line", "ascending")]
#: Letters with the same address, which only channels make, are ordered by reason.
_IN_ORDER = [*_NEWEST_FIRST, ("reason", "ascending")]
#: Addresses held at once in the search for the newest: a few megabytes.
_MOST_ROWS = 1 << 18
#: The number of conditions in one statement to Delta, which nests them.
_CONDITIONS = 50
_REPLAYED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice of letters: all, those of some frames, or single ones. `None` means: no restriction by this."""

    positions: Collection[int] | None = None
    letters: Collection[LetterId] | None = None

    def where(self) -> ds.Expression | None:
        """A condition that holds for all chosen letters, and maybe for others of their frames."""
        positions = self.positions if self.letters is None else {one.position for one in self.letters}
        return None if positions is None else pc.field("position").isin(list(positions))

    def among(self, rows: pa.Table) -> pa.Table:
        """The chosen letters among rows for which `where` holds."""
        if self.letters is None or not rows.num_rows:
            return rows
        ids = zip(rows.column("position").to_pylist(), rows.column("line").to_pylist(), strict=True)
        return rows.filter(pa.array([LetterId(*one) in self.letters for one in ids]))

    def remove(self, letters: Table, positions: Sequence[int]) -> None:
        """Remove the chosen letters of these frames."""
        if self.letters is None:
            letters.delete(f"position IN ({', '.join(map(str, positions))})")
            return
        wanted = set(positions)
        lines = lines_by_position(one for one in self.letters if one.position in wanted)
        each = [f"(position = {position} AND line IN ({', '.join(map(str, at))}))" for position, at in lines.items()]
        for begin in range(0, len(each), _CONDITIONS):
            letters.delete(" OR ".join(each[begin : begin + _CONDITIONS]))

    def check(self, letters: Table, dataset: str) -> None:
        """Raises NotFound if a single letter that was chosen does not exist."""
        if self.letters is None:
            return
        ids = self.among(letters.read(where=self.where(), columns=["position", "line"]))
        there = {LetterId(*one) for one in zip(*(column.to_pylist() for column in ids.columns), strict=True)}
        if missing := sorted(set(self.letters) - there):
            more = f", nor {len(missing) - 1} more of the named ones" if len(missing) > 1 else ""
            raise NotFound(f"dataset {dataset} has no dead letter {missing[0]}{more}; nothing was done")


@dataclass(frozen=True, slots=True)
class LetterPage:
    """`next` is where the following page begins, or empty."""

    letters: list[dict[str, Any]]
    next: str


def newest_letters(letters: Table, limit: int, after: LetterCursor | None = None) -> LetterPage:
    """The newest `limit`, or the next ones after a page. Reads texts only of the commits that they came in."""
    where = None if after is None else _not_before(after)
    # One letter more than the limit shows whether there is another page.
    ids = _newest_ids(letters, limit + 1 + (after.seen if after else 0), where)
    if not ids.num_rows:
        return LetterPage([], "")
    commits = pc.min_max(ids.column(SEQUENCE_COLUMN)).as_py()
    rows = letters.read(after=commits["min"] - 1, through=commits["max"], where=where).sort_by(_IN_ORDER)
    if after is not None:
        rows = rows.slice(min(after.seen, _at_the_beginning(rows, after)))
    listed: list[dict[str, Any]] = rows.slice(0, limit).to_pylist()
    return LetterPage(listed, _next(listed, after) if rows.num_rows > limit else "")


def find_letters(letters: Table, letter: LetterId) -> list[dict[str, Any]]:
    """All letters with this id, complete."""
    found = letters.read(where=(pc.field("position") == letter.position) & (pc.field("line") == letter.line))
    rows: list[dict[str, Any]] = found.sort_by(_IN_ORDER).to_pylist()
    return rows


def discard_letters(letters: Table, chosen: Chosen, dataset: str) -> int:
    """Remove letters for good; returns how many."""
    chosen.check(letters, dataset)
    if chosen.where() is None:
        # Without letters that come meanwhile.
        through = letters.sequence
        count = int(letters.read(through=through, columns=["position"]).num_rows)
        if count:
            letters.delete_through(through)
        return count
    rows = chosen.among(letters.read(where=chosen.where(), columns=["position", "line"]))
    if rows.num_rows:
        chosen.remove(letters, pc.unique(rows.column("position")).to_pylist())
    return int(rows.num_rows)


def in_parts(letters: Table, where: ds.Expression | None, rows: int) -> Iterator[tuple[Sequence[int], pa.Table]]:
    """The chosen letters, oldest first: positions with all of their letters, about `rows` letters at a time."""
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


def replay_dead_letters(stored: StoredDataset, intake: FeedIntake, chosen: Chosen) -> dict[str, Any]:
    """Publish the chosen dead letters again and take them out of the dead-letter table. Those of channels stay.

    Each is published under a key of its own, so a crash between the two steps doubles nothing. Records that still don't
    fit become dead letters again.
    """
    chosen.check(stored.dead_letters, stored.dataset.name)
    if of_channels := sorted(one for one in chosen.letters or () if one.is_of_channel):
        raise InvalidValue(
            f"dead letter {of_channels[0]} is a channel's: its record is in the dataset; discard it instead"
        )
    # A channel's dead letters have no position in the landing log.
    published = pc.field("position") >= 0
    where = published if (condition := chosen.where()) is None else published & condition
    replayed = rejected = 0
    for positions, found in in_parts(stored.dead_letters, where, _REPLAYED_AT_ONCE):
        letters = chosen.among(found)
        receipts: list[Receipt] = []
        for start in range(0, letters.num_rows, _REPLAYED_AT_ONCE):
            receipts += _publish_again(stored, intake, letters.slice(start, _REPLAYED_AT_ONCE))
        # All letters of a position came in one commit, so every chosen one has been published.
        chosen.remove(stored.dead_letters, positions)
        anew = pc.field("position").isin([receipt.position for receipt in receipts])
        rejected += stored.dead_letters.read(where=anew, columns=["position"]).num_rows
        replayed += letters.num_rows
    return {"replayed": replayed, "accepted": replayed - rejected, "rejected": rejected}


def _publish_again(stored: StoredDataset, intake: FeedIntake, letters: pa.Table) -> list[Receipt]:
    futures = []
    for letter in letters.to_pylist():
        feed = Feed(letter["feed"], stored.dataset.name, FeedSource.HTTP)
        # The raw text has no line breaks: it was one line.
        body = DecodedBody(letter["raw"].encode(), 1, f"dead-letter:{letter['position']}:{letter['line']}")
        futures.append(intake.accept(feed, body))
    receipts = [future.result() for future in futures]
    intake.wait_ingested(max(receipt.end for receipt in receipts)).result()
    return receipts


def _newest_ids(letters: Table, limit: int, where: ds.Expression | None) -> pa.Table:
    newest = letters.schema.empty_table().select(_ORDER)
    for batch in letters.dataset().to_batches(columns=_ORDER, filter=where):
        newest = pa.concat_tables([newest, pa.Table.from_batches([batch])])
        if newest.num_rows > _MOST_ROWS:
            newest = newest.sort_by(_NEWEST_FIRST).slice(0, limit)
    return newest.sort_by(_NEWEST_FIRST).slice(0, limit)


def _not_before(cursor: LetterCursor) -> ds.Expression:
    """Letters from the cursor on, in the order of pages."""
    sequence, position, line = (pc.field(name) for name in _ORDER)
    last = cursor.last
    in_frame = (position < last.position) | ((position == last.position) & (line >= last.line))
    return (sequence < cursor.sequence) | ((sequence == cursor.sequence) & in_frame)


def _at_the_beginning(rows: pa.Table, cursor: LetterCursor) -> int:
    """How many of the sorted rows have the cursor's own address."""
    cursor_row = {SEQUENCE_COLUMN: cursor.sequence, "position": cursor.last.position, "line": cursor.last.line}
    at = 0
    for row in rows.slice(0, cursor.seen).select(_ORDER).to_pylist():
        if row != cursor_row:
            break
        at += 1
    return at


def _next(listed: list[dict[str, Any]], before: LetterCursor | None) -> str:
    sequence, position, line = (listed[-1][name] for name in _ORDER)
    seen = sum((row[SEQUENCE_COLUMN], row["position"], row["line"]) == (sequence, position, line) for row in listed)
    last = LetterId(position, line)
    if before is not None and (before.sequence, before.last) == (sequence, last):
        seen += before.seen
    return str(LetterCursor(sequence, last, seen))


def rejections(letters: Table, position: int, end: int) -> list[dict[str, Any]]:
    """Line and reason of each record between two positions of the landing log that became a dead letter."""
    where = (pc.field("position") >= position) & (pc.field("position") < end)
    rows: list[dict[str, Any]] = letters.read(where=where, columns=["line", "reason"]).sort_by("line").to_pylist()
    return rows
