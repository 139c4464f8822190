"""Seen from outside: status, health, metrics, and an API document that tells the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import schemathesis
from prometheus_client.parser import text_string_to_metric_families

from integration.documents import check_document
from integration.live import Live

_DOCS = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture(scope="module")
def busy(live: Live) -> Live:
    """A cluster where each thing there can be has happened once."""
    live.sql("""
        CREATE ACTIVE DATASET OpRecords (id STRING, n INT, PRIMARY KEY (id));
        CREATE FEED op_records INTO OpRecords FROM HTTP;
        CREATE REPETITIVE CHANNEL OpOften (n INT) PERIOD 0.2 SECONDS AS
          SELECT r.id FROM OpRecords r WHERE is_new(r) AND r.n = :n;
    """)
    seat = live.broker("op")
    seat.subscribe("OpOften", n=1)
    live.publish("op_records", b'{"id": "a", "n": 1}\n{"id": "b", "n": "x"}')
    seat.take(1)
    return live


def test_metrics_tell_of_every_feed_and_channel(busy: Live) -> None:
    """/metrics has the series that the reference names, per feed and channel, and no others."""
    text = busy.http.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    section = (_DOCS / "metrics.md").read_text().partition("\n## The data cluster\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(tocsin_\w+)`", section, re.MULTILINE))
    samples = {sample.name for family in families.values() for sample in family.samples}
    exposed = {re.sub(r"_(bucket|count|sum)$", "", name) for name in samples if not name.endswith("_created")}
    assert exposed <= documented, exposed - documented
    assert documented - exposed <= {"tocsin_channel_overruns_total", "tocsin_channel_set_aside_total"}
    assert busy.metric("tocsin_feed_records_total", feed="op_records", outcome="accepted") == 1
    assert busy.metric("tocsin_feed_records_total", feed="op_records", outcome="rejected") == 1
    assert busy.metric("tocsin_channel_results_total", channel="OpOften") == 1
    assert busy.metric("tocsin_channel_result_bytes_total", channel="OpOften") == len('{"id":"a"}')
    assert busy.metric("tocsin_channel_spark_seconds_total", channel="OpOften") > 0
    assert busy.metric("tocsin_channel_runs_total", channel="OpOften", outcome="done") >= 1
    assert busy.metric("tocsin_channel_run_seconds_count", channel="OpOften") >= 1
    assert 'tocsin_channel_window_lag_commits{channel="OpOften"} 0.0' in text


def test_a_dropped_channel_leaves_the_metrics(live: Live) -> None:
    """Series of what no longer exists don't pile up."""
    live.sql("CREATE ACTIVE DATASET OpGone (id INT, PRIMARY KEY (id)); CREATE FEED op_gone INTO OpGone FROM HTTP")
    live.sql("CREATE CONTINUOUS CHANNEL OpShort () AS SELECT r.id FROM OpGone r WHERE is_new(r)")
    seat = live.broker("op-gone")
    seat.subscribe("OpShort")
    live.publish("op_gone", [{"id": 1}])
    seat.take(1)
    assert "OpShort" in live.http.get("/metrics").text
    live.sql("DROP CHANNEL OpShort")
    assert "OpShort" not in live.http.get("/metrics").text


def test_status_tells_how_the_cluster_is(busy: Live) -> None:
    """GET /v1/status has the state, what exists, how far the log is in tables, and memory."""
    status = busy.client.status()
    assert (status["state"], status["failure"]) == ("ready", "")
    assert status["landing"]["ingested"] <= status["landing"]["end"]
    assert {"name": "OpRecords", "kind": "ACTIVE", "commits": 2} in status["datasets"]
    feed = {"name": "op_records", "dataset": "OpRecords", "source": "HTTP", "accepted": 1, "rejected": 1}
    assert feed in status["feeds"]
    channel = busy.channel("OpOften")
    assert (channel["kind"], channel["period_s"], channel["subscriptions"], channel["results"]) == (
        "REPETITIVE",
        0.2,
        1,
        1,
    )
    assert channel["last_run_s"] > 0
    assert (channel["last_results"], channel["is_paused"]) == (1, False)
    assert channel["spark_s"] >= channel["last_hour_spark_s"] > 0
    assert channel["result_bytes"] == channel["last_hour_result_bytes"] == len('{"id":"a"}')
    assert channel["last_hour_results"] == 1
    assert channel["overruns"] == busy.metric("tocsin_channel_overruns_total", channel="OpOften")
    assert status["memory"]["driver_rss"] > 0
    assert status["memory"]["children_rss"] > 0


