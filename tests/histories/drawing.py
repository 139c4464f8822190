"""Drawing a history from a seed, living through it, and looking at what came out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from histories.checking import Violation, check
from histories.cluster_side import Results
from histories.plots import PLOTS
from histories.quick_results import QuickResults
from histories.subscribers import Device
from histories.world import EVENTS, PROGRESS, World
from worlds.validated import validate_machines

validate_machines()

#: Events in a history.
_EVENTS = 60
#: How much may come of one event before the next: nothing at all, or nearly everything.
_STEPS_BETWEEN = (0, 2, 10, 40, 40, 100)
#: How likely a plot begins with an event if none is under way; in some histories there are none.
_PLOTS_BEGIN = (0.0, 0.1, 0.3, 0.3)
#: How likely the plot comes a step further before an event.
_PLOT_GOES_ON = 0.7
_ENDED = object()


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    #: Notifications that were handed out.
    handed: int
    violations: Sequence[Violation]


def live_through(seed: int, *, make_results: Callable[[], Results] = QuickResults) -> Outcome:
    """The same seed gives the same history."""
    rng = random.Random(seed)
    world = World(
        rng,
        make_results(),
        brokers=rng.choice((1, 2, 2, 3)),
        devices=rng.choice((2, 3, 4)),
        cache_max_bytes=rng.choice((300, 2_000, 100_000)),
    )
    world.warm_up()
    events, progress = _in_a_mood(rng, EVENTS), _in_a_mood(rng, PROGRESS)
    plot: Iterator[None] | None = None
    plots_begin = rng.choice(_PLOTS_BEGIN)
    for event in rng.choices(list(events), list(events.values()), k=_EVENTS):
        if plot is None and rng.random() < plots_begin:
            plot = rng.choice(PLOTS)(world, _somebody(world))
        if plot is not None and rng.random() < _PLOT_GOES_ON and next(plot, _ENDED) is _ENDED:
            plot = None
        world.step(event)
        for step in rng.choices(list(progress), list(progress.values()), k=rng.choice(_STEPS_BETWEEN)):
            world.step(step)
    is_calm = world.settle()
    handed = sum(len(life.got) for device in world.devices for tenure in device.tenures for life in tenure.lives)
    return Outcome(seed, handed, check(world, is_calm=is_calm))


def _somebody(world: World) -> Device:
    """Rather one that holds much."""
    return max(world.rng.sample(world.devices, 2), key=lambda one: len(one.holds))


def _in_a_mood(rng: random.Random, weights: Mapping[str, int]) -> dict[str, float]:
    """What is rare in one history is frequent in another, so that unlikely things come together in some."""
    return {name: count * rng.choice((0.3, 1.0, 1.0, 3.0)) for name, count in weights.items()}
