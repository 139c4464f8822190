"""What people notice of being moved: a plan of a thousand moves is carried out under load, by the SDK's programs.

The peer, in the same run: as many of the same programs are cut off and come back at another broker that was not
prepared, at the same pace. Everybody is compared with those who stay, at the same brokers, for the same records.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tocsin.client import CoordinatorClient
from tocsin.lab.benchmarks.load_wire import Seat
from tocsin.lab.benchmarks.measuring import bench_folder, machine, percentile, progress
from tocsin.lab.benchmarks.network import BROKER_SETTINGS, running_benchmark
from tocsin.lab.benchmarks.sdk_clients import Arrival, Join, Kick, Report, SdkClients
from tocsin.lab.benchmarks.steady_feed import CHANNEL, SCHEMA, SteadyFeed
from tocsin.runtime.files import raise_open_files
from tocsin.testing.network import RunningNetwork

_PEER = "bench-peer"
#: How often each topic, and so each subscriber, has something new.
_EVERY_S = 2.0
_LOOK_EVERY_S = 0.2
_TIMEOUT_S = 300.0
#: After the last move, for what comes late.
_SETTLE_S = 5.0
_LATE_US = int(_EVERY_S * 1e6)
#: Of each topic, at each broker but the first: they stay, so that movers can be compared with them.
_RESIDENTS = 3

Between = tuple[int, int]


def run(brokers: int, subscribers: int, moves: int, topics: int, warm_s: float) -> dict[str, Any]:
    raise_open_files()
    residents = (brokers - 1) * topics * _RESIDENTS
    seats = [Seat(f"d{number}", [f"topic{number % topics:03d}"]) for number in range(subscribers + residents)]
    settings = {"moves_per_s": 60}
    with bench_folder() as folder, SdkClients() as clients:
        progress.print(f"a cluster, a coordinator and {brokers} brokers")
        with running_benchmark(folder, brokers, SCHEMA, settings) as (network, token):
            progress.print(f"{subscribers} subscribers, all of them at the first broker")
            first, *others = network.brokers.values()
            clients.do(Join(first.url, token, CHANNEL, seats[:subscribers]))
            for number, other in enumerate(others):
                theirs = seats[subscribers + number * topics * _RESIDENTS :][: topics * _RESIDENTS]
                clients.do(Join(other.url, token, CHANNEL, theirs))
            with SteadyFeed(network.cluster, topics, _EVERY_S) as feed:
                time.sleep(warm_s / 2)
                warming = _Usage.of(network, clients)
                time.sleep(warm_s / 2)
                before = _Usage.of(network, clients)
                moved = _carry_out(network, moves)
                after = _Usage.of(network, clients)
                time.sleep(_SETTLE_S)
                at, began = clients.do(Report()).brokers, [seat.device for seat in seats[:subscribers]]
                movers = [device for device in began if at[device] not in ("", next(iter(network.brokers)))]
                with network.running_broker(_PEER, BROKER_SETTINGS) as peer:
                    progress.print(f"{len(movers)} lose their connections and connect to another broker")
                    kicked_us = time.time_ns() // 1000
                    clients.do(Kick(peer.url, movers, moved.per_s))
                    back_us = time.time_ns() // 1000
                    time.sleep(_SETTLE_S)
                    published = feed.stop()
                    arrivals = all_arrivals(clients)
    history = check(seats, published, arrivals)
    usual = usual_times(arrivals)
    stayers = {seat.device for seat in seats}.difference(movers)
    late = lateness(set(movers), arrivals, usual, (moved.begun_us, moved.ended_us + _LATE_US))
    stayed = lateness(stayers, arrivals, usual, (moved.begun_us, moved.ended_us + _LATE_US))
    kicked = lateness(set(movers), arrivals, usual, (kicked_us, back_us + _LATE_US))
    gap_p99_ms, kicked_gap_p99_ms = (percentile(gaps(one), 0.99) for one in (late, kicked))
    late_p99_ms, kicked_late_p99_ms = (percentile(worst(one), 0.99) for one in (late, kicked))
    report = {
        "benchmark": "migration",
        "machine": machine(),
        "brokers": brokers,
        "subscribers": subscribers,
        "residents": residents,
        "moves": moved.done,
        "failed": moved.failed,
        "moves_per_s": round(moved.per_s, 1),
        "move_p50_ms": moved.p50_ms,
        "move_p99_ms": moved.p99_ms,
        "gap_p50_ms": round(percentile(gaps(late), 0.5), 1),
        "gap_p99_ms": round(gap_p99_ms, 1),
        "gap_max_ms": round(max(gaps(late)), 1),
        "kicked_gap_p50_ms": round(percentile(gaps(kicked), 0.5), 1),
        "kicked_gap_p99_ms": round(kicked_gap_p99_ms, 1),
        "ratio_of_kicked_gap_p99": round(kicked_gap_p99_ms / max(1.0, gap_p99_ms), 1),
        "lateness_p50_ms": round(percentile(worst(late), 0.5), 1),
        "lateness_p99_ms": round(late_p99_ms, 1),
        "stayers_lateness_p99_ms": round(percentile(worst(stayed), 0.99), 1),
        "kicked_lateness_p99_ms": round(kicked_late_p99_ms, 1),
        "ratio_of_kicked_lateness_p99": round(kicked_late_p99_ms / max(1.0, late_p99_ms), 1),
        "cpu_ms_per_move": after.beyond(before, before.cores_since(warming), moved.done),
        "cpu_cores_before": {name: round(cores, 2) for name, cores in before.cores_since(warming).items()},
        "notifications": len(arrivals),
        **history,
    }
    if any(history.values()):
        raise RuntimeError(f"not every notification came once and in order: {report}")
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


def _carry_out(network: RunningNetwork, moves: int) -> Moved:
    with CoordinatorClient(network.coordinator.url) as client:
        plan = client.make_plan(policy="ldm", cov_at_most=0.01, max_moves=moves, shown_moves=0)
        progress.print(f"{plan['move_count']} moves")
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
    def of(network: RunningNetwork, clients: SdkClients) -> _Usage:
        servers = network.servers
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
    arrivals = clients.do(Report()).arrivals
    while True:
        time.sleep(_SETTLE_S)
        later = clients.do(Report()).arrivals
        if len(later) == len(arrivals):
            return later
        arrivals = later


@dataclass(frozen=True, slots=True)
class Late:
    """How much later than usual a device got a record; `is_first` through another broker than the one before."""

    device: str
    ms: float
    is_first: bool


def usual_times(arrivals: Iterable[Arrival]) -> dict[tuple[int, str], float]:
    """When each record usually came through each broker: the median of those who had got one through it before.

    Brokers do not get results at the same instant, and a process that plays thousands of subscribers reads one broker's
    connections after another's: neither is anything that who moves would notice.

    >>> usual_times([Arrival("a", 1, 1, 10, "x"), Arrival("a", 2, 2, 20, "x"), Arrival("b", 2, 2, 90, "x")])
    {(2, 'x'): 20}
    """
    settled: set[tuple[str, str]] = set()
    times: dict[tuple[int, str], list[int]] = defaultdict(list)
    for one in arrivals:
        if (one.device, one.broker) in settled:
            times[one.number, one.broker].append(one.received_us)
        settled.add((one.device, one.broker))
    return {key: median(found) for key, found in times.items()}


def lateness(
    devices: Container[str], arrivals: Iterable[Arrival], usual: Mapping[tuple[int, str], float], time_us: Between
) -> list[Late]:
    """How late each of these got each record that came within that time.

    Who has just changed brokers may be as late as those who stayed at the one or at the other.

    >>> arrivals = [Arrival("d", 1, 1, 1000, "x"), Arrival("d", 2, 2, 9500, "y")]
    >>> lateness({"d"}, arrivals, {(2, "x"): 9000.0, (2, "y"): 8000.0}, (0, 10_000))
    [Late(device='d', ms=0.5, is_first=True)]
    """
    begun_us, ended_us = time_us
    was_at: dict[str, str] = {}
    late = []
    for one in arrivals:
        before = was_at.get(one.device, one.broker)
        was_at[one.device] = one.broker
        if one.device in devices and begun_us <= one.received_us <= ended_us:
            expected = [usual[one.number, at] for at in (before, one.broker) if (one.number, at) in usual]
            if expected:
                late.append(Late(one.device, (one.received_us - max(expected)) / 1000, before != one.broker))
    return late


def gaps(late: Iterable[Late]) -> list[float]:
    """By how many milliseconds the silences in which devices changed brokers were longer than usual.

    >>> gaps([Late("a", 3.0, True), Late("a", 5.0, False), Late("b", -1.0, True)])
    [3.0, 0.0]
    """
    return [max(0.0, one.ms) for one in late if one.is_first]


def worst(late: Iterable[Late]) -> list[float]:
    """Of each device, how late the latest record was, in milliseconds.

    >>> worst([Late("a", 3.0, True), Late("a", 5.0, False), Late("b", -1.0, True)])
    [5.0, 0.0]
    """
    by_device: dict[str, float] = {}
    for one in late:
        by_device[one.device] = max(by_device.get(one.device, 0.0), one.ms)
    return list(by_device.values())


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
