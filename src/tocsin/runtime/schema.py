"""Brings a database to the tables that this version of the code needs, by Alembic's migrations.

Most starts find the right version with one query, and never import Alembic. A new database is created from the tables'
definitions at once; a test compares migrations and definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog

from tocsin.errors import ClusterFailure, InvalidValue
from tocsin.runtime import digests
from tocsin.runtime.database_address import read_address
from tocsin.runtime.leadership import Term
from tocsin.runtime.versions import Versions

log = structlog.get_logger(__name__)


def open_database(
    address: str | Path,
    versions: Versions,
    tables: sa.MetaData,
    *,
    cache_kib: int = 0,
    on_doubt: Callable[[], None] = lambda: None,
    term: Term | None = None,
) -> sa.Engine:
    """An engine for `address`, or for the SQLite file at a path, with all tables in place and verified content.
    `on_doubt` is called if a commit has failed and may have happened all the same: only PostgreSQL can leave that open.
    PostgreSQL refuses changes after `term`.

    Raises InvalidValue for an address that can't be used, and ClusterFailure if the database can't be opened."""
    try:
        engine = open_engine(address, versions.title, cache_kib=cache_kib, on_doubt=on_doubt, term=term)
        try:
            bring_up_to_date(engine, versions, tables)
            check_content(engine)
        except BaseException:
            engine.dispose()
            raise
    except (sa.exc.SQLAlchemyError, UnicodeDecodeError) as exc:
        raise ClusterFailure(f"{versions.title} can't be opened: {exc.__cause__ or exc}") from exc
    return engine


def open_engine(
    address: str | Path,
    title: str = "the database",
    *,
    cache_kib: int = 0,
    on_doubt: Callable[[], None] = lambda: None,
    term: Term | None = None,
) -> sa.Engine:
    """An engine for an address, or for the SQLite file at a path."""
    url = sa.make_url(f"sqlite:///{address}") if isinstance(address, Path) else read_address(address)
    if url.get_backend_name() != "sqlite":
        return _open_server(url, title, on_doubt, term)
    engine = sa.create_engine(url, connect_args={"timeout": 30})
    # WAL lets readers go on while a writer commits; FULL makes a commit survive a power cut.
    pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    if cache_kib:
        pragmas += f" PRAGMA cache_size=-{cache_kib};"

    @sa.event.listens_for(engine, "connect")
    def _tune(connection: Any, _record: Any) -> None:
        connection.executescript(pragmas)
        digests.register(connection)

    return engine


def _open_server(url: sa.URL, title: str, on_doubt: Callable[[], None], term: Term | None) -> sa.Engine:
    try:
        from tocsin.runtime.postgresql import open_server
    except ImportError as exc:
        raise InvalidValue(
            "setting database_url: PostgreSQL needs the package psycopg, which is missing or incomplete; "
            "install it with: pip install 'tocsin[postgres]'"
        ) from exc
    return open_server(url, title, on_doubt, term)


def check_content(engine: sa.Engine) -> None:
    """Raises ClusterFailure if an SQLite database is damaged, and from now on notes how many changes it has. PostgreSQL
    has checksums of its own (`initdb --data-checksums`)."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return
    path = Path(engine.url.database)
    noted = digests.NotedChanges(path)
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        digests.check_digests(driver, path)
        noted.check(driver)

    @sa.event.listens_for(engine, "checkin")
    def _note(driver: Any, record: Any) -> None:
        # Reading costs nothing: only a connection that has changed something counts changes.
        if driver is not None and driver.total_changes != record.info.get("changes"):
            record.info["changes"] = driver.total_changes
            noted.note(digests.changes(driver))

    @sa.event.listens_for(engine, "engine_disposed")
    def _close(_engine: sa.Engine) -> None:
        noted.close()


def bring_up_to_date(engine: sa.Engine, versions: Versions, tables: sa.MetaData) -> None:
    """Afterwards the database has `tables`, whether it is new, of an older version, or older than versions.

    Raises ClusterFailure if a newer version of Tocsin has written it."""
    with engine.connect() as connection:
        if _stored_version(connection, versions) == versions.newest():
            return
    with _alone(engine) as connection:
        is_new = tables.tables.keys().isdisjoint(sa.inspect(connection).get_table_names())
        if is_new and _stored_version(connection, versions) is None:
            tables.create_all(connection)
            version_table = _version_table(versions)
            version_table.create(connection)
            connection.execute(version_table.insert().values(version_num=versions.newest()))
            return
    migrate(engine, versions)


def migrate(engine: sa.Engine, versions: Versions) -> None:
    """Apply missing migrations to a database that has tables: all of them, or none if one fails."""
    # Importing Alembic takes a quarter of a second, which only the first start after an update costs.
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    folder = str(versions.migrations)
    scripts = ScriptDirectory(folder, version_locations=[folder])
    with _alone(engine) as connection:
        stored = _stored_version(connection, versions)
        if stored is not None:
            versions.check_known(stored)
        context = MigrationContext.configure(connection, opts={"version_table": versions.table})
        with Operations.context(context):
            for script in reversed(list(scripts.iterate_revisions("head", stored or "base"))):
                script.module.upgrade()
        context.stamp(scripts, "head")
        if engine.dialect.name == "sqlite":
            digests.note_migration(connection.connection.dbapi_connection)  # type: ignore[arg-type]
    log.info("tables brought up to date", database=versions.title, before=stored or "", version=versions.newest())


def _stored_version(connection: sa.Connection, versions: Versions) -> str | None:
    """None for a database that is new, or older than versions."""
    if not sa.inspect(connection).has_table(versions.table):
        return None
    return connection.execute(sa.select(_version_table(versions).c.version_num)).scalar()


def _version_table(versions: Versions) -> sa.Table:
    """As Alembic creates it."""
    return sa.Table(versions.table, sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


@contextmanager
def _alone(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that only one process has at a time, and that also undoes changes to tables if it fails."""
    with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            with connection.begin():
                from tocsin.runtime.postgresql import LOCK

                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
                yield connection
            return
        # Python's driver begins no transaction for changes to tables, so this begins one.
        driver: Any = connection.connection.dbapi_connection
        before, driver.isolation_level = driver.isolation_level, None
        try:
            with connection.begin():
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        finally:
            driver.isolation_level = before
