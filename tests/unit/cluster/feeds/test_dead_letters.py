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
from tocsin.cluster.feeds.core.letter_ids import LetterCursor, LetterId
from tocsin.cluster.feeds.dead_letters import Chosen, discard_letters, find_letters, in_parts, newest_letters
from tocsin.errors import NotFound

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
    monkeypatch.setattr(dead_letters, "_MOST_ROWS", 8)
    assert shown(newest_letters(letters, 12).letters) == [f"10.{n}" for n in range(1, 11)] + ["9.1", "9.2"]
    assert len(newest_letters(letters, 1000).letters) == letters.count() == 55


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


def _all_pages(letters: Table, limit: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    page = newest_letters(letters, limit)
    while True:
        assert len(page.letters) <= limit
        found += page.letters
        if not page.next:
            return found
        assert len(page.letters) == limit, "only the last is shorter"
        page = newest_letters(letters, limit, LetterCursor.parse(page.next))


def _of_channels(count: int) -> pa.Table:
    """One record that many subscriptions failed on, in one commit."""
    rows = [
        {"position": -4, "line": 3, "feed": "", "reason": f"channel C, {n:03}", "raw": f"c{n:03}", "rejected_at": 0}
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=DEAD_LETTERS)


@pytest.mark.parametrize("limit", [1, 7, 54, 55, 1000])
def test_pages_hold_each_letter_once(letters: Table, limit: int) -> None:
    """Whatever their size, one after the other, in the order of the whole list; also of one place."""
    letters.append(_of_channels(9))
    whole = shown(newest_letters(letters, 1000).letters)
    assert shown(_all_pages(letters, limit)) == whole
    assert whole[:9] == [f"c{n:03}" for n in range(9)]
    assert len(set(whole)) == 64


def test_a_page_goes_on_after_what_was_discarded(letters: Table) -> None:
    """Who discards a page and asks for the next misses nothing, and what came meanwhile is on no later page."""
    letters.append(_of_channels(9))
    first = newest_letters(letters, 5)
    discard_letters(letters, Chosen(letters=[LetterId(-4, 3)]), "D")
    letters.append(_of_channels(1))
    second = newest_letters(letters, 5, LetterCursor.parse(first.next))
    assert shown(second.letters) == [f"10.{n}" for n in range(1, 6)]


def test_one_letter_is_found(letters: Table) -> None:
    """By its name; of a record that several subscriptions failed on, all."""
    letters.append(_of_channels(3))
    assert shown(find_letters(letters, LetterId(70, 5))) == ["7.5"]
    assert shown(find_letters(letters, LetterId(-4, 3))) == ["c000", "c001", "c002"]
    assert find_letters(letters, LetterId(70, 8)) == []


def test_discarded_letters_are_gone(letters: Table) -> None:
    """Those that were chosen, and no others; many at once, too."""
    assert discard_letters(letters, Chosen(letters=[LetterId(70, 5), LetterId(70, 6), LetterId(10, 1)]), "D") == 3
    assert discard_letters(letters, Chosen(positions=[20, 100, 7]), "D") == 12
    left = shown(_all_pages(letters, 1000))
    assert len(left) == 40
    assert not {"7.5", "7.6", "1.1", "2.1", "10.1"} & set(left)
    every = [
        LetterId(10 * n, line) for n in range(3, 10) for line in range(1, n + 1) if (n, line) not in ((7, 5), (7, 6))
    ]
    assert discard_letters(letters, Chosen(letters=every), "D") == 40
    assert letters.count() == 0
    assert discard_letters(letters, Chosen(), "D") == 0


def test_all_are_discarded_at_once(letters: Table) -> None:
    """Those of channels, too."""
    letters.append(_of_channels(2))
    assert discard_letters(letters, Chosen(), "D") == 57
    assert letters.count() == 0
    letters.append(_of_channels(1))
    assert letters.count() == 1


def test_a_letter_that_is_not_there_changes_nothing(letters: Table) -> None:
    """A name that was mistyped is told, before anything is removed."""
    wrong = [LetterId(70, 5), LetterId(70, 9), LetterId(71, 1)]
    with pytest.raises(NotFound, match=r"dataset D has no dead letter 70:9, nor 1 more"):
        discard_letters(letters, Chosen(letters=wrong), "D")
    assert letters.count() == 55
