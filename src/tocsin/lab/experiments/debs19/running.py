"""Running the variants, two at a time, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context

import msgspec

from tocsin.balancing.placement import Newcomer
from tocsin.balancing.views import NetworkView
from tocsin.lab.experiments.debs19.variants import AUDIENCE, GAMMA, PAPER, Variant
from tocsin.model.chance import Chance
from tocsin.simulator.figures import later_mean
from tocsin.simulator.reading import load
from tocsin.simulator.timeline import Run
from tocsin.simulator.world import simulate


def least_loaded(view: NetworkView, _newcomer: Newcomer, chance: Chance) -> str:
    """The placement that the paper warns of, for showing that it is right to; nobody should use it. The broker with the
    least load now, and any of them if there are several. Those who have only just come, and hold nothing yet, do not
    count."""
    least = min(one.score for one in view.brokers)
    names = [one.name for one in view.brokers if one.score == least]
    return names[chance.randrange(len(names))]


_PLACEMENTS = {"least-loaded": least_loaded}
#: More would need more memory than it saves time on the usual two cores.
_PROCESSES = 2


def run_variants(
    variants: Iterable[Variant], seed: int, share: float = 1.0, done: Callable[[str], None] = lambda _: None
) -> dict[str, Run]:
    """By name, in the order given. `share` is how much of the audience takes part; `done` hears each name."""
    asked = list(variants)
    found: dict[str, Run] = {}
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        # Those that others begin at a share of the load of go first.
        waves = [one for one in asked if one.beta_share is None], [one for one in asked if one.beta_share is not None]
        for wave in waves:
            running = {pool.submit(run_variant, one, seed, share, _beta(one, found)): one.name for one in wave}
            try:
                for future in as_completed(running):
                    found[running[future]] = future.result()
                    done(running[future])
            except BaseException:
                # Whoever interrupts does not want to wait for those that have not begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return {one.name: found[one.name] for one in asked}


def run_variant(variant: Variant, seed: int, share: float = 1.0, beta: float | None = None) -> Run:
    """With `beta`, in bytes per second, balancing begins at that load; else once everybody has subscribed and the rates
    are known. `share` is of the paper's large audience: the others are small."""
    preset = load(variant.preset)
    people, balancing = preset.subscribers, preset.balancing
    audience = AUDIENCE[variant.preset] * (share if variant.preset == PAPER else 1.0)
    scenario = msgspec.structs.replace(
        preset,
        balancing=msgspec.structs.replace(
            balancing,
            placement=variant.placement,
            migration=variant.migration,
            shuffle=variant.shuffle,
            alpha=variant.used_alpha,
            gamma=GAMMA[variant.preset],
            beta=beta or 0.0,
            theta=beta or 0.0,
            begins_at_s=people.subscribe_s[1] + balancing.rates_window_s if beta is None else 0.0,
        ),
        subscribers=msgspec.structs.replace(
            people,
            count=max(1, round(people.count * audience)),
            subscribe_s=(0.0, people.subscribe_s[1]) if variant.is_rush else people.subscribe_s,
        ),
    )
    return replace(simulate(scenario, seed=seed, more_placements=_PLACEMENTS), label=variant.name)


def _beta(variant: Variant, found: Mapping[str, Run]) -> float | None:
    if variant.beta_share is None:
        return None
    return variant.beta_share * later_mean(found[Variant(variant.preset, variant.placement).name])
