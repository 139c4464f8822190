"""CREATE OR REPLACE CHANNEL: another query, while subscribers go on."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import settings_for
from integration.live import BrokerSeat, Live, serving, wait_until
from tocsin.cluster.channels.runs import ChannelRuns
from tocsin.cluster.results.store import ResultStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Serve = Callable[..., AbstractContextManager[Live]]

_DATASETS = """
    CREATE ACTIVE DATASET {0} (id INT, k INT, PRIMARY KEY (id));
    CREATE FEED {0} INTO {0} FROM HTTP;
"""


def message(live: Live, sql: str) -> str:
    (answer,) = live.sql(sql)
    return str(answer["message"])


def payloads(results: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    return sorted(((one["subscription"], one["payload"]) for one in results), key=str)


def test_subscriptions_that_fit_go_on_and_the_others_are_told(live: Live) -> None:
    """Ids, grants, retention and bounds stay; parameters may come in another order; a lower limit ends who is beyond
    it, other parameters end all, with the reason; a dataset that only the new query watches begins where it is."""
    live.sql(_DATASETS.format("RpOne") + _DATASETS.format("RpTwo"))
    live.sql("""
        CREATE CONTINUOUS CHANNEL RpFits (k INT MAX 9, least INT) AS
          SELECT r.id FROM RpOne r WHERE is_new(r) AND r.k = :k AND r.id >= :least;
        REVOKE SUBSCRIBE ON CHANNEL RpFits FROM ALL;
        GRANT SUBSCRIBE ON CHANNEL RpFits TO CLASS medics;
        ALTER CHANNEL RpFits SET (retention = '1 hour');
    """)
    seat = live.broker("rp-fits")
    wanted = [{"channel": "RpFits", "parameters": {"k": k, "least": 0}, "permission": "medics"} for k in (1, 5)]
    one, five = (held["id"] for held in live.client.subscribe("rp-fits", wanted))
    live.publish("RpOne", [{"id": 1, "k": 1}])
    assert payloads(seat.take(1)) == [(one, {"id": 1})]
    live.publish("RpTwo", [{"id": 7, "k": 1}])
    replaced = """
        CREATE OR REPLACE CONTINUOUS CHANNEL rpfits (least INT, k INT MAX 4) AS
          SELECT r.id, 'new' AS v FROM RpOne r WHERE is_new(r) AND r.k = :k AND r.id >= :least
          UNION ALL SELECT r.id, 'two' AS v FROM RpTwo r WHERE is_new(r) AND r.k = :k AND r.id >= :least
    """
    assert message(live, replaced) == "continuous channel RpFits replaced; 1 subscription goes on, 1 ended"
    assert message(live, replaced) == "channel RpFits is defined so already: nothing to do"
    (told,) = seat.take(1)
    assert (told["subscription"], told["payload"]) == (
        five,
        ["channel RpFits was replaced, and takes k INT MAX 4, least INT now", "not_found"],
    )
    live.publish("RpOne", [{"id": 2, "k": 1}, {"id": 3, "k": 5}])
    live.publish("RpTwo", [{"id": 8, "k": 1}])
    assert payloads(seat.take(2)) == [(one, {"id": 2, "v": "new"}), (one, {"id": 8, "v": "two"})]
    assert live.channel("RpFits")["retention_s"] == 3600
    assert live.rows("SHOW GRANTS ON CHANNEL RpFits") == [
        {"on": "RpFits", "action": "SUBSCRIBE", "to": "CLASS", "grantee": "medics"}
    ]
    # The old query goes on if the new one is refused, by us or by Spark.
    for bad in ("SELECT r.nothing FROM RpOne r WHERE is_new(r)", "SELECT r.id FROM RpOne r"):
        live.refusal(f"CREATE OR REPLACE CONTINUOUS CHANNEL RpFits (k INT, least INT) AS {bad}")
    live.publish("RpOne", [{"id": 4, "k": 1}])
    assert payloads(seat.take(1)) == [(one, {"id": 4, "v": "new"})]
    other = """
        CREATE OR REPLACE REPETITIVE CHANNEL RpFits (k INT) PERIOD 0.1 SECONDS AS
          SELECT r.id FROM RpOne r WHERE is_new(r) AND r.k = :k
    """
    assert message(live, other) == "repetitive channel RpFits replaced; 0 subscriptions go on, 1 ended"
    (told,) = seat.take(1)
    assert (told["subscription"], type(told["payload"])) == (one, list)
    (again,) = live.client.subscribe("rp-fits", [{"channel": "RpFits", "parameters": {"k": 1}, "permission": "medics"}])
    assert again["id"] not in (one, five)
    live.publish("RpOne", [{"id": 5, "k": 1}])
    assert payloads(seat.take(1)) == [(again["id"], {"id": 5})]
    live.sql("PAUSE CHANNEL RpFits")
    assert message(live, other.replace("r.id FROM", "r.id, r.k FROM")).endswith(
        "1 subscription goes on, 0 ended; it stays paused"
    )
    live.sql("CREATE OR REPLACE CONTINUOUS CHANNEL RpFresh () AS SELECT r.id FROM RpOne r WHERE is_new(r)")
    assert live.channel("RpFresh")["runs"] == 0


def test_a_refusal_by_spark_leaves_the_old_channel(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's verdict comes before anything changes."""
    from tocsin.cluster import interpreter
    from tocsin.errors import StatementError

    live.sql(_DATASETS.format("RpVerdict"))
    live.sql("CREATE CONTINUOUS CHANNEL RpSpark () AS SELECT r.id FROM RpVerdict r WHERE is_new(r)")
    seat = live.broker("rp-spark")
    seat.subscribe("RpSpark")

    def refuse(*_arguments: Any) -> None:
        raise StatementError("Spark can't run it", text="")

    monkeypatch.setattr(interpreter, "explain", refuse)
    body = "SELECT r.id FROM RpVerdict r WHERE is_new(r) AND r.k = :k"
    live.refusal(f"CREATE OR REPLACE CONTINUOUS CHANNEL RpSpark (k INT) AS {body}")
    monkeypatch.undo()
    live.publish("RpVerdict", [{"id": 1, "k": 1}])
    assert [one["payload"] for one in seat.take(1)] == [{"id": 1}]


