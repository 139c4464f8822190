"""Brokers as subscribers meet them: real processes, real sockets, a stock WebSocket client and curl."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from integration.documents import check_document
from integration.live import PATIENCE_S, Live, get, wait_until
from integration.network import Network, Socket, running_network, socket_to
from tocsin.broker.shell.store import SessionStore
from tocsin.model.position import Position
from tocsin.protocol.messages import CLOSE_IDLE, CLOSE_REFUSED, CLOSE_REPLACED, CLOSE_TOO_MUCH
from tocsin.runtime.processes import ServerProcess, stop
from tocsin.testing.network import running_broker

_SCHEMA = """
    CREATE ACTIVE DATASET Alerts (id STRING, topic STRING, text STRING, PRIMARY KEY (id));
    CREATE FEED alerts INTO Alerts FROM HTTP;
    CREATE CONTINUOUS CHANNEL AlertsOf (topic STRING) AS
      SELECT a.* FROM Alerts a WHERE is_new(a) AND a.topic = :topic
"""


@pytest.fixture(scope="module")
def network(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    live.sql(_SCHEMA)
    with running_network(live, tmp_path_factory.mktemp("network")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(network: Network) -> Iterator[ServerProcess]:
    with network.broker("shared") as process:
        yield process


def alert(network: Network, topic: str, *ids: str) -> None:
    """Publish one after the other: results of one commit come in any order."""
    for one in ids:
        network.live.publish("alerts", [{"id": one, "topic": topic, "text": ""}])


def ids(socket: Socket, count: int) -> list[str]:
    return [payload["id"] for payload in socket.payloads(count)]


def status(broker: ServerProcess) -> dict[str, int]:
    answer: dict[str, int] = get(f"{broker.url}/v1/status").json()
    return answer


def closed_with(socket: Socket) -> int:
    """Reads until the other side closes; its close code."""
    with pytest.raises(ConnectionClosed) as closed:
        for _ in iter(lambda: socket.raw.recv(PATIENCE_S), None):
            pass
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def ping_without_end(socket: Socket) -> None:
    """One at a time: what is sent to a connection that has just been closed can take its close code away."""
    while True:
        socket.send(type="ping")
        socket.next_of("pong")


def test_identical_subscriptions_are_one_at_the_cluster(network: Network, broker: ServerProcess) -> None:
    """The first subscriber subscribes at the cluster, the last one leaving unsubscribes; between, all get the same."""
    before = status(broker)["backend_subscriptions"]
    token = network.token("sharing")
    with network.hello(broker, token, "a") as one, network.hello(broker, token, "b") as other:
        mine, theirs = (socket.subscribe("AlertsOf", topic="shared") for socket in (one, other))
        assert mine["subscription"] == theirs["subscription"]
        assert status(broker)["backend_subscriptions"] == before + 1
        alert(network, "shared", "1", "2")
        assert ids(one, 2) == ids(other, 2) == ["1", "2"]
        one.send(type="unsubscribe", subscription=mine["subscription"], request=1)
        assert one.next_of("unsubscribed")["request"] == 1
        alert(network, "shared", "3")
        assert ids(other, 1) == ["3"]
        other.send(type="unsubscribe", subscription=theirs["subscription"])
        other.next_of("unsubscribed")
        wait_until(lambda: status(broker)["backend_subscriptions"] == before, "the last one has left")

        def held() -> list[int]:
            answer = network.live.http.get("/v1/brokers/shared/subscriptions").json()
            return [one["id"] for one in answer["subscriptions"]]

        # The broker has let go; its call to the cluster may be under way still.
        wait_until(lambda: theirs["subscription"] not in held(), "the cluster has been told")


def test_a_dropped_channel_is_nobody_elses_trouble(network: Network, broker: ServerProcess) -> None:
    """What ended with its channel can be given up like anything else, and others are served as before."""
    body = "SELECT a.id FROM Alerts a WHERE is_new(a) AND a.topic = :topic"
    network.live.sql(f"CREATE CONTINUOUS CHANNEL ShortLived (topic STRING) AS {body}")
    before = status(broker)["backend_subscriptions"]
    with network.hello(broker, network.token("bereft")) as socket:
        ended = [socket.subscribe("ShortLived", topic=topic)["subscription"] for topic in ("x", "y")]
        lasting = socket.subscribe("AlertsOf", topic="lasting")["subscription"]
        network.live.sql("DROP CHANNEL ShortLived")
        for one in (*ended, lasting):
            socket.send(type="unsubscribe", subscription=one)
            # That its channel ended may be told before it is given up, and not after.
            while (answer := socket.next())["type"] == "failed":
                assert answer["subscription"] in ended
            assert (answer["type"], answer["subscription"]) == ("unsubscribed", one)
            ended = [other for other in ended if other != one]
        wait_until(lambda: status(broker)["backend_subscriptions"] == before, "all are given up")
        socket.subscribe("AlertsOf", topic="afterwards")
        alert(network, "afterwards", "1")
        assert ids(socket, 1) == ["1"]


def test_missed_while_away(network: Network, broker: ServerProcess) -> None:
    """A device that comes back gets what it missed after what it acknowledged, and nothing twice."""
    token = network.token("away")
    with network.hello(broker, token) as socket:
        socket.subscribe("AlertsOf", topic="away")
        alert(network, "away", "1", "2")
        first = socket.next_of("notification")
        socket.next_of("notification")
        socket.send(type="ack", positions=[first["position"]])
        socket.send(type="ping", request=9)
        assert socket.next_of("pong")["request"] == 9
    alert(network, "away", "3", "4")
    with network.hello(broker, token) as socket:
        (kept,) = socket.welcome["subscriptions"]
        assert kept["position"] == first["position"]
        assert ids(socket, 3) == ["2", "3", "4"]


def test_newer_connection_replaces_the_older(network: Network, broker: ServerProcess) -> None:
    """A device has one connection; the older one is told why it ends."""
    token = network.token("twice")
    with network.hello(broker, token) as older, network.hello(broker, token):
        assert closed_with(older) == CLOSE_REPLACED


def test_kill_and_start_again(network: Network, tmp_path: Path) -> None:
    """After kill -9, starting the broker again is all it takes: subscriptions and positions are there."""
    token = network.token("survivor")
    with network.broker("mortal") as broker:
        with network.hello(broker, token) as socket:
            socket.subscribe("AlertsOf", topic="mortal")
            alert(network, "mortal", "1", "2")
            socket.next_of("notification")
            acked = socket.next_of("notification")["position"]
            socket.send(type="ack", positions=[acked])
            wait_until(lambda: _kept_position(network, "mortal") == acked, "the acknowledgement is on disk")
            broker.process.kill()
        broker.process.wait()
        alert(network, "mortal", "3")
    with network.broker("mortal") as broker, network.hello(broker, token) as socket:
        assert len(socket.welcome["subscriptions"]) == 1
        alert(network, "mortal", "4")
        assert ids(socket, 2) == ["3", "4"]


def test_a_second_broker_of_the_same_name_takes_nothing_away(network: Network, tmp_path: Path) -> None:
    """With an empty folder it is refused, with the same folder too; the first one goes on with all that it holds."""
    with (
        network.broker("twin") as first,
        network.hello(first, network.token("loyal")) as socket,
    ):
        socket.subscribe("AlertsOf", topic="twin")
        elsewhere = running_broker("twin", tmp_path, network.live.url, network.coordinator.url)
        with pytest.raises(TimeoutError, match="another broker called twin is running"), elsewhere:
            pass
        with pytest.raises(TimeoutError, match=r"is\s+open\s+in\s+another\s+process"), network.broker("twin"):
            pass
        alert(network, "twin", "1")
        assert ids(socket, 1) == ["1"]
        assert first.process.poll() is None


def _kept_position(network: Network, broker: str) -> str:
    """What the one subscription in a broker's store has been acknowledged up to."""
    (session,) = SessionStore(network.folder / broker / "data").sessions()
    (kept,) = session.subscriptions
    return str(kept.position)


