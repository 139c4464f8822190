"""Power cuts: one recorded run, cut at many moments; each time everything is started on what is left, and counted."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from disk.recording import Disk, build_recorder, environment, read_recording
from disk.workload import Told, Town, violations
from tocsin.errors import TocsinError

_MOST_LISTED = 10
#: A traceback with its error, of what a process that failed has said.
_MOST_CHARACTERS = 4_000


@dataclass(slots=True)
class CutReport:
    cuts: int = 0
    #: Records of the recording by kind: that each of these is there shows that the recorder sees everybody's writes.
    recorded: Counter[str] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        return {
            "cuts": self.cuts,
            "recorded": dict(self.recorded),
            "heard": dict(self.heard),
            "violations": len(self.violations),
            "violations_listed": self.violations[:_MOST_LISTED],
        }


def cut_power(seed: str, cuts: int, *, steps: int = 400, bug: str = "", stop_at_first: bool = False) -> CutReport:
    """Record a run of `steps` steps and cut it at `cuts` random moments."""
    with tempfile.TemporaryDirectory(prefix="tocsin-cuts-") as name:
        folder = Path(name).resolve()
        root, log = folder / "data", folder / "log"
        root.mkdir()
        library = build_recorder(folder)
        command = [
            sys.executable,
            "-m",
            "disk.workload",
            str(root),
            str(log),
            seed,
            str(steps),
            *([bug] if bug else []),
        ]
        done = subprocess.run(
            command,
            check=False,
            env=environment(library, root, log),
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = done.stderr[-_MOST_CHARACTERS:]
            raise RuntimeError(f"{' '.join(command[1:])} ended with {done.returncode} and said at last:\n{said}")
        return _cut_everywhere(folder, seed, cuts, stop_at_first=stop_at_first)


def _cut_everywhere(folder: Path, seed: str, cuts: int, *, stop_at_first: bool) -> CutReport:
    records = read_recording(folder / "log")
    chance = random.Random(f"{seed}/cuts")
    moments = sorted(chance.choices(range(len(records) + 1), k=cuts))
    disk, heard, report, done = Disk(folder / "data"), Told(), CutReport(), 0
    report.recorded.update(record.op.name.lower() for record in records)
    for moment in moments:
        for record in records[done:moment]:
            disk.play(record)
            heard.hear(record)
        done = moment
        left = folder / "left"
        disk.cut(chance, left)
        report.cuts += 1
        report.violations += [f"cut at {moment} of {len(records)}: {one}" for one in _look_at(left, folder, heard)]
        shutil.rmtree(left)
        if report.violations and stop_at_first:
            break
    if not report.violations:
        for record in records[done:]:
            disk.play(record)
            heard.hear(record)
        report.violations += [f"the recorder has missed changes of {name}" for name in disk.differences()]
    report.heard.update(
        records=len(heard.records),
        results=len(heard.results),
        subscriptions=len(heard.subscriptions),
        users=len(heard.users),
    )
    return report


def _look_at(left: Path, folder: Path, heard: Told) -> list[str]:
    try:
        town = Town(left, folder / "scratch")
    except TocsinError as exc:
        return [f"does not start: {exc}"]
    try:
        return list(violations(town, heard))
    except TocsinError as exc:
        return [f"can't go on: {exc}"]
    finally:
        town.close()
