"""Power cuts of the whole cluster process: Spark, Java and HTTP included. Each takes the time of a start."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from disk.cuts import CutReport
from disk.recording import Disk, Witness, build_recorder, environment, read_recording
from disk.workload import BROKER, KINDS, Told, note
from tocsin.client import ClusterClient, ServerError
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server

_STATEMENTS = """
CREATE ACTIVE DATASET Records (id BIGINT, k BIGINT, PRIMARY KEY (id));
CREATE FEED records INTO Records FROM HTTP;
CREATE CONTINUOUS CHANNEL Alerts (k BIGINT) AS SELECT r.id FROM Records r WHERE is_new(r) AND r.k = :k;
"""
_LOAD_S = 12.0
_FIRST_RESULT_WITHIN_S = 60.0
_READY_WITHIN_S = 120.0
_SETTLE_WITHIN_S = 60.0
_STOP_WITHIN_S = 60.0


def cut_whole_cluster(seed: str, cuts: int) -> CutReport:
    """Record a cluster under load, cut it at random moments of the load, and start a cluster on what each leaves."""
    with tempfile.TemporaryDirectory(prefix="tocsin-whole-") as name:
        folder = Path(name).resolve()
        root, log = folder / "data", folder / "log"
        root.mkdir()
        with _cluster(root, environment(build_recorder(folder), root, log)) as client:
            _load(client, Witness(log), seed)
        records = read_recording(log)
        begin = next(at for at, record in enumerate(records) if b'"subscription"' in record.data[:40])
        chance, disk, heard, report, done = random.Random(seed), Disk(root), Told(), CutReport(), 0
        report.recorded.update(record.op.name.lower() for record in records)
        for moment in sorted(chance.choices(range(begin, len(records) + 1), k=cuts)):
            for record in records[done:moment]:
                disk.play(record)
                heard.hear(record)
            done = moment
            left = folder / "left"
            disk.cut(chance, left)
            report.violations += [f"cut at {moment} of {len(records)}: {one}" for one in _look_at(left, heard)]
            report.cuts += 1
            shutil.rmtree(left)
        report.heard.update(
            records=len(heard.records), results=len(heard.results), subscriptions=len(heard.subscriptions)
        )
        return report


@contextmanager
def _cluster(data: Path, variables: dict[str, str]) -> Iterator[ClusterClient]:
    port = free_port()
    settings = {"spark_driver_memory": "1g", "compact_every_commits": 20, "log_level": "error"}
    process = start_server("cluster", data, port, Path(os.devnull), settings, environment=variables)
    try:
        with ClusterClient(f"http://127.0.0.1:{port}") as client:
            client.wait_ready(_READY_WITHIN_S)
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_WITHIN_S)


def _load(client: ClusterClient, witness: Witness, seed: str) -> None:
    chance = random.Random(f"{seed}/load")
    client.sql(_STATEMENTS)
    cursor = client.register_broker(BROKER)
    wanted = [{"channel": "Alerts", "parameters": {"k": kind}} for kind in range(KINDS)]
    for kind, held in enumerate(client.subscribe(BROKER, wanted)):
        note(witness, "subscription", id=held["id"], k=kind)
    stopping, came = threading.Event(), threading.Event()

    def follow() -> None:
        after = cursor
        while not stopping.is_set():
            found, after = client.pull(BROKER, after, wait_s=0.5)
            if found:
                came.set()
            note(witness, "results", results=_triples(found), cursor=after)

    broker = threading.Thread(target=follow)
    broker.start()
    numbers = iter(range(1, 1_000_000))
    begin_s = time.monotonic()
    # On a busy machine the first results take their time, and a run without any proves little.
    while time.monotonic() < begin_s + (_LOAD_S if came.is_set() else _FIRST_RESULT_WITHIN_S):
        ids = [next(numbers) for _ in range(chance.randint(1, 20))]
        client.publish("records", [{"id": one, "k": one % KINDS} for one in ids])
        note(witness, "records", ids=ids)
        stopping.wait(chance.expovariate(20))
    stopping.set()
    broker.join()


def _look_at(left: Path, heard: Told) -> list[str]:
    try:
        with _cluster(left, dict(os.environ)) as client:
            return list(_violations(client, heard))
    except (ServerError, TimeoutError, OSError) as exc:
        return [f"does not start or go on: {exc}"]


def _violations(client: ClusterClient, heard: Told) -> Iterator[str]:
    everything, _ = client.pull(BROKER, 0)
    by_sequence = {one[0]: one[1:] for one in _triples(everything)}
    for sequence, result in heard.results.items():
        if tuple(by_sequence.get(sequence, ())) != result:
            yield f"sequence {sequence} was told as {result} and now is {by_sequence.get(sequence)}"
    received = list(heard.results.values())
    cursor, end_s = heard.cursor, time.monotonic() + _SETTLE_WITHIN_S
    while time.monotonic() < end_s and heard.due - set(received):
        found, cursor = client.pull(BROKER, cursor, wait_s=1)
        received += [(one, number) for _, one, number in _triples(found)]
    if lost := heard.due - set(received):
        yield f"a broker that goes on at its cursor never gets {sorted(lost)[:5]}"
    if len(received) > len(set(received)):
        yield "a broker that goes on at its cursor gets a result twice"


def _triples(results: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(int(one["position"].split("-")[1]), one["subscription"], one["payload"]["id"]) for one in results]
