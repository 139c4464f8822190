"""Hostile input against the live cluster: refused or inert, whatever way it comes in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from integration.live import Live
from unit.cluster.channels.hostile import BODIES

_DATASETS = """
    CREATE ACTIVE DATASET IF NOT EXISTS EmergencyReports (id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT,
                                                          message STRING, PRIMARY KEY (id));
    CREATE KEYED DATASET IF NOT EXISTS UserLocations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
    CREATE REFERENCE DATASET IF NOT EXISTS Shelters (id STRING, name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
    CREATE ACTIVE DATASET IF NOT EXISTS SeRecords (id STRING, PRIMARY KEY (id));
    CREATE FEED IF NOT EXISTS se_records INTO SeRecords FROM HTTP;
"""


@pytest.fixture(scope="module")
def canary(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file to read or write, and a secret in the environment. Afterwards all is as it was, and none was told."""
    live.sql(_DATASETS)
    folder = tmp_path_factory.mktemp("canary")
    (folder / "canary.csv").write_text("id\nTWEET\n")
    os.environ["CANARY"] = "TWEET"
    settings = dict(live.cluster.spark.sparkContext.getConf().getAll())
    catalogue = [live.rows(f"SHOW {kind}") for kind in ("DATASETS", "FEEDS", "CHANNELS")]
    yield folder
    del os.environ["CANARY"]
    assert [one.name for one in folder.iterdir()] == ["canary.csv"]
    assert (folder / "canary.csv").read_text() == "id\nTWEET\n"
    assert dict(live.cluster.spark.sparkContext.getConf().getAll()) == settings
    assert live.cluster.spark.conf.get("spark.sql.runSQLOnFiles") == "false"
    assert live.cluster.spark.conf.get("spark.sql.variable.substitute") == "false"
    known = [{row[next(iter(row))] for row in rows} for rows in catalogue]
    now = [{row[next(iter(row))] for row in live.rows(f"SHOW {kind}")} for kind in ("DATASETS", "FEEDS", "CHANNELS")]
    assert all(before <= after for before, after in zip(known, now, strict=True))
    assert live.http.get("/healthz").json() == {"state": "ready"}


def _refused(live: Live, text: str) -> None:
    body = json.dumps({"sql": text}).encode()  # All ASCII: what is no character goes as an escape.
    response = live.http.post("/v1/statements", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= response.status_code < 500, (text, response.status_code, response.text)
    assert "TWEET" not in response.text


def test_hostile_queries_are_refused(live: Live, canary: Path) -> None:
    """No hostile body becomes a channel, and none runs as a SELECT; refusing them changes nothing."""
    # As a script, what a semicolon parts is judged part by part.
    single = [one for one in BODIES if ";" not in one and one.strip()]
    assert len(single) >= 60
    aimed = [one.replace("/etc/passwd", str(canary / "canary.csv")).replace("HOME", "CANARY") for one in single]
    for number, body in enumerate(aimed):
        _refused(live, body)
        _refused(live, f"CREATE REPETITIVE CHANNEL SeHostile{number} () PERIOD 1 HOURS AS {body}")
    assert not [row for row in live.rows("SHOW CHANNELS") if row["channel"].startswith("SeHostile")]


def test_hostile_statements_are_refused(live: Live, canary: Path) -> None:
    """Spark's own statements aren't ours: none is carried out, alone or behind one of ours."""
    for statement in (
        "SET spark.sql.runSQLOnFiles=true",
        "SET VAR x = 1",
        "RESET",
        f"ADD JAR '{canary}/x.jar'",
        f"ADD FILE '{canary}/canary.csv'",
        f"CREATE TABLE t USING csv LOCATION '{canary}/out'",
        f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{canary}/canary.csv')",
        "CREATE FUNCTION f AS 'java.lang.Runtime'",
        f"INSERT OVERWRITE LOCAL DIRECTORY '{canary}/out' SELECT 1",
        f"INSERT OVERWRITE DIRECTORY '{canary}/out' USING csv SELECT 1",
        "EXECUTE IMMEDIATE 'DROP DATASET Shelters'",
        "DROP TABLE Shelters",
        "DROP VIEW Shelters",
        "TRUNCATE TABLE Shelters",
        "DELETE FROM Shelters",
        "UPDATE Shelters SET id = 'x'",
        "MERGE INTO Shelters USING Shelters s ON true WHEN MATCHED THEN DELETE",
        "REFRESH TABLE Shelters",
        "CACHE TABLE c AS SELECT 1",
        "USE default",
        "EXPLAIN SELECT 1",
        "DESCRIBE FUNCTION reflect",
        "SHOW TABLES",
        "SHOW CREATE TABLE Shelters",
        "!touch x",
        f"LOAD DATA LOCAL INPATH '{canary}/canary.csv' INTO TABLE Shelters",
        f"LOAD DATASET SeRecords FROM '{canary}/canary.csv'",
        f"CREATE FEED se_f INTO SeRecords FROM FOLDER '{canary}'",
        "CREATE ACTIVE DATASET `../../x` (id STRING, PRIMARY KEY (id))",
        "CREATE ACTIVE DATASET x (`_seq` BIGINT, PRIMARY KEY (`_seq`))",
        "BEGIN SELECT 1; END",
    ):
        _refused(live, statement)
        _refused(live, f"SHOW BROKERS; {statement}")


def test_parameter_values_are_data(live: Live, canary: Path) -> None:
    """A hostile text as a parameter value matches records that hold that very text, and does nothing else."""
    live.sql("""
        CREATE CONTINUOUS CHANNEL SeExact (text STRING) AS
          SELECT r.id FROM SeRecords r WHERE is_new(r) AND r.id = :text
    """)
    seat = live.broker("se-values")
    texts = [body.replace("HOME", "CANARY") for body in BODIES[::4]] + [
        "'; DROP DATASET Shelters; --",
        "' OR '1' = '1",
        "\\' OR 1=1 --",
        "${env:CANARY}",
        "${spark:spark.app.id}",
        "{{tocsin}}",
        ":text",
        "`",
        "\u0000nul",
        "%s %d {} {0}",
        "🚨 \u202e reversed",
        "x" * 10_000,
    ]
    texts = list(dict.fromkeys(text for text in texts if len(text) <= 10_000))
    live.client.subscribe("se-values", [{"channel": "SeExact", "parameters": {"text": text}} for text in texts])
    live.publish("se_records", [{"id": text} for text in texts])
    assert sorted(one["payload"]["id"] for one in seat.take(len(texts))) == sorted(texts)
    assert "Shelters" in [row["dataset"] for row in live.rows("SHOW DATASETS")]


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "ünï",
        "a'b",
        'a"b',
        "a;DROP",
        "<script>",
        "..",
        "%2e%2e",
        "${env:CANARY}",
        "\u202e",
        "a\nb",
        "x" * 65,
        "\x00",
    ],
)
def test_odd_names_are_names_or_refused(live: Live, canary: Path, name: str) -> None:
    """Names in addresses are looked up, never interpreted: there is such a thing, or there is not."""
    quoted = quote(name, safe="")
    for path in (
        f"/v1/feeds/{quoted}/receipts/x",
        f"/v1/datasets/{quoted}/dead-letters",
        f"/v1/brokers/{quoted}/results",
        f"/v1/brokers/{quoted}/subscriptions",
    ):
        response = live.http.get(path)
        assert response.status_code in {404, 307, 405, 422}, (path, response.status_code)
        assert "TWEET" not in response.text
    assert live.http.post(f"/v1/feeds/{quoted}/records", json={"id": "x"}).status_code in {404, 405}
    registered = live.http.put(f"/v1/brokers/{quoted}", json={})
    assert registered.status_code in {200, 404, 405, 422}
    if registered.status_code == 200:
        assert name in [one["name"] for one in live.http.get("/v1/brokers").json()["brokers"]]
        after = {"after": registered.json()["cursor"]}
        assert live.http.get(f"/v1/brokers/{quoted}/results", params=after).status_code == 200
        assert live.http.delete(f"/v1/brokers/{quoted}").status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/statements", "/v1/results", "/v1/brokers/x/subscriptions", "/v1/brokers/x/unsubscribe"]
)
def test_hostile_json_is_refused(live: Live, path: str) -> None:
    """Deep nesting, huge numbers, half characters and other nonsense are the sender's mistake, never a failure."""
    bodies = (
        b"[" * 200_000,
        b'{"sql": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"sql": "\\ud800"}',
        b'{"sql": "SELECT \\ud800"}',
        b'{"subscriptions": [{"channel": "\\ud800"}], "ids": [1' + b"0" * 400 + b'], "after": {"1": "\\ud800"}}',
        b'{"ids": [1e400, NaN], "after": {"' + b"9" * 50 + b'": "1-1"}, "subscriptions": null}',
        b'{"after": {"1": "' + b"9" * 5000 + b"-" + b"9" * 5000 + b'"}}',
        b"\xff\xfe\x00",
        b"",
        b"null",
        b'{"sql": "' + b"(" * 20_000 + b'"}',
        b'{"sql": "SELECT ' + b"-" * 20_000 + b'1"}',
        b'{"sql": "SELECT ' + b"NOT " * 20_000 + b'true"}',
    )
    for body in bodies:
        response = live.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert 400 <= response.status_code < 500, (path, body[:60], response.status_code, response.text[:300])
        assert "code" in response.json()["error"]


