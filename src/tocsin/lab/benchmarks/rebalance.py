"""A crowd that nearest placement has left at a few brokers, and what balancing makes of it, as the brokers measure it.

The baseline is the same network in the same run, before balancing is switched on. A living city follows, in the
simulator, where the baseline is the paper's rule: see `living_city`.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from tocsin.client import CoordinatorClient
from tocsin.lab.benchmarks import living_city
from tocsin.lab.benchmarks.load_wire import Seat
from tocsin.lab.benchmarks.measuring import bench_folder, machine, progress
from tocsin.lab.benchmarks.migration import all_arrivals, check
from tocsin.lab.benchmarks.network import place, running_benchmark
from tocsin.lab.benchmarks.sdk_clients import Join, SdkClients
from tocsin.lab.benchmarks.steady_feed import CHANNEL, SCHEMA, SteadyFeed
from tocsin.runtime.files import raise_open_files

_EACH = 1
#: How often each topic has something new.
_EVERY_S = 2.0
_SIDE_M = 10_000.0
#: The share of the crowd that is near the first broker, the second, and so on; the last gets the rest.
_SKEW = (0.5, 0.25, 0.12, 0.08)
_MEASURE_S = 15.0
_TIMEOUT_S = 180.0
_LOOK_EVERY_S = 0.25
_SETTLE_S = 5.0


def run(seed: int, brokers: int, subscribers: int, topics: int, warm_s: float, watch_s: float) -> dict[str, Any]:
    raise_open_files()
    chance = random.Random(seed)
    seats = [
        Seat(f"d{number}", chance.sample([f"topic{topic:03d}" for topic in range(topics)], _EACH))
        for number in range(subscribers)
    ]
    stands = [f"{_SIDE_M * number},0" for number in range(brokers)]
    settings = {"rates_window_s": 24, "placement": "nearest"}
    with bench_folder() as folder, SdkClients() as clients:
        progress.print(f"a cluster, a coordinator and {brokers} brokers")
        with (
            running_benchmark(folder, brokers, SCHEMA, settings, stands) as (network, token),
            CoordinatorClient(network.coordinator.url) as client,
        ):
            locations = _locations(chance, seats, brokers)
            placed = place(network, token, list(locations), at=locations)
            of_device = {seat.device: seat for seat in seats}
            crowd = {name: [of_device[device] for device in devices] for name, devices in placed.items()}
            progress.print(f"{subscribers} subscribers: { ({name: len(ones) for name, ones in crowd.items()}) }")
            for name, ones in crowd.items():
                clients.do(Join(network.brokers[name].url, token, CHANNEL, ones))
            with SteadyFeed(network.cluster, topics, _EVERY_S) as feed:
                time.sleep(warm_s)
                before = _measured(client)
                modelled = client.balancing()
                progress.print(f"switched on: cov {before['cov']:.3f} as measured, {modelled['cov']:.3f} by the model")
                begun_s = time.monotonic()
                client.change_balancing(automatic=True, settle_s=_SETTLE_S, by="benchmark")
                seconds_to_balance = _wait_until_even(client, begun_s)
                moves = _moves(client)
                after = _measured(client)
                progress.print(f"cov {after['cov']:.3f} after {seconds_to_balance:.1f} s; watching for {watch_s:g} s")
                time.sleep(watch_s)
                later = _moves(client)
                at_end = client.balancing()
                published = feed.stop()
                arrivals = all_arrivals(clients)
                plans = [f"{one['stage']} by {one['policy']}: {one['reason']}" for one in client.executions()]
    history = check(seats, published, arrivals)
    report = {
        "benchmark": "rebalance",
        "machine": machine(),
        "brokers": brokers,
        "subscribers": subscribers,
        "cov_before": round(before["cov"], 3),
        "cov_after": round(after["cov"], 3),
        "modelled_cov_before": round(modelled["cov"], 3),
        "modelled_cov_after": round(at_end["cov"], 3),
        "seconds_to_balance": round(seconds_to_balance, 1),
        "max_load_before": round(before["max"]),
        "max_load_after": round(after["max"]),
        "max_load_drop": round(1 - after["max"] / before["max"], 3),
        "moves": moves,
        "moves_after_balance": later - moves,
        "plans": plans,
        "notifications": len(arrivals),
        **history,
        "living": living_city.run(),
    }
    if any(history.values()):
        raise RuntimeError(f"not every notification came once and in order: {report}")
    return report


def _locations(chance: random.Random, seats: list[Seat], brokers: int) -> dict[str, tuple[float, float]]:
    """Everybody somewhere near a broker, and far more near some than near others."""
    shares = [*_SKEW, max(0.0, 1 - sum(_SKEW))][:brokers]

    def near(broker: int) -> tuple[float, float]:
        return _SIDE_M * broker + chance.uniform(-1, 1) * _SIDE_M / 3, chance.uniform(-1, 1) * _SIDE_M / 3

    return {seat.device: near(chance.choices(range(len(shares)), shares)[0]) for seat in seats}


def _measured(client: CoordinatorClient) -> dict[str, float]:
    """Bytes in and out per second of each broker, by their own count, averaged over some time."""
    samples: dict[str, list[float]] = {}
    deadline = time.monotonic() + _MEASURE_S
    while time.monotonic() < deadline:
        for one in client.brokers():
            samples.setdefault(one["name"], []).append(one["bytes_in_per_s"] + one["bytes_out_per_s"])
        time.sleep(_LOOK_EVERY_S)
    loads = [statistics.fmean(one) for one in samples.values()]
    return {"cov": statistics.pstdev(loads) / statistics.fmean(loads), "max": max(loads)}


def _wait_until_even(client: CoordinatorClient, begun_s: float) -> float:
    """Seconds until the load model finds it even and nobody is on the move."""
    while time.monotonic() - begun_s < _TIMEOUT_S:
        now = client.balancing()
        is_over = not now["under_way"] and all(one["state"] == "done" for one in client.executions())
        if is_over and now["cov"] < now["settings"]["alpha"]:
            return time.monotonic() - begun_s
        time.sleep(_LOOK_EVERY_S)
    raise RuntimeError(f"not even within {_TIMEOUT_S:g} s: {client.balancing()}")


def _moves(client: CoordinatorClient) -> int:
    return sum(one["moves"] for one in client.executions())
