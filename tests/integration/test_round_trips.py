"""Real brokers measure each other, and the coordinator shows the round trips. No cluster is needed for that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from integration.live import PATIENCE_S, wait_until
from tocsin.cli.main import app
from tocsin.client import CoordinatorClient
from tocsin.client.shell.broker_pings import BrokerPings
from tocsin.coordinates.located import Located
from tocsin.protocol import pings
from tocsin.testing.network import RunningNetwork, starting_network

pytestmark = pytest.mark.shell

_BROKERS = ("east", "north", "west")
_OPERATOR = {"api_token": "operators", "broker_token": "brokers"}
_NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNetwork]:
    """Three brokers that have found no cluster yet."""
    brokers = {name: {"broker_token": "brokers"} for name in _BROKERS}
    folder = tmp_path_factory.mktemp("network")
    with starting_network(
        folder, cluster_url=_NOWHERE, coordinator={**_OPERATOR, "dead_after_s": 60}, brokers=brokers
    ) as started:
        started.coordinator.wait_ready()
        yield started


def _token(network: RunningNetwork, user: str) -> str:
    with httpx.Client(base_url=network.coordinator.url, headers={"Authorization": "Bearer operators"}) as http:
        return str(http.post("/v1/users", json={"name": user}).raise_for_status().json()["token"])


def _pairs(network: RunningNetwork) -> list[dict[str, Any]]:
    with CoordinatorClient(network.coordinator.url, token="operators") as client:
        return client.round_trips()


def _are_known(network: RunningNetwork) -> bool:
    pairs = _pairs(network)
    return len(pairs) == 6 and all(one["measured_ms"] and one["estimated_ms"] for one in pairs)


def test_coordinates_appear_and_the_table_answers(network: RunningNetwork) -> None:
    """Each broker measures the others, and has a coordinate from which round trips are estimated."""
    wait_until(lambda: _are_known(network), "round trips between all brokers")
    assert all(one["answered"] and one["error"] is not None for one in _pairs(network))
    options = ["--url", network.coordinator.url, "--token", "operators"]
    shown = CliRunner().invoke(app, ["brokers", "rtt", *options])
    assert shown.exit_code == 0, shown.output
    assert all(name in shown.output for name in ("estimated", *_BROKERS))
    one = CliRunner().invoke(app, ["brokers", "rtt", "north", "--json", *options])
    assert {(pair["source"], pair["destination"]) for pair in json.loads(one.output)} == {
        ("north", "east"),
        ("north", "west"),
    }
    with CoordinatorClient(network.coordinator.url, token="operators") as client:
        assert len(client.broker("north")["coordinate"]["vector"]) == 8
    http = httpx.get(f"{network.coordinator.url}/metrics", headers={"Authorization": "Bearer operators"})
    assert "tocsin_coordinator_estimate_error" in http.text


def test_only_users_and_brokers_are_told_a_coordinate(network: RunningNetwork) -> None:
    """Whoever shows neither a user's token nor that it knows the brokers' gets nothing."""
    wait_until(lambda: _are_known(network), "round trips between all brokers")
    user = _token(network, "ann")
    url = network.brokers["north"].url + pings.PATH
    for shown in ("", "Bearer brokers", "Bearer operators", pings.credentials("guess", "north", "a" * 32)):
        assert httpx.get(url, headers={"Authorization": shown} if shown else {}).status_code == 401
    answer = httpx.get(url, params={"peers": "true"}, headers={"Authorization": f"Bearer {user}"})
    assert pings.read_answer("north", answer.content).peers.keys() == {"east", "west"}
    answer = httpx.get(url, headers={"Authorization": pings.credentials("brokers", "north", "a" * 32)})
    pings.check_proof("brokers", "north", "a" * 32, answer.content, answer.headers[pings.PROOF_HEADER])


async def test_a_subscriber_measures_the_brokers_and_finds_where_it_is(network: RunningNetwork) -> None:
    """It learns of the others from its own broker, and shows each its token."""
    wait_until(lambda: _are_known(network), "round trips between all brokers")
    user = await asyncio.to_thread(_token, network, "bob")
    told: asyncio.Queue[Located] = asyncio.Queue()
    measuring = BrokerPings(lambda: user, told.put_nowait)
    measuring.connected("north", network.brokers["north"].url)
    task = asyncio.create_task(measuring.run())
    try:
        located = await asyncio.wait_for(told.get(), PATIENCE_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert located.round_trips_ms.keys() == set(_BROKERS)


def test_a_broker_that_does_not_answer_is_shown_as_such(network: RunningNetwork, tmp_path: Path) -> None:
    """Its coordinate would go on estimating a round trip."""
    wait_until(lambda: _are_known(network), "round trips between all brokers")
    network.brokers["west"].process.kill()

    def is_missed() -> bool:
        return any(one["destination"] == "west" and not one["answered"] for one in _pairs(network))

    wait_until(is_missed, "a ping to west without an answer")
    shown = CliRunner().invoke(app, ["brokers", "rtt", "--url", network.coordinator.url, "--token", "operators"])
    assert "no answer" in shown.output
