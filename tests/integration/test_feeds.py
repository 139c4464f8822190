"""Feeds over the live API: every kind of body, receipts, repeats, overload and folders."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import httpx
import psutil
import pytest

from integration.live import Live, wait_until

_NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def feed(live: Live) -> str:
    live.sql("""
        CREATE ACTIVE DATASET FeRecords (id STRING, n INT, x DOUBLE, ok BOOLEAN, at TIMESTAMP, PRIMARY KEY (id));
        CREATE FEED fe_records INTO FeRecords FROM HTTP;
    """)
    return "fe_records"


def stored(live: Live, prefix: str, dataset: str = "FeRecords") -> list[str]:
    found = live.rows(f"SELECT id FROM {dataset} WHERE startswith(id, '{prefix}') ORDER BY id")
    return [row["id"] for row in found]


def event(**attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/sensor", "type": "report", **attributes}


@pytest.mark.parametrize(
    ("prefix", "headers", "body", "count"),
    [
        ("one", {"Content-Type": "application/json"}, b'{\n "id": "one-1"\n}', 1),
        ("many", {"Content-Type": "application/json; charset=utf-8"}, b'[{"id": "many-1"}, {"id": "many-2"}]', 2),
        ("lines", _NDJSON, b'{"id": "lines-1"}\r\n\n  \n{"id": "lines-2"}', 2),
        ("jsonl", {"Content-Type": "application/jsonl"}, b'\xef\xbb\xbf{"id": "jsonl-1"}\n', 1),
        (
            "zip",
            {**_NDJSON, "Content-Encoding": "gzip"},
            gzip.compress(b'{"id": "zip-1"}\n{"id": "zip-2"}', mtime=0),
            2,
        ),
        (
            "event",
            {"Content-Type": "application/cloudevents+json"},
            json.dumps(event(id="e1", data={"id": "event-1"})).encode(),
            1,
        ),
        (
            "batch",
            {"Content-Type": "application/cloudevents-batch+json"},
            json.dumps([event(id="b1", data={"id": "batch-1"}), event(id="b2", data=[{"id": "batch-2"}])]).encode(),
            2,
        ),
        (
            "binary",
            {
                "Content-Type": "application/json",
                "ce-specversion": "1.0",
                "ce-id": "x1",
                "ce-source": "/s",
                "ce-type": "report",
            },
            b'{"id": "binary-1"}',
            1,
        ),
    ],
)
def test_every_kind_of_body(
    live: Live, feed: str, prefix: str, headers: dict[str, str], body: bytes, count: int
) -> None:
    """JSON, arrays, NDJSON, CloudEvents in three modes, and gzip all become rows."""
    response = live.http.post(f"/v1/feeds/{feed}/records?wait=commit", content=body, headers=headers)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["records"], answer["accepted"], answer["rejected"]) == (count, count, 0)
    assert stored(live, prefix) == [f"{prefix}-{number}" for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b'{"id": "no"}', 422),
        ({"Content-Type": "text/plain"}, b'{"id": "no"}', 422),
        ({"Content-Type": "application/json"}, b'{"id": "no"', 422),
        ({"Content-Type": "application/json"}, b'"no"', 422),
        ({"Content-Type": "application/json"}, b"[" * 100_000, 422),
        ({"Content-Type": "application/json"}, b"[]", 422),
        (_NDJSON, b"\n \n", 422),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"not gzip", 422),
        ({"Content-Type": "application/json", "Content-Encoding": "br"}, b"{}", 422),
        ({"Content-Type": "application/cloudevents+json"}, b'{"id": "no"}', 422),
        ({**_NDJSON, "Idempotency-Key": "k" * 256}, b'{"id": "no"}', 422),
        (_NDJSON, b"x" * ((8 << 20) + 1), 413),
        ({**_NDJSON, "Content-Encoding": "gzip"}, gzip.compress(b" " * (9 << 20), mtime=0), 413),
    ],
    ids=range(13),
)
def test_a_bad_request_is_refused_whole(
    live: Live, feed: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    """What can't be read as records, or is too large, is refused in the documented shape, and nothing is kept."""
    end = live.client.status()["landing"]["end"]
    response = live.http.post(f"/v1/feeds/{feed}/records", content=body, headers=headers)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) >= {"code", "message", "temporary"}
    assert not error["temporary"]
    assert live.client.status()["landing"]["end"] == end


def test_an_oversize_body_without_a_length_is_refused(live: Live, feed: str) -> None:
    """A body that comes in chunks is cut off at the limit, however long it would have been."""

    def chunks() -> Any:
        for _ in range(20):
            yield b"x" * (1 << 20)

    with httpx.Client(base_url=live.url, timeout=30) as http:
        try:
            response = http.post(f"/v1/feeds/{feed}/records", content=chunks(), headers=_NDJSON)
            assert response.status_code == 413
        except httpx.TransportError:
            pass  # The server may close the connection while we still send.
    assert live.http.get("/healthz").status_code == 200


