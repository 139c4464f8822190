"""`make compare`: a benchmark of an earlier revision and of this one, in turns on the same machine."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from comparison.figures import Compared, compare, turns

_ROOT = Path(__file__).parents[2]
_CHECKOUTS = _ROOT / "build" / "revisions"


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    parser.add_argument("before", help="the earlier revision, such as a commit or a tag")
    parser.add_argument("bench", help="the benchmark with its options, such as 'latency --measure-s 20'")
    parser.add_argument("--rounds", type=int, default=2, help="how often each revision is measured; 2 if not given")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    try:
        revision = _git("rev-parse", "--short=10", "--verify", f"{options.before}^{{commit}}")
    except subprocess.CalledProcessError:
        parser.error(f"{options.before!r} is no revision of this repository")
    folders = {"before": _checkout(revision), "after": _ROOT}
    results: dict[str, list[dict[str, Any]]] = {"before": [], "after": []}
    for number, turn in enumerate(turns(options.rounds), 1):
        print(f"{number} of {2 * options.rounds}: {turn}", file=sys.stderr, flush=True)
        results[turn].append(_measure(folders[turn], options.bench))
    compared = compare(results["before"], results["after"])
    now = _git("describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=10")
    if options.json:
        figures = {one.name: {"before": one.before, "after": one.after, "ratio": one.ratio} for one in compared}
        print(json.dumps({"bench": options.bench, "before": revision, "after": now, "figures": figures}, indent=2))
    else:
        print(f"{options.bench}: medians of {options.rounds}; before: {revision}, after: {now}")
        print("\n".join(_line(one) for one in compared))
    return 0


def _line(one: Compared) -> str:
    ratio = "" if one.ratio is None else f"{one.ratio:8.2f}"
    return f"  {one.name:<44} {one.before:>16,.6g} {one.after:>16,.6g} {ratio}"


def _checkout(revision: str) -> Path:
    """The revision in a folder of its own, with the packages that it locks. It is kept for the next comparison."""
    folder = _CHECKOUTS / revision
    if not folder.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--quiet", "--detach", str(folder), revision)
    subprocess.run(["make", "--no-print-directory", "setup"], cwd=folder, check=True, stdout=sys.stderr)
    return folder


def _measure(folder: Path, bench: str) -> dict[str, Any]:
    # Variables that make or an editable install set for this revision must not reach the other one.
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    command = [str(folder / ".venv" / "bin" / "tocsin"), "bench", *shlex.split(bench), "--json"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
