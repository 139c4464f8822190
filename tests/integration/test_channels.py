"""Channels at work: windows, joins, aggregates, overruns, and the seven channels of the emergency application."""

from __future__ import annotations

import itertools
import math
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from integration.live import Live, wait_until
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.schema import CHANNELS, schema_sql
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload, Interest, Record
from tocsin.model.position import commit_of
from worlds.city_crowd import interests as drawn_interests


def test_the_seven_emergency_channels_give_what_a_plain_loop_gives(live: Live) -> None:
    """Every channel of the application returns, per subscription, exactly what evaluating it by hand returns."""
    for statement in re.split(r";\s*\n", schema_sql(period_scale=0.1)):
        live.sql(statement.replace(" DATASET ", " DATASET IF NOT EXISTS "))  # Another test may have come before.
    workload = EmergencyWorkload(City.generate(3), users=40, seed=11)
    shelters = workload.shelters(60)
    lines = ["id,name,x,y", *(f"{one['id']},{one['name']},{one['x']},{one['y']}" for one in shelters)]
    (live.imports / "shelters.csv").write_text("\n".join(lines) + "\n")
    live.sql("LOAD DATASET Shelters FROM 'shelters.csv'")
    live.publish("locations", workload.locations())
    workload.move_users(30)
    locations = workload.locations()
    live.publish("locations", locations)  # Only where they are now counts.
    seat = live.broker("emergency")
    # What is near to somebody is asked for as their broker does.
    people = itertools.cycle(workload.user_ids)
    interests = [
        Interest(one.channel, {**one.parameters, **({"user_id": next(people)} if "NearMe" in one.channel else {})})
        for one in drawn_interests(workload, 210)
    ]
    wanted = [
        {"channel": one.channel, "parameters": one.parameters, "filled": [*{"user_id"} & one.parameters.keys()]}
        for one in interests
    ]
    answers = live.client.subscribe("emergency", wanted)
    ids = {one["id"]: interest for one, interest in zip(answers, interests, strict=True)}
    stream = workload.reports()
    reports = [next(stream) for _ in range(300)]
    for start in range(0, 300, 100):
        live.publish("reports", reports[start : start + 100])
    locations = {one["user_id"]: one for one in locations}
    expected = Counter(
        (one, *row) for one, interest in ids.items() for row in _evaluate(interest, reports, locations, shelters)
    )
    assert {interest.channel for one, interest in ids.items() if any(key[0] == one for key in expected)} == set(
        CHANNELS
    )
    found = Counter(
        (result["subscription"], result["payload"]["id"], result["payload"].get("shelter"))
        for result in seat.take(expected.total())
    )
    assert found == expected
    # One more of every channel's runs brings nothing more.
    live.publish("reports", [{**reports[0], "id": "nothing", "etype": "none", "x": 1e9, "y": 1e9}])

    def lags() -> list[int]:
        return [one["window_lag_commits"] for one in live.client.status()["channels"] if one["name"] in CHANNELS]

    wait_until(lambda: lags() == [0] * len(CHANNELS), "all have run")
    assert live.client.pull("emergency", seat.cursor)[0] == []


def _evaluate(
    interest: Interest, reports: list[Record], locations: dict[str, Record], shelters: list[Record]
) -> list[tuple[str, str | None]]:
    """What a subscription should get, straight from the channel's words."""
    wanted: dict[str, Any] = interest.parameters
    centre = locations[wanted["user_id"]] if "user_id" in wanted else wanted
    radius_m = wanted.get("radius_m", 2000.0 if "Shelter" in interest.channel else None)
    found: list[tuple[str, str | None]] = []
    for report in reports:
        if "etype" in wanted and report["etype"] != wanted["etype"]:
            continue
        if radius_m is not None and _metres(report, centre) > radius_m:
            continue
        if "Shelter" in interest.channel:
            found += [(report["id"], one["name"]) for one in shelters if _metres(one, centre) <= 1000.0]
        else:
            found.append((report["id"], None))
    return found


