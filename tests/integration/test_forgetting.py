"""A person is deleted with one command, and their name is looked for in every file."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from scorecard.secured import await_message
from tocsin.cli.main import app
from tocsin.client import ClusterClient, CoordinatorClient
from tocsin.runtime.processes import ServerProcess
from tocsin.testing.network import ClusterProcess, running_broker, running_cluster, running_coordinator

pytestmark = pytest.mark.system

_NAME = "zoe.okonkwo"
_PASSWORD = "correct horse battery"
_WAIT_S = 60.0
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, reporter STRING, text STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE KEYED DATASET Places (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE FEED places INTO Places FROM HTTP;
CREATE KEYED DATASET Cars (id INT, driver STRING, PRIMARY KEY (id));
CREATE REFERENCE DATASET Helpers (id INT, name STRING, PRIMARY KEY (id));
CREATE CONTINUOUS CHANNEL Own (owner STRING IS USER) AS
  SELECT r.id, r.reporter FROM Reports r WHERE is_new(r) AND r.reporter = :owner;
CREATE CONTINUOUS CHANNEL ReportedBy (reporter STRING) AS
  SELECT r.id, r.reporter FROM Reports r WHERE is_new(r) AND r.reporter = :reporter;
CREATE CONTINUOUS CHANNEL Everything () AS SELECT r.id, r.reporter FROM Reports r WHERE is_new(r);
"""


@dataclass(frozen=True, slots=True)
class _System:
    folder: Path
    cluster: ClusterProcess
    coordinator: ServerProcess
    brokers: tuple[ServerProcess, ServerProcess]

    @property
    def sql(self) -> ClusterClient:
        return self.cluster.client()

    @property
    def people(self) -> CoordinatorClient:
        return CoordinatorClient(self.coordinator.url)

    def token(self, user: str) -> str:
        return str(self.people.log_in(user, _PASSWORD)["token"])

    def publish(self, *lines: str, feed: str = "reports", key: str = "") -> None:
        headers = {"Content-Type": "application/x-ndjson"} | ({"Idempotency-Key": key} if key else {})
        address = f"{self.cluster.url}/v1/feeds/{feed}/records"
        httpx.post(address, content="\n".join(lines), headers=headers, timeout=_WAIT_S).raise_for_status()

    @contextmanager
    def connected(self, broker: int, user: str, *asks: tuple[str, dict[str, Any]]) -> Iterator[ClientConnection]:
        address = self.brokers[broker].url.replace("http", "ws", 1) + "/v1/connect"
        with connect(address, compression=None, open_timeout=_WAIT_S) as socket:
            socket.send(json.dumps({"type": "hello", "token": self.token(user), "device": "phone"}))
            await_message(socket, "welcome")
            for request, (channel, parameters) in enumerate(asks, 1):
                ask = {"type": "subscribe", "channel": channel, "parameters": parameters, "request": request}
                socket.send(json.dumps(ask))
                await_message(socket, "subscribed")
            yield socket


@contextmanager
def _running(folder: Path) -> Iterator[_System]:
    """The system with its scratch in the folder too. All that can be logged is."""
    debug = {"log_level": "debug"}
    with ExitStack() as stack:
        settings = {"scratch_dir": folder / "scratch", "warm_up_max_s": 0, **debug}
        cluster = stack.enter_context(running_cluster(folder / "cluster", settings))
        coordinator = stack.enter_context(running_coordinator(folder / "coordinator", debug))
        cluster.client().wait_ready(120)
        brokers = [
            stack.enter_context(
                running_broker(name, folder / name, cluster.url, coordinator.url, {"locations_feed": "places", **debug})
            )
            for name in ("north", "south")
        ]
        yield _System(folder, cluster, coordinator, (brokers[0], brokers[1]))


