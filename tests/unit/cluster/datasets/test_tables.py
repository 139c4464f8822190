"""A table: commits are numbered, atomic and durable, and reads are windows over the numbers."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tocsin.cluster.datasets import delta, tables
from tocsin.cluster.datasets.checksummed_files import ChecksummedFile
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


@pytest.mark.parametrize("step", ["create_write_transaction", "update_incremental", "create_checkpoint"])
def test_a_commit_that_fails_after_it_happened_has_happened(
    table: Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever fails once the log entry is written: the commit counts, once, and the table goes on."""
    monkeypatch.setattr(tables, "_CHECKPOINT_EVERY", 8)
    table.append(rows(1))
    wrapped = getattr(DeltaTable, step)

    def fails_afterwards(*args: Any, **kwargs: Any) -> None:
        wrapped(*args, **kwargs)
        raise OSError("planted")

    for number in range(2, 15):  # Past a checkpoint.
        with monkeypatch.context() as patch:
            if number < 4 or number > 6:
                patch.setattr(DeltaTable, step, fails_afterwards)
            assert table.append(rows(number), {"landing": number}) == number
        assert (table.sequence, table.transaction("landing")) == (number, number)
    assert list((table.path / "_delta_log").glob("*.checkpoint.parquet"))
    assert table.append(rows(15)) == 15
    table.sync()
    assert numbers(table.read()) == numbers(Table(table.path, _SCHEMA).read()) == list(range(1, 16))