def _metres(one: dict[str, Any], other: dict[str, Any]) -> float:
    return math.hypot(one["x"] - other["x"], one["y"] - other["y"])


def test_a_repetitive_channel_runs_over_each_record_once(live: Live) -> None:
    """Windows follow each other with neither gap nor overlap, whatever falls between two runs."""
    live.sql("""
        CREATE ACTIVE DATASET ChOnce (id INT, PRIMARY KEY (id));
        CREATE FEED ch_once INTO ChOnce FROM HTTP;
        CREATE REPETITIVE CHANNEL ChEach () PERIOD 0.2 SECONDS AS SELECT r.id FROM ChOnce r WHERE is_new(r);
    """)
    seat = live.broker("ch-once")
    seat.subscribe("ChEach")
    results = []
    for half in (range(150), range(150, 300)):
        for start in half[::15]:
            live.client.publish("ch_once", [{"id": number} for number in range(start, start + 15)])
        # The second half is published once the first has been run over, so that there are two windows at least.
        results += seat.take(150)
    assert Counter(one["payload"]["id"] for one in results) == Counter(range(300))
    sequences = [int(one["position"].split("-")[1]) for one in results]
    assert sequences == sorted(set(sequences))
    assert len({commit_of(sequence) for sequence in sequences}) > 1


def test_is_new_on_two_datasets(live: Live) -> None:
    """With OR, new records of either side of a join meet all of the other's; with AND, both must be new."""
    live.sql("""
        CREATE ACTIVE DATASET ChLeft (id STRING, k INT, PRIMARY KEY (id));
        CREATE ACTIVE DATASET ChRight (id STRING, k INT, PRIMARY KEY (id));
        CREATE CONTINUOUS CHANNEL ChEither () AS
          SELECT l.id AS l, r.id AS r FROM ChLeft l JOIN ChRight r ON l.k = r.k WHERE is_new(l) OR is_new(r);
        CREATE REPETITIVE CHANNEL ChBoth () PERIOD 1 HOURS AS
          SELECT l.id AS l, r.id AS r FROM ChLeft l JOIN ChRight r ON l.k = r.k WHERE is_new(l) AND is_new(r);
    """)
    seat = live.broker("ch-two")
    either, both = seat.subscribe("ChEither"), seat.subscribe("ChBoth")
    live.sql("INSERT INTO ChLeft VALUES ('l1', 1)")
    live.sql("INSERT INTO ChRight VALUES ('r1', 1), ('r9', 9)")
    assert [one["payload"] for one in seat.take(1)] == [{"l": "l1", "r": "r1"}]
    live.sql("INSERT INTO ChLeft VALUES ('l2', 1)")
    assert [one["payload"] for one in seat.take(1)] == [{"l": "l2", "r": "r1"}]
    state = live.cluster.executor.states["chboth"]
    live.cluster.executor.run([state])
    results = seat.take(2)
    assert {one["subscription"] for one in results} == {both}
    assert {one["payload"]["l"] for one in results} == {"l1", "l2"}
    live.sql("INSERT INTO ChRight VALUES ('r2', 1)")
    results = seat.take(2)
    assert {one["subscription"] for one in results} == {either}
    live.cluster.executor.run([state])  # Only the right side is new: nothing.
    live.sql("INSERT INTO ChLeft VALUES ('l3', 9)")
    assert [one["payload"] for one in seat.take(1)] == [{"l": "l3", "r": "r9"}]


