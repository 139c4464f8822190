"""What tests ask of the emergency city: who wants what, and whether something is inside."""

from __future__ import annotations

from random import Random

from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.schema import CHANNELS
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload, Interest


def interests(workload: EmergencyWorkload, count: int, seed: int = 0) -> list[Interest]:
    """`count` interests, spread evenly over the channels."""
    rng, channels = Random(seed), list(CHANNELS)
    return [workload.interest(channels[number % len(channels)], rng) for number in range(count)]


def is_inside(city: City, x: float, y: float) -> bool:
    return 0 <= x <= city.width_m and 0 <= y <= city.height_m
