"""The network's part of `make chaos`: the real network, then each planted bug until it is found."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.network.harness import a_cluster, prepare, run
from chaos.network.plans import MOVING, How, Kill, Scale, plan_faults, plan_kills
from chaos.network.planted import BUGS, Bug
from chaos.network.report import Report
from chaos.process import ClusterProcess

#: A planted bug is looked for in a small network whose subscribers are restless.
_SMALL = Scale(subscribers=40, processes=1, publish_every_s=0.1, act_every_s=5.0, away_s=4.0, rest_s=1.0, stall_s=10.0)


@dataclass(slots=True)
class Outcome:
    real: Report | None = None
    #: Bug → whether it was found, and the runs that it took.
    planted: dict[str, tuple[bool, list[Report]]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        sound = self.real is None or not self.real.violations
        return sound and all(found for found, _ in self.planted.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "real": self.real.to_json() if self.real else None,
            "planted": {
                name: {"found": found, "runs": len(reports), "last": reports[-1].to_json()}
                for name, (found, reports) in self.planted.items()
            },
        }


def carry_out(
    seed: str,
    *,
    kills: int,
    seconds: float,
    subscribers: int,
    bugs: Sequence[str],
    tries: int,
    keep: bool,
    moves: bool = False,
) -> Outcome:
    """`seconds` is how long the real network goes on at least, after its last kill if need be. With `moves`, everybody
    is being moved all the time, and those are killed who take part in it."""
    outcome = Outcome()
    if kills:
        plan = plan_kills(seed, kills, MOVING) if moves else plan_kills(seed, kills)
        mortals = max(1, subscribers // 10) if moves else 0
        rest_s = max(3.0, seconds - _length_s(plan))
        scale = Scale(subscribers=subscribers, rest_s=rest_s, mortals=mortals, moves=moves)
        outcome.real = run(seed, plan, scale, keep=lambda report: keep and bool(report.violations))
    if bugs:
        # None of them is in the cluster, so one serves them all.
        with tempfile.TemporaryDirectory(prefix="tocsin-chaos-") as folder, a_cluster(Path(folder)) as cluster:
            prepare(cluster)
            for name in bugs:
                outcome.planted[name] = _look_for(BUGS[name], seed, tries, cluster)
    return outcome


def inflict(seed: str, counts: Mapping[How, int], *, longest_pause_s: float, subscribers: int, keep: bool) -> Outcome:
    """Faults that end no process: pauses, partitions, wrong clocks."""
    plan = plan_faults(seed, counts, longest_pause_s)
    scale = Scale(subscribers=subscribers)
    return Outcome(run(seed, plan, scale, keep=lambda report: keep and bool(report.violations)))


def print_table(seed: str, outcome: Outcome, part: str = "network") -> None:
    if outcome.real is not None:
        for name, value in outcome.real.to_json().items():
            print(f"{name:22} {json.dumps(value) if isinstance(value, dict | list) else value}")
        print()
    for name, (found, reports) in outcome.planted.items():
        kinds = ", ".join(f"{count} × {kind}" for kind, count in reports[-1].to_json()["violations_by_kind"].items())
        runs = f"{len(reports)} run{'s' if len(reports) > 1 else ''}"
        print(f"{'found' if found else 'MISSED':7} {name:28} {runs:7} {kinds}")
    verdict = "not run"
    if outcome.real is not None:
        count = len(outcome.real.violations)
        verdict = f"{count} VIOLATIONS" if count else "no violation"
    count = sum(one for one, _ in outcome.planted.values())
    print(f"\nreal network: {verdict}; planted bugs found: {count} of {len(outcome.planted)}")
    print(f"again: make chaos CHAOS='--part {part} --seed {seed}'")


def _look_for(bug: Bug, seed: str, tries: int, cluster: ClusterProcess) -> tuple[bool, list[Report]]:
    """Run the network with a bug in it until a violation of the right kind is found."""
    reports = []
    for number in range(tries):
        attempt = f"{seed}/{bug.name}/{number}"
        kills = plan_kills(attempt, bug.kills, bug.targets)
        scale = replace(_SMALL, mortals=20, moves=True) if bug.moves else _SMALL
        reports.append(run(attempt, kills, scale, bug.name, cluster=cluster))
        if any(violation.kind in bug.kinds for violation in reports[-1].violations):
            return True, reports
    return False, reports


def _length_s(kills: Sequence[Kill]) -> float:
    return sum(kill.after_s + kill.down_s for kill in kills)
