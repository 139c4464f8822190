"""One bad thing stops one thing: a record or a subscription that a channel can't be run for is set aside with its
reason, and everybody else gets everything."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from integration.live import Live, wait_until
from tocsin.cluster.channels.compiler.dialect import quote_string
from tocsin.cluster.channels.runs import ChannelRuns, RunFailed, _verdict
from tocsin.cluster.spark_errors import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Serve = Callable[..., AbstractContextManager[Live]]


@dataclass(frozen=True)
class Trigger:
    """An expression that fails for a publisher's value whatever the settings of Spark."""

    expression: str
    good: dict[str, Any]
    bad: dict[str, Any]


MAX = (1 << 63) - 1
TODAY = "2026-01-01"
#: What publishers can send that makes Spark fail, though it is of the declared type.
PUBLISHED = {
    "Millis": Trigger("timestamp_millis(r.n)", {"n": 0}, {"n": MAX}),
    "Seconds": Trigger("timestamp_seconds(r.n)", {"n": 0}, {"n": MAX}),
    "Interval": Trigger("r.at + INTERVAL 292100 YEAR", {"at": f"{TODAY}T00:00:00Z"}, {"at": "2200-01-01T00:00:00Z"}),
    "Months": Trigger("add_months(r.day, int(r.n))", {"day": TODAY, "n": 1}, {"day": TODAY, "n": 2**31 - 1}),
    "Url": Trigger("url_decode(r.s)", {"s": "a%20b"}, {"s": "%zz"}),
    "Element": Trigger("element_at(array(1, 2), int(r.n))", {"n": 1}, {"n": 0}),
    "Part": Trigger("split_part(r.s, ',', int(r.n))", {"s": "a,b", "n": 1}, {"s": "a,b", "n": 0}),
    "Number": Trigger("to_number(r.s, '999')", {"s": "12"}, {"s": "none"}),
}
#: Of those, one that overflows, one that can't be decoded, and one that can't be parsed, through a whole cluster.
CHANNELS = {name: PUBLISHED[name] for name in ("Millis", "Url", "Number")}
_TYPES = {"n": "BIGINT", "s": "STRING", "at": "TIMESTAMP", "day": "DATE"}


@pytest.fixture(scope="module")
def troubled(live: Live) -> Live:
    """The shared cluster, with a dataset for all channels here."""
    live.sql("""
        CREATE ACTIVE DATASET Readings
          (kind STRING, id INT, n BIGINT, s STRING, at TIMESTAMP, day DATE, PRIMARY KEY (kind, id));
        CREATE FEED readings INTO Readings FROM HTTP;
    """)
    return live


def test_spark_fails_for_what_publishers_can_send(spark: SparkSession) -> None:
    """Each of these is a failure that the record caused: neither trouble of the machine nor too many results."""
    for name, trigger in PUBLISHED.items():

        def made(values: dict[str, Any], expression: str = trigger.expression) -> Any:
            columns = (
                f"CAST({quote_string(str(values[one])) if one in values else 'NULL'} AS {kind}) AS {one}"
                for one, kind in _TYPES.items()
            )
            rows = spark.range(1).selectExpr(*columns).alias("r")
            return rows.selectExpr(f"string({expression}) AS made").toArrow()

        assert made(trigger.good).column(0).to_pylist() != [None], name
        with pytest.raises(SPARK_ERRORS) as failed:
            made(trigger.bad)
        assert isinstance(_verdict(failed.value), RunFailed), name


