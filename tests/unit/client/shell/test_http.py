"""The plain HTTP clients: refusals in the server's own words, and names that reach it as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import unquote

import httpx
import pytest

from tocsin.broker.shell.cluster_link import ClusterLink
from tocsin.broker.shell.coordinator_link import CoordinatorLink
from tocsin.client import AsyncPublisher, ClusterClient, CoordinatorClient, ServerError
from tocsin.client.shell.http import HttpClient

#: Each would be another path if it were written as it is: a name, a parent folder, a query, a fragment, an escape.
NAMES = ["north/1", "..", ".", "a?b", "a#b", "100%25", "grüße ☃"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """The requests that clients make; no one answers but with an empty object."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        nothing = {"cursor": 0, "incarnation": 1, "subscriptions": [], "generations": {}, "placements": {}}
        return httpx.Response(200, json=nothing, headers={"Tocsin-Cursor": "0"})

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(httpx.Client, "_init_transport", lambda *_args, **_options: transport)
    monkeypatch.setattr(httpx.AsyncClient, "_init_transport", lambda *_args, **_options: transport)
    return requests


def _cluster_calls(name: str) -> list[Callable[[ClusterClient], object]]:
    return [
        lambda client: client.recent(name),
        lambda client: client.publish(name, []),
        lambda client: client.receipt("feed", name),
        lambda client: client.dead_letters(name),
        lambda client: client.replay(name),
        lambda client: client.register_broker(name),
        lambda client: client.subscribe(name, []),
        lambda client: client.unsubscribe(name, []),
        lambda client: client.pull(name, 0),
    ]


def _coordinator_calls(name: str) -> list[Callable[[CoordinatorClient], object]]:
    return [
        lambda client: client.remove_user(name),
        lambda client: client.broker(name),
        lambda client: client.set_state(name, "active"),
        lambda client: client.remove_broker(name),
        lambda client: client.plan(name),
        lambda client: client.execute(name),
        lambda client: client.stop(name),
        lambda client: client.execution(name),
        lambda client: client.session(name, "phone"),
    ]


def _parts(request: httpx.Request) -> list[str]:
    """The parts of the path, as a server reads them."""
    path = request.url.raw_path.decode().partition("?")[0]
    return [unquote(part) for part in path.split("/")]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_part_of_the_path(asked: list[httpx.Request], name: str) -> None:
    """Whatever a name holds, the server is asked about that name, and about nothing else."""
    with ClusterClient("http://c") as cluster:
        for call in _cluster_calls(name):
            call(cluster)
    with CoordinatorClient("http://c") as coordinator:
        for call in _coordinator_calls(name):
            call(coordinator)

    async def from_asyncio() -> None:
        publisher = AsyncPublisher("http://c", name)
        await publisher.publish({"id": 1})
        cluster = ClusterLink(name, "http://c", "")
        await cluster.register()
        await cluster.publish(name, [])
        coordinator = CoordinatorLink(name, "http://c", "")
        await coordinator.claim([])
        for one in (publisher, cluster, coordinator):
            await one.close()

    asyncio.run(from_asyncio())
    assert len(asked) == len(_cluster_calls(name)) + len(_coordinator_calls(name)) + 4
    for request in asked:
        assert name in _parts(request), request.url
        assert len(_parts(request)) <= 6


def _refused(body: bytes | str, status: int) -> ServerError:
    client = HttpClient("http://c", token="", timeout_s=1)
    client._http = httpx.Client(
        base_url="http://c", transport=httpx.MockTransport(lambda _request: httpx.Response(status, content=body))
    )
    with client, pytest.raises(ServerError) as caught:
        client._json("GET", "/v1/status")
    return caught.value


def test_a_refusal_is_in_the_servers_own_words() -> None:
    """Code, status and whether to come back are those of the answer, so that it can be passed on as it is."""
    wire = '{"error": {"code": "overloaded", "message": "come back", "temporary": true, "retry_after_s": 2.5}}'
    refused = _refused(wire, 429)
    assert (refused.code, refused.status, refused.http_status) == ("overloaded", 429, 429)
    assert refused.temporary
    assert refused.retry_after_s == 2.5
    assert refused.to_wire()["error"]["code"] == "overloaded"
    refused = _refused('{"error": {"code": "not_found", "message": "no feed x", "temporary": false}}', 404)
    assert (refused.code, refused.temporary, str(refused)) == ("not_found", False, "no feed x")


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", "[]", '{"error": "gone"}', '{"error": null}', "17"])
def test_something_in_between_answers(body: str) -> None:
    """A proxy's answer is no error of Tocsin's; while the server is away it is worth coming back."""
    refused = _refused(body, 502)
    assert (refused.code, refused.status, refused.temporary) == ("error", 502, True)
    assert not _refused(body, 404).temporary