def test_a_join_sees_the_latest_row_of_a_key(live: Live) -> None:
    """A keyed dataset shows one row per key, the last; is_new on it gives each key's last update in the window."""
    live.sql("""
        CREATE ACTIVE DATASET ChAlarms (id STRING, PRIMARY KEY (id));
        CREATE KEYED DATASET ChPeople (who STRING, floor INT, PRIMARY KEY (who));
        CREATE FEED ch_people INTO ChPeople FROM HTTP;
        CREATE CONTINUOUS CHANNEL ChWhere (who STRING) AS
          SELECT a.id, p.floor FROM ChAlarms a JOIN ChPeople p ON p.who = :who WHERE is_new(a);
        CREATE REPETITIVE CHANNEL ChMoves () PERIOD 1 HOURS AS
          SELECT p.who, p.floor FROM ChPeople p WHERE is_new(p);
    """)
    seat = live.broker("ch-keyed")
    seat.subscribe("ChWhere", who="ann")
    moves = seat.subscribe("ChMoves")
    live.publish("ch_people", [{"who": "ann", "floor": 1}, {"who": "bob", "floor": 2}, {"who": "ann", "floor": 3}])
    live.publish("ch_people", [{"who": "ann", "floor": 4}])
    live.sql("INSERT INTO ChAlarms VALUES ('a1')")
    assert [one["payload"] for one in seat.take(1)] == [{"id": "a1", "floor": 4}]
    live.publish("ch_people", [{"who": "ann", "floor": 5}])
    live.sql("INSERT INTO ChAlarms VALUES ('a2')")
    assert [one["payload"] for one in seat.take(1)] == [{"id": "a2", "floor": 5}]
    assert live.rows("SELECT who, floor FROM ChPeople ORDER BY who") == [
        {"who": "ann", "floor": 5},
        {"who": "bob", "floor": 2},
    ]
    live.cluster.executor.run([live.cluster.executor.states["chmoves"]])
    results = seat.take(2)
    assert {one["subscription"] for one in results} == {moves}
    assert {one["payload"]["who"]: one["payload"]["floor"] for one in results} == {"ann": 5, "bob": 2}


def test_a_reloaded_reference_dataset_counts_at_once(live: Live) -> None:
    """After LOAD, channels join with what was loaded, and with nothing of before."""
    live.sql("""
        CREATE ACTIVE DATASET ChCalls (id STRING, code INT, PRIMARY KEY (id));
        CREATE REFERENCE DATASET ChCodes (code INT, name STRING, PRIMARY KEY (code));
        CREATE CONTINUOUS CHANNEL ChNamed () AS
          SELECT c.id, n.name FROM ChCalls c JOIN ChCodes n ON n.code = c.code WHERE is_new(c);
    """)
    seat = live.broker("ch-reference")
    seat.subscribe("ChNamed")
    (live.imports / "codes.csv").write_text("code,name\n1,one\n2,two\n")
    live.sql("LOAD DATASET ChCodes FROM 'codes.csv'; INSERT INTO ChCalls VALUES ('a', 1), ('b', 2)")
    assert {one["payload"]["name"] for one in seat.take(2)} == {"one", "two"}
    (live.imports / "codes.csv").write_text("code,name\n1,uno\n")
    live.sql("LOAD DATASET ChCodes FROM 'codes.csv'; INSERT INTO ChCalls VALUES ('c', 1), ('d', 2)")
    assert [one["payload"] for one in seat.take(1)] == [{"id": "c", "name": "uno"}]


def test_loading_an_active_dataset_wakes_its_channels(live: Live) -> None:
    """Rows that come by LOAD are new records like any others."""
    live.sql("""
        CREATE ACTIVE DATASET ChLoaded (id STRING, PRIMARY KEY (id));
        CREATE CONTINUOUS CHANNEL ChLoads () AS SELECT r.id FROM ChLoaded r WHERE is_new(r);
    """)
    seat = live.broker("ch-loaded")
    seat.subscribe("ChLoads")
    (live.imports / "active.ndjson").write_text('{"id": "x"}\n{"id": "y"}\n')
    live.sql("LOAD DATASET ChLoaded FROM 'active.ndjson'")
    assert {one["payload"]["id"] for one in seat.take(2)} == {"x", "y"}