def test_records_that_fail_are_set_aside(troubled: Live) -> None:
    """Of three channels, each fails with a record of its own. Each still has the results of all its other records, for
    all its subscriptions; the bad records are dead letters of the dataset that name channel and reason, and rows of
    the dataset still. Feeds go on, and so do channels that come after."""
    seat = troubled.broker("publishers")
    owners = {}
    for name, trigger in CHANNELS.items():
        troubled.sql(
            f"CREATE CONTINUOUS CHANNEL {name} (least INT) AS SELECT r.id, string({trigger.expression}) AS made"
            f" FROM Readings r WHERE is_new(r) AND r.kind = '{name}' AND r.id >= :least"
        )
        for least in (0, 1):
            owners[seat.subscribe(name, least=least)] = (name, least)
    for name, trigger in CHANNELS.items():
        values = {1: trigger.good, 2: trigger.bad, 3: trigger.good}
        troubled.publish("readings", [{"kind": name, "id": number, **made} for number, made in values.items()])
        assert {(*owners[one["subscription"]], one["payload"]["id"]) for one in seat.take(4)} == {
            (name, least, number) for least in (0, 1) for number in (1, 3)
        }
    wait_until(lambda: troubled.client.dead_letters("Readings")["total"] == len(CHANNELS), "all are set aside")
    letters = troubled.client.dead_letters("Readings")["dead_letters"]
    assert {letter["reason"].partition(":")[0] for letter in letters} == {f"channel {name}" for name in CHANNELS}
    assert all(len(letter["reason"].partition(":")[2]) > 10 for letter in letters)
    assert {json.loads(letter["raw"])["id"] for letter in letters} == {2}
    assert len(troubled.rows("SELECT id FROM Readings WHERE id = 2")) == len(CHANNELS)
    assert troubled.client.replay("Readings", None) == {"replayed": 0, "accepted": 0, "rejected": 0}
    troubled.publish("readings", [{"kind": name, "id": 4, **trigger.good} for name, trigger in CHANNELS.items()])
    assert len(seat.take(2 * len(CHANNELS))) == 2 * len(CHANNELS)
    for name in CHANNELS:
        assert troubled.channel(name)["rows_set_aside"] == 1
        assert not troubled.channel(name)["is_paused"]
        assert troubled.channel(name)["window_lag_commits"] == 0
        assert troubled.metric("tocsin_channel_set_aside_total", channel=name, what="record") == 1


def test_a_subscription_that_fails_is_set_aside_and_its_holder_told(troubled: Live) -> None:
    """A subscriber's time zone or format that does not exist fails with every record. After a few, the subscription
    is set aside: its history ends with the reason, it is counted, and whoever else asks for it is told. Those who
    asked for what exists get everything."""
    troubled.sql("""
        CREATE CONTINUOUS CHANNEL Zoned (zone STRING) AS
          SELECT r.id, from_utc_timestamp(r.at, :zone) AS at FROM Readings r WHERE is_new(r) AND r.kind = 'p';
        CREATE CONTINUOUS CHANNEL Formatted (pattern STRING) AS
          SELECT r.id, date_format(r.at, :pattern) AS at FROM Readings r WHERE is_new(r) AND r.kind = 'p';
    """)
    seat = troubled.broker("subscribers")
    good = [seat.subscribe("Zoned", zone="Europe/Paris"), seat.subscribe("Formatted", pattern="yyyy")]
    bad = [seat.subscribe("Zoned", zone="Nowhere/Land"), seat.subscribe("Formatted", pattern="bbbb{")]
    troubled.publish("readings", [{"kind": "p", "id": n, "at": "2026-01-01T00:00:00Z"} for n in range(6)])
    results = seat.take(2 * 6 + 2)
    ended = {one["subscription"]: one["payload"] for one in results if isinstance(one["payload"], str)}
    assert set(ended) == set(bad)
    assert "Nowhere/Land" in ended[bad[0]]
    assert sorted((one["subscription"], one["payload"]["id"]) for one in results if one["subscription"] in good) == [
        (one, n) for one in good for n in range(6)
    ]
    counts = {row["channel"]: row for row in troubled.rows("SHOW SUBSCRIPTIONS")}
    assert counts["Zoned"] == {"channel": "Zoned", "subscriptions": 2, "failed": 1}
    assert troubled.channel("Zoned")["failed_subscriptions"] == 1
    (again,) = troubled.client.subscribe("subscribers", [{"channel": "Zoned", "parameters": {"zone": "Nowhere/Land"}}])
    assert (again["id"], again["failure"]) == (bad[0], ended[bad[0]])
    troubled.publish("readings", [{"kind": "p", "id": 7, "at": "2026-01-01T00:00:00Z"}])
    assert {one["subscription"] for one in seat.take(2)} == set(good)
    troubled.client.unsubscribe("subscribers", [bad[0]])
    (anew,) = troubled.client.subscribe("subscribers", [{"channel": "Zoned", "parameters": {"zone": "Nowhere/Land"}}])
    assert anew["id"] != bad[0]
    assert not anew["failure"]