def test_a_feed_made_anew_counts_anew(live: Live) -> None:
    """What a dropped feed had taken in is not told of a later one of its name."""
    live.sql("CREATE ACTIVE DATASET OpAgain (id INT, PRIMARY KEY (id)); CREATE FEED op_again INTO OpAgain FROM HTTP")
    live.publish("op_again", [{"id": 1}, {"id": 2}])
    live.sql("DROP FEED op_again; CREATE FEED op_again INTO OpAgain FROM HTTP")
    live.publish("op_again", [{"id": 3}])
    (feed,) = [one for one in live.client.status()["feeds"] if one["name"] == "op_again"]
    assert (feed["accepted"], feed["rejected"]) == (1, 0)


def test_the_catalogue_tells_what_exists(live: Live) -> None:
    """GET /v1/catalogue has datasets with columns and key, channels with parameters, feeds, and who may use them."""
    live.sql("""
        CREATE KEYED DATASET OpPlaces (who STRING, floor INT, at TIMESTAMP, PRIMARY KEY (who, floor));
        CREATE FEED op_places INTO OpPlaces FROM HTTP;
        CREATE REPETITIVE CHANNEL OpEvery (who STRING, floor INT) PERIOD 2 HOURS AS
          SELECT p.at FROM OpPlaces p WHERE is_new(p) AND p.who = :who AND p.floor = :floor;
        CREATE CONTINUOUS CHANNEL OpAny () AS SELECT p.who FROM OpPlaces p WHERE is_new(p);
        PAUSE CHANNEL OpAny;
        REVOKE SUBSCRIBE ON CHANNEL OpAny FROM ALL;
        GRANT SUBSCRIBE ON CHANNEL OpAny TO CLASS medics;
        CREATE PUBLISHER OpDoor;
        GRANT PUBLISH ON FEED op_places TO PUBLISHER opdoor;
    """)
    found = live.client.catalogue()
    assert {
        "name": "OpPlaces",
        "kind": "KEYED",
        "columns": [
            {"name": "who", "type": "STRING"},
            {"name": "floor", "type": "INT"},
            {"name": "at", "type": "TIMESTAMP"},
        ],
        "primary_key": ["who", "floor"],
    } in found["datasets"]
    every = {"name": "OpEvery", "kind": "REPETITIVE", "period_s": 7200.0, "retention_s": None, "snapshot": False}
    assert {
        **every,
        "once": None,
        "is_paused": False,
        "parameters": [
            {"name": "who", "type": "STRING", "maximum": None, "filled_by": None},
            {"name": "floor", "type": "INT", "maximum": None, "filled_by": None},
        ],
        "granted_to": None,
    } in found["channels"]
    anyone = {
        "name": "OpAny",
        "kind": "CONTINUOUS",
        "period_s": None,
        "retention_s": None,
        "once": None,
        "snapshot": False,
        "is_paused": True,
        "parameters": [],
    }
    assert {**anyone, "granted_to": ["medics"]} in found["channels"]
    feed = {"name": "op_places", "dataset": "OpPlaces", "source": "HTTP", "publishers": ["OpDoor"]}
    assert feed in found["feeds"]
    live.sql(
        "DROP PUBLISHER OpDoor; DROP CHANNEL OpAny; DROP CHANNEL OpEvery; DROP FEED op_places; DROP DATASET OpPlaces"
    )
    after = live.client.catalogue()
    names = {one["name"] for kind in ("datasets", "channels", "feeds") for one in after[kind]}
    assert not names & {"OpPlaces", "OpEvery", "OpAny", "op_places"}


