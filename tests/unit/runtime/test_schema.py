"""Databases of any age are brought to the tables of today, whole or not at all."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tocsin.broker.shell import store as broker_store
from tocsin.broker.shell.store import SessionStore
from tocsin.cluster import database as catalogue
from tocsin.coordinator.store import tables as coordinator
from tocsin.errors import ClusterFailure
from tocsin.runtime.schema import bring_up_to_date, check_content, migrate, open_engine
from tocsin.runtime.versions import Versions

_ALL = [catalogue.VERSIONS, coordinator.VERSIONS, broker_store.VERSIONS]
_MADE_BY_DEFINITION: list[tuple[Versions, Callable[[Path], None]]] = [
    (catalogue.VERSIONS, lambda folder: catalogue.open_catalogue(folder / "made.sqlite").dispose()),
    (coordinator.VERSIONS, lambda folder: coordinator.open_tables(folder / "made.sqlite").dispose()),
    (broker_store.VERSIONS, lambda folder: SessionStore(folder).close()),
]


@pytest.mark.parametrize("versions", _ALL, ids=lambda one: one.table)
def test_migrations_are_numbered_one_after_the_other(versions: Versions) -> None:
    """The name of a file says its version: what is read from names is what Alembic reads inside."""
    folder = str(versions.migrations)
    scripts = list(ScriptDirectory(folder, version_locations=[folder]).walk_revisions())
    assert [script.revision for script in reversed(scripts)] == versions.known()
    assert versions.known() == [f"{number:04}" for number in range(1, len(scripts) + 1)]
    for script in scripts:
        assert Path(script.path).name.startswith(f"{script.revision}_")


@pytest.mark.parametrize(("versions", "make"), _MADE_BY_DEFINITION, ids=lambda one: getattr(one, "table", ""))
def test_migrations_lead_to_the_defined_tables(
    versions: Versions, make: Callable[[Path], None], tmp_path: Path
) -> None:
    """Whoever changes a table without a migration is told so, with the migration that is missing."""
    make(tmp_path)
    made = next(tmp_path.glob("*.sqlite"))
    defined = sa.MetaData()
    with sa.create_engine(f"sqlite:///{made}").connect() as connection:
        defined.reflect(connection)
    migrated = open_engine(tmp_path / "migrated.sqlite")
    migrate(migrated, versions)
    check_content(migrated)  # Adds the digests, which no migration does.
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": versions.table})
        missing = render_python_code(produce_migrations(context, defined).upgrade_ops)
        assert not compare_metadata(context, defined), f"a migration is missing in {versions.migrations}:\n{missing}"
    # What Alembic does not compare: keys, and how SQLite keeps rows.
    assert _shape(tmp_path / "migrated.sqlite") == _shape(made)


@pytest.mark.parametrize(("versions", "make"), _MADE_BY_DEFINITION, ids=lambda one: getattr(one, "table", ""))
def test_a_database_without_a_version_is_taken_over(
    versions: Versions, make: Callable[[Path], None], tmp_path: Path
) -> None:
    """Tables from before there were versions stay as they are with all that is in them, and get a version."""
    make(tmp_path)
    file = next(tmp_path.glob("*.sqlite"))
    shape = _shape(file)
    file.unlink()
    _make_baseline(file, versions, tmp_path / "migrations")
    with closing(sqlite3.connect(file)) as db:
        table = next(table for table, (_, columns) in _shape(file).items() if len(columns) == 2)
        db.execute(f"INSERT INTO {table} VALUES (1, 2)")
        db.execute(f"DROP TABLE {versions.table}")
        db.commit()
    make(tmp_path)
    assert _shape(file) == shape
    with closing(sqlite3.connect(file)) as db:
        assert db.execute(f"SELECT version_num FROM {versions.table}").fetchall() == [(versions.newest(),)]
        assert len(db.execute(f"SELECT * FROM {table}").fetchall()) == 1


@pytest.mark.parametrize(("versions", "make"), _MADE_BY_DEFINITION, ids=lambda one: getattr(one, "table", ""))
def test_a_database_of_a_newer_version_is_refused(
    versions: Versions, make: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is not touched; the error says which versions are known."""
    make(tmp_path)
    file = next(tmp_path.glob("*.sqlite"))
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"UPDATE {versions.table} SET version_num = '9000'")
        db.commit()
    with pytest.raises(ClusterFailure, match=f"{versions.title} was written by a newer .* 9000.* knows 0001 to 00"):
        make(tmp_path)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute(f"SELECT version_num FROM {versions.table}").fetchall() == [("9000",)]


