"""`tocsin forget`: removes a person from the coordinator, from all brokers and from the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin import variables
from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, DEFAULT_URL, Token, Url, connected, coordinating
from tocsin.cli.terminal import AsJson, fail, out, print_json


def run_forget(
    name: Annotated[str, typer.Argument(help="The person's name, in the data and as a user.", show_default=False)],
    url: Url = DEFAULT_URL,
    token: Token = "",
    coordinator_url: Annotated[
        str,
        typer.Option("--coordinator-url", envvar=variables.COORDINATOR_URL, help="Address of the coordinator."),
    ] = DEFAULT_COORDINATOR_URL,
    coordinator_token: Annotated[
        str,
        typer.Option(
            "--coordinator-token",
            envvar=variables.COORDINATOR_TOKEN,
            help="The coordinator's API token.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Remove a person for good: user, sessions, rows, results, dead letters, subscriptions, and the files of them.

    Older back-ups still have these data. The command can be given again; it ends with exit code 1 as long as a broker
    has not been told.
    """
    # The coordinator first: from then on, brokers refuse users of that name, so that no new data comes.
    with coordinating(coordinator_url, coordinator_token) as coordinator:
        before = coordinator.forget(name)
    quoted = name.replace("\\", r"\\").replace("'", "''")
    with connected(url, token) as cluster:
        (answer,) = cluster.sql(f"FORGET PERSON '{quoted}'")
    # Once more: until now brokers could still get results that name the person from the cluster.
    with coordinating(coordinator_url, coordinator_token) as coordinator:
        after = coordinator.forget(name)
    people = {**after, "user": before["user"] or after["user"], "sessions": before["sessions"] + after["sessions"]}
    if as_json:
        print_json({**people, "cluster": answer["message"]})
    else:
        user = "the user and " if people["user"] else ""
        count = people["sessions"]
        out.print(f"removed {user}{count} session{'' if count == 1 else 's'}", markup=False)
        out.print(answer["message"], markup=False, soft_wrap=True)
    if people["away"]:
        names = ", ".join(people["away"])
        fail(f"these brokers do not answer and may still hold the name: {names}; they remove it when they are back")