def test_a_body_beyond_all_measure_is_refused(live: Live) -> None:
    """No route takes a body into memory without bound."""
    address = httpx.URL(live.url)
    with closing(HTTPConnection(address.host, address.port, timeout=10)) as connection:
        connection.putrequest("POST", "/v1/statements")
        connection.putheader("Content-Length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413

    def endless() -> Iterator[bytes]:
        for _ in range(80):
            yield b" " * (1 << 20)

    try:
        response = live.http.post("/v1/statements", content=endless(), headers={"Content-Type": "application/json"})
        assert response.status_code == 413
    except httpx.TransportError:
        pass  # The server may close the connection while we still send.
    assert live.http.get("/healthz").status_code == 200


def test_with_a_token_nothing_goes_without_it(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """Every route but the health probe needs the exact bearer token; a part, a prefix or another scheme won't do."""
    with serve(api_token="s3cret-tökén") as live:
        assert live.rows("SHOW DATASETS") == []
        paths = ("/v1/status", "/metrics", "/openapi.json", "/v1/brokers", "/nowhere")
        for given in ("", "Bearer", "Bearer s3cret", "Bearer s3cret-tökénx", "Basic s3cret-tökén", "s3cret-tökén"):
            with httpx.Client(base_url=live.url, headers={"Authorization": given.encode()} if given else {}) as http:
                for path in paths:
                    response = http.get(path)
                    assert response.status_code == 401, (given, path)
                    assert response.json()["error"]["code"] == "unauthorised"
                    assert response.headers["WWW-Authenticate"] == "Bearer"
                assert http.post("/v1/feeds/x/records", content=b"{}").status_code == 401
                assert http.get("/healthz").status_code == 200
