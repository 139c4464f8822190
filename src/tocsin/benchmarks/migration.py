"""What people notice of being moved: a plan of a thousand moves is carried out under load, by the SDK's programs.

The peer, in the same run: as many of the same programs are cut off and come back at another broker that was not
prepared, at the same pace.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tocsin.benchmarks.load_wire import Seat
from tocsin.benchmarks.measuring import machine, percentile, progress
from tocsin.benchmarks.network import Network, running_network
from tocsin.benchmarks.sdk_clients import Arrival, Join, Kick, SdkClients
from tocsin.benchmarks.steady_feed import CHANNEL, SCHEMA, SteadyFeed
from tocsin.client import CoordinatorClient
from tocsin.runtime.files import raise_open_files

_PEER = "bench-peer"
#: How often each topic, and so each subscriber, has something new.
_EVERY_S = 2.0
_LOOK_EVERY_S = 0.2
_TIMEOUT_S = 300.0
#: After the last move, for what comes late.
_SETTLE_S = 5.0


def run(brokers: int, subscribers: int, moves: int, topics: int, warm_s: float) -> dict[str, Any]:
    raise_open_files()
    seats = [Seat(f"d{number}", [f"topic{number % topics:03d}"]) for number in range(subscribers)]
    settings = {"moves_per_s": 60}
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder, SdkClients() as clients:
        progress.print(f"a cluster, a coordinator and {brokers} brokers")
        with running_network(Path(folder), brokers, SCHEMA, settings) as network:
            progress.print(f"{subscribers} subscribers, all of them at the first broker")
            first = next(iter(network.brokers.values()))
            clients.join(Join(first.url, network.token, CHANNEL, seats))
            with SteadyFeed(network.cluster, topics, _EVERY_S) as feed:
                time.sleep(warm_s / 2)
                usual = _Usage.of(network, clients)
                time.sleep(warm_s / 2)
                before = _Usage.of(network, clients)
                moved = _carry_out(network, moves)
                after = _Usage.of(network, clients)
                time.sleep(_SETTLE_S)
                at = clients.report().brokers
                movers = [device for device, broker in at.items() if broker not in ("", next(iter(network.brokers)))]
                with network.running_broker(_PEER, Path(folder)) as peer:
                    progress.print(f"{len(movers)} are cut off and come back elsewhere")
                    kicked_us = time.time_ns() // 1000
                    clients.kick(Kick(peer.url, movers, moved.per_s))
                    back_us = time.time_ns() // 1000
                    time.sleep(_SETTLE_S)
                    published = feed.stop()
                    arrivals = all_arrivals(clients)
    history = check(seats, published, arrivals)
    by_device = _times(arrivals)
    gaps_ms = gaps(seats, set(movers), by_device, moved.begun_us, moved.ended_us)
    peer_ms = gaps(seats, set(movers), by_device, kicked_us, back_us)
    late_ms, stayed_ms = lateness(set(movers), arrivals, moved.begun_us, moved.ended_us)
    # Those who have moved are at brokers that may be served after the first one: that is no part of a move.
    settled_ms, _ = lateness(set(movers), arrivals, moved.ended_us, kicked_us)
    peer_late_ms, _ = lateness(set(movers), arrivals, kicked_us, back_us)
    report = {
        "benchmark": "migration",
        "machine": machine(),
        "brokers": brokers,
        "subscribers": subscribers,
        "moves": moved.done,
        "failed": moved.failed,
        "moves_per_s": round(moved.per_s, 1),
        "move_p50_ms": moved.p50_ms,
        "move_p99_ms": moved.p99_ms,
        "gap_p50_ms": round(percentile(gaps_ms, 0.5), 1),
        "gap_p99_ms": round(percentile(gaps_ms, 0.99), 1),
        "gap_max_ms": round(max(gaps_ms), 1),
        "kicked_gap_p50_ms": round(percentile(peer_ms, 0.5), 1),
        "kicked_gap_p99_ms": round(percentile(peer_ms, 0.99), 1),
        "ratio_of_kicked_gap_p99": round(percentile(peer_ms, 0.99) / max(1.0, percentile(gaps_ms, 0.99)), 1),
        "lateness_p50_ms": round(percentile(late_ms, 0.5), 1),
        "lateness_p99_ms": round(percentile(late_ms, 0.99), 1),
        "stayers_lateness_p99_ms": round(percentile(stayed_ms, 0.99), 1),
        "settled_lateness_p99_ms": round(percentile(settled_ms, 0.99), 1),
        "kicked_lateness_p99_ms": round(percentile(peer_late_ms, 0.99), 1),
        "ratio_of_kicked_lateness_p99": round(percentile(peer_late_ms, 0.99) / max(1.0, percentile(late_ms, 0.99)), 1),
        "cpu_ms_per_move": after.beyond(before, before.cores_since(usual), moved.done),
        "cpu_cores_before": {name: round(cores, 2) for name, cores in before.cores_since(usual).items()},
        "notifications": len(arrivals),
        **history,
    }
    if any(history.values()):
        raise RuntimeError(f"not everything was handed out once and in order: {report}")
    return report


@dataclass(frozen=True, slots=True)
class Moved:
    begun_us: int
    ended_us: int
    done: int
    failed: int
    p50_ms: int
    p99_ms: int

    @property
    def per_s(self) -> float:
        return self.done / ((self.ended_us - self.begun_us) / 1e6)


def _carry_out(network: Network, moves: int) -> Moved:
    with CoordinatorClient(network.coordinator.url) as client:
        plan = client.make_plan(policy="ldm", cov_at_most=0.01, max_moves=moves, shown_moves=0)
        progress.print(f"{plan['migrations']} moves")
        begun_us = time.time_ns() // 1000
        client.execute(plan["plan"], by="benchmark")
        deadline = time.monotonic() + _TIMEOUT_S
        while (state := client.execution(plan["plan"], shown_moves=0))["state"] == "running":
            if time.monotonic() > deadline:
                raise RuntimeError(f"the plan has not ended within {_TIMEOUT_S:g} s: {state}")
            time.sleep(_LOOK_EVERY_S)
        ended_us = time.time_ns() // 1000
        took_ms = [
            1000 * one["details"]["took_s"] for one in client.audit(limit=2 * moves + 10) if one["action"] == "move"
        ]
    return Moved(
        begun_us,
        ended_us,
        state["done"],
        state["failed"],
        round(percentile(took_ms, 0.5)),
        round(percentile(took_ms, 0.99)),
    )


@dataclass(frozen=True, slots=True)
class _Usage:
    """The CPU time of each process up to some moment."""

    at_s: float
    cpu_s: Mapping[str, float]

    @staticmethod
    def of(network: Network, clients: SdkClients) -> _Usage:
        servers = {"cluster": network.cluster, "coordinator": network.coordinator, **network.brokers}
        cpu_s = {name: server.cpu_s() for name, server in servers.items()} | {"subscribers": clients.cpu_s()}
        return _Usage(time.monotonic(), cpu_s)

    def cores_since(self, earlier: _Usage) -> dict[str, float]:
        elapsed_s = self.at_s - earlier.at_s
        return {name: (used_s - earlier.cpu_s[name]) / elapsed_s for name, used_s in self.cpu_s.items()}

    def beyond(self, earlier: _Usage, usual_cores: Mapping[str, float], moves: int) -> dict[str, float]:
        """Milliseconds per move, without what the process used anyway: channels ran before there was a plan.

        >>> _Usage(10, {"cluster": 9.0}).beyond(_Usage(0, {"cluster": 1.0}), {"cluster": 0.5}, 100)
        {'cluster': 30.0}
        """
        elapsed_s = self.at_s - earlier.at_s
        return {
            name: round(1000 * (used_s - earlier.cpu_s[name] - usual_cores[name] * elapsed_s) / moves, 1)
            for name, used_s in self.cpu_s.items()
        }


def all_arrivals(clients: SdkClients) -> list[Arrival]:
    """Once nothing more comes."""
    arrivals = clients.report().arrivals
    while True:
        time.sleep(_SETTLE_S)
        later = clients.report().arrivals
        if len(later) == len(arrivals):
            return later
        arrivals = later


def gaps(
    seats: Sequence[Seat], movers: set[str], times: Mapping[str, Sequence[int]], begun_us: int, ended_us: int
) -> list[float]:
    """For each mover: its longest silence from beginning to end, beyond that of those who stayed and hold the same.

    Notifications come when the cluster has them, not by a clock: so what stayers saw in the same time is the interval.

    >>> seats = [Seat("stays", ["a"]), Seat("moves", ["a"])]
    >>> gaps(seats, {"moves"}, {"stays": [0, 1000, 2000, 3000], "moves": [0, 1000, 2500, 3000]}, 0, 3000)
    [0.5]
    """
    usual: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for seat in seats:
        if seat.device not in movers:
            usual[tuple(seat.topics)].append(_longest_us(times.get(seat.device, ()), begun_us, ended_us))
    return [
        max(0, _longest_us(times.get(seat.device, ()), begun_us, ended_us) - median(usual[tuple(seat.topics)])) / 1000
        for seat in seats
        if seat.device in movers and usual[tuple(seat.topics)]
    ]


def lateness(
    movers: set[str], arrivals: Iterable[Arrival], begun_us: int, ended_us: int
) -> tuple[list[float], list[float]]:
    """How much later each mover, and each of those who stayed, got a result than those who stayed usually got the same
    one: the worst of the results that came from beginning to end. What the cluster takes for a result is in neither.

    The second list says how much of the first is not the move's: a busy machine makes everybody late now and then.

    >>> arrivals = [Arrival("stays", 1, 1, 1000), Arrival("moves", 1, 1, 1500), Arrival("stays", 2, 2, 9000)]
    >>> lateness({"moves"}, arrivals, 0, 5000)
    ([0.5], [0.0])
    """
    inside = [one for one in arrivals if begun_us <= one.received_us <= ended_us]
    stayers: dict[int, list[int]] = defaultdict(list)
    for one in inside:
        if one.device not in movers:
            stayers[one.number].append(one.received_us)
    usual_us = {number: median(times) for number, times in stayers.items()}
    worst_us: dict[str, float] = defaultdict(float)
    for one in inside:
        if one.number in usual_us:
            worst_us[one.device] = max(worst_us[one.device], one.received_us - usual_us[one.number])
    moved = [late_us / 1000 for device, late_us in worst_us.items() if device in movers]
    stayed = [late_us / 1000 for device, late_us in worst_us.items() if device not in movers]
    return moved, stayed


def _longest_us(times: Iterable[int], begun_us: int, ended_us: int) -> int:
    inside = [begun_us, *(one for one in times if begun_us <= one <= ended_us), ended_us]
    return max(later - earlier for earlier, later in itertools.pairwise(inside))


def _times(arrivals: Iterable[Arrival]) -> dict[str, list[int]]:
    times: dict[str, list[int]] = defaultdict(list)
    for one in arrivals:
        times[one.device].append(one.received_us)
    return times


def check(seats: Sequence[Seat], published: Sequence[str], arrivals: Iterable[Arrival]) -> dict[str, int]:
    """What is wrong with what was handed out: `published` says by number to which topic each record belongs.

    >>> check([Seat("one", ["a"])], ["a", "b", "a", "a"], [Arrival("one", 2, 9, 0), Arrival("one", 0, 8, 1)])
    {'lost': 1, 'doubled': 0, 'reordered': 1, 'misdelivered': 0}
    """
    seen: dict[str, list[Arrival]] = defaultdict(list)
    for one in arrivals:
        seen[one.device].append(one)
    found = {"lost": 0, "doubled": 0, "reordered": 0, "misdelivered": 0}
    of_topic: dict[str, set[int]] = defaultdict(set)
    for number, topic in enumerate(published):
        of_topic[topic].add(number)
    for seat in seats:
        numbers = [one.number for one in seen[seat.device]]
        expected = set().union(*(of_topic[topic] for topic in seat.topics))
        found["lost"] += len(expected - set(numbers))
        found["doubled"] += len(numbers) - len(set(numbers))
        found["misdelivered"] += len(set(numbers) - expected)
        for topic in seat.topics:
            sequences = [one.sequence for one in seen[seat.device] if one.number in of_topic[topic]]
            found["reordered"] += sum(later < earlier for earlier, later in itertools.pairwise(sequences))
    return found
