"""PostgreSQL as a process meets it: mistakes in its address, restarts, commits whose answer is lost, hostile values."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from databases import fresh_database
from postgresql_server import PostgresqlServer
from tocsin.cluster import database as catalogue
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.coordinator.registry.instructions import Audit, StoreBroker, StoreSession
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord
from tocsin.coordinator.store import tables as coordinator
from tocsin.coordinator.store.group_commit import GroupCommit
from tocsin.coordinator.store.registry_store import Store
from tocsin.errors import InvalidValue, Unavailable
from tocsin.runtime import postgresql as product
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.ports import free_port
from tocsin.runtime.schema import migrate, open_engine
from tocsin.runtime.versions import Versions

_VALUES = sa.Table("value", sa.MetaData(), sa.Column("value", sa.String, primary_key=True))


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """One that a test may stop."""
    server = PostgresqlServer(free_port())
    server.sql("CREATE DATABASE own")
    yield server
    server.close()


@pytest.fixture
def url(postgresql: PostgresqlServer) -> Iterator[str]:
    with fresh_database(postgresql) as name:
        yield postgresql.url(name)


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = open_engine(url)
    _VALUES.create(engine)
    yield engine
    engine.dispose()


def _add(engine: sa.Engine, value: str) -> None:
    with engine.begin() as connection:
        connection.execute(_VALUES.insert().values(value=value))


def _values(engine: sa.Engine) -> set[str]:
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(_VALUES.c.value)))


# Addresses


def test_a_wrong_address_is_one_clear_line(postgresql: PostgresqlServer, server: PostgresqlServer) -> None:
    """No server there, no such database, a wrong password, an encoding that can't hold all names, no right to create
    tables: the operator reads which it is, and no password."""
    nobody = free_port()
    postgresql.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    postgresql.sql("CREATE ROLE guest LOGIN")
    server.sql("ALTER USER tocsin PASSWORD 'hunter2'")
    server.require_password()
    for url, expected in {
        f"postgresql://ann:hunter3@127.0.0.1:{nobody}/x": "refused",
        f"postgresql://ann:hunter3@nowhere.invalid:{nobody}/x": "nowhere.invalid",
        postgresql.url("absent"): 'database "absent" does not exist',
        postgresql.url("latin"): "its encoding is LATIN1; it has to be UTF8",
        postgresql.url("postgres", "guest"): "permission denied for schema public",
        f"postgresql://tocsin:hunter3@127.0.0.1:{server.port}/own": "password authentication failed",
    }.items():
        begin_s = time.monotonic()
        with pytest.raises(InvalidValue, match=r"^setting database_url: .* can't be used: ") as raised:
            open_catalogue(url)
        assert time.monotonic() - begin_s < 30
        text = str(raised.value)
        assert expected in text
        assert "\n" not in text
        assert "hunter" not in text
    open_catalogue(f"postgresql://tocsin:hunter2@127.0.0.1:{server.port}/own").dispose()


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it is stopped, or another kind of server listens there."""
    monkeypatch.setattr(product, "_FIRST_WITHIN_S", 1.0)
    url = f"postgresql://tocsin@127.0.0.1:{server.port}/own"
    server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(InvalidValue, match="no answer within 1 s"):
            open_catalogue(url)
    finally:
        server.signal(signal.SIGCONT)