_ADD_COLUMN = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0002", "0001"
def upgrade():
    op.add_column("fact", sa.Column("note", sa.Text, nullable=False, server_default="none"))
"""
_FAIL = """
from alembic import op
revision, down_revision = "0003", "0002"
def upgrade():
    op.drop_table("session")
    raise ZeroDivisionError
"""


@pytest.fixture
def growing(tmp_path: Path) -> Versions:
    """A broker's store with a fact in it, and a later version of the code that adds a column."""
    folder = tmp_path / "migrations"
    _make_baseline(tmp_path / "broker.sqlite", broker_store.VERSIONS, folder)
    with closing(sqlite3.connect(tmp_path / "broker.sqlite")) as db:
        db.execute("INSERT INTO fact VALUES ('key', 'kept')")
        db.commit()
    (folder / "0002_note.py").write_text(_ADD_COLUMN)
    return replace(broker_store.VERSIONS, migrations=folder)


def test_a_column_can_be_added_to_what_is_there(growing: Versions, tmp_path: Path) -> None:
    """Rows from before have the column's default."""
    engine = open_engine(tmp_path / "broker.sqlite")
    bring_up_to_date(engine, growing, sa.MetaData())
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT name, value, note FROM fact")).all() == [("key", "kept", "none")]
        assert connection.execute(sa.text("SELECT version_num FROM broker_version")).all() == [("0002",)]
    engine.dispose()


def test_migrations_happen_all_or_not_at_all(growing: Versions, tmp_path: Path) -> None:
    """If the second of two fails, what the first has done is taken back too, and the version stays."""
    (growing.migrations / "0003_fails.py").write_text(_FAIL)
    engine = open_engine(tmp_path / "broker.sqlite")
    with pytest.raises(ZeroDivisionError):
        migrate(engine, growing)
    engine.dispose()
    assert "session" in _shape(tmp_path / "broker.sqlite")
    with closing(sqlite3.connect(tmp_path / "broker.sqlite")) as db:
        assert db.execute("SELECT * FROM fact").fetchall() == [("key", "kept")]
        assert db.execute("SELECT version_num FROM broker_version").fetchall() == [("0001",)]


def test_only_one_of_many_that_open_a_new_database_makes_it(tmp_path: Path) -> None:
    """The others wait, and find it made."""
    with ThreadPoolExecutor(8) as threads:
        engines = list(threads.map(coordinator.open_tables, [tmp_path / "new.sqlite"] * 8))
    for engine in engines:
        with engine.connect() as connection:
            versions = connection.execute(sa.text("SELECT version_num FROM coordinator_version")).all()
        assert versions == [(coordinator.VERSIONS.newest(),)]
        engine.dispose()


def test_a_usual_start_does_not_load_alembic(tmp_path: Path) -> None:
    """Neither a new database nor one of the newest version costs the time that importing it takes."""
    program = f"""
import sys
from pathlib import Path
from tocsin.broker.shell.store import SessionStore
for _ in range(2):
    SessionStore(Path({str(tmp_path)!r})).close()
assert "sqlalchemy" not in sys.modules
from tocsin.coordinator.store.tables import open_tables
for _ in range(2):
    open_tables(Path({str(tmp_path / "c.sqlite")!r})).dispose()
assert "alembic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def _make_baseline(file: Path, versions: Versions, migrations: Path) -> None:
    """A database as the first version of the code made it. `migrations` becomes a folder of that version."""
    migrations.mkdir()
    shutil.copy(versions.migrations / "0001_baseline.py", migrations)
    engine = open_engine(file)
    migrate(engine, replace(versions, migrations=migrations))
    engine.dispose()


def _shape(file: Path) -> dict[str, tuple[bool, frozenset[tuple[object, ...]]]]:
    """Table → whether it is without row ids, and its columns: name, type, whether null is refused, place in the key."""
    with closing(sqlite3.connect(file)) as db:
        tables = [row for row in db.execute("PRAGMA table_list") if row[0] == "main" and row[2] == "table"]
        return {
            name: (
                bool(without_rowid),
                frozenset((row[1], row[2], row[3], row[5]) for row in db.execute(f"PRAGMA table_info({name})")),
            )
            for _, name, _, _, without_rowid, _ in tables
            if not name.startswith("sqlite_") and not name.endswith("_version")
        }
