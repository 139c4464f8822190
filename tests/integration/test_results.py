"""Results: durable, in positions, pulled in pages that lose and double nothing."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest

from integration.live import BrokerSeat, Live

_ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def filled(live: Live) -> tuple[BrokerSeat, dict[int, int], int]:
    """A broker with results in several commits: its seat, id by k, and the cursor before all of them."""
    live.sql("""
        CREATE ACTIVE DATASET ReRecords (id INT, k INT, PRIMARY KEY (id));
        CREATE FEED re_records INTO ReRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL ReOf (k INT) AS
          SELECT r.id, 'é"\\\\' AS odd, CAST(NULL AS STRING) AS none FROM ReRecords r WHERE is_new(r) AND r.k = :k;
    """)
    seat = live.broker("re-filled")
    before = seat.cursor
    ids = {k: seat.subscribe("ReOf", k=k) for k in range(5)}
    for start in range(0, 100, 25):
        live.publish("re_records", [{"id": n, "k": n % 10} for n in range(start, start + 25)])
    assert len(seat.take(50)) == 50
    return seat, ids, before


def test_ndjson_and_arrow_hold_the_same(live: Live, filled: tuple[BrokerSeat, dict[int, int], int]) -> None:
    """A pull in Arrow has the rows of a pull in NDJSON, and the same cursor."""
    seat, ids, before = filled
    results, cursor = live.client.pull(seat.name, before)
    response = live.http.get(f"/v1/brokers/{seat.name}/results", params={"after": before}, headers={"Accept": _ARROW})
    assert response.headers["Content-Type"] == _ARROW
    assert int(response.headers["Tocsin-Cursor"]) == cursor
    rows = pa.ipc.open_stream(io.BytesIO(response.content)).read_all().to_pylist()
    assert [(row["subscription"], f"{row['subscription']}-{row['sequence']}") for row in rows] == [
        (one["subscription"], one["position"]) for one in results
    ]
    assert {"id": 0, "odd": 'é"\\', "none": None} in [one["payload"] for one in results]
    assert {one["subscription"] for one in results} == set(ids.values())


@pytest.mark.parametrize("limit", [1, 3, 7, 50, 51])
def test_pages_lose_and_double_nothing(live: Live, filled: tuple[BrokerSeat, dict[int, int], int], limit: int) -> None:
    """Whatever the page size, following the cursor gives each result once, in order."""
    seat, _, cursor = filled
    whole, end = live.client.pull(seat.name, cursor)
    paged: list[dict[str, Any]] = []
    while cursor < end:
        page, cursor = live.client.pull(seat.name, cursor, limit=limit)
        assert len(page) <= limit
        paged += page
    assert paged == whole
    assert live.client.pull(seat.name, cursor)[0] == []


def test_subscriptions_are_pulled_from_their_own_positions(
    live: Live, filled: tuple[BrokerSeat, dict[int, int], int]
) -> None:
    """Each subscription's results after its own position: what a broker needs to catch subscribers up."""
    seat, ids, before = filled
    whole, _ = live.client.pull(seat.name, before)
    by_id = {one: [result for result in whole if result["subscription"] == one] for one in ids.values()}
    first, second = ids[0], ids[1]
    after = {first: by_id[first][3]["position"], second: f"{second}-0"}
    response = live.http.post("/v1/results", json={"after": after})
    assert response.status_code == 200
    found = response.text.splitlines()
    assert len(found) == 6 + 10
    expected = Counter(one["position"] for one in by_id[first][4:] + by_id[second])
    assert Counter(line.split('"position":"')[1].split('"')[0] for line in found) == expected
    arrow = live.http.post("/v1/results", json={"after": after, "limit": 4}, headers={"Accept": _ARROW})
    assert pa.ipc.open_stream(io.BytesIO(arrow.content)).read_all().num_rows == 4
    for bad, status in (({first: "x"}, 422), ({first: f"{second}-5"}, 410), ({10**9: "1-1"}, 410), ({}, 422)):
        assert live.http.post("/v1/results", json={"after": bad}).status_code == status, bad