def test_a_record_with_results_for_everybody_comes_in_parts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose results together are more than a run may hand over reaches everybody, once; one whose result is
    too large for any subscriber is set aside. A process that ends between two parts of a commit leaves the first ones
    done: the next one does the rest."""
    from tocsin.cluster.results.store import ResultStore

    limits = {"run_max_bytes": 100_000, "result_max_bytes": 30_000}
    everybody = list(range(40))
    with serve(**limits) as live:
        live.sql("""
            CREATE ACTIVE DATASET Alarms (id INT, text STRING, PRIMARY KEY (id));
            CREATE FEED alarms INTO Alarms FROM HTTP;
            CREATE CONTINUOUS CHANNEL CityWide (who INT) AS
              SELECT a.id, :who AS who, a.text FROM Alarms a WHERE is_new(a);
        """)
        seat = live.broker("city")
        live.client.subscribe("city", [{"channel": "CityWide", "parameters": {"who": who}} for who in everybody])
        live.publish("alarms", [{"id": 1, "text": "x" * 20_000}])
        assert sorted(one["payload"]["who"] for one in seat.take(len(everybody))) == everybody
        wait_until(lambda: live.channel("CityWide")["window_lag_commits"] == 0, "the window is done")
        live.publish("alarms", [{"id": 2, "text": "x" * 40_000}, {"id": 3, "text": "short"}])
        assert {one["payload"]["id"] for one in seat.take(len(everybody))} == {3}
        (letter,) = live.client.dead_letters("Alarms")["dead_letters"]
        assert "30000 bytes at most" in letter["reason"]

        commit_part = ResultStore.commit_part
        calls: list[int] = []

        def once(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) > 1:
                raise OSError("the process ends here")
            return commit_part(*arguments)

        monkeypatch.setattr(ResultStore, "commit_part", once)
        live.publish("alarms", [{"id": 4, "text": "x" * 20_000}])
        wait_until(lambda: len(calls) > 1, "the second part is tried")
        monkeypatch.undo()
    with serve(**limits) as live:
        seat.client = live.client
        found = sorted((one["payload"]["id"], one["payload"]["who"]) for one in seat.take(len(everybody)))
        assert found == [(4, who) for who in everybody]


def test_a_stuck_run_holds_up_nobody(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run of one channel does not end, records are taken in, other channels run, and people subscribe; PAUSE
    and DROP of the stuck channel itself answer too."""
    live.sql("""
        CREATE ACTIVE DATASET TrStuck (id INT, PRIMARY KEY (id));
        CREATE FEED tr_stuck INTO TrStuck FROM HTTP;
        CREATE CONTINUOUS CHANNEL TrStuckOne () AS SELECT t.id FROM TrStuck t WHERE is_new(t);
        CREATE CONTINUOUS CHANNEL TrOther (least INT) AS SELECT t.id FROM TrStuck t WHERE is_new(t) AND t.id >= :least;
    """)
    seat = live.broker("tr-stuck")
    seat.subscribe("TrStuckOne")
    seat.subscribe("TrOther", least=0)
    release, run = threading.Event(), ChannelRuns.run

    def stuck(self: ChannelRuns, state: Any, *arguments: Any) -> Any:
        if state.channel.name == "TrStuckOne":
            release.wait(60)
        return run(self, state, *arguments)

    monkeypatch.setattr(ChannelRuns, "run", stuck)
    monkeypatch.setattr("tocsin.cluster.channels.executor.PATIENCE_S", 0.5)
    try:
        begin_s = time.monotonic()
        live.publish("tr_stuck", [{"id": 1}])
        assert [one["payload"] for one in seat.take(1)] == [{"id": 1}]
        live.publish("tr_stuck", [{"id": 2}])
        assert [one["payload"] for one in seat.take(1)] == [{"id": 2}]
        seat.subscribe("TrStuckOne")
        seat.subscribe("TrOther", least=2)
        live.sql("PAUSE CHANNEL TrStuckOne")
        live.sql("DROP CHANNEL TrStuckOne")
        live.sql("CREATE CONTINUOUS CHANNEL TrStuckOne () AS SELECT t.id FROM TrStuck t WHERE is_new(t)")
        live.sql("DROP CHANNEL TrStuckOne")
        assert time.monotonic() - begin_s < 30
    finally:
        release.set()
    (end,) = seat.take(1)
    assert end["channel"] == "TrStuckOne", "its holder is told that it was dropped"
    live.publish("tr_stuck", [{"id": 3}])
    assert [one["payload"] for one in seat.take(2)] == [{"id": 3}, {"id": 3}]
