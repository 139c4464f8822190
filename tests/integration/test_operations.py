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
    seat = live.broker("op", callback_url="http://127.0.0.1:9/closed")
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
    assert documented - exposed <= {"tocsin_channel_overruns_total"}
    assert busy.metric("tocsin_feed_records_total", feed="op_records", outcome="accepted") == 1
    assert busy.metric("tocsin_feed_records_total", feed="op_records", outcome="rejected") == 1
    assert busy.metric("tocsin_channel_results_total", channel="OpOften") == 1
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
    assert {"name": "op_records", "dataset": "OpRecords", "source": "HTTP"} in status["feeds"]
    channel = busy.channel("OpOften")
    assert (channel["kind"], channel["period_s"], channel["subscriptions"], channel["results"]) == (
        "REPETITIVE",
        0.2,
        1,
        1,
    )
    assert channel["last_run_s"] > 0
    assert status["memory"]["driver_rss"] > 0
    assert status["memory"]["children_rss"] > 0


def test_health_and_documents_are_served(live: Live) -> None:
    """/healthz answers while the process works; /docs and /openapi.json describe the API."""
    assert live.http.get("/healthz").json() == {"state": "ready"}
    assert live.http.get("/docs").status_code == 200
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
_KNOWN = {"feed": "op_records", "dataset": "OpRecords", "broker": "op-fuzz", "receipt": "0"}


def test_the_api_does_what_its_document_says(busy: Live) -> None:
    """Whatever is sent: no failure of ours, and no status, content type or shape that the document does not tell."""
    busy.client.register_broker("op-fuzz")

    def adapt(case: schemathesis.Case, known: bool) -> None:
        for name in case.path_parameters if known else ():
            case.path_parameters[name] = _KNOWN[name]
        if case.query and "wait_s" in case.query:
            case.query["wait_s"] = 0

    check_document(busy.url, adapt, operations=16, examples=60)
    assert busy.http.get("/healthz").json() == {"state": "ready"}
