"""Running variants for several seeds, two at a time, each in a process of its own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tocsin.balancing.placement import Newcomer
from tocsin.balancing.views import NetworkView
from tocsin.lab.experiments.claim import Runs
from tocsin.lab.experiments.debs19.variants import Variant, changes, referred
from tocsin.lab.experiments.youth import DECIDING, fingerprint
from tocsin.model.chance import Chance
from tocsin.simulator.figures import later_mean
from tocsin.simulator.outputs import write_file
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


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation to be made."""

    variant: Variant
    seed: int


def jobs_of(variants: Iterable[Variant], seeds: Iterable[int]) -> list[Job]:
    """With the runs that some of the variants take their beta from."""
    some = list(variants)
    wanted = {one.name: one for one in (*referred(some), *some)}.values()
    return [Job(one, seed) for seed in seeds for one in wanted]


@dataclass(frozen=True, slots=True)
class Ran:
    """`runs` are by seed, then by name. All together they took `cpu_s` of one core."""

    runs: Mapping[int, Mapping[str, Run]]
    cpu_s: float


def run_jobs(jobs: Sequence[Job], done: Callable[[str], None] = lambda _: None, kept: Path | None = None) -> Ran:
    """`done` hears each name. Runs that the folder `kept` has of the same code are not made again."""
    unique = {(one.seed, one.variant.name): one for one in jobs}.values()
    found: dict[int, dict[str, Run]] = {one.seed: {} for one in unique}
    code, cpu_s = fingerprint(DECIDING), 0.0
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        # Those that others take their beta from go first.
        for wave in (
            [one for one in unique if one.variant.beta_share is None],
            [one for one in unique if one.variant.beta_share is not None],
        ):
            running = {pool.submit(_kept, one.variant, one.seed, _beta(one, found), kept, code): one for one in wave}
            try:
                for future in as_completed(running):
                    job = running[future]
                    one = future.result()
                    found[job.seed][job.variant.name] = one.run
                    cpu_s += one.cpu_s
                    done(job.variant.name)
            except BaseException:
                # Whoever interrupts does not want to wait for those that have not begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return Ran(found, cpu_s)


@dataclass(frozen=True, slots=True)
class _Timed:
    run: Run
    cpu_s: float


def _kept(variant: Variant, seed: int, beta: float | None, kept: Path | None, code: str) -> _Timed:
    if kept is None:
        return _timed(variant, seed, beta)
    file = kept / f"{hashlib.sha256(repr((variant, seed, beta, code)).encode()).hexdigest()[:32]}.json"
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=_Timed)
    one = _timed(variant, seed, beta)
    write_file(file, msgspec.json.encode(one))
    return one


def _timed(variant: Variant, seed: int, beta: float | None) -> _Timed:
    began_s = time.process_time()
    run = run_variant(variant, seed, beta)
    return _Timed(run, time.process_time() - began_s)


def run_variant(variant: Variant, seed: int, beta: float | None = None) -> Run:
    """With `beta`, in bytes per second, instead of the preset's."""
    given = changes(balancing__beta=beta) if beta is not None else ()
    policies = changes(balancing__migration=variant.migration, balancing__shuffle=variant.shuffle)
    scenario = load(variant.preset, dict((*variant.settings, *policies, *given)))
    # The reader knows no placements of experiments.
    balancing = msgspec.structs.replace(scenario.balancing, placement=variant.placement)
    scenario = msgspec.structs.replace(scenario, balancing=balancing)
    return replace(simulate(scenario, seed=seed, more_placements=_PLACEMENTS), label=variant.name)


def by_names(runs: Mapping[str, Run], names: Mapping[str, Variant]) -> Runs:
    """Runs of variants under other names, under which a claim knows them."""
    return {name: runs[variant.name] for name, variant in names.items()}


def _beta(job: Job, found: Mapping[int, Mapping[str, Run]]) -> float | None:
    share = job.variant.beta_share
    return None if share is None else share * later_mean(found[job.seed][job.variant.without_balancing().name])
