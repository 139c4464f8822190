"""Running the variants one after the other, each on processes of its own. What has been run is kept in a folder: who is
interrupted goes on from there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from tocsin.errors import InvalidValue
from tocsin.lab.experiments.debs19.variants import Variant
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.cityrun import CityRun, RunningCity
from tocsin.lab.experiments.emergency.people import LOCATIONS_EVERY_S
from tocsin.lab.experiments.emergency.scenario import CityScenario, draw_interactions
from tocsin.lab.experiments.emergency.tally import Audit, percentiles_s
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload
from tocsin.lab.experiments.prototype.variants import balancing_of
from tocsin.runtime.files import raise_open_files
from tocsin.simulator.timeline import Run

Percentiles = dict[str, float]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all runs of an evaluation have in common."""

    scenario: CityScenario
    speed_up: float
    #: Everybody tells their location this often, by our clock.
    locations_every_s: float = LOCATIONS_EVERY_S
    #: What the roads were read from, if not generated.
    roads: str = ""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """As much of a run as is kept."""

    conditions: Conditions
    run: Run
    audit: Audit
    published: int
    accepted: int
    overruns: int
    failed_moves: int
    #: From publishing a report to having a notification of it, by channel, of those who were logged in.
    publish_to_received_s: dict[str, Percentiles | None]
    #: From the commit of a result to having it, of those who were logged in.
    commit_to_received_s: Percentiles | None
    #: The same of people who were moved, since they were, and of the others, since the first was.
    movers: int
    movers_received_s: Percentiles | None
    others_received_s: Percentiles | None

    @staticmethod
    def of(conditions: Conditions, found: CityRun) -> LiveRun:
        tally = found.tally
        return LiveRun(
            conditions,
            found.run,
            found.audit,
            tally.published,
            tally.accepted,
            found.overruns,
            found.failed_moves,
            {name: percentiles_s(channel.delays_s) for name, channel in tally.channels.items()},
            percentiles_s(tally.deliveries_s),
            len(tally.movers),
            percentiles_s(tally.delays_since_moves_s(of_movers=True)),
            percentiles_s(tally.delays_since_moves_s(of_movers=False)),
        )


def run_variants(
    variants: Iterable[Variant],
    conditions: Conditions,
    kept: Path,
    say: Callable[[str], None],
    done: Callable[[str], None] = lambda _: None,
) -> dict[str, LiveRun]:
    """By name, in the order given. Those that `kept` has under the same conditions are not run again."""
    raise_open_files()
    kept.mkdir(parents=True, exist_ok=True)
    found = {}
    for variant in variants:
        file = kept / f"{variant.name.replace('/', '-')}.json"
        known = _read(file, conditions)
        if known is None:
            say(f"{variant.name}:")
            known = _run(variant, conditions, say)
            file.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=0))
        found[variant.name] = known
        done(variant.name)
    return found


def _read(file: Path, conditions: Conditions) -> LiveRun | None:
    if not file.exists():
        return None
    try:
        known = msgspec.json.decode(file.read_bytes(), type=LiveRun)
    except msgspec.MsgspecError as exc:
        raise InvalidValue(f"{file} is not a run: {exc}; remove it to have it run again") from exc
    return known if known.conditions == conditions else None


def _run(variant: Variant, conditions: Conditions, say: Callable[[str], None]) -> LiveRun:
    scenario = conditions.scenario
    roads = Path(conditions.roads).read_text() if conditions.roads else ""
    city = City.from_wkt(roads, scenario.seed) if roads else City.generate(scenario.seed)
    workload = EmergencyWorkload(city, users=scenario.people, seed=scenario.seed)
    interactions = draw_interactions(scenario, workload)
    running = RunningCity(scenario, balancing_of(variant), city, workload, interactions, conditions.speed_up, say)
    with tempfile.TemporaryDirectory(prefix="tocsin-experiment-") as folder:
        return LiveRun.of(conditions, uvloop.run(running.run(Path(folder))))
