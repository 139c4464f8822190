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

#: How much of the audience takes part in a quick look.
_QUICK_SHARE = 0.1
_WIDTH = 160


@app.callback()
def reproduce() -> None:
    # Without it a single command would be the whole application.
    pass


@app.command()
def debs19(
    seed: Annotated[int, typer.Option(help="The same seed makes the same findings.")] = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for report.html, report.md with pictures, and claims.json.")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Only a tenth of the paper's audience: faster, and not the evaluation.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Multistage load balancing (DEBS '19): placement, migration and shuffle. A claim that fails is a finding, not an
    error."""
    from tocsin.lab.experiments.debs19.claims import CLAIMS
    from tocsin.lab.experiments.debs19.report import as_json as findings_json
    from tocsin.lab.experiments.debs19.report import write_report
    from tocsin.lab.experiments.debs19.running import run_variants
    from tocsin.lab.experiments.debs19.variants import VARIANTS
    from tocsin.lab.experiments.report import tally
    from tocsin.simulator.outputs import prepared_folder

    started_at = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        if folder is not None:
            prepared_folder(folder)  # Better refused now than after minutes of simulating.
        with Progress(*columns, console=err, transient=True) as progress:
            task = progress.add_task("simulating", total=len(VARIANTS))
            share = _QUICK_SHARE if quick else 1.0
            runs = run_variants(VARIANTS.values(), seed, share, lambda _: progress.advance(task))
            findings = [claim.find(runs) for claim in CLAIMS]
            if folder is not None:
                progress.update(task, description="drawing")
                command = f"tocsin reproduce debs19 --seed {seed}{' --quick' if quick else ''} --out DIR"
                write_report(findings, runs, seed, command, folder)
    except (TocsinError, OSError) as exc:
        fail(str(exc))
        return
    if as_json:
        print_json({**findings_json(findings, seed), "wall_s": round(time.monotonic() - started_at, 1)})
        return
    table = Table(header_style="bold", show_lines=True)
    table.add_column("id", overflow="fold")
    for name in ("claim", "source", "measured", "holds"):
        table.add_column(name)
    for finding in findings:
        why = f"\n[yellow]{escape(finding.why)}[/]" if finding.why else ""
        holds = "[green]yes[/]" if finding.holds else "[red]no[/]"
        table.add_row(finding.id, escape(finding.claim), finding.source, escape(finding.measured) + why, holds)
    # In a file or a pipe there is no width to keep to.
    (out if out.is_terminal else Console(highlight=False, width=_WIDTH)).print(table)
    out.print(f"{tally(findings)} {len(runs)} simulations in {time.monotonic() - started_at:.0f} s.")
    if folder is not None:
        out.print(f"The report is in {folder}.", markup=False, soft_wrap=True)