def _stored(network: Network, broker: str, subscriber: str) -> bool:
    answer = get(f"{network.coordinator.url}/v1/subscribers/{subscriber}")
    return answer.is_success and bool(answer.json()["subscriptions"])


def test_carry_on_at_another_broker(network: Network, broker: ServerProcess) -> None:
    """With its position, or with nothing but its name, a subscriber carries on at any broker; the first one lets go."""
    token = network.token("mover")
    sessions = status(broker)["sessions"]
    with network.broker("second") as second:
        with network.hello(broker, token) as socket:
            first = socket.subscribe("AlertsOf", topic="moving")
            alert(network, "moving", "1")
            seen = socket.next_of("notification")
            wait_until(lambda: _stored(network, "shared", "mover/phone"), "the coordinator knows of it")
        alert(network, "moving", "2")
        with network.hello(second, token) as socket:
            (kept,) = socket.welcome["subscriptions"]
            assert kept["subscription"] == first["subscription"]
            answer = socket.subscribe("AlertsOf", topic="moving", position=seen["position"])
            assert answer["subscription"] == first["subscription"]
            alert(network, "moving", "3")
            # What came for the kept subscription before it was asked for anew comes again after it.
            received: list[str] = []
            while not received or received[-1] != "3":
                received += ids(socket, 1)
            assert received[-2:] == ["2", "3"]
            wait_until(lambda: status(broker)["sessions"] == sessions, "the first broker has let go")