def test_a_broker_that_was_away_gets_everything(live: Live) -> None:
    """Results wait for a broker that does not pull; whenever it comes back with its cursor, it has missed nothing."""
    live.sql("""
        CREATE ACTIVE DATASET ReAway (id INT, PRIMARY KEY (id));
        CREATE FEED re_away INTO ReAway FROM HTTP;
        CREATE CONTINUOUS CHANNEL ReAll () AS SELECT r.id FROM ReAway r WHERE is_new(r);
    """)
    away = live.broker("re-away")
    away.subscribe("ReAll")
    there = live.broker("re-there")
    there.subscribe("ReAll")
    for number in range(5):
        live.publish("re_away", [{"id": number}])
    there.take(5)
    live.cluster.results.table.compact()
    assert live.broker("re-away").cursor >= there.cursor  # Registering again changes nothing of what it holds.
    assert [one["payload"]["id"] for one in away.take(5)] == list(range(5))


def test_a_pull_waits_for_what_comes(live: Live) -> None:
    """With wait_s an empty pull answers when results are committed, or empty after that time."""
    live.sql("""
        CREATE ACTIVE DATASET ReWaited (id INT, PRIMARY KEY (id));
        CREATE FEED re_waited INTO ReWaited FROM HTTP;
        CREATE CONTINUOUS CHANNEL ReWaits () AS SELECT r.id FROM ReWaited r WHERE is_new(r);
    """)
    seat = live.broker("re-waits")
    seat.subscribe("ReWaits")
    results, cursor = live.client.pull("re-waits", seat.cursor, wait_s=0.2)
    assert results == []
    live.client.publish("re_waited", [{"id": 1}])
    results, cursor = live.client.pull("re-waits", cursor, wait_s=20)
    assert [one["payload"]["id"] for one in results] == [1]


