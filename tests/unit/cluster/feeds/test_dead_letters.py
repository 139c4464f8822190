"""Dead letters are read a part at a time, however many and large they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tocsin.cluster.api.feeds import RECORDS_PATH
from tocsin.cluster.datasets.store import DEAD_LETTERS
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.feeds import dead_letters
from tocsin.cluster.feeds.dead_letters import in_parts, newest_letters

pytestmark = pytest.mark.shell


@pytest.fixture(params=[0, 1 << 20], ids=["from files", "from memory"])
def letters(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """Ten frames in four commits: at position 10 * n, n lines."""
    table = Table(tmp_path / "letters", DEAD_LETTERS, recent_max_bytes=request.param)
    for frames in ((1, 2, 3), (4, 5), (6, 7, 8), (9, 10)):
        rows = [
            {"position": 10 * n, "line": line, "feed": "f", "reason": "r", "raw": f"{n}.{line}", "rejected_at": 0}
            for n in frames
            for line in range(1, n + 1)
        ]
        table.append(pa.Table.from_pylist(rows, schema=DEAD_LETTERS))
    return table


def shown(rows: list[dict[str, object]]) -> list[object]:
    return [row["raw"] for row in rows]


def test_the_newest_come_first(letters: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """By commit and position, then by line."""
    monkeypatch.setattr(dead_letters, "_MOST_PLACES", 8)
    assert shown(newest_letters(letters, 12)) == [f"10.{n}" for n in range(1, 11)] + ["9.1", "9.2"]
    assert len(newest_letters(letters, 1000)) == letters.count() == 55


def test_only_the_texts_that_are_shown_are_read(letters: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million letters of a megabyte each would be all the memory there is."""
    read = Table.read
    rows_read = []

    def counted(self: Table, *arguments: object, **options: object) -> pa.Table:
        found = read(self, *arguments, **options)  # type: ignore[arg-type]
        rows_read.append(found.num_rows)
        return found

    monkeypatch.setattr(Table, "read", counted)
    newest_letters(letters, 5)  # The last commit has 19.
    assert rows_read == [19]


def test_parts_hold_whole_frames(letters: Table) -> None:
    """Each letter is in one part, with all others of its frame, oldest first."""
    parts = [(positions, found.num_rows) for positions, found in in_parts(letters, None, 12)]
    assert parts == [([10, 20, 30, 40, 50], 15), ([60, 70], 13), ([80, 90], 17), ([100], 10)]
    chosen = pc.field("position").isin([20, 100, 7])
    assert [positions for positions, _ in in_parts(letters, chosen, 1)] == [[20], [100]]


def test_only_the_route_of_records_has_a_limit_of_its_own() -> None:
    """A path that merely ends alike, as that of a broker called records, is limited as all others are."""
    assert RECORDS_PATH.fullmatch("/v1/feeds/reports/records")
    assert not RECORDS_PATH.fullmatch("/v1/brokers/records")
    assert not RECORDS_PATH.fullmatch("/v1/feeds/a/b/records")
