"""`tocsin simulate`: simulates a network."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.terminal import AsJson, err, fail, out, print_json, print_listing, print_rows
from tocsin.errors import TocsinError
from tocsin.runtime.usage import peak_rss_mb

if TYPE_CHECKING:
    from tocsin.simulator.scenario import Scenario
    from tocsin.simulator.timeline import Run


def run_simulate(
    scenario: Annotated[str, typer.Argument(help="A preset (see --list), or a file: some.toml.")] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed makes the same run.")] = None,
    compare: Annotated[
        str, typer.Option(help="Policies to run side by side: 'none,ldm,gsh,ldm+gsh,random/group+sharing'.")
    ] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change a value: balancing.alpha=0.05. May be repeated.")
    ] = None,
    out_: Annotated[
        Path | None,
        typer.Option("--out", file_okay=False, help="Write result.json, timeline.parquet, report.html here."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the presets.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a network: the brokers' and the coordinator's own machines, without sockets and without a clock."""
    from tocsin.simulator.combinations import combinations
    from tocsin.simulator.outputs import summary, write_outputs
    from tocsin.simulator.reading import load

    try:
        if list_:
            _list_presets(as_json)
            return
        if not scenario:
            fail("no scenario is given; `tocsin simulate --list` shows the presets")
        loaded = load(scenario, dict(_change(one) for one in set_ or []))
        began_s = time.perf_counter()
        runs = _run(combinations(loaded, compare) if compare else [loaded], seed)
        wall_s = time.perf_counter() - began_s
        written = write_outputs(runs, out_) if out_ is not None else []
    except TocsinError as exc:
        fail(str(exc))
    if as_json:
        print_json({**summary(runs), "wall_s": round(wall_s, 3), "peak_rss_mb": peak_rss_mb()})
        return
    _print(loaded, runs, wall_s)
    for path in written:
        out.print(str(path), markup=False, soft_wrap=True)


def _list_presets(as_json: bool) -> None:
    from tocsin.simulator.reading import presets

    found = presets()
    titles = {name: one.title for name, one in found.items()}
    print_listing(titles, ["scenario", "title"], [list(one) for one in titles.items()], as_json=as_json)


def _change(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        fail(f"--set {text}: give a key and a value, such as balancing.alpha=0.05")
    return key.strip(), value.strip()


def _run(scenarios: list[Scenario], seed: int | None) -> list[Run]:
    from tocsin.simulator.world import label, simulate

    runs = []
    with _progress() as begin:
        for one in scenarios:
            balancing = one.balancing
            advance = begin(f"{one.name} {label(balancing.placement, balancing.migration, balancing.shuffle)}")
            runs.append(simulate(one, seed=seed, progress=advance))
    # The process ends soon, and its memory with it: nobody has to look through what the runs have left.
    gc.freeze()
    return runs


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[float], None]]]:
    """A progress bar for each run, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bars:

        def begin(name: str) -> Callable[[float], None]:
            task = bars.add_task(name, total=1.0)
            return lambda part: bars.update(task, completed=part)

        yield begin


def _print(scenario: Scenario, runs: list[Run], wall_s: float) -> None:
    from tocsin.simulator.figures import round_trips

    out.print(f"{scenario.name}: {scenario.title}" if scenario.title else scenario.name, style="bold", markup=False)
    rows = []
    for run in runs:
        last, worst = run.samples[-1], max(one.max for one in run.samples)
        rows.append(
            [
                run.label,
                f"{last.cov:.3f}",
                f"{last.max / 1e6:.3f}",
                f"{worst / 1e6:.3f}",
                run.totals.plans,
                run.totals.migrations,
                f"{run.totals.deliveries:,}",
                *(f"{one:,.1f} ms" for one in round_trips(run).values()),
            ]
        )
    columns = ["policies", "cov", "max MB/s", "highest", "plans", "moves", "deliveries"]
    print_rows([*columns, *(["round trip", "19 of 20"] if runs[0].round_trips_ms else [])], rows)
    totals = runs[0].totals
    out.print(
        f"{runs[0].duration_s:g} s of {sum(runs[0].samples[-1].subscribers):,} subscribers at {len(runs[0].brokers)} "
        f"brokers, {totals.frontend_subscriptions:,} frontend and {totals.backend_subscriptions:,} backend "
        f"subscriptions at the end; seed {runs[0].seed}; {len(runs)} simulated in {wall_s:.1f} s",
        style="dim",
        markup=False,
        soft_wrap=True,
    )
