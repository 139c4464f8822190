"""`make scorecard`: run its rows, one after the other, and write the report."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from scorecard import keeping, report
from scorecard.row import Effort, Outcome, Result, Row
from scorecard.rows import ROWS
from tocsin.cli.terminal import end_on_sigterm

_ROOT = Path(__file__).resolve().parents[2]
_REPORT = _ROOT / "docs" / "reports" / "reliability"
_MOST_LISTED = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="scorecard", description=__doc__)
    parser.add_argument("--rows", help="which, with commas; all if not given")
    parser.add_argument("--brief", action="store_true", help="smaller counts; writes no report unless --out is given")
    parser.add_argument("--count", action="append", default=[], metavar="WHAT=N", help="another count, such as cuts=20")
    parser.add_argument("--seed", default="", help="decides what chance decides; one is made up if none is given")
    parser.add_argument("--out", type=Path, help=f"where the report goes; {_REPORT.relative_to(_ROOT)} if not given")
    parser.add_argument("--list", action="store_true", help="list the rows, with their counts, and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row")
    options = parser.parse_args()
    by_number = {str(row.number): row for row in ROWS}
    wanted = list(by_number) if options.rows is None else options.rows.split(",")
    if unknown := sorted(set(wanted) - by_number.keys()):
        parser.error(f"no rows {', '.join(unknown)}; there are 1 to {len(ROWS)}")
    if options.list:
        for row in ROWS:
            print(f"{row.number:2} {row.title}: {dict(row.full)}; brief: {dict(row.brief)}")
        return 0
    end_on_sigterm()
    folder = options.out or (None if options.brief else _REPORT)
    results = []
    for number in wanted:
        row = by_number[number]
        counts = dict(row.brief if options.brief else row.full) | _own_counts(parser, row, options.count)
        results.append(_run(row, counts, options.seed, is_brief=options.brief))
        if folder is not None:
            keeping.write(folder, results[-1])
            (folder / "report.md").write_text(report.markdown(ROWS, keeping.read_all(folder), keeping.machine()))
        if options.json:
            print(json.dumps(asdict(results[-1])), flush=True)
    if not options.json:
        _print_table(results)
    if folder is not None:
        print(f"the report is {folder / 'report.md'}", file=sys.stderr)
    return 1 if any(one.bad for one in results) else 0


def _own_counts(parser: argparse.ArgumentParser, row: Row, given: list[str]) -> dict[str, int]:
    counts = {}
    for one in given:
        what, equals, count = one.partition("=")
        if not (equals and count.isdecimal()):
            parser.error(f"--count {one}: expected WHAT=N, such as cuts=20")
        if what in row.full:
            counts[what] = int(count)
    return counts


def _run(row: Row, counts: dict[str, int], seed: str, *, is_brief: bool) -> Result:
    def say(what: str) -> None:
        print(f"row {row.number}: {what}", file=sys.stderr, flush=True)

    seed = seed or f"{time.time_ns() % 1_000_000:06d}"
    say(f"{row.title}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")
    begin_s = time.monotonic()
    try:
        outcome = row.run(Effort(counts, seed, say))
    except Exception as exc:  # noqa: BLE001 - the row counts as failed
        # The other rows are worth running all the same; this one has shown nothing.
        traceback.print_exc()
        outcome = Outcome({}, bad=(f"the test itself ended: {type(exc).__name__}: {exc}",))
    seconds = time.monotonic() - begin_s
    say(f"{len(outcome.bad)} bad, {report.duration(seconds)}")
    listed = tuple(one[:500] for one in outcome.bad[:_MOST_LISTED])
    return Result(
        row.number,
        seed,
        round(seconds, 1),
        is_brief,
        outcome.counts,
        len(outcome.bad),
        listed,
        outcome.figures,
        outcome.limits,
        _revision(),
    )


def _revision() -> str:
    """The commit that is checked out, and a plus sign if files have changed since, other than the reports."""
    commit = _git("rev-parse", "--short", "HEAD")
    is_changed = _git("status", "--porcelain", "--", ".", f":!{_REPORT.parent.relative_to(_ROOT)}")
    return f"{commit}+" if commit and is_changed else commit or "unknown"


def _git(*arguments: str) -> str:
    """What git answers; nothing if this is no repository."""
    asked = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _print_table(results: list[Result]) -> None:
    titles = {row.number: row for row in ROWS}
    for one in results:
        row = titles[one.number]
        counts = ", ".join(f"{count:,} {what}" for what, count in one.counts.items())
        print(f"{row.number:2} {report.verdict(row, one):13} {one.bad:4} bad  {row.title}: {counts}")
        for bad in one.bad_listed:
            print(f"      {bad}")


if __name__ == "__main__":
    sys.exit(main())