def test_aggregates_count_per_subscription(live: Live) -> None:
    """An aggregate is taken over the window, for each subscription by itself."""
    live.sql("""
        CREATE ACTIVE DATASET ChSums (id INT, k STRING, n INT, PRIMARY KEY (id));
        CREATE FEED ch_sums INTO ChSums FROM HTTP;
        CREATE REPETITIVE CHANNEL ChSummed (k STRING, least INT) PERIOD 1 HOURS AS
          SELECT count(*) AS many, sum(r.n) AS total, max(r.n) AS most FROM ChSums r
          WHERE is_new(r) AND r.k = :k AND r.n >= :least HAVING count(*) > 1;
    """)
    seat = live.broker("ch-sums")
    wanted = {seat.subscribe("ChSummed", k=k, least=least): (k, least) for k in "ab" for least in (0, 5, 9)}
    records = [{"id": n, "k": "ab"[n % 2], "n": n} for n in range(10)]
    live.publish("ch_sums", records)
    live.cluster.executor.run([live.cluster.executor.states["chsummed"]])
    expected = {}
    for one, (k, least) in wanted.items():
        values = [record["n"] for record in records if record["k"] == k and record["n"] >= least]
        if len(values) > 1:
            expected[one] = {"many": len(values), "total": sum(values), "most": max(values)}
    assert {one["subscription"]: one["payload"] for one in seat.take(len(expected))} == expected


def test_a_slow_run_delays_the_next_and_takes_its_place(live: Live) -> None:
    """A run that outlasts its period never stops the channel: what came meanwhile is one larger window, once."""
    live.sql("""
        CREATE ACTIVE DATASET ChSlow (id INT, PRIMARY KEY (id));
        CREATE FEED ch_slow INTO ChSlow FROM HTTP;
        CREATE REPETITIVE CHANNEL ChLate () PERIOD 0.2 SECONDS AS SELECT r.id FROM ChSlow r WHERE is_new(r);
    """)
    seat = live.broker("ch-slow")
    seat.subscribe("ChLate")
    executor, states = live.cluster.executor, live.cluster.executor.states
    begun, go_on = threading.Event(), threading.Event()
    run, windows = executor._runs.run, []

    def slowly(state: Any, window: Any, *part: Any) -> Any:
        if state is states["chlate"]:
            windows.append((window.after["ChSlow"], window.through["ChSlow"]))
            begun.set()
            assert go_on.wait(20)
        return run(state, window, *part)

    executor._runs.run = slowly  # type: ignore[method-assign]
    try:
        live.publish("ch_slow", [{"id": 0}])
        assert begun.wait(20)
        for number in range(1, 6):
            live.publish("ch_slow", [{"id": number}])
        assert live.channel("ChLate")["runs"] == 0
        go_on.set()
        assert Counter(one["payload"]["id"] for one in seat.take(6)) == Counter(range(6))
    finally:
        go_on.set()
        del executor._runs.run  # What the class has is there again.
    assert len(windows) == 2, windows
    assert windows[0][1] == windows[1][0]
    assert live.channel("ChLate")["overruns"] == live.metric("tocsin_channel_overruns_total", channel="ChLate") >= 1
    live.publish("ch_slow", [{"id": 6}])
    assert [one["payload"]["id"] for one in seat.take(1)] == [6]