def test_what_became_of_a_commit_is_found_out_before_the_next(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the table can't even be read after a commit failed, the next one does not guess: the rows are there once."""
    table.append(rows(1), {"landing": 1})
    commit = DeltaTable.create_write_transaction

    def fails_afterwards(*args: Any, **kwargs: Any) -> None:
        commit(*args, **kwargs)
        raise OSError("planted")

    def fails(*_args: Any, **_kwargs: Any) -> None:
        raise OSError("also planted")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", fails_afterwards)
        patch.setattr("tocsin.cluster.datasets.tables.DeltaTable", fails)
        with pytest.raises(ClusterFailure, match="can't be read"):
            table.append(rows(2), {"landing": 2})
        with pytest.raises(ClusterFailure, match="can't be read"):
            table.transaction("landing")
    assert table.transaction("landing") == 2
    assert (table.sequence, numbers(table.read())) == (2, [1, 2])
    assert table.append(rows(3), {"landing": 3}) == 3
    table.sync()
    assert numbers(Table(table.path, _SCHEMA).read()) == [1, 2, 3]


@pytest.mark.parametrize("step", ["delete", "compact", "replace_files"])
def test_upkeep_that_fails_does_not_stop_commits(table: Table, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whether it had happened or not, the next commit goes through."""
    table.append(rows(1))
    table.append(rows(2))

    def fails(*_args: Any) -> None:
        raise OSError("planted")

    work = {"delete": lambda: table.delete("n = 1"), "replace_files": lambda: table.replace_files([table.read()])}
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "update_incremental", fails)
        with pytest.raises(OSError, match="planted"):
            work.get(step, table.compact)()
    assert table.append(rows(3)) == 3
    table.sync()
    left = [2, 3] if step == "delete" else [1, 2, 3]
    assert numbers(table.read()) == numbers(Table(table.path, _SCHEMA).read()) == left


def test_many_rows_take_several_numbers_in_one_commit(table: Table) -> None:
    """Each number has as many rows as may be, and all of them are there at once, or not at all."""
    table.append(rows(1))
    version = table.version
    assert table.append(rows(*range(10, 17)), {"landing": 1}, rows_per_number=3) == 4
    assert table.version == version + 1
    assert [numbers(table.read(number - 1, number)) for number in (2, 3, 4)] == [[10, 11, 12], [13, 14, 15], [16]]
    assert numbers(table.read(2)) == [13, 14, 15, 16]
    assert table.append(rows(20, 21, 22), rows_per_number=3) == 5
    assert table.append(rows(), rows_per_number=3) == 6
    table.sync()
    again = Table(table.path, _SCHEMA)
    assert (again.sequence, numbers(again.read(2, 4))) == (6, [13, 14, 15, 16])


def test_numbers_that_are_skipped_stay_free(table: Table) -> None:
    """Commits go on after the number that was skipped to; a lower one changes nothing."""
    table.append(rows(1))
    table.skip_to(100)
    table.skip_to(50)
    assert (table.sequence, table.durable) == (100, 100)
    assert table.append(rows(2)) == 101
    assert numbers(table.read(1)) == numbers(table.read(100)) == [2]


def test_a_commit_is_durable_once_it_is_synced(table: Table) -> None:
    """Until then there is a number that nobody may be told of."""
    table.append(rows(1))
    table.append(rows(2))
    assert (table.sequence, table.durable) == (2, 0)
    assert table.sync() == table.durable == 2
    assert Table(table.path, _SCHEMA).durable == 2


def test_a_reader_that_sees_a_number_sees_its_rows(tmp_path: Path) -> None:
    """However a read falls between the steps of a commit: a number that is told comes with its rows."""
    table = Table(tmp_path / "t", _SCHEMA)
    missing: list[int] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            sequence = table.sequence
            found = table.read(0, sequence).num_rows
            if found != sequence:
                missing.append(sequence)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(40):
            table.append(rows(number))
    finally:
        stop.set()
        reader.join()
    assert not missing


def _full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_commit_that_finds_no_room_changes_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a file is removed, and when there is room again the same number is given out, once."""
    table.append(rows(1), {"landing": 10})

    def half_a_file(_: pa.Table, target: ChecksummedFile, **__: Any) -> None:
        target.write(b"PAR1")
        _full()

    before = sorted(table.path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(delta.pq, "write_table", half_a_file)
        with pytest.raises(ClusterFailure, match="No space left"):
            table.append(rows(2), {"landing": 20})
    assert (sorted(table.path.iterdir()), table.sequence, table.transaction("landing")) == (before, 1, 10)
    assert table.append(rows(3), {"landing": 20}) == 2
    assert numbers(table.read()) == [1, 3]


def _files_with(folder: Path, text: str) -> list[str]:
    """Parquet of one plain column: a name that is in it stands there as it is."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes())


@pytest.mark.parametrize("damaged", ["", "first", "second"])
def test_what_was_deleted_is_in_no_file_once_the_past_is_erased(tmp_path: Path, damaged: str) -> None:
    """Neither in data files nor in the Delta log, the sync log or a checkpoint. The table opens again as it was, also
    if one of its checkpoints is damaged."""
    schema = pa.schema([("who", pa.string())])
    table = Table(tmp_path / "t", schema)
    for who in ("zoe.okonkwo", "bob", "zoe.okonkwo", "carol"):
        table.append(pa.table({"who": [who]}), {"landing": 5})
    table.compact()
    table.append(pa.table({"who": ["zoe.okonkwo", "dan"]}))
    table.delete("who = 'zoe.okonkwo'")
    table.sync()
    assert len(_files_with(table.path, "zoe.okonkwo")) > 5
    table.erase_past()
    assert _files_with(table.path, "zoe.okonkwo") == []
    assert sorted(table.read().column("who").to_pylist()) == ["bob", "carol", "dan"]
    if damaged:
        checkpoints = sorted((table.path / "_delta_log").glob("*.checkpoint.parquet"))
        checkpoints[damaged == "second"].write_bytes(b"")
    again = Table(table.path, schema)
    assert sorted(again.read().column("who").to_pylist()) == ["bob", "carol", "dan"]
    assert (again.sequence, again.transaction("landing")) == (5, 5)
    assert again.append(pa.table({"who": ["eve"]})) == 6


def test_who_reads_while_the_past_is_erased_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that it was about to read have gone; the same rows are in others."""
    table = Table(tmp_path / "t", _SCHEMA, recent_max_bytes=0)
    table.append(rows(1, 2))
    before = table.dataset()
    table.delete("n = 1")
    table.erase_past()
    now = Table.dataset
    found = iter([before])
    monkeypatch.setattr(Table, "dataset", lambda self, after=0: next(found, None) or now(self, after))
    assert numbers(table.read()) == [2]


def test_removals_are_counted_with_the_rows_that_they_remove(table: Table) -> None:
    """In the same commit, so that a process that dies has both or neither. A compaction is no removal, and neither is a
    deletion that finds nothing."""
    table.append(rows(1, 2, 3))
    table.sync()
    assert table.removals == 1
    table.delete("n = 1")
    assert table.removals == 2
    table.delete("n = 7")
    table.compact()
    table.replace_files([table.read()])
    assert Table(table.path, _SCHEMA).removals == 1, "not durable yet"


def test_removals_outlive_the_process(table: Table) -> None:
    """Of rows one by one, of whole commits, and of all but the rows that are given."""
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete("n = 1")
    table.delete_through(1)
    table.replace_files([table.read().slice(0, 0)], is_removal=True)
    table.sync()
    again = Table(table.path, _SCHEMA)
    assert (again.removals, again.count()) == (4, 0)