def test_bad_records_are_told_and_good_ones_kept(live: Live, feed: str) -> None:
    """wait=commit tells how many records were accepted and rejected, and why each was, by line."""
    lines = [
        b'{"id": "mix-1", "n": 1}',
        b'{"id": "mix-2", "n": "one"}',
        b"",
        b"nonsense",
        b'{"n": 5}',
        b'{"id": "mix-6", "n": 2147483648}',
        b'{"id": "mix-7", "x": 1e999}',
        b'{"id": "mix-8", "ok": "yes"}',
        b'{"id": "mix-9", "at": "yesterday"}',
        b'[{"id": "mix-10"}]',
        b'{"id": "mix-11", "unknown": [1, {"a": 2}]}',
        b'{"ID": "mix-12"}',
        b'{"id": "mix-13"',
        b'{"id": null}',
    ]
    answer = live.publish(feed, b"\n".join(lines))
    reasons = {one["line"]: one["reason"] for one in answer["rejections"]}
    assert answer["records"] == 13
    assert sorted(reasons) == [2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14], reasons
    assert stored(live, "mix") == ["mix-1", "mix-11"]
    assert "id: missing" in reasons[12]
    assert answer["accepted"] + answer["rejected"] == 13
    assert "n: expected a whole number of 32 bits" in reasons[2]
    assert "not JSON" in reasons[4]
    assert "id: missing" in reasons[5]
    assert live.metric("tocsin_feed_records_total", feed=feed, outcome="rejected") >= 10


def test_bytes_that_are_no_text_are_rejected(live: Live, feed: str) -> None:
    """A line that isn't UTF-8 is a dead letter: what is stored is what was sent, never a guess."""
    answer = live.publish(feed, b'{"id": "utf-\xff\xfe"}\n{"id": "utf-\xc3\xa9"}')
    assert (answer["accepted"], answer["rejected"]) == (1, 1), answer
    assert "UTF-8" in answer["rejections"][0]["reason"]
    assert stored(live, "utf") == ["utf-é"]


def test_an_oversize_record_is_rejected_alone(live: Live, feed: str) -> None:
    """One record above feed_max_record_bytes is a dead letter; its neighbours are kept."""
    large = json.dumps({"id": "large", "pad": "x" * (1 << 20)}).encode()
    answer = live.publish(feed, large + b'\n{"id": "size-2"}')
    assert (answer["accepted"], answer["rejected"]) == (1, 1)
    assert "at most 1048576" in answer["rejections"][0]["reason"]
    assert stored(live, "size") == ["size-2"]


def test_a_receipt_can_be_asked_about_later(live: Live, feed: str) -> None:
    """A receipt says durable, then committed with the outcome; a mistyped or made-up one is noticed."""
    first = live.client.publish(feed, [{"id": "later-1"}, {"id": "later-2", "n": "x"}])
    assert first["state"] == "durable"
    live.publish(feed, [{"id": "later-3"}])  # When this is in the table, so is what came before.
    asked = live.client.receipt(feed, first["receipt"])
    assert (asked["state"], asked["records"], asked["accepted"], asked["rejected"]) == ("committed", 2, 1, 1)
    assert asked["rejections"][0]["line"] == 2
    assert live.client.receipt(feed, first["receipt"].upper())["accepted"] == 1
    wrong = first["receipt"][:-1] + ("0" if first["receipt"][-1] != "0" else "2")
    assert live.http.get(f"/v1/feeds/{feed}/receipts/{wrong}").status_code == 422
    from tocsin.cluster.feeds.core.receipts import Receipt

    future = Receipt(1 << 40, (1 << 40) + 100, 1)
    assert live.http.get(f"/v1/feeds/{feed}/receipts/{future}").status_code == 404
    assert live.http.get(f"/v1/feeds/nowhere/receipts/{first['receipt']}").status_code == 404


def test_the_same_key_again_stores_nothing(live: Live, feed: str) -> None:
    """Sequential repeats get the first receipt; the same key with another body is refused; feeds don't share keys."""
    first = live.publish(feed, [{"id": "key-1"}], key="fe-1")
    again = live.publish(feed, [{"id": "key-1"}], key="fe-1")
    assert again["receipt"] == first["receipt"]
    assert stored(live, "key") == ["key-1"]
    other = live.http.post(
        f"/v1/feeds/{feed}/records", content=b'{"id": "key-2"}', headers={**_NDJSON, "Idempotency-Key": "fe-1"}
    )
    assert other.status_code == 422
    assert "different body" in other.json()["error"]["message"]
    live.sql("CREATE FEED fe_second INTO FeRecords FROM HTTP")
    assert live.publish("fe_second", [{"id": "key-3"}], key="fe-1")["receipt"] != first["receipt"]
    assert stored(live, "key") == ["key-1", "key-3"]


def test_concurrent_repeats_store_one_record(live: Live, feed: str) -> None:
    """Twenty requests with one key at once are one record, and all get its receipt."""
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: live.publish(feed, [{"id": "burst-1"}], key="fe-burst"), range(20)))
    assert len({answer["receipt"] for answer in answers}) == 1
    assert live.rows("SELECT count(*) AS n FROM FeRecords WHERE id = 'burst-1'") == [{"n": 1}]


