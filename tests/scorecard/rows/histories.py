"""Row 1: what `python -m histories` does, counted."""

from __future__ import annotations

import zlib

from scorecard.commands import run_json
from scorecard.row import Effort, Outcome, Row

#: Seeds of the first history lie below; the others follow.
_MAX_SEED = 1_000_000_000


def _histories(effort: Effort) -> Outcome:
    """The machines of cluster, brokers, coordinator and subscribers in drawn histories, each checked at its end."""
    first = zlib.crc32(effort.seed.encode()) % _MAX_SEED
    report = run_json("histories", "--count", str(effort["histories"]), "--seed", str(first), "--json")[0]
    bad = [f"seed {seed}: python -m histories --count 1 --seed {seed}" for seed in report["bad_seeds"]]
    figures = {"notifications": report["notifications"], "known gaps": report["known_gaps"]}
    return Outcome({"histories": report["histories"]}, tuple(bad), figures)


HISTORIES = Row(
    1,
    "Drawn histories of all machines together",
    "0 lost, doubled, out of order or misdelivered",
    full={"histories": 10_000},
    brief={"histories": 300},
    run=_histories,
)