def test_a_failed_run_is_tried_again(live: Live) -> None:
    """A run that fails keeps its window, says why in the status, and the next one gives the results, once."""
    live.sql("""
        CREATE ACTIVE DATASET ChFails (id INT, PRIMARY KEY (id));
        CREATE FEED ch_fails INTO ChFails FROM HTTP;
        CREATE REPETITIVE CHANNEL ChTried () PERIOD 0.2 SECONDS AS SELECT r.id FROM ChFails r WHERE is_new(r);
    """)
    seat = live.broker("ch-fails")
    seat.subscribe("ChTried")
    executor = live.cluster.executor
    run, failed = executor._runs.run, threading.Event()

    def fail_once(state: Any, window: Any, *part: Any) -> Any:
        if state.channel.name == "ChTried" and not failed.is_set():
            failed.set()
            raise RuntimeError("planted")
        return run(state, window, *part)

    executor._runs.run = fail_once  # type: ignore[method-assign]
    try:
        live.publish("ch_fails", [{"id": 1}])
        assert failed.wait(20)
        assert [one["payload"]["id"] for one in seat.take(1)] == [1]
    finally:
        del executor._runs.run  # What the class has is there again.
    assert live.metric("tocsin_channel_runs_total", channel="ChTried", outcome="failed") == 1
    assert live.channel("ChTried")["last_error"] == ""


def test_empty_windows_cost_nothing(live: Live) -> None:
    """Where nothing has come, nothing runs and nothing is committed, however short the period."""
    live.sql("""
        CREATE ACTIVE DATASET ChIdle (id INT, PRIMARY KEY (id));
        CREATE ACTIVE DATASET ChBusy (id INT, PRIMARY KEY (id));
        CREATE FEED ch_busy INTO ChBusy FROM HTTP;
        CREATE REPETITIVE CHANNEL ChNever () PERIOD 0.1 SECONDS AS SELECT r.id FROM ChIdle r WHERE is_new(r);
        CREATE REPETITIVE CHANNEL ChOften () PERIOD 0.3 SECONDS AS SELECT r.id FROM ChBusy r WHERE is_new(r);
    """)
    seat = live.broker("ch-idle")
    seat.subscribe("ChNever")
    seat.subscribe("ChOften")
    for number in range(3):  # Three periods of the other channel: at least nine of this one.
        live.publish("ch_busy", [{"id": number}])
        seat.take(1)
    assert live.channel("ChNever")["runs"] == 0
    assert live.metric("tocsin_channel_runs_total", channel="ChNever", outcome="done") == 0
    assert live.channel("ChOften")["runs"] == 3


def test_subscribing_takes_effect_in_the_next_run(live: Live) -> None:
    """A newcomer is a row in the next run: no channel is deployed anew, and what was before is not for it."""
    live.sql("""
        CREATE ACTIVE DATASET ChJoin (id INT, k INT, PRIMARY KEY (id));
        CREATE FEED ch_join INTO ChJoin FROM HTTP;
        CREATE CONTINUOUS CHANNEL ChJoined (k INT) AS SELECT r.id FROM ChJoin r WHERE is_new(r) AND r.k = :k;
    """)
    seat = live.broker("ch-join")
    state = live.cluster.executor.states["chjoined"]
    for number in range(12):  # More than are kept as additions to the cached base, so that they are folded too.
        seat.subscribe("ChJoined", k=number)
        live.publish("ch_join", [{"id": 100 * number + k, "k": k} for k in range(12)])
        assert {one["payload"]["id"] for one in seat.take(number + 1)} == {100 * number + k for k in range(number + 1)}
    assert live.cluster.executor.states["chjoined"] is state


def test_a_channel_without_is_new_gives_its_whole_result_each_time(live: Live) -> None:
    """Without is_new a repetitive channel gives its whole result after every change, and nothing in between."""
    live.sql("""
        CREATE ACTIVE DATASET ChWhole (id INT, PRIMARY KEY (id));
        CREATE FEED ch_whole INTO ChWhole FROM HTTP;
        CREATE REPETITIVE CHANNEL ChCount () PERIOD 0.2 SECONDS AS SELECT count(*) AS n FROM ChWhole r;
    """)
    seat = live.broker("ch-whole")
    seat.subscribe("ChCount")
    for number in range(1, 4):
        live.publish("ch_whole", [{"id": number}])
        assert [one["payload"] for one in seat.take(1)] == [{"n": number}]
    state = live.cluster.executor.states["chcount"]
    runs = state.runs
    for _ in range(3):
        live.cluster.executor.run([state], is_patient=True)
    assert state.runs == runs, "the same result again would be a notification of nothing"
    live.publish("ch_whole", [{"id": 4}])
    assert [one["payload"] for one in seat.take(1)] == [{"n": 4}]
    refusal = live.refusal("CREATE CONTINUOUS CHANNEL ChNo () AS SELECT count(*) AS n FROM ChWhole r")
    assert "is_new" in refusal["message"]


