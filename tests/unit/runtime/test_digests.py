"""Databases: a flipped bit in a row, and transactions that are gone, are noticed when the database is opened."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from tocsin.errors import ClusterFailure
from tocsin.runtime.digests import check_digests, note_migration, register
from tocsin.runtime.schema import check_content, open_engine

_TABLE = sa.Table("word", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.String))


def opened(path: Path) -> sa.Engine:
    engine = open_engine(path)
    _TABLE.metadata.create_all(engine)
    check_content(engine)
    return engine


def words(engine: sa.Engine) -> dict[int, str]:
    with engine.connect() as connection:
        return {row.id: row.text for row in connection.execute(sa.select(_TABLE))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d.sqlite"


def _write(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(_TABLE.insert(), [{"id": one, "text": f"word {one}"} for one in range(100)])
    with engine.begin() as connection:
        connection.execute(_TABLE.update().where(_TABLE.c.id == 7).values(text="seven"))
        connection.execute(_TABLE.delete().where(_TABLE.c.id > 90))
        connection.exec_driver_sql("INSERT OR REPLACE INTO word VALUES (8, 'eight')")


def test_changes_of_every_kind_keep_the_digest(path: Path) -> None:
    """Inserted, updated, replaced and deleted: the digest is that of the rows there are."""
    engine = opened(path)
    _write(engine)
    before = words(engine)
    engine.dispose()
    again = opened(path)
    assert words(again) == before
    again.dispose()


def test_no_flip_gives_other_rows(path: Path) -> None:
    """Wherever the bit lies, the database is refused, or it says what it said before."""
    engine = opened(path)
    _write(engine)
    before = words(engine)
    engine.dispose()
    content = path.read_bytes()
    chance, refused = random.Random(1), 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        Path(f"{path}-changes").unlink(missing_ok=True)
        try:
            again = opened(path)
        except (ClusterFailure, sa.exc.DatabaseError):
            refused += 1
            continue
        assert words(again) == before
        again.dispose()
    assert refused > 15


def test_a_damaged_write_ahead_log_is_noticed(path: Path, tmp_path: Path) -> None:
    """SQLite would take back, without a word, what had been synced."""
    engine = opened(path)
    for number in range(5):
        with engine.begin() as connection:
            connection.execute(_TABLE.insert().values(id=number, text="word"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in path.parent.glob("d.sqlite*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, copy / file.name)
    engine.dispose()
    log = copy / "d.sqlite-wal"
    content = bytearray(log.read_bytes())
    content[-100] ^= 1
    log.write_bytes(content)
    with pytest.raises(ClusterFailure, match="changes are gone that had been synced"):
        opened(copy / "d.sqlite")


def test_a_closed_note_touches_no_file(path: Path, tmp_path: Path) -> None:
    """An engine may be used again after it was disposed of; the number of the note's file is another file's by then."""
    engine = opened(path)
    engine.dispose()
    engine.dispose()
    with (tmp_path / "other").open("w+b", buffering=0) as other:
        other.write(b"untouched")
        _write(engine)
        engine.dispose()
        other.seek(0)
        assert other.read() == b"untouched"


def test_a_table_with_new_columns_gets_a_new_digest(path: Path) -> None:
    """After a migration the triggers speak of the columns that are there."""
    engine = opened(path)
    _write(engine)
    engine.dispose()
    connection = sqlite3.connect(path)
    register(connection)
    connection.execute("ALTER TABLE word ADD COLUMN more TEXT")
    note_migration(connection)
    connection.commit()
    check_digests(connection, path)
    connection.execute("UPDATE word SET more = 'x' WHERE id = 3")
    connection.commit()
    check_digests(connection, path)
    connection.close()


@pytest.mark.parametrize("name", ["text", "word_digest_update"])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_what_is_declared_otherwise_is_refused(path: Path, name: str, bit: int) -> None:
    """A column or a trigger that has another name by a flip would be taken for a new one, and its rows for right."""
    engine = opened(path)
    _write(engine)
    engine.dispose()
    content = path.read_bytes()
    damaged = content.replace(name.encode(), bytes([name.encode()[0] ^ bit]) + name.encode()[1:])
    assert damaged != content
    path.write_bytes(damaged)
    with pytest.raises(ClusterFailure, match=r"damaged|can't be read"):
        check_content(open_engine(path))
