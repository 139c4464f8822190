"""`tocsin reproduce`: papers' evaluations on our simulator, claim by claim."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tocsin.cli.terminal import AsJson, err, fail, out, print_json
from tocsin.errors import TocsinError

app = typer.Typer(help="Reproduce a paper's evaluation, claim by claim.", no_args_is_help=True)

_WIDTH = 160


@app.callback()
def reproduce() -> None:
    # Without it a single command would be the whole application.
    pass


@app.command()
def debs19(
    seed: Annotated[int, typer.Option(help="The first seed. The same seeds make the same findings.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; a claim holds if it holds for nine in ten.")] = 10,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for report.html, report.md with pictures, and claims.json.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(help="A tenth of the paper's subscribers, one seed, no experiments: not the evaluation."),
    ] = False,
    kept: Annotated[
        Path | None, typer.Option("--runs", help="Folder that keeps simulations: an interrupted evaluation goes on.")
    ] = None,
    confirm: Annotated[
        Path | None,
        typer.Option(help="Run nothing but the probe of the report in this folder: would it be made again?"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Multistage load balancing (DEBS '19): placement, migration and shuffle, under the paper's settings. A claim that
    fails is a finding, not an error."""
    from tocsin.lab.experiments.debs19 import evaluation
    from tocsin.lab.experiments.debs19.probe import YOUTH
    from tocsin.lab.experiments.debs19.report import as_json as findings_json
    from tocsin.lab.experiments.debs19.report import write_report
    from tocsin.lab.experiments.report import tally
    from tocsin.simulator.outputs import prepared_folder

    if confirm is not None:
        try:
            is_young = YOUTH.confirm(confirm / "claims.json")
        except (OSError, ValueError) as exc:
            fail(f"{confirm / 'claims.json'} can't be read: {exc}")
            return
        if not is_young:
            fail(f"the report in {confirm} is old: its probe comes out otherwise")
        out.print(f"The report in {confirm} would be made again.", markup=False, soft_wrap=True)
        return
    started_at = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    plan = evaluation.Plan(range(seed, seed + (1 if quick else seeds)), quick)
    jobs = len(plan.jobs)
    try:
        if folder is not None:
            prepared_folder(folder)  # Better refused now than after minutes of simulating.
        if kept is not None:
            prepared_folder(kept)
        with Progress(*columns, console=err, transient=True) as progress:
            task = progress.add_task("simulating", total=jobs)
            found = evaluation.evaluate(plan, lambda _: progress.advance(task), kept)
            if folder is not None:
                progress.update(task, description="drawing")
                how_much = "--quick" if quick else f"--seeds {seeds}"
                command = f"tocsin reproduce debs19 --seed {seed} {how_much} --out DIR"
                made = {} if quick else {"made_by": YOUTH.mark()}
                write_report(found.findings, found.swept, found.runs, command, folder, made)
    except (TocsinError, OSError) as exc:
        fail(str(exc))
        return
    took_s = time.monotonic() - started_at
    if as_json:
        times = {"wall_s": round(took_s, 1), "cpu_s": round(found.cpu_s, 1), "simulations": jobs}
        print_json({**findings_json(found.findings, found.swept, list(found.runs)), **times})
        return
    table = Table(header_style="bold", show_lines=True)
    table.add_column("id", overflow="fold")
    for name in ("claim", "source", "the paper's value", "measured", "holds"):
        table.add_column(name)
    for finding in found.findings:
        why = f"\n[yellow]{escape(finding.why)}[/]" if finding.why else ""
        holds = "[green]yes[/]" if finding.holds else "[red]no[/]"
        table.add_row(
            finding.id,
            escape(finding.claim),
            finding.source,
            escape(finding.paper),
            escape(finding.measured) + why,
            f"{holds}, {finding.held} of {finding.seeds}",
        )
    # In a file or a pipe there is no width to keep to.
    (out if out.is_terminal else Console(highlight=False, width=_WIDTH)).print(table)
    out.print(f"{tally(found.findings)} {jobs} simulations, {found.cpu_s:.0f} s of one core, in {took_s:.0f} s.")
    if folder is not None:
        out.print(f"The report is in {folder}.", markup=False, soft_wrap=True)
