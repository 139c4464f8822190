"""What was deleted from an SQLite database is in none of its files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tocsin.errors import Unavailable
from tocsin.runtime.free_pages import erase_free_pages, erase_free_pages_of
from tocsin.runtime.schema import check_content, open_engine

_NAME = "zoe.okonkwo"


def _files_with(folder: Path, text: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if text.encode() in path.read_bytes())


def _database(folder: Path) -> sa.Engine:
    """One with rows of many, of whom one was deleted."""
    engine = open_engine(folder / "made.sqlite")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE person (name TEXT PRIMARY KEY, about TEXT) WITHOUT ROWID")
    check_content(engine)
    with engine.begin() as connection:
        # Pages are split, so that copies of rows are left in them.
        rows = [(f"{_NAME}.{number % 97}.{number}", "x" * 200) for number in range(2000)]
        connection.exec_driver_sql("INSERT INTO person VALUES (?, ?)", [*rows, ("bob", "stays")])
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM person WHERE name <> 'bob'")
    return engine


def test_deleted_rows_are_in_no_file_of_a_database(tmp_path: Path) -> None:
    """Neither in the database nor in its log; what was not deleted is there, and the database is sound."""
    engine = _database(tmp_path)
    assert _files_with(tmp_path, _NAME)
    erase_free_pages(engine)
    assert not _files_with(tmp_path, _NAME)
    engine.dispose()
    again = open_engine(tmp_path / "made.sqlite")
    check_content(again)
    with again.connect() as connection:
        assert connection.exec_driver_sql("SELECT name, about FROM person").all() == [("bob", "stays")]
    again.dispose()


def test_a_database_that_is_being_read_says_so(tmp_path: Path) -> None:
    """It is not taken for done while a reader keeps the log from being emptied."""
    _database(tmp_path).dispose()
    file = tmp_path / "made.sqlite"
    with closing(sqlite3.connect(file)) as reader, closing(sqlite3.connect(file, timeout=0.05)) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM person").fetchall()
        with pytest.raises(Unavailable):
            erase_free_pages_of(writer)
        reader.execute("COMMIT")
        erase_free_pages_of(writer)
    assert not _files_with(tmp_path, _NAME)
