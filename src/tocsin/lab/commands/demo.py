"""`tocsin demo`: the emergency application, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.terminal import AsJson, end_on_sigterm, fail
from tocsin.errors import TocsinError


def run_demo(
    ends_by_itself: Annotated[
        bool, typer.Option("--ci", help="End without Ctrl-C, and fail if a notification was lost.")
    ] = False,
    speed_up: Annotated[float, typer.Option(min=1, max=60, help="How much faster than life.")] = 6.0,
    minutes: Annotated[float, typer.Option(min=2, help="Minutes to run, by the city's clock.")] = 30.0,
    people: Annotated[int, typer.Option(min=10, help="People who move about and get notifications.")] = 400,
    brokers: Annotated[int, typer.Option(min=1, max=20, help="Brokers that share the people.")] = 5,
    seed: Annotated[int, typer.Option(help="The same seed makes the same city, people and reports.")] = 2,
    roads: Annotated[
        Path | None, typer.Option(help="A WKT file whose LINESTRINGs are the city's roads.", exists=True)
    ] = None,
    interactions: Annotated[
        Path | None,
        typer.Option(
            help="A file of people's interactions, as `tocsin experiment interactions` writes it.", exists=True
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the emergency application: a living city to look at in a browser, on a whole system of its own.

    Publishers, cluster, coordinator, brokers and people are all real. At the end what everybody was told is held
    against what the cluster has as results.
    """
    from tocsin.lab.experiments.emergency.demo import DemoOptions
    from tocsin.lab.experiments.emergency.demo import run_demo as run_emergency_demo

    end_on_sigterm()
    options = DemoOptions(speed_up, minutes, people, brokers, seed, roads, interactions, ends_by_itself)
    try:
        code = run_emergency_demo(options, as_json=as_json)
    except (TocsinError, ValueError) as exc:
        fail(str(exc))
    raise typer.Exit(code)
