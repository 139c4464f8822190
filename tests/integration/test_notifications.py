"""Notifications: brokers with a callback address are told that there are results, until they answer."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from integration.live import PATIENCE_S, Live, wait_until


class Callback:
    """A broker's HTTP server: it answers with `statuses` in turn, then 200, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        self.statuses: list[int] = []
        self.asked = 0
        self.go_on = threading.Event()
        self.go_on.set()
        callback = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                callback.asked += 1
                callback.go_on.wait(PATIENCE_S)
                status = callback.statuses.pop(0) if callback.statuses else 200
                if status == 200:
                    callback.told.put(body)  # Before the answer, after which the next may come and be quicker.
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/told"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def next(self) -> dict[str, Any]:
        return self.told.get(timeout=PATIENCE_S)

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def callback() -> Iterator[Callback]:
    server = Callback()
    yield server
    server.close()


@pytest.fixture(scope="module")
def channel(live: Live) -> str:
    live.sql("""
        CREATE ACTIVE DATASET NoRecords (id STRING, k STRING, PRIMARY KEY (id));
        CREATE FEED no_records INTO NoRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL NoOf (k STRING) AS SELECT r.id FROM NoRecords r WHERE is_new(r) AND r.k = :k;
    """)
    return "NoOf"


def test_a_notification_says_where_to_pull_to(live: Live, channel: str, callback: Callback) -> None:
    """It is small: cursor, how many results and of which channels. Only brokers concerned are told."""
    seat = live.broker("no-told", callback_url=callback.url)
    seat.subscribe(channel, k="told")
    live.publish("no_records", [{"id": "other", "k": "untold"}])
    live.publish("no_records", [{"id": "a", "k": "told"}, {"id": "b", "k": "told"}])
    told = callback.next()
    assert (told["broker"], told["results"], told["channels"]) == ("no-told", 2, [channel])
    assert "pushed" not in told
    assert {one["payload"]["id"] for one in seat.take(2)} == {"a", "b"}
    assert told["cursor"] >= int(live.client.pull("no-told", 0, limit=2)[0][-1]["position"].split("-")[1])
    delivered = {"broker": "no-told", "outcome": "delivered"}
    wait_until(lambda: live.metric("tocsin_notifications_total", **delivered) == 1, "it counts as delivered")
    live.http.delete("/v1/brokers/no-told")


def test_a_broker_that_fails_is_tried_until_it_answers(live: Live, channel: str, callback: Callback) -> None:
    """Errors are retried with a growing pause, and nothing is lost or told twice over."""
    callback.statuses = [500, 503, 404]
    seat = live.broker("no-retry", callback_url=callback.url)
    seat.subscribe(channel, k="retry")
    live.publish("no_records", [{"id": "r", "k": "retry"}])
    assert callback.next()["results"] == 1
    assert callback.asked == 4
    assert live.metric("tocsin_notifications_total", broker="no-retry", outcome="failed") == 3
    assert callback.told.empty()
    live.http.delete("/v1/brokers/no-retry")


def test_what_comes_meanwhile_is_told_together(live: Live, channel: str, callback: Callback) -> None:
    """One notification is under way per broker: what is committed meanwhile is told with the next."""
    seat = live.broker("no-many", callback_url=callback.url)
    seat.subscribe(channel, k="many")
    callback.go_on.clear()
    live.publish("no_records", [{"id": "m0", "k": "many"}])
    wait_until(lambda: callback.asked == 1, "the first is under way")
    for number in range(1, 6):
        live.publish("no_records", [{"id": f"m{number}", "k": "many"}])
    seat.take(6)
    callback.go_on.set()
    assert callback.next()["results"] == 1
    told = callback.next()
    assert (told["results"], callback.asked) == (5, 2)
    live.http.delete("/v1/brokers/no-many")


def test_small_results_travel_inside_if_asked_for(live: Live, channel: str, callback: Callback) -> None:
    """With push_limit_bytes small results are in the notification, as a pull would give them; larger ones are not."""
    seat = live.broker("no-push", callback_url=callback.url, push_limit_bytes=2000)
    one = seat.subscribe(channel, k="push")
    live.publish("no_records", [{"id": "p", "k": "push"}])
    told = callback.next()
    assert told["pushed"] == seat.take(1)
    assert told["pushed"][0]["subscription"] == one
    live.publish("no_records", [{"id": f"{'long' * 100}-{number}", "k": "push"} for number in range(20)])
    told = callback.next()
    assert told["results"] == 20
    assert "pushed" not in told
    seat.take(20)
    live.http.delete("/v1/brokers/no-push")


def test_a_broker_that_moved_is_found_at_its_new_address(live: Live, channel: str, callback: Callback) -> None:
    """Registering with another address takes effect at the next attempt; before it, nothing was lost."""
    seat = live.broker("no-moved", callback_url="http://127.0.0.1:9/closed")
    seat.subscribe(channel, k="moved")
    live.publish("no_records", [{"id": "x", "k": "moved"}])
    wait_until(
        lambda: live.metric("tocsin_notifications_total", broker="no-moved", outcome="failed") >= 1, "an attempt failed"
    )
    live.client.register_broker("no-moved", callback.url)
    assert callback.next()["results"] == 1
    live.http.delete("/v1/brokers/no-moved")
    # Forgotten and registered again, it is told again.
    again = live.broker("no-moved", callback_url=callback.url)
    again.subscribe(channel, k="moved")
    live.publish("no_records", [{"id": "y", "k": "moved"}])
    assert callback.next()["results"] == 1
    live.http.delete("/v1/brokers/no-moved")


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http://", "http://[", "javascript:alert(1)", "//host", "http://a\nb/", "x" * 3000]
)
def test_an_address_that_can_not_be_called_is_refused(live: Live, url: str) -> None:
    """callback_url must be an http or https address with a host."""
    response = live.http.put("/v1/brokers/no-url", json={"callback_url": url})
    assert response.status_code == 422
    assert "callback_url" in response.json()["error"]["message"]