def test_retention_by_age_and_size(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """What retention removed is told plainly: history is gone, and from where there is some. What is newer stays."""
    with serve(result_retention_s=3600) as live:
        live.sql("""
            CREATE ACTIVE DATASET Aged (id INT, pad STRING, PRIMARY KEY (id));
            CREATE FEED aged INTO Aged FROM HTTP;
            CREATE CONTINUOUS CHANNEL Ages () AS SELECT r.id, r.pad FROM Aged r WHERE is_new(r);
        """)
        seat = live.broker("aged")
        start = seat.cursor
        one = seat.subscribe("Ages")
        live.publish("aged", [{"id": 1}])
        (old,) = seat.take(1)
        clock, results = live.cluster.clock, live.cluster.results
        assert results.retain(clock.now_us() + 1, 1 << 40) >= 1
        for after in (0, start):
            gone = live.http.get("/v1/brokers/aged/results", params={"after": after})
            assert gone.status_code == 410
            assert gone.json()["error"]["code"] == "history_gone"
        earliest = int(gone.json()["error"]["earliest"])
        assert live.client.pull("aged", earliest)[0] == []
        gone = live.http.post("/v1/results", json={"after": {one: f"{one}-1"}})
        assert gone.status_code == 410
        # Whose results were not among those removed has missed nothing, however old its position.
        wanted = {"channel": "Ages", "permission": "others"}
        quiet = live.client.subscribe(live.broker("quiet").name, [wanted])[0]["id"]
        assert live.http.post("/v1/results", json={"after": {quiet: f"{quiet}-1"}}).text == ""
        assert live.client.status()["results"]["earliest_sequence"] == earliest
        for number in range(2, 6):
            live.publish("aged", [{"id": number, "pad": str(number) * 2000}])
        kept = seat.take(4)
        assert int(old["position"].split("-")[1]) <= earliest
        size = results.table.size_bytes()
        assert results.retain(0, size // 2) >= 1
        assert live.http.get("/v1/brokers/aged/results", params={"after": earliest}).status_code == 410
        again, _ = live.client.pull("aged", results.earliest_sequence)
        assert 1 <= len(again) < 4
        assert again == kept[-len(again) :]


def test_active_rows_past_their_time_are_removed_once_seen(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """dataset_retention_s removes old active rows and dead letters, never rows that a channel has yet to run over."""
    with serve(dataset_retention_s=3600) as live:
        live.sql("""
            CREATE ACTIVE DATASET Old (id INT, PRIMARY KEY (id));
            CREATE FEED old INTO Old FROM HTTP;
            CREATE REPETITIVE CHANNEL Olds () PERIOD 1 HOURS AS SELECT r.id FROM Old r WHERE is_new(r);
        """)
        seat = live.broker("old")
        seat.subscribe("Olds")
        live.publish("old", b'{"id": 1}\n{"id": "x"}')
        later = [live.cluster.clock]

        class Later:
            def now_us(self) -> int:
                return later[0].now_us() + 2 * 3600 * 10**6

            def monotonic_s(self) -> float:
                return later[0].monotonic_s() + 2 * 3600

        live.cluster.maintenance.retain()
        live.publish("old", [{"id": 2}])
        live.cluster.maintenance.clock = Later()
        live.cluster.maintenance.retain()
        assert live.rows("SELECT id FROM Old ORDER BY id") == [{"id": 1}, {"id": 2}]  # The channel has not run.
        assert live.client.dead_letters("Old")["total"] == 0
        live.cluster.executor.run([live.cluster.executor.states["olds"]])
        live.cluster.maintenance.retain()
        assert live.rows("SELECT id FROM Old ORDER BY id") == [{"id": 2}]
        assert {one["payload"]["id"] for one in seat.take(2)} == {1, 2}
        live.publish("old", [{"id": 3}])
        assert live.rows("SELECT id FROM Old ORDER BY id") == [{"id": 2}, {"id": 3}]


def test_a_paused_channel_keeps_the_rows_it_has_not_seen(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """However long a channel is paused, neither retention nor compaction takes from what it runs over when resumed."""
    with serve(dataset_retention_s=3600) as live:
        live.sql("""
            CREATE ACTIVE DATASET Kept (id INT, PRIMARY KEY (id));
            CREATE KEYED DATASET Latest (who STRING, n INT, PRIMARY KEY (who));
            CREATE FEED kept INTO Kept FROM HTTP;
            CREATE FEED latest INTO Latest FROM HTTP;
            CREATE CONTINUOUS CHANNEL Keeps () AS SELECT r.id FROM Kept r WHERE is_new(r);
            CREATE CONTINUOUS CHANNEL Follows () AS SELECT r.who, r.n FROM Latest r WHERE is_new(r);
            PAUSE CHANNEL Keeps;
            PAUSE CHANNEL Follows;
        """)
        seat = live.broker("kept")
        seat.subscribe("Keeps")
        seat.subscribe("Follows")
        live.publish("kept", [{"id": 1}])
        for number in range(3):
            live.publish("latest", [{"who": "ann", "n": number}])
        maintenance, clock = live.cluster.maintenance, live.cluster.clock
        maintenance.retain()

        class Later:
            def now_us(self) -> int:
                return clock.now_us() + 2 * 3600 * 10**6

            def monotonic_s(self) -> float:
                return clock.monotonic_s() + 2 * 3600

        maintenance.clock = Later()
        live.publish("kept", [{"id": 2}])
        maintenance.retain()
        for name in ("Kept", "Latest"):
            live.cluster.store[name].compact()
            live.cluster.store[name].rows.tidy()
            live.cluster.store[name].rows.recent.clear(since=live.cluster.store[name].sequence)
        live.sql("RESUME CHANNEL Keeps; RESUME CHANNEL Follows")
        payloads = [one["payload"] for one in seat.take(3)]
        assert sorted(one["id"] for one in payloads if "id" in one) == [1, 2]
        assert [one for one in payloads if "who" in one] == [{"who": "ann", "n": 2}]
        maintenance.retain()
        assert live.rows("SELECT id FROM Kept") == [{"id": 2}]
