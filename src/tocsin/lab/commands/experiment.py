"""`tocsin experiment`: papers' live evaluations, on real processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tocsin.cli.terminal import AsJson, end_on_sigterm, err, fail, out, print_json, print_rows
from tocsin.errors import TocsinError

app = typer.Typer(help="Live experiments, on processes of their own.", no_args_is_help=True)

Seed = Annotated[int, typer.Option(min=0, help="The same seed makes the same city, people and reports.")]
People = Annotated[int, typer.Option(min=10, help="Subscribers.")]
Minutes = Annotated[float, typer.Option(min=10, help="Minutes of a run, by the city's clock.")]
Roads = Annotated[
    Path | None, typer.Option(help="A WKT file whose LINESTRINGs are the city's roads.", exists=True, dir_okay=False)
]


@app.command()
def prototype(
    folder: Annotated[
        Path,
        typer.Option("--out", help="Folder for the report and the runs; an interrupted experiment resumes from it."),
    ] = Path("prototype"),
    speed_up: Annotated[float, typer.Option(min=1, max=60, help="How much faster than life.")] = 5.0,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this variant, such as nearest/ldm. May be repeated.")
    ] = None,
    seed: Seed = 2,
    people: People = 400,
    minutes: Minutes = 30.0,
    roads: Roads = None,
    as_json: AsJson = False,
) -> None:
    """The multistage paper's test-bed evaluation (DEBS '19, 6.1): placements and policies on a living city.

    Thirteen runs of half an hour each by the city's clock. A claim that fails is a finding, not an error; a lost
    notification is one.
    """
    from tocsin.lab.experiments.emergency.scenario import CityScenario
    from tocsin.lab.experiments.prototype.claims import find_all
    from tocsin.lab.experiments.prototype.report import as_json as findings_json
    from tocsin.lab.experiments.prototype.report import write_report
    from tocsin.lab.experiments.prototype.running import Conditions, run_variants
    from tocsin.lab.experiments.prototype.variants import VARIANTS
    from tocsin.lab.experiments.report import tally

    end_on_sigterm()
    wanted = [f"prototype/{name}" for name in only or []] or list(VARIANTS)
    if unknown := [name for name in wanted if name not in VARIANTS]:
        known = ", ".join(name.removeprefix("prototype/") for name in VARIANTS)
        fail(f"no variant {unknown[0].removeprefix('prototype/')}; there are: {known}")
    scenario = CityScenario().lasting(minutes, seed=seed, people=people)
    conditions = Conditions(scenario, speed_up, roads=str(roads) if roads else "")
    started_s = time.monotonic()

    def say(text: str) -> None:
        err.print(f"[dim]{time.monotonic() - started_s:7.1f} s[/]  {text}", highlight=False, soft_wrap=True)

    left = len(wanted)
    say(f"{left} runs, about {left * (minutes * 60 / speed_up + 75) / 60:.0f} minutes; kept in {folder / 'runs'}")
    try:
        live = run_variants([VARIANTS[name] for name in wanted], conditions, folder / "runs", say)
        findings = find_all(live)
        machine = f"{os.cpu_count()} cores"
        on_roads = f" --roads {roads.name}" if roads else ""
        command = f"tocsin experiment prototype --speed-up {speed_up:g} --seed {seed}{on_roads} --out DIR"
        write_report(findings, live, command, machine, folder)
    except (TocsinError, OSError) as exc:
        fail(str(exc))
        return
    document = findings_json(findings, live)
    if as_json:
        print_json(document)
    else:
        for finding in findings:
            mark = "[green]holds[/]" if finding.holds else "[red]does not hold[/]"
            out.print(f"{finding.id}: {mark}  {escape(finding.measured)} {escape(finding.why)}", soft_wrap=True)
        rows = [
            [name, *(str(run[key]) for key in ("end_cov", "migrations", "overruns"))]
            for name, run in document["runs"].items()
        ]
        print_rows(["run", "cov at the end", "migrations", "overruns"], rows)
        out.print(f"{tally(findings)} The report is in {folder}.", markup=False, soft_wrap=True)
    raise typer.Exit(0 if all(one.audit.is_clean for one in live.values()) else 1)


@app.command()
def million(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("city-million"),
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same city.")] = 1,
    subscribers: Annotated[
        int | None, typer.Option(min=100, help="Fewer than a million: faster, and not the experiment.")
    ] = None,
) -> None:
    """Simulate the preset city-million and judge it: some ten minutes on one core, and 5 GB of memory."""
    from tocsin.lab.experiments import million as city
    from tocsin.simulator.outputs import prepared_folder

    try:
        prepared_folder(folder)  # Better refused now than after minutes of simulating.
        run = city.run_city(subscribers, seed)
        fewer = f" --subscribers {subscribers}" if subscribers is not None else ""
        city.write_report(run, f"tocsin experiment million --seed {seed}{fewer} --out DIR", folder)
    except (TocsinError, OSError) as exc:
        fail(str(exc))
        return
    for finding in city.find_all(run):
        mark = "[green]holds[/]" if finding.holds else "[red]does not hold[/]"
        out.print(f"{finding.id}: {mark}  {escape(finding.measured)} {escape(finding.why)}", soft_wrap=True)
    out.print(f"The report is in {folder}.", markup=False, soft_wrap=True)


@app.command()
def interactions(
    file: Annotated[Path, typer.Option("--out", help="The file to write, one JSON object per line.")],
    seed: Seed = 2,
    people: People = 400,
    minutes: Minutes = 30.0,
    roads: Roads = None,
) -> None:
    """Write the city's interactions to a file: logins, logouts, subscriptions and times. `tocsin demo` reads it."""
    from tocsin.lab.experiments.emergency.city import City
    from tocsin.lab.experiments.emergency.scenario import CityScenario, draw_interactions, write_interactions
    from tocsin.lab.experiments.emergency.workload import EmergencyWorkload

    scenario = CityScenario().lasting(minutes, seed=seed, people=people)
    try:
        city = City.from_wkt(roads.read_text(), seed) if roads else City.generate(seed)
        drawn = draw_interactions(scenario, EmergencyWorkload(city, users=people, seed=seed))
        write_interactions(file, drawn)
    except (OSError, ValueError) as exc:
        fail(str(exc))
    out.print(f"{len(drawn):,} interactions of {people} people in {file}", markup=False, soft_wrap=True)
