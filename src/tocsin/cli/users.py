"""`tocsin users`: registers and removes users, and prints tokens."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tocsin import variables
from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, CoordinatorUrl, OperatorToken, coordinating
from tocsin.cli.terminal import AsJson, fail, out, print_answer, print_json, print_listing, written

app = typer.Typer(help="Register users, list and remove them, get tokens for them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.", show_default=False)]
Password = Annotated[
    str,
    typer.Option(
        "--password",
        envvar=variables.PASSWORD,
        help="The user's password. Others can see it on the command line; leave it out, and the command asks for it.",
        show_default=False,
    ),
]


@app.command("add")
def add(
    name: Name,
    password: Password = "",
    permission: Annotated[
        str, typer.Option(help="The user's permission class: decides which channels the user may see.")
    ] = "",
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    token: OperatorToken = "",
    as_json: AsJson = False,
) -> None:
    """Register a user, and print a first token."""
    password = password or _asked(confirm=True)
    with coordinating(url, token) as client:
        answer = client.register(name, password, permission)
    if as_json:
        print_json(answer)
        return
    out.print(
        f"user {answer['user']} added; this token is valid until {written(answer['expires_at_us'])} UTC:", markup=False
    )
    typer.echo(answer["token"])


@app.command("token")
def token_of(
    name: Name,
    password: Password = "",
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL,
    as_json: AsJson = False,
) -> None:
    """Print a new token for a user, and nothing else."""
    password = password or _asked(confirm=False)
    with coordinating(url, "") as client:
        answer = client.log_in(name, password)
    print_answer(answer, answer["token"], as_json=as_json)


@app.command("list")
def list_users(
    url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """List the users."""
    users: list[dict[str, Any]] = []
    with coordinating(url, token) as client:
        while page := client.users(users[-1]["name"] if users else ""):
            users += page
    rows = [
        [
            one["name"],
            one["permission"],
            f"{written(one['created_at_us'])} UTC",
            f"{written(one['void_before_us'])} UTC" if one["void_before_us"] else "",
        ]
        for one in users
    ]
    print_listing(users, ["user", "permission", "since", "tokens void before"], rows, as_json=as_json)


@app.command("revoke")
def revoke(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Make all tokens of a user that were issued up to now void."""
    with coordinating(url, token) as client:
        answer = client.revoke(name)
    print_answer(answer, f"tokens of {name} are void; the user gets new ones with the password", as_json=as_json)


@app.command("remove")
def remove(
    name: Name, url: CoordinatorUrl = DEFAULT_COORDINATOR_URL, token: OperatorToken = "", as_json: AsJson = False
) -> None:
    """Remove a user with all sessions. The user's tokens become void."""
    with coordinating(url, token) as client:
        client.remove_user(name)
    print_answer({"user": name}, f"user {name} removed", as_json=as_json)


def _asked(*, confirm: bool) -> str:
    """A password from the terminal, unseen, or the first line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=confirm))
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        fail("no password given: put it on standard input, or into TOCSIN_PASSWORD")
    return password
