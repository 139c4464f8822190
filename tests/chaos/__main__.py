"""`make chaos`: the real cluster, then the real network, killed again and again; then each planted bug until found."""

from __future__ import annotations

import argparse
import json
import sys
import time

from chaos.harness import Moment, Report, plan_kills, run
from chaos.network import command as network
from chaos.network.plans import How
from chaos.network.planted import BUGS as NETWORK_BUGS
from chaos.planted import BUGS, Bug
from chaos.process import Target
from tocsin.cli.terminal import end_on_sigterm


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument(
        "--part", choices=("cluster", "network", "migration", "faults", "all"), default="all", help="what is done"
    )
    parser.add_argument("--pauses", type=int, default=8, help="part faults: how often a process is stopped for a while")
    parser.add_argument("--partitions", type=int, default=8, help="part faults: how often a broker is cut off")
    parser.add_argument(
        "--clocks", type=int, default=8, help="part faults: how often a clock is wrong by up to an hour"
    )
    parser.add_argument("--longest-pause", type=float, default=60.0, metavar="S", help="seconds that a pause may last")
    parser.add_argument("--kills", type=int, help="how often the real ones are killed: 30, 24 and 52")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long the real network goes on at least")
    parser.add_argument("--subscribers", type=int, default=300, help="how many the real network has")
    parser.add_argument("--seed", default="", help="decides load and kills; one is made up if none is given")
    parser.add_argument("--bugs", "--only", help="planted bugs to look for, with commas; 'none' for none")
    parser.add_argument("--tries", type=int, default=4, help="runs after which a planted bug counts as not found")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each part instead of a table")
    parser.add_argument("--keep", action="store_true", help="keep the data of a run of the real ones that failed")
    options = parser.parse_args()
    named = None if options.bugs is None else [] if options.bugs == "none" else options.bugs.split(",")
    if unknown := sorted(set(named or ()) - BUGS.keys() - NETWORK_BUGS.keys()):
        parser.error(f"no planted bugs called {', '.join(unknown)}; there are {', '.join((*BUGS, *NETWORK_BUGS))}")
    end_on_sigterm()
    seed = options.seed or f"{time.time_ns() % 1_000_000:06d}"

    passed = True
    if options.part in ("cluster", "all"):
        passed &= kill_cluster(seed, options, [one for one in BUGS if named is None or one in named])
    for part in ("network", "migration"):
        if options.part in (part, "all"):
            bugs = [name for name, bug in NETWORK_BUGS.items() if bug.moves == (part == "migration")]
            passed &= kill_network(seed, options, [one for one in bugs if named is None or one in named], part)
    has_faults = options.pauses or options.partitions or options.clocks
    if has_faults and options.part in ("faults", "all"):
        passed &= inflict_faults(seed, options)
    return 0 if passed else 1


def inflict_faults(seed: str, options: argparse.Namespace) -> bool:
    """Whether the real network is sound when processes are paused, cut off, or have wrong clocks."""
    counts = {How.PAUSE: options.pauses, How.PARTITION: options.partitions, How.CLOCK: options.clocks}
    outcome = network.inflict(
        seed,
        counts,
        longest_pause_s=options.longest_pause,
        subscribers=options.subscribers,
        keep=options.keep,
    )
    if options.json:
        print(json.dumps(outcome.to_json(), indent=2))
    else:
        network.print_table(seed, outcome, "faults")
    return outcome.passed


def kill_cluster(seed: str, options: argparse.Namespace, names: list[str]) -> bool:
    """Whether the real cluster is sound and the planted bugs were found."""
    kills = 30 if options.kills is None else options.kills
    real = None
    if kills:
        real = run(seed, plan_kills(seed, kills), keep=lambda report: options.keep and bool(report.violations))
    planted = {name: look_for(BUGS[name], seed, options.tries) for name in names}

    sound = real is None or not real.violations
    found = all(caught for caught, _ in planted.values())
    if options.json:
        print(json.dumps(_as_json(real, planted, passed=sound and found), indent=2))
    else:
        _print_table(seed, real, planted)
    return sound and found


def kill_network(seed: str, options: argparse.Namespace, names: list[str], part: str) -> bool:
    """Whether the real network is sound, being moved about or not, and the planted bugs were found."""
    moves = part == "migration"
    usual = 52 if moves else 24
    outcome = network.carry_out(
        seed,
        kills=usual if options.kills is None else options.kills,
        seconds=options.seconds,
        subscribers=options.subscribers,
        bugs=names,
        tries=options.tries,
        keep=options.keep,
        moves=moves,
    )
    if options.json:
        print(json.dumps(outcome.to_json(), indent=2))
    else:
        network.print_table(seed, outcome, part)
    return outcome.passed


def look_for(bug: Bug, seed: str, tries: int) -> tuple[bool, list[Report]]:
    """Run the cluster with a bug in it until a violation of the right kind is found."""
    reports = []
    moments, targets = [Moment(one) for one in bug.moments], [Target(one) for one in bug.targets]
    for number in range(tries):
        attempt = f"{seed}/{bug.name}/{number}"
        reports.append(run(attempt, plan_kills(attempt, bug.kills, moments, targets), bug.name))
        if caught(bug, reports[-1]):
            return True, reports
    return False, reports


def caught(bug: Bug, report: Report) -> bool:
    return any(violation.kind in bug.kinds for violation in report.violations)


def _as_json(real: Report | None, planted: dict[str, tuple[bool, list[Report]]], *, passed: bool) -> dict[str, object]:
    return {
        "passed": passed,
        "real": real.to_json() if real else None,
        "planted": {
            name: {"found": found, "runs": len(reports), "last": reports[-1].to_json()}
            for name, (found, reports) in planted.items()
        },
    }


def _print_table(seed: str, real: Report | None, planted: dict[str, tuple[bool, list[Report]]]) -> None:
    if real is not None:
        for name, value in real.to_json().items():
            print(f"{name:22} {json.dumps(value) if isinstance(value, dict | list) else value}")
        print()
    for name, (found, reports) in planted.items():
        kinds = ", ".join(f"{count} × {kind}" for kind, count in reports[-1].to_json()["violations_by_kind"].items())
        runs = f"{len(reports)} run{'s' if len(reports) > 1 else ''}"
        print(f"{'found' if found else 'MISSED':7} {name:28} {runs:7} {kinds}")
    violations = "no violation" if real is None or not real.violations else f"{len(real.violations)} VIOLATIONS"
    verdict = violations if real else "not run"
    print(f"\nreal cluster: {verdict}; planted bugs found: {sum(one for one, _ in planted.values())} of {len(planted)}")
    print(f"again: make chaos CHAOS='--part cluster --seed {seed}'")


if __name__ == "__main__":
    sys.exit(main())
