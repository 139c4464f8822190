"""Subscriptions with filters: killed brokers, the SDK, plain sockets, Server-Sent Events and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from integration.live import PATIENCE_S, Live, wait_until
from integration.network import Network, running_network
from tocsin.client import AsyncPublisher, Subscriber, Subscription
from tocsin.errors import StatementError
from tocsin.runtime.processes import ServerProcess

_SCHEMA = """
    CREATE ACTIVE DATASET Incidents (id STRING, number BIGINT, severity INT, kind STRING, PRIMARY KEY (id));
    CREATE FEED incidents INTO Incidents FROM HTTP;
    CREATE CONTINUOUS CHANNEL IncidentsOf (kind STRING) AS
      SELECT i.number, i.severity, i.id, i.severity * 1.5 AS weight FROM Incidents i WHERE is_new(i) AND i.kind = :kind
"""


def severity_of(number: int) -> int | None:
    return None if number % 6 == 5 else number % 6


_WANTED: dict[str, Callable[[int | None], bool]] = {
    "": lambda _: True,
    "severity >= 3": lambda severity: severity is not None and severity >= 3,
    "severity = 0 OR severity IS NULL": lambda severity: severity in (0, None),
    "severity NOT IN (1, 2) AND id LIKE 'i%'": lambda severity: severity is not None and severity not in (1, 2),
}


@pytest.fixture(scope="module")
def network(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    live.sql(_SCHEMA)
    with running_network(live, tmp_path_factory.mktemp("filters")) as running:
        yield running


class Listeners:
    """A program for each filter, and what it was handed."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {where: [] for where in _WANTED}
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()

    async def join(self, stack: contextlib.AsyncExitStack, coordinator: str) -> None:
        for at, where in enumerate(_WANTED):
            me = await stack.enter_async_context(
                Subscriber(
                    coordinator=coordinator, user=f"filter-{at}", password="correct horse", register=True, device="d"
                )
            )
            one = await me.subscribe("IncidentsOf", kind="killed", where=where)
            self._tasks.append(asyncio.create_task(self._note(where, one)))

    async def _note(self, where: str, one: Subscription) -> None:
        async for notification in one:
            self.seen[where].append(notification.payload["number"])
            async with self._changed:
                self._changed.notify_all()

    async def until(self, numbers: int) -> None:
        """All have what they want of these numbers, or time is up."""
        wanted = {where: [n for n in range(numbers) if wants(severity_of(n))] for where, wants in _WANTED.items()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._changed:
                await self._changed.wait_for(
                    lambda: all(len(self.seen[where]) >= len(numbers) for where, numbers in wanted.items())
                )
        assert self.seen == wanted

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


async def test_filters_hold_through_killed_brokers(network: Network) -> None:
    """Each program gets what matches its filter, once and in order, while the broker where it is is killed, and the one
    where it went to as well."""
    url = network.live.url
    with ExitStack() as brokers:
        running = {name: brokers.enter_context(network.broker(name)) for name in ("killed-a", "killed-b", "killed-c")}
        async with contextlib.AsyncExitStack() as stack, AsyncPublisher(url, "incidents") as incidents:
            listeners = Listeners()
            await listeners.join(stack, network.coordinator.url)

            async def publish(first: int, last: int) -> None:
                for number in range(first, last):
                    record = {"id": f"i{number}", "number": number, "severity": severity_of(number), "kind": "killed"}
                    await incidents.publish(record, wait_commit=True)

            await publish(0, 12)
            await listeners.until(12)
            for at, name in enumerate(("killed-a", "killed-b"), 1):
                publishing = asyncio.create_task(publish(at * 12, at * 12 + 12))
                running[name].process.kill()
                await publishing
            await listeners.until(36)
            listeners.stop()


async def test_a_filter_changes_while_results_come(network: Network) -> None:
    """What was handed out is not repeated, what comes after the change follows the new filter; one that is wrong is
    refused with its place, and the one before goes on."""
    with network.broker("changing") as broker:
        token = network.token("changing")
        async with (
            Subscriber(broker=broker.url, token=token, device="d") as me,
            AsyncPublisher(network.live.url, "incidents") as incidents,
        ):
            one = await me.subscribe("IncidentsOf", kind="changing", where="severity >= 4")
            taken = _numbers(one)

            async def publish(*severities: int) -> None:
                for severity in severities:
                    number = next(counter)
                    record = {"id": f"c{number}", "number": number, "severity": severity, "kind": "changing"}
                    await incidents.publish(record, wait_commit=True)

            counter = iter(range(100))
            await publish(4, 1, 5)
            assert [await anext(taken) for _ in range(2)] == [0, 2]
            with pytest.raises(StatementError, match="line 1, column 1: no column sverity; did you mean severity"):
                await one.change_filter("sverity = 1")
            with pytest.raises(StatementError, match="weight is DECIMAL"):
                await one.change_filter("weight > 1")
            with pytest.raises(StatementError, match="no record can match"):
                await one.change_filter("severity > 5 AND severity < 2")
            assert one.where == "severity >= 4"
            await publish(1, 4)
            assert await anext(taken) == 4
            await one.change_filter("severity < 2")
            await publish(5, 0)
            assert await anext(taken) == 6
            await one.change_filter("")
            await publish(3)
            assert await anext(taken) == 7


async def _numbers(one: Subscription) -> AsyncIterator[int]:
    async for notification in one:
        yield notification.payload["number"]


def test_a_broker_keeps_filters_through_a_kill(network: Network) -> None:
    """A device that comes back without asking for anything gets what matches, and is told of its filter; other devices
    share the backend subscription."""
    with ExitStack() as stack:
        broker = stack.enter_context(network.broker("keeping"))
        token = network.token("keeping")
        with network.hello(broker, token, "a") as filtered, network.hello(broker, token, "b") as plain:
            filtered.send(
                type="subscribe", channel="IncidentsOf", parameters={"kind": "kept"}, request=7, where="severity = 2"
            )
            answer = filtered.next_of("subscribed")
            assert answer["where"] == "severity = 2"
            assert plain.subscribe("IncidentsOf", kind="kept")["subscription"] == answer["subscription"]
            _publish(network, "kept", 1, 2)
            assert [one["severity"] for one in plain.payloads(2)] == [1, 2]
            assert [one["severity"] for one in filtered.payloads(1)] == [2]
            _publish(network, "kept", 1, 2)
            assert [one["severity"] for one in filtered.payloads(1)] == [2]
            assert _metric(broker, "tocsin_broker_filters") == 1
            counts = [_metric(broker, f"tocsin_broker_filter_{one}_total") for one in ("matched", "skipped")]
            assert all(counts)  # Of the first results some may have come as history.
            filtered.send(
                type="subscribe", channel="IncidentsOf", parameters={"kind": "kept"}, request=7, where="severity"
            )
            assert filtered.next_of("error")["message"].startswith("line 1, column 9: expected one of")
        broker.process.kill()
        broker.process.wait()
        _publish(network, "kept", 1, 2, 3)
        again = stack.enter_context(network.broker("keeping"))
        with network.hello(again, token, "a") as filtered:
            (kept,) = filtered.welcome["subscriptions"]
            assert kept["where"] == "severity = 2"
            assert [one["severity"] for one in filtered.payloads(3)] == [2, 2, 2]
            _publish(network, "kept", 3, 2)
            assert [one["severity"] for one in filtered.payloads(1)] == [2]


def test_a_replaced_channel_reads_filters_again(network: Network) -> None:
    """Those that fit the new columns go on, on new results too; others end with the reason."""
    create = "CREATE OR REPLACE CONTINUOUS CHANNEL Changing () AS SELECT {} FROM Incidents i WHERE is_new(i)"
    network.live.sql(create.format("i.id, i.severity"))
    with network.broker("replaced") as broker:
        token = network.token("replaced")
        with network.hello(broker, token, "a") as fitting, network.hello(broker, token, "b") as ending:
            for socket, where in ((fitting, "severity >= 3"), (ending, "id = 'r9'")):
                socket.send(type="subscribe", channel="Changing", request=1, where=where)
                socket.next_of("subscribed")
            network.live.sql(create.format("i.number AS id, i.severity * 2 AS severity"))
            _publish(network, "replaced", 2)
            assert fitting.payloads(1)[0]["severity"] == 4
            failed = ending.next_of("failed")
            assert failed["code"] == "statement"
            assert "id is BIGINT: compare it with a number, without quotes" in failed["reason"]
    network.live.sql("DROP CHANNEL Changing")


def test_filters_on_other_ways_in(network: Network) -> None:
    """Server-Sent Events, and `tocsin subscribe`."""
    with network.broker("ways") as broker:
        token = network.token("ways")
        call = "IncidentsOf(kind => 'ways') WHERE severity >= 3"
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.stream(
            "GET", f"{broker.url}/v1/events", params={"subscribe": call}, headers=headers, timeout=60
        ) as sse:
            lines = sse.iter_lines()
            while "subscribed" not in next(lines):
                pass
            command = [
                sys.executable,
                "-m",
                "tocsin",
                "subscribe",
                call,
                "--broker",
                broker.url,
                "--token",
                token,
                "--count",
                "1",
                "--json",
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
                wait_until(lambda: _metric(broker, "tocsin_broker_filters") == 2, "both are subscribed")
                _publish(network, "ways", 1, 5)
                found = next(line for line in lines if line.startswith("data:") and '"notification"' in line)
                assert '"severity":5' in found
                assert printing.stdout is not None
                assert json.loads(printing.stdout.read())["payload"]["severity"] == 5
        wrong = httpx.get(
            f"{broker.url}/v1/events", params={"subscribe": "IncidentsOf(kind => 'x') WHERE"}, headers=headers
        )
        assert wrong.status_code == 400
        assert "expected a condition after WHERE" in wrong.text


def _publish(network: Network, kind: str, *severities: int) -> None:
    for severity in severities:
        network.live.publish(
            "incidents", [{"id": f"{kind}-{next(_IDS)}", "number": severity, "severity": severity, "kind": kind}]
        )


_IDS = iter(range(10_000))


def _metric(broker: ServerProcess, name: str) -> float:
    lines = httpx.get(f"{broker.url}/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.split(" ")[0] == name))
