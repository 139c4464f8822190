"""`tocsin plan`: moves that would even out the load, and the loads that result."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.progress import Progress

from tocsin.cli.balance import who
from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, CoordinatorUrl, OperatorToken, coordinating
from tocsin.cli.terminal import AsJson, err, fail, out, print_json, print_listing, print_rows
from tocsin.client import CoordinatorClient

_LOOK_EVERY_S = 0.3


def run_plan(
    plan: Annotated[str, typer.Argument(help="An earlier plan; without it, the command makes a new one.")] = "",
    stage: Annotated[str, typer.Option(help="migration moves some subscribers, shuffle may move all.")] = "migration",
    policy: Annotated[
        str, typer.Option(help="migration: group, ldm, sdm. shuffle: sharing, gsh, sharing-hypergraph.")
    ] = "",
    cov_at_most: Annotated[float, typer.Option(min=0, help="The cov that migration aims at.")] = 0.15,
    max_moves: Annotated[int | None, typer.Option(min=0, help="Move at most this many subscribers.")] = None,
    reason: Annotated[str, typer.Option(help="The reason, for the audit log.")] = "",
    moves: Annotated[int, typer.Option(min=0, max=100_000, help="The number of moves to show.")] = 10,
    list_: Annotated[bool, typer.Option("--list", help="Show the last plans.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Carry the plan out, and wait for its end.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Begin no more moves of this plan.")] = False,
    executions: Annotated[
        bool, typer.Option("--executions", help="Show the plans that were carried out, or still are.")
    ] = False,
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Make, show and carry out plans that even out the load: loads before and after, the moves with their reasons, and
    the lower bound. Without --execute, no subscriber is moved."""
    if stage not in {"migration", "shuffle"}:
        fail(f"--stage {stage}: the stages are migration and shuffle")
    with coordinating(url, token) as client:
        if list_:
            _list(client.plans(), as_json)
            return
        if executions:
            _list_executions(client.executions(), as_json)
            return
        if stop:
            if not plan:
                fail("name the plan to stop; `tocsin plan --executions` lists them")
            client.stop(plan, by=who())
            out.print(f"{plan} begins no more moves", markup=False)
            return
        if plan and execute:
            made = {"plan": plan}
        elif plan:
            made = client.plan(plan, shown_moves=moves)
        else:
            made = client.make_plan(
                stage=stage,
                policy=policy,
                cov_at_most=cov_at_most,
                max_moves=max_moves,
                reason=reason,
                shown_moves=moves,
            )
        if not as_json and "brokers" in made:
            _show(made)
        if execute:
            client.execute(made["plan"], by=who(), reason=reason)
            made = _follow(client, made["plan"], is_shown=not as_json)
    if as_json:
        print_json(made)
    elif execute:
        out.print(f"{made['state']}: {made['done']} moved, {made['failed']} failed, {made['cancelled']} cancelled")
    else:
        out.print("No subscriber has been moved.", style="dim")
    if made.get("failed"):
        raise typer.Exit(1)


def _follow(client: CoordinatorClient, plan: str, *, is_shown: bool) -> dict[str, Any]:
    """Wait for the end of a plan; returns its outcome."""
    with Progress(console=err, disable=not is_shown, transient=True) as bar:
        task = bar.add_task(plan, total=None)
        while True:
            run = client.execution(plan, shown_moves=0)
            ended = run["done"] + run["failed"] + run["cancelled"]
            bar.update(task, total=run["moves"], completed=ended)
            if run["state"] in {"done", "stopped"}:
                return run
            time.sleep(_LOOK_EVERY_S)


def _list_executions(runs: list[dict[str, Any]], as_json: bool) -> None:
    columns = ["plan", "state", "stage", "policy", "by", "moves", "done", "failed", "cancelled", "reason"]
    print_listing(runs, columns, [[one[name] for name in columns] for one in runs], as_json=as_json)


def _list(plans: list[dict[str, Any]], as_json: bool) -> None:
    columns = ["plan", "stage", "policy", "moves", "cov", "highest score", "gap", "reason"]
    rows = [[one["plan"], one["stage"], *_figures(one), one["reason"]] for one in plans]
    print_listing(plans, columns, rows, as_json=as_json)


def _show(made: dict[str, Any]) -> None:
    out.print(f"{made['plan']}: {made['stage']} by {made['policy']}, {made['move_count']:,} moves", style="bold")
    rows = [
        [one["broker"], f"{one['before']:,.0f}", f"{one['after']:,.0f}", f"{one['after'] - one['before']:+,.0f}"]
        for one in made["brokers"]
    ]
    print_rows(["broker", "load before, B/s", "after", "change"], rows)
    before, after = made["before"], made["after"]
    out.print(
        f"cov {before['cov']:.3f} → {after['cov']:.3f}; highest score {before['max']:,.0f} → {after['max']:,.0f},"
        f" {made['gap']:.3f} times the lower bound; all loads {before['total']:,.0f} → {after['total']:,.0f} B/s",
        soft_wrap=True,
    )
    if made["confined"]:
        out.print(f"{made['confined']:,} subscribers stay: no other broker is within reach_ms of them", style="yellow")
    if made["moves"]:
        columns = ["subscriber", "from", "to", "B/s", "because"]
        names = ("subscriber", "source", "destination")
        print_rows(
            columns, [[*(one[name] for name in names), f"{one['load']:,.0f}", one["reason"]] for one in made["moves"]]
        )
    if made["move_count"] > len(made["moves"]):
        more = made["move_count"] - len(made["moves"])
        out.print(
            f"and {more:,} more; `tocsin plan {made['plan']} --moves {made['move_count']}` shows all", style="dim"
        )


def _figures(plan: dict[str, Any]) -> list[str]:
    before, after = plan["before"], plan["after"]
    return [
        plan["policy"],
        f"{plan['move_count']:,}",
        f"{before['cov']:.3f} → {after['cov']:.3f}",
        f"{before['max']:,.0f} → {after['max']:,.0f}",
        f"{plan['gap']:.3f}",
    ]