def test_recent_rows_follow_the_commits(live: Live) -> None:
    """GET /v1/datasets/{dataset}/recent gives what was committed after a commit, the newest up to a limit."""
    live.sql("""
        CREATE ACTIVE DATASET OpRecent (id INT, at TIMESTAMP, day DATE, x DOUBLE, ok BOOLEAN, PRIMARY KEY (id));
        CREATE FEED op_recent INTO OpRecent FROM HTTP;
        CREATE CONTINUOUS CHANNEL OpShown () AS SELECT r.* FROM OpRecent r WHERE is_new(r);
    """)
    seat = live.broker("op-recent")
    seat.subscribe("OpShown")
    begin = live.client.recent("oprecent")
    assert (begin["dataset"], begin["rows"]) == ("OpRecent", [])
    assert begin["columns"] == ["id", "at", "day", "x", "ok"]
    record = {"id": 1, "at": "2026-01-02T04:04:05.5+01:00", "day": "2026-01-02", "x": 0.1, "ok": True}
    live.publish("op_recent", [record])
    live.publish("op_recent", [{"id": number} for number in range(2, 6)])
    assert live.client.recent("OpRecent")["rows"] == [
        [1, "2026-01-02T03:04:05.500000Z", "2026-01-02", 0.1, True],
        *([number, None, None, None, None] for number in range(2, 6)),
    ]
    # Values are what results have.
    shown = [list(one["payload"].values()) for one in seat.take(5)]
    recent = live.client.recent("OpRecent", begin["commit"])
    assert recent["rows"] == shown
    assert recent["commit"] == live.cluster.store["OpRecent"].sequence > begin["commit"]
    assert [row[0] for row in live.client.recent("OpRecent", recent["commit"] - 1)["rows"]] == [2, 3, 4, 5]
    assert [row[0] for row in live.client.recent("OpRecent", limit=2)["rows"]] == [4, 5]
    assert live.client.recent("OpRecent", recent["commit"])["rows"] == []
    live.publish("op_recent", [{"id": 6}])
    later = live.client.recent("OpRecent", recent["commit"])
    assert (later["rows"], later["commit"]) == ([[6, None, None, None, None]], recent["commit"] + 1)


def test_recent_rows_need_no_spark_and_fit_the_columns(live: Live) -> None:
    """The rows come from memory: no job is run for them. A column that was added is there at once."""
    live.sql(
        "CREATE KEYED DATASET OpGrows (who STRING, PRIMARY KEY (who)); CREATE FEED op_grows INTO OpGrows FROM HTTP"
    )
    live.publish("op_grows", [{"who": "ann"}])
    tracker = live.cluster.spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    for _ in range(50):
        assert live.client.recent("OpGrows")["rows"] == [["ann"]]
    # Channels of other tests may run beside it, but nothing comes for them any more.
    assert len(set(tracker.getJobIdsForGroup(None)) - before) < 10
    live.sql("ALTER DATASET OpGrows ADD COLUMN level INT")
    assert live.client.recent("OpGrows")["columns"] == ["who", "level"]
    live.publish("op_grows", [{"who": "ann", "level": 3}])
    assert live.client.recent("OpGrows")["rows"][-1] == ["ann", 3]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/datasets/Nowhere/recent", 404, "no dataset called Nowhere"),
        ("/v1/datasets/OpRecords/recent?limit=0", 422, "limit"),
        ("/v1/datasets/OpRecords/recent?limit=5001", 422, "limit"),
        ("/v1/datasets/OpRecords/recent?after=-1", 422, "after"),
        ("/v1/datasets/OpRecords/recent?after=soon", 422, "after"),
    ],
)
def test_recent_rows_that_can_not_be_given(busy: Live, path: str, status: int, words: str) -> None:
    """What is not there, or asked for out of bounds, is told."""
    response = busy.http.get(path)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_health_and_documents_are_served(live: Live) -> None:
    """/healthz answers while the process works; /openapi.json describes the API, and no page loads foreign scripts."""
    assert live.http.get("/healthz").json() == {"state": "ready"}
    assert live.http.get("/docs").status_code == live.http.get("/redoc").status_code == 404
    document = live.http.get("/openapi.json").json()
    assert document["info"]["title"] == "Tocsin data cluster"
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    written = set(re.findall(r"^### `(\w+) (/\S+)`", (_DOCS / "http-api.md").read_text(), re.MULTILINE))
    assert written == described
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path} has no words"
            assert operation["responses"], path


def test_unknown_routes_and_methods_have_the_shape_of_errors(live: Live) -> None:
    """What is not there, or not done that way, is told like any other error."""
    assert live.http.get("/nowhere").json()["error"]["code"] == "not_found"
    response = live.http.delete("/v1/status")
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET"
    assert set(response.json()["error"]) == {"code", "message", "temporary"}


#: What paths may name, so that requests get past the first look-up.
_KNOWN = {"feed": "op_records", "dataset": "OpRecords", "broker": "op-fuzz", "receipt": "0", "letter": "0:1"}


def test_the_api_does_what_its_document_says(busy: Live) -> None:
    """Whatever is sent: no failure of ours, and no status, content type or shape that the document does not tell."""
    busy.client.register_broker("op-fuzz")

    def adapt(case: schemathesis.Case, known: bool) -> None:
        for name in case.path_parameters if known else ():
            case.path_parameters[name] = _KNOWN[name]
        if case.query and "wait_s" in case.query:
            case.query["wait_s"] = 0

    check_document(busy.url, adapt, operations=21, examples=12)
    assert busy.http.get("/healthz").json() == {"state": "ready"}
