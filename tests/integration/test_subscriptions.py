"""Backend subscriptions: shared by all who ask the same, checked before anything changes, ended by the last holder."""

from __future__ import annotations

from typing import Any

import pytest

from integration.live import Live


@pytest.fixture(scope="module")
def channel(live: Live) -> str:
    live.sql("""
        CREATE ACTIVE DATASET SuRecords (id STRING, n INT, x DOUBLE, PRIMARY KEY (id));
        CREATE FEED su_records INTO SuRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL SuWanted (n INT, least DOUBLE) AS
          SELECT r.id FROM SuRecords r WHERE is_new(r) AND r.n = :n AND r.x >= :least;
        CREATE CONTINUOUS CHANNEL SuTyped (s STRING, b BOOLEAN, i INT, l BIGINT, d DOUBLE, t TIMESTAMP, day DATE) AS
          SELECT r.id FROM SuRecords r WHERE is_new(r) AND r.id = :s AND :b AND r.n = :i AND r.n < :l AND r.x < :d
            AND :t < TIMESTAMP '2030-01-01 00:00:00Z' AND :day < DATE '2030-01-01';
    """)
    return "SuWanted"


def subscriptions_to(channel: str, *parameters: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"channel": channel, "parameters": one, **more} for one in parameters]


def test_who_asks_the_same_shares(live: Live, channel: str) -> None:
    """Equal values are one subscription, within a broker and across brokers; each broker pulls its results."""
    one, other = live.broker("su-1"), live.broker("su-2")
    first, same = live.client.subscribe(
        "su-1", subscriptions_to(channel, {"n": 1, "least": 0}, {"N": 1, "LEAST": -0.0})
    )
    assert first["id"] == same["id"]
    (shared,) = live.client.subscribe("su-2", subscriptions_to("suwanted", {"n": 1, "least": 0.0}))
    assert shared["id"] == first["id"]
    (apart,) = live.client.subscribe("su-2", subscriptions_to(channel, {"n": 1, "least": 0}, permission="staff"))
    assert apart["id"] != first["id"]
    assert live.channel(channel)["subscriptions"] == 2
    live.publish("su_records", [{"id": "a", "n": 1, "x": 5}])
    assert [result["subscription"] for result in one.take(1)] == [first["id"]]
    assert {result["subscription"] for result in other.take(2)} == {first["id"], apart["id"]}
    assert first["position"].split("-")[0] == str(first["id"])
    held = live.http.get("/v1/brokers/su-2/subscriptions").json()["subscriptions"]
    assert [(one["id"], one["permission"]) for one in held] == [(first["id"], ""), (apart["id"], "staff")]
    assert held[0]["parameters"] == {"n": 1, "least": 0.0}
    for broker in ("su-1", "su-2"):
        live.http.delete(f"/v1/brokers/{broker}")
    assert live.channel(channel)["subscriptions"] == 0


def test_bulk_calls_keep_order_and_pages_list_them(live: Live, channel: str) -> None:
    """A bulk subscribe answers in the order asked, repeats included; the list comes in pages by id."""
    live.broker("su-bulk")
    wanted = [{"n": n % 700, "least": 0.5} for n in range(1000)]
    answers = live.client.subscribe("su-bulk", subscriptions_to(channel, *wanted))
    assert [one["parameters"]["n"] for one in answers] == [one["n"] for one in wanted]
    assert answers[0]["id"] == answers[700]["id"]
    pages, after = [], 0
    while page := live.http.get(f"/v1/brokers/su-bulk/subscriptions?after={after}&limit=300").json()["subscriptions"]:
        pages += page
        after = page[-1]["id"]
    assert [one["id"] for one in pages] == sorted({one["id"] for one in answers})
    ids = [one["id"] for one in pages]
    assert live.client.unsubscribe("su-bulk", ids) == {"released": 700, "ended": 700}


GOOD = {"s": "a", "b": True, "i": 1, "l": 1 << 40, "d": 1.5, "t": "2026-01-02T03:04:05+02:00", "day": "2026-01-02"}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, None) for name in GOOD]
    + [
        ("s", 5),
        ("b", 1),
        ("b", "true"),
        ("i", 1.5),
        ("i", True),
        ("i", 1 << 31),
        ("l", 1 << 63),
        ("d", "1.5"),
        ("t", "2026-01-02T03:04:05"),
        ("t", "soon"),
        ("day", "2026-13-01"),
        ("day", 20260102),
        ("unknown", 1),
    ],
)
def test_a_wrong_value_changes_nothing(live: Live, channel: str, name: str, value: Any) -> None:
    """NULL, a wrong type or an unknown parameter refuse the whole call, naming which of the asks and what is wrong."""
    live.broker("su-wrong")
    before = live.channel("SuTyped")["subscriptions"]
    body = {"subscriptions": [*subscriptions_to("SuTyped", GOOD), *subscriptions_to("SuTyped", {**GOOD, name: value})]}
    response = live.http.post("/v1/brokers/su-wrong/subscriptions", json=body)
    assert response.status_code == 422
    message = response.json()["error"]["message"]
    assert "subscription 2 of 2" in message
    assert name in message
    assert live.channel("SuTyped")["subscriptions"] == before
    assert live.http.get("/v1/brokers/su-wrong/subscriptions").json()["subscriptions"] == []