def _files_with(folder: Path, text: str) -> list[str]:
    """Names of files that hold the text: as it is, or in what Parquet has compressed."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file() and (text.encode() in path.read_bytes() or _parquet_holds(path, text)):
                found.append(str(path.relative_to(folder)))
        except FileNotFoundError:
            continue  # A temporary file that is gone again.
    return found


def _parquet_holds(path: Path, text: str) -> bool:
    return path.suffix == ".parquet" and text in str(pq.read_table(path).to_pylist())


def _await(is_so: Callable[[], bool], what: str) -> None:
    """For what other processes come to by themselves."""
    deadline_s = time.monotonic() + _WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def _live(system: _System) -> None:
    """Zoe leaves her name wherever a person can: in every kind of table, in what was refused, replaced and deleted, in
    results, with brokers, with the coordinator, in moves and in the audit log."""
    for user in (_NAME, "bob"):
        system.people.register(user, _PASSWORD)
    system.sql.sql(_SCHEMA)
    system.sql.sql(f"""
        INSERT INTO Cars VALUES (1, '{_NAME}'), (2, 'bob'); INSERT INTO Cars VALUES (1, 'bob');
        INSERT INTO Helpers VALUES (1, '{_NAME}'), (2, 'bob'), (3, '{_NAME}'); DELETE FROM Helpers WHERE id = 3;
    """)
    with (
        system.connected(0, _NAME, ("Own", {}), ("Everything", {})) as zoe,
        system.connected(1, "bob", ("ReportedBy", {"reporter": _NAME}), ("Everything", {})) as bob,
    ):
        zoe.send(json.dumps({"type": "location", "x": 1.0, "y": 2.0}))
        hers = json.dumps({"id": "1", "reporter": _NAME})
        system.publish(hers, json.dumps({"id": "2", "reporter": "bob"}), key=f"{_NAME}-1")
        # What does not fit: without its key, and no JSON at all.
        system.publish(json.dumps({"reporter": _NAME}), "{who: " + _NAME + "}")
        _await(lambda: system.sql.dead_letters("Reports")["total"] == 2, "there are no dead letters")
        for socket in (zoe, bob):
            assert await_message(socket, "notification")["payload"]["reporter"] == _NAME
    system.people.revoke(_NAME)
    # Her session is moved while she is away: that is written down twice.
    system.people.set_state("north", "draining", by=_NAME)
    _await(lambda: system.people.broker("north")["subscribers"] == 0, "north was not emptied")
    system.people.set_state("north", "active", by=_NAME)
    stored = system.sql.sql(f"SELECT count(*) AS n FROM Places WHERE user_id = '{_NAME}'")[0]["rows"]
    assert stored == [[1]]


def _forget(system: _System) -> str:
    urls = ["--url", system.cluster.url, "--coordinator-url", system.coordinator.url]
    done = CliRunner().invoke(app, ["forget", _NAME, *urls], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_person_deleted_with_one_command_is_gone_from_every_file(tmp_path: Path) -> None:
    """From tables, results, dead letters, the landing log, sessions, databases and logs, while everything runs, after
    it was stopped, and in a back-up made then. Others keep what is theirs, whoever is connected as that person is sent
    away, and the back-up works."""
    folder, back_up = tmp_path / "system", tmp_path / "back-up"
    with _running(folder) as system:
        _live(system)
        before = _files_with(folder, _NAME)
        for where in (
            "cluster/data/datasets/",
            "cluster/data/results/",
            "cluster/data/landing/",
            "cluster/data/landing/keys.sqlite",
            "cluster/data/catalogue.sqlite",
            "coordinator/data/coordinator.sqlite",
            "north/data/broker.sqlite",
            "south/data/broker.sqlite",
        ):
            assert any(one.startswith(where) for one in before), (where, before)
        with (
            system.connected(1, _NAME, ("Own", {})) as zoe,
            system.connected(1, "bob") as bob,
        ):
            said = _forget(system)
            assert await_message(bob, "failed")["code"] == "not_found"
            with pytest.raises((ConnectionClosed, RuntimeError)):
                await_message(zoe, "nothing")
        assert "removed the user and 1 session" in said
        assert "3 rows, 2 dead letters, 3 results" in said, said
        assert _files_with(folder, _NAME) == []
        assert "removed 0 sessions" in _forget(system)
        with system.connected(1, "bob") as bob:
            system.publish(json.dumps({"id": "3", "reporter": "bob"}))
            # He has acknowledged nothing yet: what he gets again does not name her.
            got = [await_message(bob, "notification")["payload"] for _ in range(2)]
            assert got == [{"id": "2", "reporter": "bob"}, {"id": "3", "reporter": "bob"}]
    assert _files_with(folder, _NAME) == []
    shutil.copytree(folder, back_up)
    assert _files_with(back_up, _NAME) == []
    with _running(back_up) as system:
        assert system.sql.sql("SELECT id, driver FROM Cars ORDER BY id")[0]["rows"] == [[1, "bob"], [2, "bob"]]
        assert system.sql.sql("SELECT id FROM Reports ORDER BY id")[0]["rows"] == [["2"], ["3"]]
        assert [one["name"] for one in system.people.users()] == ["bob"]
        system.people.register(_NAME, _PASSWORD)  # Whoever has the name next is let in, and finds nothing.
        with system.connected(0, _NAME) as somebody:
            somebody.send(json.dumps({"type": "ping", "request": 1}))
            await_message(somebody, "pong")
