"""Flipped bits and cut files: each is detected or repaired, and no start on one serves anything else than before."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disk.recording import Witness
from disk.workload import Day, Town
from tocsin.errors import TocsinError

_MOST_LISTED = 10
_ROWS = 100
#: What is damaged, and how often: names of folders and parts of names below the data directory.
_TARGETS: dict[str, Callable[[Path], bool]] = {
    "results": lambda path: path.parts[:2] == ("cluster", "results"),
    "rows": lambda path: path.parts[:2] == ("cluster", "datasets"),
    "landing log": lambda path: path.parts[:2] == ("cluster", "landing") and path.suffix in (".log", ""),
    "cluster's database": lambda path: path.name.startswith("catalogue.sqlite"),
    "coordinator's database": lambda path: path.parts[0] == "coordinator",
    "broker's database": lambda path: path.parts[0] == "broker",
}


@dataclass(slots=True)
class FlipReport:
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def flips(self) -> int:
        return sum(self.outcomes.values())

    def to_json(self) -> dict[str, object]:
        return {
            "flips": self.flips,
            "outcomes": dict(sorted(self.outcomes.items())),
            "violations": len(self.violations),
            "violations_listed": self.violations[:_MOST_LISTED],
        }


def flip_bits(seed: str, flips: int, *, steps: int = 250, stop_at_first: bool = False) -> FlipReport:
    """Damage one file at a time, in copies of what a killed run has left, and start on each."""
    with tempfile.TemporaryDirectory(prefix="tocsin-flips-") as name:
        folder = Path(name)
        sound, expected = _make(folder, seed, steps)
        chance, report = random.Random(f"{seed}/flips"), FlipReport()
        while report.flips < flips and not (stop_at_first and report.violations):
            kind = list(_TARGETS)[report.flips % len(_TARGETS)]
            _damage_one(folder, sound, kind, chance, expected, report)
        return report


def _make(folder: Path, seed: str, steps: int) -> tuple[Path, dict[str, Any]]:
    """A data directory as a kill leaves it, or a proper end, after which databases have no logs; and what it says."""
    sound = folder / "sound"
    town = Town(folder / "data", folder / "scratch")
    day = Day(town, Witness(folder / "witness"), random.Random(seed))
    day.go(steps)
    day.fill_databases(_ROWS)
    landing = town.cluster.intake.landing
    while town.position < landing.end:
        town.ingest()
    town.run()
    town.maintenance.release_log()
    is_killed = random.Random(f"{seed}/end").random() < 0.5
    if not is_killed:
        town.close()
    shutil.copytree(folder / "data", sound)
    for one in sound.rglob("*-shm"):
        one.unlink()
    if is_killed:
        town.close()
    return sound, _content(sound, folder)


def _content(data: Path, folder: Path) -> dict[str, Any]:
    """Everything that anybody could be told, after a start on a copy of `data`."""
    copy = folder / "copy"
    shutil.copytree(data, copy)
    try:
        town = Town(copy, folder / "scratch")
        try:
            landing = town.cluster.intake.landing
            while town.position < landing.end:
                town.ingest()
            town.run()
            sessions = town.broker.sessions()
            return {
                "records": sorted(town.records()),
                "results": town.pull(0)[0],
                "subscriptions": town.subscriptions(),
                "users": town.coordinator.users("", 10_000),
                "revocations": town.coordinator.revocations(0, 1)[0],
                "positions": {one.subscriber: one.subscriptions for one in sessions},
            }
        finally:
            town.close()
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _damage_one(
    folder: Path, sound: Path, kind: str, chance: random.Random, expected: dict[str, Any], report: FlipReport
) -> None:
    files = [path for path in sorted(sound.rglob("*")) if path.is_file() and path.stat().st_size]
    path = chance.choice([one for one in files if _TARGETS[kind](one.relative_to(sound))])
    content = path.read_bytes()
    how = chance.choices(("flip", "cut"), (4, 1))[0]
    damaged = bytearray(content)
    # Most of a database is empty: half of the time something is hit that says something.
    offsets = [at for at, byte in enumerate(content) if byte] if chance.random() < 0.5 else range(len(content))
    at = chance.choice(offsets)
    if how == "flip":
        damaged[at] ^= 1 << chance.randrange(8)
    else:
        del damaged[at:]
    path.write_bytes(damaged)
    try:
        outcome = _outcome(sound, folder, expected)
    finally:
        path.write_bytes(content)
    report.outcomes[f"{kind}: {outcome.split(':')[0]}"] += 1
    if outcome.startswith("served"):
        report.violations.append(f"{how} at {at} of {path.relative_to(sound)}: {outcome}")


def _outcome(damaged: Path, folder: Path, expected: dict[str, Any]) -> str:
    try:
        found = _content(damaged, folder)
    except TocsinError:
        return "detected"
    wrong = [name for name in expected if found[name] != expected[name]]
    if wrong == ["positions"] and _are_older(found["positions"], expected["positions"]):
        return "older positions, which repeat what they covered"
    return f"served: other {', '.join(wrong)}" if wrong else "repaired or of no effect"


def _are_older(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """A broker that has lost its last changes goes on from before them, which is its promise."""
    at = {(who, one.key): one.position for who, kept in expected.items() for one in kept}
    return all(one.position <= at.get((who, one.key), one.position) for who, kept in found.items() for one in kept)