def test_every_type_of_parameter_works(live: Live, channel: str) -> None:
    """A subscription with a value of each type gets its results; the same moment in another zone is the same ask."""
    seat = live.broker("su-typed")
    one = seat.subscribe("SuTyped", **GOOD)
    assert seat.subscribe("SuTyped", **{**GOOD, "t": "2026-01-02T01:04:05Z"}) == one
    live.publish("su_records", [{"id": "a", "n": 1, "x": 1.0}, {"id": "b", "n": 1, "x": 1.0}])
    assert [result["payload"] for result in seat.take(1)] == [{"id": "a"}]


def test_a_missing_parameter_broker_or_channel_is_told(live: Live, channel: str) -> None:
    """What does not exist is 404; what is missing is named."""
    live.broker("su-missing")
    url = "/v1/brokers/su-missing/subscriptions"
    missing = live.http.post(url, json={"subscriptions": subscriptions_to(channel, {"n": 1})})
    assert missing.status_code == 422
    assert "least is missing" in missing.json()["error"]["message"]
    assert live.http.post(url, json={"subscriptions": subscriptions_to("Nowhere", {})}).status_code == 404
    nobody = live.http.post(
        "/v1/brokers/nobody/subscriptions", json={"subscriptions": subscriptions_to(channel, {"n": 1, "least": 1})}
    )
    assert nobody.status_code == 404
    assert "PUT /v1/brokers/nobody" in nobody.json()["error"]["message"]
    assert live.http.post("/v1/brokers/su-missing/unsubscribe", json={"ids": [10**15]}).status_code == 404


def test_the_last_to_leave_ends_it_and_the_next_begins_anew(live: Live, channel: str) -> None:
    """While one broker holds a subscription it goes on; with the last it ends, and who asks again gets another epoch.
    A position of the ended one is told that its history is gone."""
    one, other = live.broker("su-left"), live.broker("su-stays")
    values = {"n": 77, "least": 0.0}
    first = one.subscribe(channel, **values)
    assert other.subscribe(channel, **values) == first
    assert live.client.unsubscribe("su-left", [first]) == {"released": 1, "ended": 0}
    live.publish("su_records", [{"id": "still", "n": 77, "x": 1}])
    (result,) = other.take(1)
    assert live.client.pull("su-left", one.cursor)[0] == []
    assert live.client.unsubscribe("su-stays", [first]) == {"released": 1, "ended": 1}
    assert live.http.post("/v1/brokers/su-stays/unsubscribe", json={"ids": [first]}).status_code == 404
    second = other.subscribe(channel, **values)
    assert second > first
    for after in ({first: result["position"]}, {second: result["position"]}):
        gone = live.http.post("/v1/results", json={"after": after})
        assert gone.status_code == 410
        assert gone.json()["error"]["code"] == "history_gone"
    live.publish("su_records", [{"id": "anew", "n": 77, "x": 1}])
    (result,) = other.take(1)
    assert result["subscription"] == second
    assert result["position"].startswith(f"{second}-")


def test_unsubscribing_stops_results_and_leaves_other_channels_alone(live: Live, channel: str) -> None:
    """No run after an unsubscribe serves it; subscriptions of other channels are not touched."""
    live.sql("CREATE CONTINUOUS CHANNEL SuOther () AS SELECT r.id FROM SuRecords r WHERE is_new(r) AND r.n = 88")
    seat = live.broker("su-stop")
    gone = seat.subscribe(channel, n=88, least=0.0)
    kept = seat.subscribe(channel, n=88, least=-1.0)
    other = seat.subscribe("SuOther")
    live.client.unsubscribe("su-stop", [gone])
    live.publish("su_records", [{"id": "stop", "n": 88, "x": 1}])
    assert {result["subscription"] for result in seat.take(2)} == {kept, other}


def test_forgetting_a_broker_ends_what_only_it_held(live: Live, channel: str) -> None:
    """A broker that is deleted lets go of everything; registering again begins with nothing."""
    one = live.broker("su-forgotten")
    one.subscribe(channel, n=99, least=0.0)
    assert live.http.delete("/v1/brokers/su-forgotten").json() == {"broker": "su-forgotten", "ended": 1}
    assert live.http.delete("/v1/brokers/su-forgotten").status_code == 404
    assert live.http.get("/v1/brokers/su-forgotten/results").status_code == 404
    live.broker("su-forgotten")
    assert live.http.get("/v1/brokers/su-forgotten/subscriptions").json()["subscriptions"] == []


def test_an_older_start_of_a_broker_changes_nothing(live: Live, channel: str) -> None:
    """It can't let go of what the later one holds, nor hold more; another data folder does not get the name at all."""

    def register(identity: str, start: str) -> Any:
        return live.http.put("/v1/brokers/su-again", json={"identity": identity, "start": start})

    def call(incarnation: int, what: str, body: dict[str, Any]) -> Any:
        headers = {"Tocsin-Incarnation": str(incarnation)}
        return live.http.post(f"/v1/brokers/su-again/{what}", json=body, headers=headers)

    first = register("one", "x").json()["incarnation"]
    wanted = {"subscriptions": subscriptions_to(channel, {"n": 77, "least": 0})}
    (held,) = call(first, "subscriptions", wanted).json()["subscriptions"]
    second = register("one", "y").json()["incarnation"]
    for what, body in (("unsubscribe", {"ids": [held["id"]]}), ("subscriptions", wanted)):
        answer = call(first, what, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "superseded")
    late = live.http.get("/v1/brokers/su-again/results", headers={"Tocsin-Incarnation": str(first)})
    assert late.json()["error"]["code"] == "superseded"
    refused = register("two", "z")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "already_exists")
    assert call(second, "unsubscribe", {"ids": [held["id"]]}).json()["released"] == 1
    live.http.delete("/v1/brokers/su-again")