def test_a_server_that_is_too_old_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is changed there."""
    monkeypatch.setattr(product, "MINIMUM_VERSION", 99)
    with pytest.raises(InvalidValue, match=r"the server is PostgreSQL \d+\.\d+.*; Tocsin needs version 99 or later"):
        open_catalogue(url)
    monkeypatch.undo()
    with open_engine(url).connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["tocsin_transaction"]


def test_a_server_that_takes_no_changes_is_refused(url: str, postgresql: PostgresqlServer) -> None:
    """Such as a standby."""
    name = sa.make_url(url).database
    postgresql.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(InvalidValue, match="the server takes no changes"):
        open_catalogue(url)


@pytest.mark.parametrize("command", ["coordinator", "cluster"])
def test_a_command_ends_with_one_line_and_the_code_of_bad_settings(command: str, tmp_path: Path) -> None:
    """And says nothing of the password."""
    port = free_port()
    url = f"postgresql://ann:hunter2@127.0.0.1:{port}/x"
    environment = {**os.environ, f"TOCSIN_{command.upper()}_DATABASE_URL": url}
    ran = subprocess.run(
        [sys.executable, "-m", "tocsin", command, "--data-dir", str(tmp_path / "data"), "--port", str(port)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    bad = subprocess.run(
        [sys.executable, "-m", "tocsin", command, "--data-dir", str(tmp_path / "data"), "--log-level", "x"],
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert ran.returncode == bad.returncode == 1
    assert f"setting database_url: 127.0.0.1:{port}/x can't be used: " in ran.stderr.splitlines()[-1]
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_missing_driver_is_named_with_the_extra(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tocsin.runtime.postgresql")
    monkeypatch.setitem(sys.modules, "psycopg", None)  # type: ignore[arg-type]  # that is how an import is made to fail
    with pytest.raises(InvalidValue, match=r"pip install 'tocsin\[postgres\]'"):
        open_catalogue(url)


# Tables


@pytest.mark.parametrize("versions", [catalogue.VERSIONS, coordinator.VERSIONS], ids=lambda one: one.table)
def test_migrations_lead_to_the_defined_tables(versions: Versions, postgresql: PostgresqlServer) -> None:
    """The same migrations as for SQLite, with the same types and indexes as a new database has."""
    make = {catalogue.VERSIONS: open_catalogue, coordinator.VERSIONS: coordinator.open_tables}[versions]
    with fresh_database(postgresql) as made, fresh_database(postgresql) as migrated:
        make(postgresql.url(made)).dispose()
        defined = sa.MetaData()
        defined.reflect(open_engine(postgresql.url(made)))
        engine = open_engine(postgresql.url(migrated))
        migrate(engine, versions)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": versions.table})
            assert not compare_metadata(context, defined)
        shape = (
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        )
        # Alembic and SQLAlchemy call the key of a table of versions differently.
        indexes = "SELECT indexdef FROM pg_indexes WHERE tablename NOT LIKE '%version' AND schemaname = 'public'"
        for query in (shape, indexes):
            assert sorted(postgresql.sql(query, made).split()) == sorted(postgresql.sql(query, migrated).split())


def test_a_catalogue_and_a_coordinator_may_share_a_database(url: str) -> None:
    """Each has tables and versions of its own. Only one of many that open a new database makes it."""
    with ThreadPoolExecutor(8) as threads:
        engines = list(threads.map(lambda make: make(url), [open_catalogue, coordinator.open_tables] * 4))
    with engines[0].connect() as connection:
        for versions in (catalogue.VERSIONS, coordinator.VERSIONS):
            stored = connection.exec_driver_sql(f"SELECT version_num FROM {versions.table}").all()
            assert stored == [(versions.newest(),)]
    for engine in engines:
        engine.dispose()


def test_long_and_odd_values_are_subscribed_to_like_others(url: str) -> None:
    """PostgreSQL's indexes take 2.7 kB at most, a subscription's values may be longer."""
    registry = SubscriptionRegistry(open_catalogue(url))
    registry.put_broker("b")
    texts = [os.urandom(5_000).hex(), "x" * 100_000, "a\0b", "\\", "\\x00", "\\\\", "'", "%s", "ä€𝄞", ""]
    wanted = [(text,) for text in texts]
    first = registry.subscribe("b", "C", wanted)
    assert len(set(first.ids)) == len(texts)
    assert registry.subscribe("b", "C", wanted) == replace(first, created=())
    assert [one.values for one in registry.find(first.ids).values()] == wanted
    assert registry.naming("\\") == {"C": [first.ids[3]]}


def test_subscriptions_are_found_by_their_index(url: str, postgresql: PostgresqlServer) -> None:
    """However many there are."""
    registry = SubscriptionRegistry(open_catalogue(url))
    registry.put_broker("b")
    registry.subscribe("b", "C", [(number,) for number in range(20_000)])
    name = str(sa.make_url(url).database)
    postgresql.sql("ANALYZE", name)
    registry.subscribe("b", "C", [(number,) for number in range(100)])
    scans = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'subscription'"
    postgresql.sql("SELECT pg_stat_force_next_flush()", name)
    assert int(postgresql.sql(scans, name)) < 20_000


# What goes wrong


def test_a_value_that_the_database_can_not_hold_is_the_callers_mistake(engine: sa.Engine) -> None:
    """A retry would not help, and nothing has changed."""
    with pytest.raises(InvalidValue, match=r"can't hold this value: .*NUL"):
        _add(engine, "a\0b")
    with pytest.raises(InvalidValue, match=r"can't hold this value: index row "):
        _add(engine, os.urandom(10_000).hex())
    assert _values(engine) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_of_the_server_is_got_over(server: PostgresqlServer, number: signal.Signals) -> None:
    """While it is away, calls fail in a way that tells callers to come back. Afterwards they succeed by themselves, and
    what was acknowledged is there."""
    engine = open_engine(f"postgresql://tocsin@127.0.0.1:{server.port}/own", "the catalogue")
    _VALUES.create(engine)
    _add(engine, "before")
    server.stop(number)
    for _ in range(3):
        with pytest.raises(Unavailable, match="the catalogue does not answer"):
            _add(engine, "meanwhile")
        with pytest.raises(Unavailable, match="the catalogue does not answer"):
            _values(engine)
    server.start()
    _add(engine, "after")
    assert _values(engine) == {"before", "after"}
    engine.dispose()


def test_a_commit_whose_answer_is_lost_has_happened(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told what is the case, and not that the connection broke."""
    commit = psycopg.Connection.commit

    # As when a network fails.
    def lose_answer(connection: psycopg.Connection[object]) -> None:
        commit(connection)
        connection.close()
        raise psycopg.OperationalError("the connection is lost")

    _add(engine, "early")
    monkeypatch.setattr(psycopg.Connection, "commit", lose_answer)
    _add(engine, "one")
    _add(engine, "two")  # The first commit of its connection.
    monkeypatch.undo()
    assert _values(engine) == {"early", "one", "two"}