def test_subscriptions_that_can_not_be_read_anew_leave_the_old_channel(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, say: nothing was stored then, and the old query goes on."""
    from tocsin.cluster import replacement

    live.sql(_DATASETS.format("RpFull"))
    query = "SELECT r.id FROM RpFull r WHERE is_new(r) AND r.k = :k"
    live.sql(f"CREATE CONTINUOUS CHANNEL RpFulls (k INT) AS {query}")
    seat = live.broker("rp-full")
    one = seat.subscribe("RpFulls", k=1)

    def fail(*_arguments: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(replacement, "ChannelSubscriptions", fail)
    script = f"CREATE OR REPLACE CONTINUOUS CHANNEL RpFulls (k BIGINT) AS {query}"
    assert live.http.post("/v1/statements", json={"sql": script}).status_code >= 500
    monkeypatch.undo()
    as_it_was = f"CREATE OR REPLACE CONTINUOUS CHANNEL RpFulls (k INT) AS {query}"
    assert message(live, as_it_was) == "channel RpFulls is defined so already: nothing to do"
    live.publish("RpFull", [{"id": 1, "k": 1}])
    assert payloads(seat.take(1)) == [(one, {"id": 1})]


def test_replacing_while_it_runs_loses_and_repeats_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is run over by one of the queries, whenever they change; a run that can't be ended leaves the old one
    at work, and the answer says so."""
    live.sql(_DATASETS.format("RpBusy"))
    bodies = [f"SELECT r.id, {v} AS v FROM RpBusy r WHERE is_new(r) AND r.k = :k" for v in range(3)]
    live.sql(f"CREATE CONTINUOUS CHANNEL RpRuns (k INT) AS {bodies[0]}")
    seat = live.broker("rp-busy")
    ids = [seat.subscribe("RpRuns", k=k) for k in (0, 1)]
    last = 30

    def publish() -> None:
        for number in range(last):
            live.client.publish("RpBusy", [{"id": number, "k": number % 2}])

    publishing = threading.Thread(target=publish)
    publishing.start()
    for turn in range(1, 6):
        said = message(live, f"CREATE OR REPLACE CONTINUOUS CHANNEL RpRuns (k INT) AS {bodies[turn % 3]}")
        assert said == "continuous channel RpRuns replaced; 2 subscriptions go on, 0 ended"
    publishing.join()
    taken = seat.take(last)
    assert Counter((one["subscription"], one["payload"]["id"]) for one in taken) == Counter(
        (ids[number % 2], number) for number in range(last)
    )
    release, begun, run = threading.Event(), threading.Event(), ChannelRuns.run

    def stuck(self: ChannelRuns, state: Any, *arguments: Any) -> Any:
        if state.channel.name == "RpRuns":
            begun.set()
            release.wait(60)
        return run(self, state, *arguments)

    monkeypatch.setattr(ChannelRuns, "run", stuck)
    monkeypatch.setattr("tocsin.cluster.channels.executor.PATIENCE_S", 0.2)
    monkeypatch.setattr("tocsin.cluster.channels.executor._CANCEL_ATTEMPTS", 1)
    try:
        live.publish("RpBusy", [{"id": last, "k": 0}])
        assert begun.wait(30)
        script = f"CREATE OR REPLACE CONTINUOUS CHANNEL RpRuns (k INT) AS {bodies[0]}"
        answer = live.http.post("/v1/statements", json={"sql": script})
        assert (answer.status_code, answer.json()["error"]["temporary"]) == (503, True)
        assert "does not end; nothing was changed" in answer.json()["error"]["message"]
    finally:
        release.set()
    assert payloads(seat.take(1)) == [(ids[0], {"id": last, "v": 2})]


def test_a_commit_in_parts_is_finished_by_the_new_query(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has results of the old query gets none of the new one for the same commit; the others get those."""
    everybody = list(range(40))
    with serve(run_max_bytes=100_000, result_max_bytes=30_000) as live:
        live.sql("""
            CREATE ACTIVE DATASET Alarms (id INT, text STRING, PRIMARY KEY (id));
            CREATE FEED alarms INTO Alarms FROM HTTP;
            CREATE CONTINUOUS CHANNEL CityWide (who INT) AS
              SELECT a.id, :who AS who, 'old' AS v, a.text FROM Alarms a WHERE is_new(a);
        """)
        seat = live.broker("city")
        live.client.subscribe("city", [{"channel": "CityWide", "parameters": {"who": who}} for who in everybody])
        commit_part, calls = ResultStore.commit_part, [0]

        def once(*arguments: Any) -> Any:
            calls[0] += 1
            if calls[0] > 1:
                raise OSError("the disk is full")
            return commit_part(*arguments)

        monkeypatch.setattr(ResultStore, "commit_part", once)
        live.publish("alarms", [{"id": 1, "text": "x" * 20_000}])
        wait_until(lambda: calls[0] > 1, "the second part is tried")
        live.sql("""
            CREATE OR REPLACE CONTINUOUS CHANNEL CityWide (who INT) AS
              SELECT a.id, :who AS who, 'new' AS v, a.text FROM Alarms a WHERE is_new(a)
        """)
        monkeypatch.undo()
        found = [one["payload"] for one in seat.take(len(everybody))]
        assert sorted(one["who"] for one in found) == everybody
        assert {one["v"] for one in found} == {"old", "new"}


_BEFORE = "SELECT r.id, 'old' AS v FROM RpFirst r WHERE is_new(r) AND r.k <= :k"
_AFTER = """
    SELECT r.id, 'new' AS v FROM RpFirst r WHERE is_new(r) AND r.k <= :k
    UNION ALL SELECT s.id, 'new' AS v FROM RpSecond s WHERE is_new(s) AND s.k <= :k
"""


def test_a_death_at_any_step_leaves_the_old_channel_or_the_new_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the process had done when it died: its successor has the one or the other, whole, with every record run
    over once, and whoever's subscription ended is told of it once."""
    copies: dict[str, Path] = {}

    def copying(moment: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            answer = call(*arguments, **options)
            copies[moment] = tmp_path / moment
            shutil.copytree(live.cluster.settings.data_dir, copies[moment] / "data", copy_function=_copy_if_there)
            return answer

        return wrapped

    with serving(settings_for(tmp_path / "first"), spark) as live:
        live.sql(_DATASETS.format("RpFirst") + _DATASETS.format("RpSecond"))
        live.sql(f"CREATE CONTINUOUS CHANNEL RpDies (k INT) AS {_BEFORE}")
        seat = live.broker("b")
        stays, ends = (seat.subscribe("RpDies", k=k) for k in (5, 9))
        live.publish("RpSecond", [{"id": 100, "k": 1}])
        live.publish("RpFirst", [{"id": 1, "k": 1}])
        seat.take(2)
        start = seat.cursor
        cluster = live.cluster
        monkeypatch.setattr(cluster.results, "set_bounds", copying("bounds", cluster.results.set_bounds))
        monkeypatch.setattr(cluster.catalogue, "alter_channel", copying("stored", cluster.catalogue.alter_channel))
        monkeypatch.setattr(cluster.results, "tell_ended", copying("told", cluster.results.tell_ended))
        live.sql(f"CREATE OR REPLACE CONTINUOUS CHANNEL RpDies (k INT MAX 5) AS {_AFTER}")
        monkeypatch.undo()
    assert list(copies) == ["bounds", "stored", "told"]
    for moment, folder in copies.items():
        with serving(settings_for(folder), spark) as live:
            is_new = moment != "bounds"
            seat = live.broker("c")
            seat.subscribe("RpDies", k=5)
            live.publish("RpSecond", [{"id": 101, "k": 1}])
            live.publish("RpFirst", [{"id": 2, "k": 1}])
            expected = Counter([(stays, 2), (stays, 101)] if is_new else [(stays, 2), (ends, 2)])
            taken = BrokerSeat(live.client, "b", start).take(3 if is_new else 2)
            told = [one["subscription"] for one in taken if isinstance(one["payload"], list)]
            assert told == ([ends] if is_new else []), moment
            found = [one for one in taken if isinstance(one["payload"], dict)]
            assert Counter((one["subscription"], one["payload"]["id"]) for one in found) == expected, moment
            assert {one["payload"]["v"] for one in found} == {"new" if is_new else "old"}, moment


def _copy_if_there(source: str, destination: str) -> str:
    """Temporary files come and go while the copy is made."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, destination)
    return destination
