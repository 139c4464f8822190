"""Two coordinators on one database: one leads, the other takes over, and a former leader changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from databases import fresh_database
from postgresql_server import PostgresqlServer
from tocsin.coordinator.registry.instructions import StoreBroker, StorePolicy
from tocsin.coordinator.registry.records import BrokerRecord
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import Unavailable
from tocsin.runtime import exits
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.database_address import read_address
from tocsin.runtime.leadership import Term
from tocsin.runtime.ports import free_port
from tocsin.runtime.postgresql_lease import PostgresqlLease

#: A lease of ten seconds, and a start on a machine with much else to do.
_TAKEN_OVER_WITHIN_S = 120


@pytest.fixture
def url(postgresql: PostgresqlServer) -> Iterator[str]:
    with fresh_database(postgresql) as name:
        yield postgresql.url(name)


def test_changes_of_a_former_leader_are_refused(url: str, postgresql: PostgresqlServer) -> None:
    """As a process finds it that was stopped for longer than its lease. What it did before is there."""
    former, next_one = (PostgresqlLease(read_address(url), "coordinator") for _ in range(2))
    first = former.take()
    assert first is not None
    store = Store(open_tables(url, Term("coordinator", first)), SystemClock())
    store.apply([StoreBroker(BrokerRecord("early", "http://early"))])
    assert next_one.take() is None
    postgresql.sql("UPDATE tocsin_lease SET until = now() - INTERVAL '1 s'", str(sa.make_url(url).database))
    second = next_one.take()
    assert second == first + 1
    assert not former.renew()
    with pytest.raises(Unavailable, match="another process leads now"):
        store.apply([StoreBroker(BrokerRecord("late", "http://late"))])
    successor = Store(open_tables(url, Term("coordinator", second)), SystemClock())
    successor.apply([StorePolicy("nearest")])
    assert [one.name for one in store.load().brokers] == ["early"]
    assert store.load() == successor.load()
    for one in (store, successor, former, next_one):
        one.close() if isinstance(one, Store) else one.release()


def test_a_takeover_waits_for_a_change_that_is_being_committed(url: str, postgresql: PostgresqlServer) -> None:
    """So the next leader reads all that its predecessor has stored."""
    former, next_one = (PostgresqlLease(read_address(url), "coordinator") for _ in range(2))
    assert former.take()
    name = str(sa.make_url(url).database)
    postgresql.sql("UPDATE tocsin_lease SET until = now() - INTERVAL '1 s'", name)
    with sa.create_engine(read_address(url)).connect() as committing:
        committing.exec_driver_sql("SELECT term FROM tocsin_lease WHERE name = 'coordinator' FOR SHARE")
        with pytest.raises(Unavailable):  # It waits for five seconds, and would try again.
            next_one.take()
    assert next_one.take() == 2
    for one in (former, next_one):
        one.release()


@contextmanager
def _coordinator(folder: Path, url: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "TOCSIN_COORDINATOR_DATABASE_URL": url}
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", "coordinator", "--data-dir", str(folder / "data"), "--port", str(port)],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)


def _leads(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _keys(port: int) -> list[str]:
    found: list[str] = httpx.get(f"http://127.0.0.1:{port}/v1/keys", timeout=60).json()["keys"]
    return found


def _wait_for_leader(port: int) -> None:
    deadline_s = time.monotonic() + _TAKEN_OVER_WITHIN_S
    while not _leads(port):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_a_leader_that_ends_in_order_lets_the_next_one_lead_at_once(url: str, tmp_path: Path) -> None:
    """It does not keep others waiting for the end of its lease, and ends by the signal as before."""
    port = free_port()
    with _coordinator(tmp_path / "one", url, port) as process:
        _wait_for_leader(port)
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    lease = PostgresqlLease(read_address(url), "coordinator")
    assert lease.take() == 2
    lease.release()
    assert b"Pool" not in (tmp_path / "one" / "log").read_bytes()


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_takes_over(url: str, tmp_path: Path, ends: signal.Signals) -> None:
    """Whether the leader ends in order, is killed or is stopped; users, and tokens that they have, are as they were. A
    leader that comes back after that ends itself."""
    ports = [free_port(), free_port()]
    with _coordinator(tmp_path / "one", url, ports[0]) as first:
        _wait_for_leader(ports[0])
        with _coordinator(tmp_path / "two", url, ports[1]) as second:
            user = {"name": "ann", "password": "correct horse"}
            made = httpx.post(f"http://127.0.0.1:{ports[0]}/v1/users", json=user, timeout=60)
            assert made.status_code < 300, made.text
            keys = _keys(ports[0])
            deadline_s = time.monotonic() + _TAKEN_OVER_WITHIN_S
            while b"standing by" not in (log := (tmp_path / "two" / "log").read_bytes()):
                assert time.monotonic() < deadline_s, log
                time.sleep(0.2)
            assert f"process {first.pid} on ".encode() in log
            assert not _leads(ports[1])
            first.send_signal(ends)
            _wait_for_leader(ports[1])
            assert _keys(ports[1]) == keys
            known = httpx.post(f"http://127.0.0.1:{ports[1]}/v1/tokens", json=user, timeout=60)
            assert known.status_code < 300, known.text
            if ends is signal.SIGSTOP:
                first.send_signal(signal.SIGCONT)
                assert first.wait(timeout=60) == exits.FAILED
                assert b"another process leads now" in (tmp_path / "one" / "log").read_bytes()
            assert second.poll() is None
