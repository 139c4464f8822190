"""A simulation's files in a folder: result.json, timeline.parquet and report.html.

Equal runs make equal bytes: the files do not depend on the date, the machine or the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tocsin.errors import InvalidValue
from tocsin.simulator import page
from tocsin.simulator.figures import later_cov, later_max, later_mean, names_of, peak_max, summary
from tocsin.simulator.pictures import byte_unit
from tocsin.simulator.timeline import Run
from tocsin.simulator.timeline_pictures import (
    cov_picture,
    loads_picture,
    max_picture,
    migrations_picture,
    subscribers_picture,
)

__all__ = ["json_bytes", "prepared_folder", "report", "summary", "write_file", "write_outputs"]

#: With more runs than this, runs are folded in the report, and readers open those that they want to see.
_MOST_OPEN = 3
#: A balancing that never rests makes a plan a minute; the list is for reading.
_MOST_PLANS = 200


def write_outputs(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write everything about `runs` into `folder`, each file whole or not at all."""
    prepared_folder(folder)
    contents = {
        "result.json": json_bytes(summary(runs)),
        "timeline.parquet": _timeline(runs),
        "report.html": report(runs).encode(),
    }
    return [write_file(folder / name, content) for name, content in contents.items()]


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def prepared_folder(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as exc:
        raise InvalidValue(f"{folder} is to be a folder, but there is a file in its way") from exc
    return folder


def write_file(path: Path, content: bytes) -> Path:
    """Write a file at once: nobody ever sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _timeline(runs: Sequence[Run]) -> bytes:
    """One row for each run, sample and broker; figures of the whole network are in each broker's row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types: dict[str, Any] = {
        "run": pa.string(),
        "time_s": pa.float64(),
        "broker": pa.string(),
        "capacity": pa.float64(),
        "subscribers": pa.int64(),
        "load_bytes_per_s": pa.float64(),
        "score": pa.float64(),
        "in_bytes": pa.float64(),
        "out_bytes": pa.float64(),
        "deliveries": pa.int64(),
        "cov": pa.float64(),
        "mean_score": pa.float64(),
        "max_score": pa.float64(),
        "migrations": pa.int64(),
    }
    columns: dict[str, list[Any]] = {name: [] for name in types}
    for name, run in zip(names_of(runs), runs, strict=True):
        brokers = len(run.brokers)
        for sample in run.samples:
            columns["broker"] += run.brokers
            columns["capacity"] += run.capacities
            columns["subscribers"] += sample.subscribers
            columns["load_bytes_per_s"] += sample.loads_bytes_per_s
            columns["score"] += sample.scores
            columns["in_bytes"] += sample.in_bytes
            columns["out_bytes"] += sample.out_bytes
            columns["deliveries"] += sample.deliveries
            for column, value in (
                ("run", name),
                ("time_s", sample.time_s),
                ("cov", sample.cov),
                ("mean_score", sample.mean),
                ("max_score", sample.max),
                ("migrations", sample.migrations),
            ):
                columns[column] += [value] * brokers
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=pa.schema(list(types.items()))), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def report(runs: Sequence[Run]) -> str:
    """The report as one HTML text."""
    named = dict(zip(names_of(runs), runs, strict=True))
    scenarios = ", ".join(dict.fromkeys(run.scenario for run in runs))
    parts = [
        page.paragraph(
            "A load is the bytes per second that a broker fetches from the cluster and delivers to subscribers, by the"
            " model. A broker's score is its load divided by its capacity; cov is the standard deviation of the scores"
            " over their mean. Figures called later are means over the second half of the run."
        ),
        _summary_table(named),
        page.heading("Runs beside each other"),
        page.pictures(
            [
                cov_picture("How uneven", named),
                max_picture("The most loaded broker", named),
                migrations_picture("Migrations", named),
            ]
        ),
        page.heading("Run by run"),
        *(page.folded(name, _run_parts(run), is_open=len(named) <= _MOST_OPEN) for name, run in named.items()),
    ]
    return page.page(f"Simulation: {scenarios}", parts)


def _summary_table(named: dict[str, Run]) -> str:
    factor, unit = byte_unit(max((peak_max(run) for run in named.values()), default=0.0))
    columns = ["run", "placement", "migration", "shuffle", "α", "β", "seed"]
    figures = [
        "later cov",
        f"later mean, {unit}/s",
        f"later max, {unit}/s",
        f"peak max, {unit}/s",
        "migrations",
        "plans",
    ]
    rows = [
        [
            name,
            run.placement,
            run.migration or "off",
            run.shuffle or "off",
            f"{run.alpha:g}",
            f"{run.beta:g}",
            str(run.seed),
            f"{later_cov(run):.3f}",
            *(f"{score / factor:,.2f}" for score in (later_mean(run), later_max(run), peak_max(run))),
            f"{run.totals.migrations:,}",
            f"{run.totals.plans:,}",
        ]
        for name, run in named.items()
    ]
    return page.table([*columns, *figures], rows, numbers=[*columns[4:], *figures])


def _run_parts(run: Run) -> list[str]:
    parts = [
        page.pictures(
            [loads_picture("Load of each broker", run), subscribers_picture("Subscribers of each broker", run)]
        ),
        _totals_table(run),
    ]
    if run.plans:
        parts.append(_plans_table(run))
    if len(run.plans) > _MOST_PLANS:
        parts.append(page.paragraph(f"{len(run.plans) - _MOST_PLANS} more plans are in result.json."))
    return parts


def _totals_table(run: Run) -> str:
    totals = run.totals
    figures = {
        "frontend subscriptions": f"{totals.frontend_subscriptions:,}",
        "backend subscriptions": f"{totals.backend_subscriptions:,}",
        "notifications": f"{totals.deliveries:,}",
        "fetched": _bytes(totals.in_bytes),
        "delivered": _bytes(totals.out_bytes),
        "control messages": f"{totals.control_messages:,}",
        "failures": f"{totals.failures:,}",
    }
    return page.table(list(figures), [list(figures.values())], numbers=list(figures))


def _plans_table(run: Run) -> str:
    columns = ["at", "stage", "policy", "reason", "moves", "cov before", "cov after", "max before", "max after", "gap"]
    factor, unit = byte_unit(max(plan.max_before for plan in run.plans))
    rows = [
        [
            f"{plan.time_s:,.0f} s",
            plan.stage,
            plan.policy,
            plan.reason,
            f"{plan.moves:,}",
            f"{plan.cov_before:.3f}",
            f"{plan.cov_after:.3f}",
            f"{plan.max_before / factor:.2f} {unit}/s",
            f"{plan.max_after / factor:.2f} {unit}/s",
            f"{plan.gap:.3f}",
        ]
        for plan in run.plans[:_MOST_PLANS]
    ]
    return page.table(columns, rows, numbers=["at", *columns[4:]])


def _bytes(count: float) -> str:
    factor, unit = byte_unit(count)
    return f"{count / factor:,.1f} {unit}"