def test_history_that_is_gone_is_told(network: Network) -> None:
    """Who stays away for longer than results are kept is told from where it goes on, and then goes on."""
    live, token = network.live, network.token("late")
    with network.broker("forgetful") as broker:
        with network.hello(broker, token) as socket:
            began = socket.subscribe("AlertsOf", topic="late")
        seat = live.broker("witness")
        seat.subscribe("AlertsOf", topic="late")
        alert(network, "late", "1", "2")
        last = Position.parse(seat.take(2)[1]["position"])
        broker.process.kill()  # What is in its memory would still be delivered.
        broker.process.wait()
    assert live.cluster.results.retain(oldest_us=time.time_ns() // 1000, max_bytes=1 << 40)
    with network.broker("forgetful") as broker, network.hello(broker, token) as socket:
        gone = socket.next_of("history_gone")
        assert gone["subscription"] == began["subscription"]
        assert Position.parse(gone["position"]) >= last
        alert(network, "late", "3")
        assert ids(socket, 1) == ["3"]


def test_subscriptions_are_reported_at_once(live: Live, tmp_path: Path) -> None:
    """Another broker could carry a subscription on moments after it was made, however rare heartbeats are."""
    with (
        running_network(live, tmp_path, heartbeat_every_s=30, dead_after_s=90) as network,
        network.broker("prompt") as broker,
        network.hello(broker, network.token("prompt")) as socket,
    ):
        socket.subscribe("AlertsOf", topic="prompt")
        began_s = time.monotonic()
        wait_until(lambda: _stored(network, "prompt", "prompt/phone"), "the coordinator knows of it")
        assert time.monotonic() - began_s < 10


def test_slow_consumer(network: Network) -> None:
    """Who does not read is closed with a position to carry on from, and loses nothing; memory stays bounded."""
    token = network.token("slow")
    text = "x" * 50_000
    with network.broker("patient", slow_after_s=1, max_queued_bytes=64_000) as broker:
        with socket_to(broker, max_queue=1) as socket:
            socket.send(type="hello", token=token, device="phone")
            socket.next_of("welcome")
            socket.subscribe("AlertsOf", topic="slow")
            for batch in range(2):
                records = [{"id": f"{batch}-{at}", "topic": "slow", "text": text} for at in range(80)]
                network.live.publish("alerts", records)
            wait_until(lambda: status(broker)["connections"] == 0, "the slow one is closed")
            assert broker.memory_mb() < 200
        with network.hello(broker, token) as socket:
            assert len(ids(socket, 160)) == 160


def test_limits(network: Network) -> None:
    """Size, rate, subscriptions and connections are limited, and each refusal says which limit it was."""
    token = network.token("greedy")
    limits = {
        "max_message_bytes": 2000,
        "max_message_burst": 5,
        "max_messages_per_s": 1,
        "max_subscriptions_per_user": 2,
        "max_connections_per_user": 2,
    }
    with network.broker("strict", **limits) as broker:
        with network.hello(broker, token, "a") as first:
            for topic in ("1", "2"):
                first.subscribe("AlertsOf", topic=topic)
            first.send(type="subscribe", channel="AlertsOf", parameters={"topic": "3"}, request=3)
            refusal = first.next_of("error")
            assert refusal["request"] == 3
            assert "2 subscriptions" in refusal["message"]
            with network.hello(broker, token, "b"), socket_to(broker) as third:
                third.send(type="hello", token=token, device="c")
                assert "2 connections" in third.next_of("error")["message"]
                closed_with(third)
            with pytest.raises(ConnectionClosed) as closed:
                ping_without_end(first)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == CLOSE_TOO_MUCH
        with socket_to(broker) as big:
            big.send(type="hello", token="x" * 3000)
            assert closed_with(big) == 1009


def test_silence(network: Network) -> None:
    """Who answers pings stays, however quiet; who says no hello or no pong is closed, and so is half a request."""
    token = network.token("quiet")
    with (
        network.broker("listening", idle_after_s=1, hello_timeout_s=2) as broker,
        network.hello(broker, token) as quiet,
        socket_to(broker) as shy,
        socket.create_connection((broker.host, broker.port), timeout=20) as half,
    ):
        half.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert closed_with(shy) == CLOSE_IDLE
        assert half.recv(1000) == b""
        with socket.create_connection((broker.host, broker.port)) as deaf:
            key = "dGhlIHNhbXBsZSBub25jZQ=="
            headers = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            head = f"GET /v1/connect HTTP/1.1\r\nHost: {broker.host}\r\n{headers}Sec-WebSocket-Version: 13\r\n\r\n"
            hello = json.dumps({"type": "hello", "token": token, "device": "deaf"}).encode()
            masked = bytes([0x81, 0xFE]) + len(hello).to_bytes(2, "big") + bytes(4) + hello
            deaf.sendall(head.encode())
            assert deaf.recv(1000).startswith(b"HTTP/1.1 101")
            deaf.sendall(masked)
            wait_until(lambda: status(broker)["connections"] == 2, "both have said hello")
            wait_until(lambda: status(broker)["connections"] == 1, "who does not answer is closed")
        quiet.send(type="ping", request=1)
        assert quiet.next_of("pong")["request"] == 1


def test_only_good_tokens(network: Network, broker: ServerProcess) -> None:
    """Without `hello`, or with a token that is not good, nobody gets anywhere; a revoked token ends the connection."""
    with socket_to(broker) as socket:
        socket.send(type="subscribe", channel="AlertsOf", parameters={"topic": "x"})
        assert socket.next_of("error")["code"] == "unauthorised"
        assert closed_with(socket) == CLOSE_REFUSED
    token = network.token("revoked")
    head, _, signature = token.rpartition(".")
    forged = f"{head}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"
    with socket_to(broker) as socket:
        socket.send(type="hello", token=forged)
        assert "not one of ours" in socket.next_of("error")["message"]
        assert closed_with(socket) == CLOSE_REFUSED
    with network.hello(broker, token) as socket:
        httpx.post(f"{network.coordinator.url}/v1/users/revoked/revoke").raise_for_status()
        assert closed_with(socket) == CLOSE_REFUSED
    assert token not in broker.log.read_text()


def test_origins(network: Network, broker: ServerProcess) -> None:
    """Pages of other origins are refused, whatever they look like; the broker's own page may connect."""
    own = broker.url
    for origin in ("http://evil.example", f"{own}.evil.example", own.replace("http", "https"), "null", f"{own}/x"):
        with pytest.raises(InvalidStatus) as refused, socket_to(broker, origin=origin):
            pass
        assert refused.value.response.status_code == 403, origin
        headers = {"Origin": origin, "Authorization": "Bearer x"}
        answer = httpx.get(f"{own}/v1/events", params={"subscribe": "AlertsOf(topic => 'x')"}, headers=headers)
        assert answer.status_code == 403
    with socket_to(broker, origin=own):
        pass


def test_token_in_address_is_refused(broker: ServerProcess) -> None:
    """Addresses end up in logs, so what is in them is not taken."""
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{broker.url.replace('http', 'ws')}/v1/connect?token=secret")
    assert refused.value.response.status_code == 400
    assert "secret" not in broker.log.read_text()


def test_permission_classes_do_not_share(network: Network, broker: ServerProcess) -> None:
    """What people may see is part of what they subscribe to: other class, other backend subscription."""
    with (
        network.hello(broker, network.token("public")) as public,
        network.hello(broker, network.token("insider", "staff")) as insider,
    ):
        one, other = (socket.subscribe("AlertsOf", topic="classes") for socket in (public, insider))
        assert one["subscription"] != other["subscription"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_follow_with_curl(network: Network, broker: ServerProcess, tmp_path: Path) -> None:
    """`curl` follows a subscription, and with `Last-Event-ID` carries on where it ended, at any broker."""
    token = network.token("curl")
    address = f"{broker.url}/v1/events?subscribe=AlertsOf(topic%20=%3E%20'curl')"

    def follow(*more: str) -> tuple[subprocess.Popen[bytes], Path]:
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}.txt"
        command = ["curl", "-sN", "-H", f"Authorization: Bearer {token}", *more, address]
        with output.open("wb") as file:
            return subprocess.Popen(command, stdout=file), output

    process, output = follow()
    try:
        wait_until(lambda: "event: subscribed" in output.read_text(), "subscribed")
        alert(network, "curl", "1")
        wait_until(lambda: '"id":"1"' in output.read_text(), "the first alert")
    finally:
        stop(process)
    last_id = [line for line in output.read_text().splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")
    alert(network, "curl", "2")
    process, output = follow("-H", f"Last-Event-ID: {last_id}")
    try:
        wait_until(lambda: '"id":"2"' in output.read_text(), "what was missed")
        assert '"id":"1"' not in output.read_text()
    finally:
        stop(process)


def test_sigterm_moves_everybody_away(network: Network, broker: ServerProcess) -> None:
    """On SIGTERM subscribers are told where to go, newcomers are refused, and the process ends clean in time."""
    token = network.token("handed")
    with network.broker("leaving", drain_timeout_s=3) as leaving:
        with network.hello(leaving, token) as socket:
            socket.subscribe("AlertsOf", topic="leaving")
            wait_until(lambda: _stored(network, "leaving", "handed/phone"), "the coordinator knows of it")
            began_s = time.monotonic()
            leaving.process.send_signal(signal.SIGTERM)
            move = socket.next_of("move")
            assert move["to"].startswith("http")
            assert move["broker"] != "leaving"
            closed_with(socket)
        assert leaving.process.wait(PATIENCE_S) == 0
        assert time.monotonic() - began_s < 8


def test_operators_drain_a_broker_and_take_it_back(network: Network, broker: ServerProcess) -> None:
    """`draining` at the coordinator has the broker send its subscribers away; `active` has it take newcomers again."""
    token = network.token("operated")
    with network.broker("operated") as operated, network.hello(operated, token) as socket:
        state = f"{network.coordinator.url}/v1/brokers/operated/state"
        httpx.put(state, json={"state": "draining"}).raise_for_status()
        assert socket.next_of("move")["broker"] != "operated"
        wait_until(lambda: get(f"{operated.url}/healthz").status_code == 503, "draining")
        httpx.put(state, json={"state": "active"}).raise_for_status()
        wait_until(lambda: get(f"{operated.url}/healthz").status_code == 200, "ready again")


def test_life_without_the_coordinator(live: Live, tmp_path: Path) -> None:
    """While the coordinator is dead, deliveries go on, and whoever has a token is let in; even after a restart."""
    with running_network(live, tmp_path) as network:
        token = network.token("independent")
        with network.broker("alone") as broker:
            with network.hello(broker, token) as socket:
                socket.subscribe("AlertsOf", topic="alone")
                network.coordinator.process.kill()
                network.coordinator.process.wait()
                alert(network, "alone", "1")
                assert ids(socket, 1) == ["1"]
            broker.process.kill()
            broker.process.wait()
        with network.broker("alone") as broker, network.hello(broker, token) as socket:
            alert(network, "alone", "2")
            assert ids(socket, 2) == ["1", "2"]


def test_the_api_does_what_its_document_says(network: Network, broker: ServerProcess) -> None:
    """Whatever is sent: no failure of ours, and no status, content type or shape that the document does not tell."""
    token = network.token("fuzz")

    def adapt(case: schemathesis.Case, known: bool) -> dict[str, str] | None:
        if not (known and case.query and "subscribe" in case.query):
            return None
        # With a good token, a good call would be answered without end; the tests above look at that.
        case.query["subscribe"] = ["AlertsOf("]
        return {"Authorization": f"Bearer {token}"}

    check_document(broker.url, adapt, operations=6, examples=15)
    assert httpx.get(f"{broker.url}/healthz").json() == {"state": "ready"}
