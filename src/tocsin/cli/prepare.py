"""`tocsin prepare`: work that is done once and makes all later starts faster."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from tocsin.cli.terminal import AsJson, err, fail, print_answer
from tocsin.client import ClusterClient
from tocsin.errors import TocsinError
from tocsin.runtime.java import JavaHome, archive_of, find_java
from tocsin.runtime.processes import running_server

#: A sample of everything that clusters do, so that Java loads the classes for it.
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, kind STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
CREATE KEYED DATASET Locations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE REFERENCE DATASET Shelters (id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE FEED locations INTO Locations FROM HTTP;
CREATE CONTINUOUS CHANNEL OfKind (kind STRING) AS SELECT r.* FROM Reports r WHERE is_new(r) AND r.kind = :kind;
CREATE REPETITIVE CHANNEL NearMe (user_id STRING, radius_m DOUBLE) PERIOD 1 SECONDS AS
  SELECT r.id, count(s.id) AS shelters
  FROM Reports r JOIN Locations p ON p.user_id = :user_id LEFT JOIN Shelters s ON within(s.x, s.y, p.x, p.y, 1000.0)
  WHERE is_new(r) AND within(r.x, r.y, p.x, p.y, :radius_m) GROUP BY r.id;
"""
_SUBSCRIPTIONS: list[Mapping[str, Any]] = [
    {"channel": "OfKind", "parameters": {"kind": "flood"}},
    {"channel": "NearMe", "parameters": {"user_id": "ann", "radius_m": 500.0}},
]
_BROKER = "prepare"
_READY_TIMEOUT_S = 300.0
_RESULTS_TIMEOUT_S = 120.0
#: Java writes the archive when it ends.
_WRITE_TIMEOUT_S = 300.0


def run_prepare(as_json: AsJson = False) -> None:
    """Compile balancing's loops, archive Spark's classes, once after installing.

    This runs Spark for a minute. From then on clusters start faster, and the first plan needs no compiling.
    """
    from tocsin.coordinator.load.compiling import compile_loops

    begin_s = time.monotonic()
    compile_loops()
    try:
        java = find_java()
        with err.status("Running Spark once, so that it starts faster from now on: about a minute"):
            archive = _make(java)
    except (TocsinError, OSError, httpx.HTTPError, psutil.Error, subprocess.SubprocessError) as exc:
        fail(f"nothing was archived: {exc}. Clusters work without the archive, but start some seconds later")
        return
    size_mb = archive.stat().st_size >> 20
    answer = {"archive": archive, "size_mb": size_mb, "seconds": round(time.monotonic() - begin_s, 1)}
    print_answer(answer, f"Spark's classes are archived: {size_mb} MB at {archive}", as_json=as_json)


def _make(java: JavaHome) -> Path:
    target = archive_of(java)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tocsin-prepare-", dir=target.parent) as scratch:
        # Java's own classes first: our archive is based on theirs, and not every Java comes with one.
        base, made = target.with_suffix(".base.jsa"), Path(scratch) / target.name
        made_base = Path(scratch) / base.name
        command = [str(java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={made_base}"]
        subprocess.run(command, check=True, capture_output=True, timeout=_WRITE_TIMEOUT_S)
        # An archive that is based on the former base is of no use any more, even if the next steps fail.
        target.unlink(missing_ok=True)
        _settle(made_base, base)
        _try_out(Path(scratch) / "cluster", f'"-XX:SharedArchiveFile={base}" "-XX:ArchiveClassesAtExit={made}"')
        if not made.is_file():
            raise FileNotFoundError(f"Java {java.version} at {java.home} wrote no archive")
        _settle(made, target)
    for file in target.parent.glob("*.jsa"):
        if file not in (base, target):
            file.unlink()
    return target


def _settle(made: Path, target: Path) -> None:
    """Moves the file into place, whole or not at all: half an archive would crash Java."""
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.replace(target)


def _try_out(folder: Path, java_options: str) -> None:
    """Runs a cluster for a short time, with real records and results. Returns when its Java has ended."""
    with running_server("cluster", folder, {"spark_java_options": java_options}) as cluster:
        cluster.wait_ready(_READY_TIMEOUT_S)
        processes = psutil.Process(cluster.process.pid).children(recursive=True)
        with ClusterClient(cluster.url) as client:
            client.sql(_SCHEMA)
            client.sql("INSERT INTO Shelters VALUES ('s1', 0.0, 0.0)")
            _run_channels(client)
            client.sql("SELECT kind, count(*) AS reports FROM Reports GROUP BY kind")
    _, alive = psutil.wait_procs(processes, timeout=_WRITE_TIMEOUT_S)
    if alive:
        raise TimeoutError(f"Java was not done after {_WRITE_TIMEOUT_S:g} s")


def _run_channels(client: ClusterClient) -> None:
    """Returns when each channel has had a result."""
    cursor = client.register_broker(_BROKER)
    client.subscribe(_BROKER, _SUBSCRIPTIONS)
    client.publish("locations", [{"user_id": "ann", "x": 1.0, "y": 1.0}], wait_commit=True)
    client.publish("reports", [{"id": "r1", "kind": "flood", "x": 2.0, "y": 2.0}], wait_commit=True)
    deadline_s = time.monotonic() + _RESULTS_TIMEOUT_S
    seen = 0
    while seen < len(_SUBSCRIPTIONS):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{seen} of {len(_SUBSCRIPTIONS)} results came within {_RESULTS_TIMEOUT_S:g} s")
        results, cursor = client.pull(_BROKER, cursor, wait_s=2)
        seen += len(results)
