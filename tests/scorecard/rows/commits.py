"""Row 8: crashes between what is written to a table and what says so. Spark's checkpoint is lost every time."""

from __future__ import annotations

from collections import Counter

from chaos.harness import Moment, plan_kills, run
from scorecard.row import Effort, Outcome, Row

_MOMENTS = (
    Moment.ROWS_WRITTEN,
    Moment.ROWS_COMMITTED,
    Moment.RESULTS_WRITTEN,
    Moment.RESULTS_COMMITTED,
    Moment.MARK_WRITTEN,
)
_CRASHES_PER_RUN = 25
_NOTE = (
    "The checkpoint lives in scratch and is made anew at every start: each crash here is also one with the checkpoint"
    " deleted."
)


def _commits(effort: Effort) -> Outcome:
    hits: Counter[str] = Counter()
    bad: list[str] = []
    results = 0
    while hits.total() < effort["crashes"] and not bad:
        seed = f"{effort.seed}-{hits.total()}"
        report = run(seed, plan_kills(seed, min(_CRASHES_PER_RUN, effort["crashes"] - hits.total()), _MOMENTS))
        hits.update(report.kills)
        results += report.results_expected
        bad += [f"seed {seed}: {one.kind}: {one.what}" for one in report.violations]
        effort.say(f"{hits.total()} crashes, {results:,} results, {len(bad)} bad")
    return Outcome(
        {"crashes": hits.total()}, tuple(bad), {"results accounted for": results, "crashes at": dict(hits)}, (_NOTE,)
    )


COMMITS = Row(
    8,
    "Crashes between a table's commit and the checkpoint",
    "0 twice, 0 left out",
    full={"crashes": 100},
    brief={"crashes": 3},
    run=_commits,
)
