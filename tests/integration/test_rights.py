"""Nobody sees what is not theirs: a system in which everybody has to show who they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from integration.conftest import settings_for
from integration.live import serving
from integration.network import Network, Socket, running_network
from tocsin.client import ClusterClient, ServerError
from tocsin.runtime.processes import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPERATOR, _BROKER = "operators-secret", "brokers-secret"
_TOKENS = {"api_token": _OPERATOR, "broker_token": _BROKER}


@pytest.fixture(scope="module")
def network(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("rights")
    with serving(settings_for(folder, **_TOKENS), spark) as live, running_network(live, folder, **_TOKENS) as network:
        live.sql(
            """CREATE ACTIVE DATASET Reports (id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
            CREATE FEED reports INTO Reports FROM HTTP;
            CREATE KEYED DATASET Locations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
            CREATE FEED locations INTO Locations FROM HTTP;
            CREATE CONTINUOUS CHANNEL NearMe (user_id STRING IS USER, radius_m DOUBLE) AS
              SELECT r.id, l.user_id, distance(r.x, r.y, l.x, l.y) AS metres
              FROM Reports r JOIN Locations l ON l.user_id = :user_id
              WHERE is_new(r) AND within(r.x, r.y, l.x, l.y, :radius_m)"""
        )
        at = {"bob": (10, 0), "eve": (0, 3), "max": (10, 0)}
        live.publish("locations", [{"user_id": user, "x": x, "y": y} for user, (x, y) in at.items()])
        yield network


@pytest.fixture(scope="module")
def first(network: Network) -> Iterator[ServerProcess]:
    with network.broker("first", broker_token=_BROKER) as broker:
        yield broker


def _refusal(socket: Socket, channel: str, **parameters: Any) -> dict[str, Any]:
    socket.send(type="subscribe", channel=channel, parameters=parameters, request=9)
    return socket.next_of("error")


def test_nobody_follows_somebody_elses_location(network: Network, first: ServerProcess) -> None:
    """Eve asks for what is near bob and is refused, whatever the broker knows of the channel; without naming herself
    she gets what is near her. So it stays when the channel is dropped and made anew, and at the next broker."""
    live = network.live
    with network.hello(first, network.token("eve")) as eve, network.hello(first, network.token("bob")) as bob:
        assert _refusal(eve, "NearMe", radius_m=50, user_id="bob")["code"] == "forbidden"
        assert bob.subscribe("NearMe", radius_m=50)["parameters"] == {"user_id": "bob", "radius_m": 50}
        refusal = _refusal(eve, "NearMe", radius_m=50, user_id="bob")
        assert (refusal["code"], "user_id is your own name, 'eve'" in refusal["message"]) == ("forbidden", True)
        assert bob.subscribe("NearMe", radius_m=50, user_id="bob")["parameters"]["user_id"] == "bob"
        assert eve.subscribe("NearMe", radius_m=50)["parameters"]["user_id"] == "eve"
        live.publish("reports", [{"id": "1", "x": 0, "y": 0}])
        assert eve.payloads(1) == [{"id": "1", "user_id": "eve", "metres": 3.0}]
        assert bob.payloads(1) == [{"id": "1", "user_id": "bob", "metres": 10.0}]
    with network.broker("second", broker_token=_BROKER) as second:
        body = {"name": "eve", "password": "correct horse"}
        token = httpx.post(f"{network.coordinator.url}/v1/tokens", json=body).json()["token"]
        with network.hello(second, token) as eve:
            (carried,) = eve.welcome["subscriptions"]
            assert carried["parameters"] == {"user_id": "eve", "radius_m": 50}
        with network.hello(second, token, "tablet") as eve:
            live.sql(
                """CREATE CONTINUOUS CHANNEL Theirs (owner STRING) AS
                  SELECT r.id FROM Reports r WHERE is_new(r) AND r.id = :owner"""
            )
            assert eve.subscribe("Theirs", owner="bob")["parameters"] == {"owner": "bob"}
            live.sql(
                """DROP CHANNEL Theirs;
                CREATE CONTINUOUS CHANNEL Theirs (owner STRING IS USER) AS
                  SELECT r.id FROM Reports r WHERE is_new(r) AND r.id = :owner"""
            )
        with network.hello(second, token, "watch") as eve:
            # The broker remembers the channel as it was, with a subscription of that name.
            assert _refusal(eve, "Theirs", owner="ann")["code"] == "forbidden"
            assert eve.subscribe("Theirs")["parameters"] == {"owner": "eve"}
            live.publish("reports", [{"id": one, "x": 0, "y": 0} for one in ("bob", "ann", "eve")])
            assert eve.payloads(1) == [{"id": "eve"}]


def test_nobody_gets_what_belongs_to_a_user_with_the_name_of_their_class(
    network: Network, first: ServerProcess
) -> None:
    """A channel's parameter becomes IS USER where it was IS CLASS, and then the subscriber's own business. The broker,
    which remembers it as it was, gives nobody more or less than is theirs."""
    live = network.live
    query = "SELECT r.id FROM Reports r WHERE is_new(r) AND r.id = :whose"
    operator = {"Authorization": f"Bearer {_OPERATOR}"}
    ivy = {"name": "ivy", "password": "correct horse", "permission": "bob"}
    token = httpx.post(f"{network.coordinator.url}/v1/users", json=ivy, headers=operator).json()["token"]
    live.sql(f"CREATE CONTINUOUS CHANNEL Whose (whose STRING IS CLASS) AS {query}")
    with network.hello(first, token) as early:
        assert early.subscribe("Whose")["parameters"] == {"whose": "bob"}
        live.sql(f"CREATE OR REPLACE CONTINUOUS CHANNEL Whose (whose STRING IS USER) AS {query}")
        assert early.next_of("failed")["code"] == "not_found"
    with network.hello(first, token, "tablet") as later:
        assert later.subscribe("Whose")["parameters"] == {"whose": "ivy"}
        live.publish("reports", [{"id": one, "x": 9000, "y": 9000} for one in ("bob", "ivy")])
        assert later.payloads(1) == [{"id": "ivy"}]
        live.sql(f"CREATE OR REPLACE CONTINUOUS CHANNEL Whose (whose STRING) AS {query}")
        assert later.next_of("failed")["code"] == "not_found"
    with network.hello(first, token, "watch") as last:
        assert last.subscribe("Whose", whose="dan")["parameters"] == {"whose": "dan"}
    live.sql("DROP CHANNEL Whose")


def test_a_class_without_grant_gets_nothing_and_a_publisher_its_feeds_only(
    network: Network, first: ServerProcess
) -> None:
    """Who has no grant is refused, and nobody gives themselves another class. Who loses a grant is told, and gets
    nothing more. Grants go with what they are on. A publisher's token does one thing."""
    live = network.live
    live.sql(
        """REVOKE SUBSCRIBE ON CHANNEL NearMe FROM ALL;
        GRANT SUBSCRIBE ON CHANNEL NearMe TO CLASS medics"""
    )
    assert [tuple(row.values()) for row in live.rows("SHOW GRANTS ON CHANNEL nearme")] == [
        ("NearMe", "SUBSCRIBE", "CLASS", "medics")
    ]
    operator = {"Authorization": f"Bearer {_OPERATOR}"}
    medic = {"name": "max", "password": "correct horse", "permission": "medics"}
    token = httpx.post(f"{network.coordinator.url}/v1/users", json=medic, headers=operator).json()["token"]
    with (
        network.hello(first, network.token("kim")) as kim,
        network.hello(first, token) as max_,
    ):
        assert _refusal(kim, "NearMe", radius_m=50)["code"] == "not_granted"
        max_.subscribe("NearMe", radius_m=50)
        live.sql(
            """CREATE CONTINUOUS CHANNEL Cleared (class STRING IS CLASS) AS
              SELECT r.id FROM Reports r WHERE is_new(r) AND r.id = :class"""
        )
        assert _refusal(kim, "Cleared", **{"class": "medics"})["code"] == "forbidden"
        assert kim.subscribe("Cleared")["parameters"] == {"class": ""}
        assert max_.subscribe("Cleared")["parameters"] == {"class": "medics"}
        (created,) = live.rows("CREATE PUBLISHER station")
        live.sql("GRANT PUBLISH ON FEED reports TO PUBLISHER station")
        with ClusterClient(live.url, token=created["token"]) as station:
            station.publish("reports", [{"id": "m1", "x": 0, "y": 0}])
            for refused in (
                lambda: station.publish("locations", [{"user_id": "bob", "x": 0, "y": 0}]),
                lambda: station.sql("SHOW GRANTS"),
            ):
                with pytest.raises(ServerError, match=r"is not granted to this publisher|is for operators"):
                    refused()
            assert max_.payloads(1) == [{"id": "m1", "user_id": "max", "metres": 10.0}]
            (answer,) = live.sql("REVOKE SUBSCRIBE ON CHANNEL NearMe FROM CLASS medics")
            assert answer["message"].endswith("; 1 subscription ends")
            failed = max_.next_of("failed")
            assert failed["reason"] == "channel NearMe is not granted to permission class 'medics'"
            assert failed["code"] == "not_granted"
            station.publish("reports", [{"id": "m2", "x": 0, "y": 0}], wait_commit=True)
            assert _refusal(max_, "NearMe", radius_m=60)["code"] == "not_granted"
            live.sql("GRANT SUBSCRIBE ON CHANNEL NearMe TO ALL")
            assert kim.subscribe("NearMe", radius_m=50)["parameters"]["user_id"] == "kim"
            live.sql("DROP CHANNEL NearMe")
            assert [row["on"] for row in live.rows("SHOW GRANTS") if row["on"] != "Theirs"] == ["Cleared", "reports"]
            live.sql("DROP PUBLISHER station")
            with pytest.raises(ServerError, match="token"):
                station.publish("reports", [{"id": "m3", "x": 0, "y": 0}])
