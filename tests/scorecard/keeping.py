"""Results of rows as files, one each, so that a row can be run again without the others."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path

import psutil

from scorecard.row import Result


def write(folder: Path, result: Result) -> Path:
    rows = folder / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    file = rows / f"{result.number:02d}.json"
    file.write_text(json.dumps(asdict(result), indent=2, ensure_ascii=False) + "\n")
    return file


def read_all(folder: Path) -> dict[int, Result]:
    found = {}
    for file in sorted((folder / "rows").glob("*.json")):
        kept = json.loads(file.read_text())
        kept |= {name: tuple(kept[name]) for name in ("bad_listed", "limits")}
        found[kept["number"]] = Result(**kept)
    return found


def machine() -> str:
    gigabytes = round(psutil.virtual_memory().total / 2**30)
    return f"{psutil.cpu_count()} cores, {gigabytes} GB, {platform.system()}, Python {platform.python_version()}"
