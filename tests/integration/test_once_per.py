"""ONCE PER through a whole cluster: somebody who walks about is notified of each report once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from integration.live import Live, wait_until

Serve = Callable[..., AbstractContextManager[Live]]


def test_who_walks_in_is_notified_once_whatever_happens_in_between(serve: Serve) -> None:
    """Of a report that was there before, when they come near; not again at the next steps, when they leave and come
    back, after a restart, nor when retention has removed the result. A subscription that begins anew has no memory."""
    with serve() as live:
        live.sql("""
            CREATE ACTIVE DATASET Reports (id INT, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
            CREATE KEYED DATASET People (name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (name));
            CREATE FEED reports INTO Reports FROM HTTP;
            CREATE FEED people INTO People FROM HTTP;
            CREATE CONTINUOUS CHANNEL Near (name STRING) ONCE PER (r.id) AS
              SELECT r.id, p.x AS seen_from, is_new(r) AS is_fresh FROM Reports r JOIN People p ON p.name = :name
              WHERE (is_new(r) OR is_new(p)) AND within(r.x, r.y, p.x, p.y, 100.0);
        """)
        assert live.channel("Near")["once"] == "ONCE PER (r.id)"
        described = {row["property"]: row["value"] for row in live.rows("DESCRIBE CHANNEL Near")}
        assert described["once"] == "ONCE PER (r.id)"
        seat = live.broker("b")
        ann = seat.subscribe("Near", name="ann")
        live.publish("reports", [{"id": 1, "x": 0.0, "y": 0.0}])
        for x in (500.0, 50.0, 40.0, 30.0, 500.0, 20.0):
            live.publish("people", [{"name": "ann", "x": x, "y": 0.0}])
            wait_until(lambda: live.channel("Near")["window_lag_commits"] == 0, "the channel has run")
        (first,) = seat.take(1)
        assert (first["subscription"], first["payload"]) == (ann, {"id": 1, "seen_from": 50.0, "is_fresh": False})
        assert live.channel("Near")["known_rows"] == 3
        assert live.metric("tocsin_channel_known_rows_total", channel="Near") == 3
    with serve() as live:
        seat.client = live.client
        live.publish("people", [{"name": "ann", "x": 10.0, "y": 0.0}])
        live.publish("reports", [{"id": 2, "x": 0.0, "y": 0.0}])
        assert [one["payload"] for one in seat.take(1)] == [{"id": 2, "seen_from": 10.0, "is_fresh": True}]
        assert live.client.status()["results"]["keys"] == 2
        live.cluster.results.retain(live.cluster.clock.now_us() + 1, 0)
        assert live.cluster.results.table.count() == 0
    with serve() as live:
        seat.client = live.client
        live.publish("people", [{"name": "ann", "x": 10.0, "y": 0.0}])
        live.publish("reports", [{"id": 3, "x": 0.0, "y": 0.0}])
        assert [one["payload"]["id"] for one in seat.take(1)] == [3]
        live.client.unsubscribe("b", [ann])
        again = seat.subscribe("Near", name="ann")
        live.publish("people", [{"name": "ann", "x": 11.0, "y": 0.0}])
        results = seat.take(3)
        assert {one["subscription"] for one in results} == {again}
        assert sorted(one["payload"]["id"] for one in results) == [1, 2, 3]
        live.cluster.maintenance.sweep_keys()
        assert live.client.status()["results"]["keys"] == 3


def test_keys_are_equal_if_and_only_if_their_values_are(live: Live) -> None:
    """NULL is a value of its own and equals itself; 0.0 equals -0.0; a text is no other text, wherever it has quotes
    and commas; and a thousand rows of one run with the same key are one result."""
    live.sql("""
        CREATE ACTIVE DATASET OnRecords (id INT, s STRING, t STRING, n DOUBLE, PRIMARY KEY (id));
        CREATE FEED on_records INTO OnRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL OnKeys () ONCE PER (r.s, upper(r.t), r.n) WITHIN 1 DAY AS
          SELECT r.id FROM OnRecords r WHERE is_new(r);
    """)
    texts = [None, "", "null", '"', '","', "a", "a,b", 'a","1":"b']
    keys = [(s, t, n) for s in texts for t in texts for n in (None, 0.0, 1.5)]
    seat = live.broker("on-keys")
    seat.subscribe("OnKeys")
    records = [{"id": number, "s": s, "t": t, "n": n} for number, (s, t, n) in enumerate(keys)]
    live.publish("on_records", records)
    results = seat.take(len(keys))
    assert Counter(one["payload"]["id"] for one in results) == Counter(range(len(keys)))
    same = [{**record, "id": 1000 + record["id"], "n": -0.0 if record["n"] == 0 else record["n"]} for record in records]
    live.publish("on_records", [*same, *({"id": 5000 + number, "s": "new"} for number in range(1000))])
    (last,) = seat.take(1)
    assert 5000 <= last["payload"]["id"] < 6000
