"""Row 14: hostile SQL is refused, and hostile parameter values are data."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path

import httpx

from scorecard.row import Effort, Outcome, Row
from tocsin.client import ClusterClient
from tocsin.testing.network import running_cluster
from unit.cluster.channels.hostile import BODIES

_SCHEMA = """
CREATE ACTIVE DATASET EmergencyReports (id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT, message STRING,
                                        PRIMARY KEY (id));
CREATE KEYED DATASET UserLocations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE REFERENCE DATASET Shelters (id STRING, name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
CREATE ACTIVE DATASET Texts (id STRING, PRIMARY KEY (id));
CREATE FEED texts INTO Texts FROM HTTP;
CREATE CONTINUOUS CHANNEL Exact (text STRING) AS SELECT t.id FROM Texts t WHERE is_new(t) AND t.id = :text;
"""
_CANARY = "CANARY-TWEET"
_CHUNK = 1_000
#: What a value is made of: pieces that end a text, begin a comment, call something, or are replaced somewhere.
_PIECES = (
    "'", '"', "`", "\\", ";", "--", "/*", "*/", "\u0000", "\n", "${env:CANARY}", "${spark:spark.app.id}", ":text",
    "{{x}}",
    "%s", "' OR '1'='1", "); DROP DATASET Shelters; --", "SELECT reflect('java.lang.System','exit',3)", "\u202e", "🚨",
    "\ud7ff", "NULL", "true", "1e400", "../../etc/passwd", "<script>", "x" * 50,
)  # fmt: skip


def _hostile(effort: Effort) -> Outcome:
    bad: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tocsin-scorecard-") as made:
        folder = Path(made)
        canary = folder / "canary.csv"
        canary.write_text(f"id\n{_CANARY}\n")
        os.environ["CANARY"] = _CANARY
        try:
            with running_cluster(folder / "cluster") as cluster, cluster.client() as client:
                client.wait_ready()
                client.sql(_SCHEMA)
                bodies = _try_bodies(cluster.url, canary, effort["bodies"], bad)
                effort.say(f"{bodies} bodies, {len(bad)} bad")
                values = _try_values(client, cluster.url, effort, bad)
                datasets = json.dumps(client.sql("SHOW DATASETS"))
                if "Shelters" not in datasets:
                    bad.append(f"a dataset is gone: {datasets[:300]}")
                if client.status()["state"] != "ready":
                    bad.append("the cluster is no longer ready")
        finally:
            del os.environ["CANARY"]
        if canary.read_text() != f"id\n{_CANARY}\n" or {one.name for one in folder.iterdir()} != {
            "canary.csv",
            "cluster",
        }:
            bad.append(f"files were changed: {[one.name for one in folder.iterdir()]}")
    return Outcome({"bodies": bodies, "parameters": values}, tuple(bad))


def _try_bodies(url: str, canary: Path, count: int, bad: list[str]) -> int:
    """Each as a SELECT and as a channel's query."""
    bodies = [one for one in BODIES if ";" not in one and one.strip()]
    bodies = [one.replace("/etc/passwd", str(canary)).replace("HOME", "CANARY") for one in bodies]
    # As many as are asked for, by writing the same in other ways.
    texts = [*bodies, *(one.upper() for one in bodies), *(f"/* x */ {one} " for one in bodies)][: max(count, 1)]
    with httpx.Client(base_url=url, timeout=60) as http:
        for number, text in enumerate(texts):
            for statement in (text, f"CREATE REPETITIVE CHANNEL Hostile{number} () PERIOD 1 HOURS AS {text}"):
                body = json.dumps({"sql": statement}).encode()
                answer = http.post("/v1/statements", content=body, headers={"Content-Type": "application/json"})
                if not 400 <= answer.status_code < 500 or _CANARY in answer.text:
                    bad.append(f"{answer.status_code} for {statement[:200]}: {answer.text[:200]}")
    return len(texts)


def _try_values(client: ClusterClient, url: str, effort: Effort, bad: list[str]) -> int:
    """Each value matches the record that holds that very text, and nothing else happens."""
    chance = random.Random(effort.seed)
    done = 0
    while done < effort["parameters"]:
        count = min(_CHUNK, effort["parameters"] - done)
        texts = [f"{done + at} " + "".join(chance.choices(_PIECES, k=chance.randint(1, 8))) for at in range(count)]
        broker = f"scorecard-{done}"
        cursor = client.register_broker(broker)
        client.subscribe(broker, [{"channel": "Exact", "parameters": {"text": text}} for text in texts])
        client.publish("texts", [{"id": text} for text in texts])
        got: list[str] = []
        idle = 0
        while len(got) < len(texts) and idle < 20:
            results, cursor = client.pull(broker, cursor, wait_s=2)
            got += [one["payload"]["id"] for one in results]
            idle = 0 if results else idle + 1
        if sorted(got) != sorted(texts):
            missing = sorted(set(texts) - set(got))
            bad.append(f"{len(got)} results for {len(texts)} values; missing: {missing[:3]!r}")
        httpx.delete(f"{url}/v1/brokers/{broker}", timeout=60).raise_for_status()
        done += count
        if done % 10_000 == 0:
            effort.say(f"{done:,} values, {len(bad)} bad")
    return done


HOSTILE_SQL = Row(
    14,
    "Hostile SQL and hostile parameter values",
    "0 executed, canaries untouched",
    full={"bodies": 150, "parameters": 50_000},
    brief={"bodies": 150, "parameters": 2_000},
    run=_hostile,
)
