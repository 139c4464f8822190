"""WITH EXITS through a whole cluster: a result that no longer holds is followed by an exit, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from integration.live import Live, wait_until

Serve = Callable[..., AbstractContextManager[Live]]

#: Names begin with a letter for each test, because tests share a cluster.
_TABLES = """
    CREATE KEYED DATASET {0}Reports (id INT, open BOOLEAN, severity INT, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
    CREATE KEYED DATASET {0}People (name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (name));
    CREATE FEED {0}reports INTO {0}Reports FROM HTTP;
    CREATE FEED {0}people INTO {0}People FROM HTTP;
"""
_NEAR = """
    CREATE {1} CONTINUOUS CHANNEL {0}Near (name STRING) ONCE PER (r.id) WITHIN 1 DAY WITH EXITS AS
      SELECT r.id, r.severity FROM {0}Reports r JOIN {0}People p ON p.name = :name
      WHERE ({2}) AND r.open AND within(r.x, r.y, p.x, p.y, {3});
"""
_EITHER = "is_new(r) OR is_new(p)"


def _report(number: int, is_open: bool = True, severity: int = 1) -> dict[str, Any]:
    return {"id": number, "open": is_open, "severity": severity, "x": 0.0, "y": 0.0}


def _person(x: float, name: str = "ann") -> dict[str, Any]:
    return {"name": name, "x": x, "y": 0.0}


def _kinds(results: list[dict[str, Any]]) -> list[str]:
    return [one["kind"] for one in results]


def _run_over(live: Live, *channels: str) -> None:
    for name in channels or ("ENear",):
        wait_until(lambda name=name: live.channel(name)["window_lag_commits"] == 0, f"{name} has run")


def test_who_leaves_and_what_is_closed_or_deleted_yields_an_exit(serve: Serve) -> None:
    """With the key of the result; what holds again is a result again, even within WITHIN; all of it through restarts
    and retention. Who has left knows nothing of what is closed later."""
    with serve() as live:
        live.sql(_TABLES.format("E") + _NEAR.format("E", "", _EITHER, 100.0))
        described = {row["property"]: row["value"] for row in live.rows("DESCRIBE CHANNEL ENear")}
        assert described["once"] == "ONCE PER (r.id) WITHIN 86400 SECONDS WITH EXITS"
        assert described["exits_by_row"] == "EPeople, EReports"
        seat = live.broker("b")
        seat.subscribe("ENear", name="ann")
        live.publish("Epeople", [_person(50.0), _person(0.0, "bob")])
        live.publish("Ereports", [_report(1), _report(2)])
        one, two = sorted(seat.take(2), key=lambda result: result["payload"]["id"])
        assert _kinds([one, two]) == ["result", "result"]
        live.publish("Epeople", [_person(60.0)])
        _run_over(live)
        live.publish("Ereports", [_report(1, is_open=False)])
        (gone,) = seat.take(1)
        assert (gone["kind"], gone["key"], gone["payload"]) == ("exit", one["key"], {})
        live.publish("Epeople", [_person(500.0)])
        (gone,) = seat.take(1)
        assert (gone["kind"], gone["key"]) == ("exit", two["key"])
        live.publish("Ereports", [_report(2, is_open=False), _report(1)])
        _run_over(live)
        live.publish("Epeople", [_person(70.0)])
        (again,) = seat.take(1)
        assert (again["kind"], again["key"], again["payload"]["id"]) == ("result", one["key"], 1)
        live.cluster.results.flush()
        live.cluster.results.retain(live.cluster.clock.now_us() + 1, 0)
    with serve() as live:
        seat.client = live.client
        live.sql("DELETE FROM EReports WHERE id = 1")
        (gone,) = seat.take(1)
        assert (gone["kind"], gone["key"]) == ("exit", one["key"])
        live.publish("Epeople", [_person(71.0)])
        _run_over(live)
        live.publish("Ereports", [_report(3)])
        assert [result["payload"]["id"] for result in seat.take(1)] == [3]


def test_a_key_that_changes_its_value_ends_and_another_begins(live: Live) -> None:
    """Its row does not tell which key it had before, so all results are checked."""
    live.sql(_TABLES.format("S"))
    live.sql("""
        CREATE CONTINUOUS CHANNEL BySeverity (least INT) ONCE PER (r.id, r.severity) WITH EXITS AS
          SELECT r.id, r.severity FROM SReports r WHERE is_new(r) AND r.severity >= :least;
    """)
    seat = live.broker("by-severity")
    for least in range(3):
        seat.subscribe("BySeverity", least=least)
    live.publish("Sreports", [_report(1, severity=1), _report(2, severity=5)])
    results = seat.take(5)
    assert set(_kinds(results)) == {"result"}
    live.publish("Sreports", [_report(1, severity=2)])
    changed = seat.take(5)
    assert sorted(_kinds(changed)) == ["exit", "exit", "result", "result", "result"]
    ended = {(one["subscription"], one["key"]) for one in changed if one["kind"] == "exit"}
    assert ended == {(one["subscription"], one["key"]) for one in results if one["payload"]["id"] == 1}


def test_another_query_ends_what_it_does_not_find(live: Live) -> None:
    """Without any new row. What it still finds goes on, and is no result again."""
    live.sql(_TABLES.format("R") + _NEAR.format("R", "", _EITHER, 100.0))
    seat = live.broker("replaced")
    seat.subscribe("RNear", name="ann")
    live.publish("Rpeople", [_person(0.0)])
    live.publish("Rreports", [_report(1), {**_report(2), "x": 50.0}])
    results = {one["payload"]["id"]: one["key"] for one in seat.take(2)}
    live.sql(_NEAR.format("R", "OR REPLACE", _EITHER, 20.0))
    (gone,) = seat.take(1)
    assert (gone["kind"], gone["key"]) == ("exit", results[2])
    live.publish("Rpeople", [_person(1.0)])
    _run_over(live, "RNear")
    live.publish("Rpeople", [_person(200.0)])
    (gone,) = seat.take(1)
    assert (gone["kind"], gone["key"]) == ("exit", results[1])


def test_a_history_has_the_results_and_exits_of_a_naive_evaluation(live: Live) -> None:
    """People move, reports are closed, opened and deleted; with is_new of both, and of one of them."""
    chance = random.Random(5)
    live.sql(_TABLES.format("H") + _NEAR.format("H", "", _EITHER, 100.0))
    live.sql(_NEAR.format("H", "", "is_new(r)", 100.0).replace("CHANNEL HNear", "CHANNEL HNew"))
    seat = live.broker("history")
    names = ["ann", "bob"]
    whose = {seat.subscribe(channel, name=name): (channel, name) for channel in ("HNear", "HNew") for name in names}
    people: dict[str, float] = {}
    reports: dict[int, bool] = {}
    held: set[tuple[str, str, int]] = set()
    numbers: dict[tuple[int, str], int] = {}
    for _ in range(14):
        moved: set[str] = set()
        changed: set[int] = set()
        match chance.choice(["move", "move", "report", "delete"]):
            case "move":
                moved = {chance.choice(names)}
                people |= {name: chance.choice([0.0, 500.0]) for name in moved}
                live.publish("Hpeople", [_person(people[name], name) for name in moved])
            case "report":
                changed = {chance.randrange(3), chance.randrange(3)}
                reports |= {one: chance.random() < 0.7 for one in changed}
                live.publish("Hreports", [_report(one, reports[one]) for one in changed])
            case _:
                doomed = chance.randrange(3)
                reports.pop(doomed, None)
                live.sql(f"DELETE FROM HReports WHERE id = {doomed}")
        near = {(name, one) for name, x in people.items() if x == 0.0 for one, is_open in reports.items() if is_open}
        ended = {(channel, name, one) for channel, name, one in held if (name, one) not in near}
        new = {("HNear", name, one) for name, one in near if name in moved or one in changed}
        begun = (new | {("HNew", name, one) for name, one in near if one in changed}) - held
        held = (held - ended) | begun
        taken = set()
        for result in seat.take(len(ended) + len(begun)):
            about = (result["subscription"], result["key"])
            if result["kind"] == "result":
                numbers[about] = result["payload"]["id"]
            taken.add((*whose[result["subscription"]], numbers[about], result["kind"]))
        assert taken == {(*one, "exit") for one in ended} | {(*one, "result") for one in begun}
        _run_over(live, "HNear", "HNew")
