"""`tocsin brokers`: the brokers as the coordinator knows them."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.progress import Progress

from tocsin.cli.balance import who
from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, CoordinatorUrl, OperatorToken, coordinating
from tocsin.cli.terminal import AsJson, err, fail, out, print_answer, print_json, print_listing, print_rows
from tocsin.client import CoordinatorClient

_LOOK_EVERY_S = 0.3
_DRAIN_TIMEOUT_S = 600.0

app = typer.Typer(help="List brokers, cordon and drain them, choose the placement policy.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The broker's name.", show_default=False)]


@app.command("list")
def list_brokers(
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """List the brokers: states, load by the model and as they measure it, and when each sent its last heartbeat."""
    with coordinating(url, token) as client:
        brokers = client.brokers()
        status = client.status()
    if as_json:
        print_json(brokers)
        return
    columns = ["broker", "state", "connections", "subscribers", "load", "measured", "capacity", "silent", "address"]
    print_rows(columns, [_row(one) for one in brokers])
    if status["mass_outage"]:
        out.print(
            "Mass outage: most brokers fell silent at once. No broker is taken for dead until they are back.",
            style="yellow",
        )


@app.command("show")
def show(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Show everything about one broker."""
    with coordinating(url, token) as client:
        broker = client.broker(name)
    facts = {key: value for key, value in broker.items() if key != "loads"}
    facts |= {f"load_{kind}": value for kind, value in broker["loads"].items()}
    rows = [[key, "" if value is None else value] for key, value in facts.items()]
    print_listing(broker, ["", ""], rows, as_json=as_json)


@app.command("rtt")
def rtt(
    name: Annotated[str, typer.Argument(help="From this broker only; without it, between all.")] = "",
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Show the round trips between brokers: as measured, as estimated from coordinates, and how far off that is."""
    with coordinating(url, token) as client:
        pairs = client.round_trips(name)
    columns = ["from", "to", "measured", "estimated", "error", "age"]
    print_listing(pairs, columns, [_round_trip(one) for one in pairs], as_json=as_json)


@app.command("cordon")
def cordon(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Send no new subscribers to a broker; it keeps its own."""
    _set_state(name, "cordoned", url, token, as_json)


@app.command("uncordon")
def uncordon(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Let a broker take new subscribers again."""
    _set_state(name, "active", url, token, as_json)


@app.command("drain")
def drain(
    name: Name,
    wait: Annotated[bool, typer.Option(help="Wait until no subscriber is left.")] = True,
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Empty a broker: move all its subscribers to others, even absent ones. It takes no new ones until `uncordon`."""
    with coordinating(url, token) as client:
        answer = client.set_state(name, "draining", by=who())
        if wait:
            answer["subscribers"] = _wait_until_empty(client, name, is_shown=not as_json)
    if answer.get("subscribers") and not as_json:
        fail(f"broker {name} still keeps {answer['subscribers']} subscribers after {_DRAIN_TIMEOUT_S:g} s")
    print_answer(answer, f"broker {name} is {'empty' if wait else answer['state']}", as_json=as_json)


@app.command("remove")
def remove(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Forget a broker that is gone for good."""
    with coordinating(url, token) as client:
        answer = client.remove_broker(name)
    print_answer(
        answer, f"broker {name} removed; {answer['subscribers']} subscribers will be placed elsewhere", as_json=as_json
    )


@app.command("policy")
def policy(
    name: Annotated[str, typer.Argument(help="The new policy; without it, the command shows the present one.")] = "",
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Show or change the placement policy."""
    with coordinating(url, token) as client:
        answer = client.choose_policy(name) if name else client.policy()
    if as_json:
        print_json(answer)
    else:
        out.print(f"{answer['policy']}  [dim](there are: {', '.join(answer['policies'])})[/dim]")


def _set_state(name: str, state: str, url: str, token: str, as_json: bool) -> None:
    with coordinating(url, token) as client:
        answer = client.set_state(name, state, by=who())
    later = "" if answer["state"] == state else f", and {state} once it is back"
    print_answer(answer, f"broker {name} is {answer['state']}{later}", as_json=as_json)


def _wait_until_empty(client: CoordinatorClient, name: str, *, is_shown: bool) -> int:
    """Returns how many subscribers are left: 0, unless it took too long."""
    left = first = int(client.broker(name)["subscribers"])
    deadline = time.monotonic() + _DRAIN_TIMEOUT_S
    with Progress(console=err, disable=not is_shown, transient=True) as bar:
        task = bar.add_task(f"emptying {name}", total=max(1, first))
        while left and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
            left = int(client.broker(name)["subscribers"])
            bar.update(task, completed=first - left)
    return left


def _round_trip(pair: dict[str, Any]) -> list[Any]:
    measured_ms, estimated_ms, error, age_s = (pair[one] for one in ("measured_ms", "estimated_ms", "error", "age_s"))
    missing = "" if pair["answered"] else "no answer"
    return [
        pair["source"],
        pair["destination"],
        missing if measured_ms is None else f"{measured_ms:,.1f} ms",
        "" if estimated_ms is None else f"{estimated_ms:,.1f} ms",
        "" if error is None else f"{error:.0%}",
        "" if age_s is None else f"{age_s:.0f} s",
    ]


def _row(broker: dict[str, Any]) -> list[Any]:
    return [
        broker["name"],
        broker["state"],
        broker["connections"],
        broker["subscribers"],
        f"{broker['loads']['total']:,.0f} B/s",
        f"{broker['bytes_in_per_s'] + broker['bytes_out_per_s']:,.0f} B/s",
        f"{broker['capacity']:g}",
        f"{broker['silent_s']:.1f} s",
        broker["url"],
    ]
