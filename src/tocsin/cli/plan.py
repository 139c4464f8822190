"""`tocsin plan`: what could be moved to even out the load, and what it would bring."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tocsin.cli.coordinator import DEFAULT_COORDINATOR_URL, CoordinatorUrl, OperatorToken, coordinating
from tocsin.cli.terminal import AsJson, fail, out, print_json, print_rows


def run_plan(
    plan: Annotated[str, typer.Argument(help="A plan made before, to see it again; without it, one is made.")] = "",
    stage: Annotated[str, typer.Option(help="migration moves some, shuffle may move everybody.")] = "migration",
    policy: Annotated[
        str, typer.Option(help="migration: group, ldm, sdm. shuffle: sharing, gsh, sharing-hypergraph.")
    ] = "",
    cov_at_most: Annotated[float, typer.Option(min=0, help="How even migration should make the scores.")] = 0.15,
    max_moves: Annotated[int | None, typer.Option(min=0, help="Move no more than so many.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks at it later.")] = "",
    moves: Annotated[int, typer.Option(min=0, max=100_000, help="How many moves to show.")] = 10,
    list_: Annotated[bool, typer.Option("--list", help="Show the last plans.")] = False,
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Show what could be moved to even out the load: before and after, the moves with reasons, and how much would be
    left to gain. Nothing is moved."""
    if stage not in {"migration", "shuffle"}:
        fail(f"--stage {stage}: there are migration and shuffle")
    with coordinating(url, token) as client:
        if list_:
            _list(client.plans(), as_json)
            return
        if plan:
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
    if as_json:
        print_json(made)
    else:
        _show(made)


def _list(plans: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(plans)
        return
    columns = ["plan", "stage", "policy", "moves", "cov", "highest score", "gap", "reason"]
    print_rows(columns, [[one["plan"], one["stage"], *_figures(one), one["reason"]] for one in plans])


def _show(made: dict[str, Any]) -> None:
    out.print(f"{made['plan']}: {made['stage']} by {made['policy']}, {made['migrations']:,} moves", style="bold")
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
    if made["moves"]:
        columns = ["subscriber", "from", "to", "B/s", "because"]
        names = ("subscriber", "source", "destination")
        print_rows(
            columns, [[*(one[name] for name in names), f"{one['load']:,.0f}", one["reason"]] for one in made["moves"]]
        )
    if made["migrations"] > len(made["moves"]):
        more = made["migrations"] - len(made["moves"])
        out.print(
            f"and {more:,} more; `tocsin plan {made['plan']} --moves {made['migrations']}` shows all", style="dim"
        )
    out.print("Nothing has been moved.", style="dim")


def _figures(plan: dict[str, Any]) -> list[str]:
    before, after = plan["before"], plan["after"]
    return [
        plan["policy"],
        f"{plan['migrations']:,}",
        f"{before['cov']:.3f} → {after['cov']:.3f}",
        f"{before['max']:,.0f} → {after['max']:,.0f}",
        f"{plan['gap']:.3f}",
    ]