def test_a_large_window_goes_through(live: Live) -> None:
    """A burst far above what travels inside a plan is one window like any other."""
    live.sql("""
        CREATE ACTIVE DATASET ChBurst (id INT, k INT, PRIMARY KEY (id));
        CREATE FEED ch_burst INTO ChBurst FROM HTTP;
        CREATE REPETITIVE CHANNEL ChBursts (k INT) PERIOD 1 HOURS AS
          SELECT r.id FROM ChBurst r WHERE is_new(r) AND r.k = :k;
    """)
    seat = live.broker("ch-burst")
    seat.subscribe("ChBursts", k=7)
    for start in range(0, 60_000, 20_000):
        live.publish("ch_burst", [{"id": n, "k": n % 1000} for n in range(start, start + 20_000)])
    live.cluster.executor.run([live.cluster.executor.states["chbursts"]])
    assert {one["payload"]["id"] for one in seat.take(60)} == set(range(7, 60_000, 1000))


def test_a_paused_channel_waits_and_then_takes_everything(live: Live) -> None:
    """PAUSE stops runs of either kind and leaves all else; after RESUME one run takes what came meanwhile, once."""
    live.sql("""
        CREATE ACTIVE DATASET ChPaused (id INT, k INT, PRIMARY KEY (id));
        CREATE FEED ch_paused INTO ChPaused FROM HTTP;
        CREATE CONTINUOUS CHANNEL ChWoken (k INT) AS SELECT r.id FROM ChPaused r WHERE is_new(r) AND r.k = :k;
        CREATE REPETITIVE CHANNEL ChTimed (k INT) PERIOD 0.1 SECONDS AS
          SELECT r.id FROM ChPaused r WHERE is_new(r) AND r.k = :k;
        CREATE REPETITIVE CHANNEL ChOther () PERIOD 0.2 SECONDS AS SELECT r.id FROM ChPaused r WHERE is_new(r);
    """)
    seat, other = live.broker("ch-paused"), live.broker("ch-other")
    other.subscribe("ChOther")
    ends = seat.subscribe("ChWoken", k=3)
    ids = [seat.subscribe(name, k=1) for name in ("ChWoken", "ChTimed")]
    live.publish("ch_paused", [{"id": 0, "k": 1}])
    assert Counter(one["subscription"] for one in seat.take(2)) == Counter(ids)
    other.take(1)
    answers = live.sql("PAUSE CHANNEL chwoken; PAUSE CHANNEL ChTimed; PAUSE CHANNEL ChTimed")
    assert [one["message"] for one in answers] == [
        "channel ChWoken paused",
        "channel ChTimed paused",
        "channel ChTimed is paused already: nothing to do",
    ]
    runs = {name: live.channel(name)["runs"] for name in ("ChWoken", "ChTimed")}
    for number in range(1, 4):
        live.publish("ch_paused", [{"id": number, "k": 1}, {"id": 10 + number, "k": 2}, {"id": 20 + number, "k": 3}])
        other.take(3)  # Two periods of the paused one have passed.
    ids.append(seat.subscribe("ChWoken", k=2))
    live.client.unsubscribe("ch-paused", [ends])
    for name, count in runs.items():
        channel = live.channel(name)
        assert (channel["is_paused"], channel["runs"], channel["window_lag_commits"]) == (True, count, 3)
        assert live.metric("tocsin_channel_window_lag_commits", channel=name) == 3
        assert live.metric("tocsin_channel_paused", channel=name) == 1
        assert {"property": "is_paused", "value": True} in live.rows(f"DESCRIBE CHANNEL {name}")
    assert live.client.pull("ch-paused", seat.cursor)[0] == []
    shown = {row["channel"]: row["is_paused"] for row in live.rows("SHOW CHANNELS")}
    assert (shown["ChWoken"], shown["ChTimed"], shown["ChOther"]) == (True, True, False)
    answers = live.sql("RESUME CHANNEL ChWoken; RESUME CHANNEL ChTimed; RESUME CHANNEL ChOther")
    assert [one["message"] for one in answers] == [
        "channel ChWoken resumed",
        "channel ChTimed resumed",
        "channel ChOther is not paused: nothing to do",
    ]
    # Nothing more has to come for it.
    found = Counter((one["subscription"], one["payload"]["id"]) for one in seat.take(9))
    assert found == Counter([(one, n) for one in ids[:2] for n in (1, 2, 3)] + [(ids[2], n) for n in (11, 12, 13)])
    for name, count in runs.items():
        channel = live.channel(name)
        assert (channel["is_paused"], channel["runs"], channel["window_lag_commits"]) == (False, count + 1, 0)
        assert live.metric("tocsin_channel_paused", channel=name) == 0
    assert (live.channel("ChWoken")["last_results"], live.channel("ChTimed")["last_results"]) == (6, 3)
    live.publish("ch_paused", [{"id": 4, "k": 1}])
    assert {one["payload"]["id"] for one in seat.take(2)} == {4}
    assert "no channel called ChNone" in live.refusal("PAUSE CHANNEL ChNone")["message"]
    assert "no channel called ChNone" in live.refusal("RESUME CHANNEL ChNone")["message"]
    live.sql("PAUSE CHANNEL ChTimed; DROP CHANNEL ChTimed")
    assert 'tocsin_channel_paused{channel="ChTimed"}' not in live.http.get("/metrics").text


