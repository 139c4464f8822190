"""The scorecard as a page for people (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scorecard.row import Counts, Result, Row

_ABOUT = """# Reliability scorecard

Each row is a test that runs real code: real processes, sockets, files and Spark, unless it says otherwise. *Bad* counts
whatever was lost, delivered twice, out of order or to somebody else, invented or leaked, and every process that ended
when it should not have. Run it with `make scorecard`, and one row with `make scorecard SCORECARD='--rows 4'`.
`make scorecard BRIEF=1` runs all of it in a quarter of an hour, with smaller counts.

The whole of it takes hours, so rows are run one by one, and each names the revision that it was run with.
`git diff REVISION -- src` shows what has changed since.

Everything runs on one machine: this shows faults of processes, files and loopback connections. It does not show
partitions between hosts, or what a disk's own cache does.
"""


def markdown(rows: Iterable[Row], results: Mapping[int, Result], machine: str) -> str:
    rows = list(rows)
    lines = [_ABOUT, f"Machine: {machine}.", ""]
    lines += ["| # | Test | Target | Done | Bad | Took | Revision | Verdict |", "|---:|---|---|---|---:|---:|---|---|"]
    lines += [_line(row, results.get(row.number)) for row in rows]
    lines += ["", "## What each run shows and does not show", ""]
    for row in rows:
        if (result := results.get(row.number)) is not None:
            lines += _section(row, result)
    return "\n".join(lines).rstrip() + "\n"


def verdict(row: Row, result: Result | None) -> str:
    """One or two words.

    >>> verdict(Row(1, "t", "0 bad", {"cuts": 2}, {}, print), None)
    'not run'
    """
    if result is None:
        return "not run"
    if result.bad:
        return "**failed**"
    return "passed, fewer" if result.shortfall(row) else "passed"


def _line(row: Row, result: Result | None) -> str:
    if result is None:
        return f"| {row.number} | {row.title} | {row.target} | | | | | not run |"
    done = _counts(result.counts)
    took = duration(result.seconds)
    cells = (row.number, row.title, row.target, done, f"{result.bad:,}", took, result.revision, verdict(row, result))
    return "| " + " | ".join(map(str, cells)) + " |"


def _section(row: Row, result: Result) -> list[str]:
    lines = [f"### {row.number}. {row.title}", "", f"Seed {result.seed}."]
    for what, (done, wanted) in result.shortfall(row).items():
        lines.append(f"- Fewer than asked for: {done:,} of {wanted:,} {what}.")
    lines += [f"- {limit}" for limit in result.limits]
    lines += [f"- {name}: {_figure(value)}" for name, value in result.figures.items()]
    lines += [f"- **bad**: {one}" for one in result.bad_listed]
    return [*lines, ""]


def _counts(counts: Counts) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _figure(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_figure(one)}" for name, one in value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")


def duration(seconds: float) -> str:
    """
    >>> duration(4.24), duration(61), duration(3725)
    ('4.2 s', '1 min 1 s', '62 min 5 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {round(seconds % 60)} s"
