"""A table: commits are numbered, atomic and durable, and reads are windows over the numbers."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tocsin.cluster.datasets.tables import Table
from tocsin.errors import ClusterFailure

pytestmark = pytest.mark.shell

_SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(table: pa.Table) -> list[int]:
    return sorted(table.column("n").to_pylist())


@pytest.fixture(params=[0, 1 << 20], ids=["from files", "from memory"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return Table(tmp_path / "t", _SCHEMA, recent_max_bytes=request.param)


def test_each_commit_has_the_next_number(table: Table) -> None:
    """Rows carry the number of their commit; windows are half-open over it."""
    assert table.sequence == 0
    assert [table.append(rows(10, 11)), table.append(rows(20)), table.append(rows())] == [1, 2, 3]
    assert table.sequence == 3
    assert numbers(table.read()) == [10, 11, 20]
    assert numbers(table.read(after=1)) == [20]
    assert numbers(table.read(0, 1)) == [10, 11]
    assert numbers(table.read(2, 3)) == []
    assert numbers(table.read(3, 3)) == []
    assert set(table.read(0, 1).column("_seq").to_pylist()) == {1}
    assert numbers(table.read(where=pc.field("n") > 10)) == [11, 20]


def test_a_table_opened_again_is_the_same(table: Table) -> None:
    """Rows, the sequence and application transactions survive the process."""
    table.append(rows(1), {"landing": 100})
    table.append(rows(2), {"landing": 200, "other": 5})
    table.sync()
    again = Table(table.path, _SCHEMA)
    assert again.sequence == 2
    assert (again.transaction("landing"), again.transaction("other"), again.transaction("none")) == (200, 5, None)
    assert numbers(again.read()) == [1, 2]
    assert again.append(rows(3)) == 3
    assert again.id == table.id


def test_compaction_deletion_and_checkpoints_keep_the_numbers(table: Table) -> None:
    """What upkeep does to files changes no row's number, no window and no transaction."""
    for number in range(70):
        table.append(rows(number), {"landing": number})
    files = len(table.files())
    version = table.version
    table.compact()
    assert len(table.files()) < files
    assert table.version != version
    assert numbers(table.read(30, 40)) == list(range(30, 40))
    table.delete_through(50)
    assert numbers(table.read()) == list(range(50, 70))
    assert table.append(rows(70)) == 71
    table.tidy()
    again = Table(table.path, _SCHEMA)
    assert again.sequence == 71
    assert again.transaction("landing") == 69
    assert numbers(again.read(60)) == list(range(60, 71))


def test_replacing_leaves_only_the_new_rows(table: Table) -> None:
    """A replaced table has one commit's rows; the numbers go on."""
    table.append(rows(1, 2))
    assert table.replace(rows(3)) == 2
    assert numbers(table.read()) == [3]
    table.sync()
    assert numbers(Table(table.path, _SCHEMA).read()) == [3]
    assert table.count() == 1


def test_an_added_column_reads_null_in_old_rows(table: Table) -> None:
    """Additive evolution needs no rewriting; adding what a table has already changes nothing."""
    table.append(rows(1))
    table.add_column(pa.field("word", pa.string()))
    table.append(pa.table({"n": pa.array([2]), "word": ["two"]}))
    assert {row["n"]: row["word"] for row in table.read().to_pylist()} == {1: None, 2: "two"}
    table.sync()
    older = Table(table.path, _SCHEMA)  # As after a death between the table's change and the catalogue's.
    older.append(rows(3))
    older.add_column(pa.field("word", pa.string()))
    assert {row["n"]: row["word"] for row in older.read().to_pylist()} == {1: None, 2: "two", 3: None}


def test_a_failed_commit_leaves_no_trace(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the commit does not happen, neither rows nor transactions are there, and the number is still free."""
    table.append(rows(1), {"landing": 1})

    class Broken:
        def __getattr__(self, name: str) -> object:
            raise OSError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(table, "_delta", Broken())
        with pytest.raises(ClusterFailure, match="planted"):
            table.append(rows(2), {"landing": 2})
    assert (table.sequence, table.transaction("landing")) == (1, 1)
    assert numbers(table.read()) == [1]
    assert table.append(rows(3)) == 2
    table.sync()
    assert numbers(Table(table.path, _SCHEMA).read()) == [1, 3]


def test_a_reader_that_sees_a_number_sees_its_rows(tmp_path: Path) -> None:
    """However a read falls between the steps of a commit: a number that is told comes with its rows."""
    table = Table(tmp_path / "t", _SCHEMA)
    missing: list[int] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            told = table.sequence
            found = table.read(0, told).num_rows
            if found != told:
                missing.append(told)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(40):
            table.append(rows(number))
    finally:
        stop.set()
        reader.join()
    assert not missing