def test_a_pause_waits_for_the_run_under_way(live: Live) -> None:
    """PAUSE is answered when no run goes on any more, and others' statements don't wait for it meanwhile."""
    live.sql("""
        CREATE ACTIVE DATASET ChHeld (id INT, PRIMARY KEY (id));
        CREATE FEED ch_held INTO ChHeld FROM HTTP;
        CREATE REPETITIVE CHANNEL ChHolds () PERIOD 0.1 SECONDS AS SELECT r.id FROM ChHeld r WHERE is_new(r);
    """)
    seat = live.broker("ch-held")
    seat.subscribe("ChHolds")
    executor, state = live.cluster.executor, live.cluster.executor.states["chholds"]
    begun, go_on, run = threading.Event(), threading.Event(), live.cluster.executor._runs.run

    def slowly(one: Any, window: Any, *part: Any) -> Any:
        if one is state:
            begun.set()
            assert go_on.wait(20)
        return run(one, window, *part)

    executor._runs.run = slowly  # type: ignore[method-assign]
    try:
        live.publish("ch_held", [{"id": 1}])
        assert begun.wait(20)
        with ThreadPoolExecutor(1) as pool:
            pausing = pool.submit(live.sql, "PAUSE CHANNEL ChHolds")
            wait_until(lambda: live.channel("ChHolds")["is_paused"], "the pause is known")
            live.sql("CREATE REFERENCE DATASET ChMeanwhile (id INT)")
            seat.subscribe("ChHolds")
            assert not pausing.done()
            go_on.set()
            assert pausing.result(20)[0]["message"] == "channel ChHolds paused"
    finally:
        go_on.set()
        del executor._runs.run  # What the class has is there again.
    assert [one["payload"]["id"] for one in seat.take(1)] == [1]
    live.publish("ch_held", [{"id": 2}])
    live.cluster.executor.run([state])
    assert live.channel("ChHolds")["runs"] == 1
    live.sql("RESUME CHANNEL ChHolds")
    assert [one["payload"]["id"] for one in seat.take(1)] == [2]
