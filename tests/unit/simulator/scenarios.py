"""A network small enough to be simulated in a moment, with everything happening in it."""

from __future__ import annotations

from tocsin.simulator.reading import parse
from tocsin.simulator.scenario import Scenario

SMALL = """\
name = "small"
duration_s = 200
sample_every_s = 10

[brokers]
count = 4

[channels]
count = 4
periods_s = [5, 7, 11, 20]
subscriptions = 20
rate = { mean_bytes_per_s = 100, std_bytes_per_s = 30, noise = 0.2 }

[subscribers]
count = 150
login_s = [0, 20]
subscribe_s = [10, 50]
subscriptions = [2, 6]
crowds = [{ location = [5000, 5000], spread_m = 2000, share = 0.6 }]

[balancing]
migration = ""
shuffle = ""
"""

#: Everything that can happen to a subscriber.
BUSY = {
    "subscribers.mean_online_s": "60",
    "subscribers.mean_offline_s": "15",
    "subscribers.changes_per_hour": "120",
    "subscribers.speed_m_per_s": "30",
    "fluctuation.share": "0.25",
    "fluctuation.every_s": "20",
    "failures": '[{ broker = "broker-2", at_s = 80, back_after_s = 40 }, { broker = "broker-1", at_s = 140 }]',
    "balancing.migration": '"ldm"',
    "balancing.shuffle": '"gsh"',
    "balancing.every_s": "10",
    "balancing.hits": "1",
    "balancing.settle_s": "10",
    "balancing.rest_s": "20",
}


def small(**changes: str) -> Scenario:
    """`small(balancing__alpha="0.2")`"""
    return parse(SMALL, "small.toml", {key.replace("__", "."): value for key, value in changes.items()})


def busy() -> Scenario:
    return parse(SMALL, "small.toml", BUSY)
