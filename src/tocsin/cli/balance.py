"""`tocsin balance`, `tocsin audit`: the brokers' loads, the settings of automatic balancing, and the audit log."""

from __future__ import annotations

import getpass
from typing import Annotated, Any

import typer

from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, CoordinatorUrl, OperatorToken, coordinating
from tocsin.cli.terminal import AsJson, fail, out, print_json, print_listing, print_rows, written

Change = Annotated[list[str] | None, typer.Argument(help="Settings to change, as NAME=VALUE.", show_default=False)]


def who() -> str:
    """The user of this terminal, for the audit log."""
    try:
        return getpass.getuser()[:64] or "operator"
    except (KeyError, OSError):
        return "operator"


def run_balance(
    changes: Change = None,
    automatic: Annotated[bool | None, typer.Option("--on/--off", help="Switch automatic balancing on or off.")] = None,
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Show how even the load is, and the settings of automatic balancing; or change them.

    For example: `tocsin balance --on alpha=0.1`.
    """
    wanted = dict(map(_change, changes or []))
    if automatic is not None:
        wanted["automatic"] = automatic
    with coordinating(url, token) as client:
        balancing = client.change_balancing(by=who(), **wanted) if wanted else client.balancing()
    if as_json:
        print_json(balancing)
        return
    if balancing["cov"] is not None:
        out.print(
            f"cov {balancing['cov']:.3f} by the load model, {balancing['measured_cov']:.3f} as measured;"
            f" highest score {balancing['max']:,.0f} B/s, mean {balancing['mean']:,.0f} B/s",
            soft_wrap=True,
        )
    out.print(f"{balancing['verdict'] or 'no check has been made yet'}; {balancing['under_way']} moves under way")
    rows = [[name, "none" if value is None else value] for name, value in balancing["settings"].items()]
    print_rows(["setting", "value"], rows)


def run_audit(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The number of entries.")] = 20,
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Show the audit log, newest first: plans, moves, changed settings and states, with names and reasons."""
    with coordinating(url, token) as client:
        entries = client.audit(limit=limit)
    rows = [[written(one["at_us"]), one["who"], one["action"], one["subject"], _details(one)] for one in entries]
    print_listing(entries, ["when (UTC)", "who", "did", "to", "details"], rows, as_json=as_json)


def _change(text: str) -> tuple[str, Any]:
    """
    >>> _change("alpha=0.1"), _change("max_moves=none"), _change("shuffle=gsh")
    (('alpha', 0.1), ('max_moves', None), ('shuffle', 'gsh'))
    """
    name, found, value = text.partition("=")
    if not found or not name:
        fail(f"{text}: write NAME=VALUE, such as alpha=0.1")
    if value.lower() == "none":
        return name, None
    if value.lower() in {"true", "false"}:
        return name, value.lower() == "true"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _details(entry: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in entry["details"].items() if value != "")