def test_a_commit_that_did_not_arrive_has_not_happened(
    engine: sa.Engine, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the caller may try again."""
    commit = psycopg.Connection.commit

    def break_first(connection: psycopg.Connection[object]) -> None:
        postgresql.sql(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        commit(connection)

    _add(engine, "early")
    monkeypatch.setattr(psycopg.Connection, "commit", break_first)
    with pytest.raises(Unavailable):
        _add(engine, "one")
    monkeypatch.undo()
    assert _values(engine) == {"early"}
    _add(engine, "one")
    assert _values(engine) == {"early", "one"}


def test_a_commit_that_the_server_has_not_ended_is_waited_for(engine: sa.Engine) -> None:
    """Its session may live on for a while after the connection broke, and may still commit."""
    connection = engine.connect()
    connection.execute(_VALUES.insert().values(value="slow"))
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, product.Connection)
    driver.number += 1
    driver.execute(product._NOTE, (driver.name, driver.number))
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(driver._has_happened)
        time.sleep(0.5)
        assert not asking.done()
        psycopg.Connection.commit(driver)
        assert asking.result(timeout=10)
    connection.close()


def test_a_commit_that_nobody_can_know_about_is_told(server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server breaks down during the commit and does not come back: whoever has the change in memory must not go on
    with it."""
    doubts: list[bool] = []
    monkeypatch.setattr(product, "_OUTCOME_WITHIN_S", 0.5)
    url = f"postgresql://tocsin@127.0.0.1:{server.port}/own"
    engine = open_engine(url, on_doubt=lambda: doubts.append(True))
    _VALUES.create(engine)
    _add(engine, "before")
    assert not doubts
    commit = psycopg.Connection.commit

    def crash(connection: psycopg.Connection[object]) -> None:
        server.stop(signal.SIGQUIT)
        commit(connection)

    monkeypatch.setattr(psycopg.Connection, "commit", crash)
    with pytest.raises(Unavailable):
        _add(engine, "in doubt")
    assert doubts == [True]
    engine.dispose()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_subscriptions_are_created_once_while_the_server_restarts(
    server: PostgresqlServer, number: signal.Signals
) -> None:
    """Whoever repeats a call that has failed gets an id, and each new subscription is reported as new exactly once: the
    caller then runs it. One that was stored and not reported would get no results."""
    doubts: list[bool] = []
    url = f"postgresql://tocsin@127.0.0.1:{server.port}/own"
    engine = open_catalogue(url, on_doubt=lambda: doubts.append(True))
    registry = SubscriptionRegistry(engine)
    registry.put_broker("b")
    ids: list[int] = []
    created: list[int] = []
    failures: list[Unavailable] = []
    is_over = threading.Event()

    def subscribe() -> None:
        while not is_over.is_set():
            try:
                done = registry.subscribe("b", "C", [(len(ids),)])
            except Unavailable as exc:
                failures.append(exc)
                is_over.wait(0.02)
            else:
                ids.extend(done.ids)
                created.extend(one.id for one in done.created)

    subscribing = threading.Thread(target=subscribe)
    subscribing.start()
    for _ in range(3):
        before = len(ids)
        server.restart(number)
        deadline_s = time.monotonic() + 60
        while len(ids) < before + 20:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    is_over.set()
    subscribing.join(timeout=60)
    assert failures
    assert not doubts
    assert created == ids
    assert [one.id for page in registry.of_channel("C") for one in page] == ids
    assert registry.held_among("b", ids) == ids
    engine.dispose()


async def test_what_the_coordinator_could_not_store_is_stored_later(server: PostgresqlServer) -> None:
    """Its state in memory already has the change."""
    store = Store(coordinator.open_tables(f"postgresql://tocsin@127.0.0.1:{server.port}/own"), SystemClock())
    commits = GroupCommit(store)
    server.stop()
    with pytest.raises(Unavailable):
        await commits.store([StoreBroker(BrokerRecord("b", "http://b")), Audit("ann", "state", "b")])
    server.start()
    await commits.store([StoreSession(SessionRecord("ann/phone", "b", 1 << 62))])
    assert [one.name for one in store.load().brokers] == ["b"]
    assert [one.generation for one in store.load().sessions] == [1 << 62]
    assert len(store.plans.audit(None, 10)) == 1
    await commits.close()
    store.close()