def test_an_event_sent_twice_is_stored_once(live: Live, feed: str) -> None:
    """CloudEvents need no key: source and id make it."""
    headers = {"Content-Type": "application/cloudevents+json"}
    body = json.dumps(event(id="same", source="/twice", data={"id": "twice-1"})).encode()
    for _ in range(2):
        assert live.http.post(f"/v1/feeds/{feed}/records?wait=commit", content=body, headers=headers).status_code == 200
    assert stored(live, "twice") == ["twice-1"]


def test_many_publishers_share_commits(live: Live, feed: str) -> None:
    """Group commit: two hundred requests at once take far fewer table commits, and every record is there once."""
    before = live.cluster.store["FeRecords"].sequence
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: live.publish(feed, [{"id": f"group-{n:03d}"}]), range(200)))
    assert all(answer["accepted"] == 1 for answer in answers)
    assert stored(live, "group")[:100] == [f"group-{n:03d}" for n in range(100)]
    assert live.rows("SELECT count(DISTINCT id) AS n FROM FeRecords WHERE startswith(id, 'group')") == [{"n": 200}]
    assert live.cluster.store["FeRecords"].sequence - before <= 100


def test_overload_tells_publishers_to_wait(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """When tables can't keep up, publishers get 429 with Retry-After in the documented shape; memory stays bounded,
    what was accepted is all committed, and publishing works again afterwards."""
    with serve(feed_max_pending_bytes=200_000) as live:
        live.sql("CREATE ACTIVE DATASET Press (id STRING, pad STRING, PRIMARY KEY (id))")
        live.sql("CREATE FEED press INTO Press FROM HTTP")
        live.publish("press", [{"id": "warm"}])
        body = b"\n".join(json.dumps({"id": f"p{n}", "pad": "x" * 500}).encode() for n in range(100))
        before = psutil.Process().memory_info().rss
        with live.cluster.ingestion.batch_lock:  # The tables stand still.
            with ThreadPoolExecutor(8) as pool:
                post = lambda _: live.http.post("/v1/feeds/press/records", content=body, headers=_NDJSON)  # noqa: E731
                responses = list(pool.map(post, range(400)))
            accepted = [response for response in responses if response.status_code == 202]
            refused = [response for response in responses if response.status_code == 429]
            assert len(accepted) + len(refused) == 400
            assert 1 <= len(accepted) <= 4
            assert live.client.status()["landing"]["pending_bytes"] <= 200_000
        error = refused[0].json()["error"]
        assert (error["code"], error["temporary"]) == ("overloaded", True)
        assert error["retry_after_s"] > 0
        assert int(refused[0].headers["Retry-After"]) >= 1
        assert psutil.Process().memory_info().rss - before < 200 << 20
        receipt = accepted[-1].json()["receipt"]
        wait_until(lambda: live.client.receipt("press", receipt)["state"] == "committed", "the backlog is committed")
        assert live.publish("press", [{"id": "after"}])["accepted"] == 1
        assert live.rows("SELECT count(*) AS n FROM Press") == [{"n": 2 + 100 * len(accepted)}]


def test_a_folder_feed_takes_files_once(live: Live) -> None:
    """Files dropped into a folder become rows and move to done/; broken ones move to failed/ with the reason; what
    is written under a temporary name is left alone."""
    folder = live.imports / "inbox"
    folder.mkdir()
    live.sql("""
        CREATE ACTIVE DATASET FeFiles (id STRING, n INT, PRIMARY KEY (id));
        CREATE FEED fe_files INTO FeFiles FROM FOLDER 'inbox';
    """)
    (folder / "half.ndjson.part").write_text('{"id": "half"}\n')
    (folder / "a.ndjson").write_text('{"id": "file-1", "n": 1}\n{"id": "file-2", "n": "x"}\n')
    (folder / "b.json").write_text('[{"id": "file-3"}]')
    (folder / "c.json").write_text("{broken")
    wait_until(lambda: stored(live, "file", "FeFiles") == ["file-1", "file-3"], "the files' records are rows")
    wait_until((folder / "failed" / "c.json.reason.txt").exists, "the broken file is put aside")
    wait_until(lambda: sorted(one.name for one in (folder / "done").iterdir()) == ["a.ndjson", "b.json"], "done")
    assert (folder / "half.ndjson.part").exists()
    assert live.client.dead_letters("FeFiles")["total"] == 1
    assert live.http.post("/v1/feeds/fe_files/records", json={"id": "x"}).status_code == 422
    live.sql("DROP FEED fe_files")
    (folder / "late.ndjson").write_text('{"id": "file-9"}\n')
    assert live.refusal("CREATE FEED fe_out INTO FeFiles FROM FOLDER '../..'")["code"] == "invalid_value"
    assert live.refusal("CREATE FEED fe_out INTO FeFiles FROM FOLDER 'inbox/done/a.ndjson'")["code"] == "invalid_value"
    assert (folder / "late.ndjson").exists()
