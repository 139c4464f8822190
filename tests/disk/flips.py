"""Flipped bits and cut files: each is detected or repaired, and no start on one serves anything else than before.

`python -m disk.flips SEED FLIPS BUG` damages what a planted bug leaves unchecked, and prints what came of it.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from deltalake import DeltaTable

from disk.planted import FLIP_BUGS
from disk.recording import Witness
from disk.workload import Day, Town
from own_modules import knowing_tests
from tocsin.cluster.datasets.delta import live_files
from tocsin.errors import TocsinError

_MOST_LISTED = 10
_ROWS = 100
#: What the day's rows and records say, as it stands in files: most other bytes declare, index or describe it.
_CONTENT = re.compile(rb'hash of user\d+|Alerts|"(?:id|k)": \d+')
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


def flip_bits(
    seed: str,
    flips: int,
    *,
    steps: int = 250,
    kinds: Sequence[str] = tuple(_TARGETS),
    is_killed: bool | None = None,
    stop_at_first: bool = False,
) -> FlipReport:
    """Damage one file at a time, in copies of what a run has left, and start on each.

    Chance decides whether the run was killed, unless `is_killed` says so."""
    if is_killed is None:
        is_killed = random.Random(f"{seed}/end").random() < 0.5
    with tempfile.TemporaryDirectory(prefix="tocsin-flips-") as name:
        folder = Path(name)
        sound, expected = _make(folder, seed, steps, is_killed=is_killed)
        read = _read_files(sound)
        chance, report = random.Random(f"{seed}/flips"), FlipReport()
        while report.flips < flips and not (stop_at_first and report.violations):
            kind = kinds[report.flips % len(kinds)]
            path = _choose(sound, kind, read, chance)
            _damage_one(folder, sound, kind, path, chance, expected, report)
        return report


def _make(folder: Path, seed: str, steps: int, *, is_killed: bool) -> tuple[Path, dict[str, Any]]:
    """A data directory as a kill leaves it, or a proper end, after which databases have no logs; and what it says."""
    sound = folder / "sound"
    town = Town(folder / "data", folder / "scratch")
    day = Day(town, Witness(folder / "witness"), random.Random(seed))
    day.go(steps)
    day.fill_databases(_ROWS)
    # A log of changes has checksums of its own. Part of the rows are in the databases, whichever way the run ends.
    for database in (folder / "data").rglob("*.sqlite"):
        _empty_log(database)
    day.fill_databases(_ROWS)
    landing = town.cluster.intake.landing
    while town.position < landing.end:
        town.ingest()
    town.run()
    town.maintenance.release_log()
    if not is_killed:
        town.close()
    shutil.copytree(folder / "data", sound)
    for one in sound.rglob("*-shm"):
        one.unlink()
    if is_killed:
        town.close()
    return sound, _content(sound, folder)


def _empty_log(database: Path) -> None:
    """Move the changes in a database's write-ahead log into the database."""
    with closing(sqlite3.connect(database)) as connection:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not is_busy, f"{database} is in use"


def _read_files(sound: Path) -> set[Path]:
    """The data files that tables consist of now. The others are those that compactions have replaced."""
    tables = [path.parent for path in sound.rglob("_delta_log")]
    return {table / name for table in tables for name in live_files(DeltaTable(str(table)))}


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


def _choose(sound: Path, kind: str, read: set[Path], chance: random.Random) -> Path:
    """Any file of this kind; half of the time, of a table, a data file that is read."""
    files = [path for path in sorted(sound.rglob("*")) if path.is_file() and path.stat().st_size]
    files = [one for one in files if _TARGETS[kind](one.relative_to(sound))]
    known = [one for one in files if one in read]
    return chance.choice(known if known and chance.random() < 0.5 else files)


def _damage_one(
    folder: Path,
    sound: Path,
    kind: str,
    path: Path,
    chance: random.Random,
    expected: dict[str, Any],
    report: FlipReport,
) -> None:
    content = path.read_bytes()
    how = chance.choices(("flip", "cut"), (4, 1))[0]
    damaged = bytearray(content)
    at = chance.choice(_offsets(content, chance))
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
    if outcome.startswith(("served", "ended")):
        report.violations.append(f"{how} at {at} of {path.relative_to(sound)}: {outcome}")


def _offsets(content: bytes, chance: random.Random) -> Sequence[int]:
    """Where damage may be. Most of a database is empty, and most of the rest describes rows: a third of the time
    something is hit that is not empty, and a third of the time something that a row or a record says."""
    where = chance.choice(("anywhere", "not empty", "content"))
    if where == "content" and (said := [at for one in _CONTENT.finditer(content) for at in range(*one.span())]):
        return said
    return range(len(content)) if where == "anywhere" else [at for at, byte in enumerate(content) if byte]


def _outcome(damaged: Path, folder: Path, expected: dict[str, Any]) -> str:
    try:
        found = _content(damaged, folder)
    except TocsinError:
        return "detected"
    except Exception as exc:  # noqa: BLE001 - damage may lead to any error, and only our own say what is damaged
        return f"ended: {exc!r}"
    wrong = [name for name in expected if found[name] != expected[name]]
    if wrong == ["positions"] and _are_older(found["positions"], expected["positions"]):
        return "older positions, which repeat what they covered"
    return f"served: other {', '.join(wrong)}" if wrong else "repaired or of no effect"


def _are_older(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """A broker that has lost its last changes goes on from before them, which is its promise."""
    at = {(who, one.key): one.position for who, kept in expected.items() for one in kept}
    return all(one.position <= at.get((who, one.key), one.position) for who, kept in found.items() for one in kept)


def finds(bug: str, seed: str, flips: int) -> bool:
    """Whether so much damage shows a planted bug. It happens in another process, which unchecked files may end."""
    command = [sys.executable, "-m", "disk.flips", seed, str(flips), bug]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", env=knowing_tests(os.environ)
    )
    if done.returncode > 0:
        raise RuntimeError(
            f"{' '.join(command[1:])} ended with {done.returncode} and said at last:\n{done.stderr[-4000:]}"
        )
    # A negative number is the signal that has ended it: nobody noticed the damage before.
    return done.returncode < 0 or bool(json.loads(done.stdout)["violations"])


def main() -> None:
    seed, flips, bug = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    planted = FLIP_BUGS[bug]
    planted.plant()
    report = flip_bits(seed, int(flips), kinds=planted.damaged, is_killed=planted.is_killed, stop_at_first=True)
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
