"""How commands reach a cluster and a coordinator: options, clients, and the message if nobody answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import typer

from tocsin import variables
from tocsin.cli.terminal import fail
from tocsin.client import ClusterClient, CoordinatorClient, ServerError
from tocsin.errors import StatementError, TocsinError

Url = Annotated[str, typer.Option("--url", envvar=variables.CLUSTER_URL, help="Address of the cluster.")]
Token = Annotated[
    str, typer.Option("--token", envvar=variables.CLUSTER_TOKEN, help="The cluster's API token.", show_default=False)
]
CoordinatorUrl = Annotated[
    str, typer.Option("--url", envvar=variables.COORDINATOR_URL, help="Address of the coordinator.")
]
OperatorToken = Annotated[
    str,
    typer.Option(
        "--token",
        envvar=variables.COORDINATOR_TOKEN,
        help="The coordinator's API token.",
        show_default=False,
    ),
]
DEFAULT_URL = "http://127.0.0.1:8600"
DEFAULT_COORDINATOR_URL = "http://127.0.0.1:8500"


@contextmanager
def connected(url: str, token: str) -> Iterator[ClusterClient]:
    """A client of the cluster; prints errors in one line, with exit code 1."""
    try:
        with ClusterClient(url, token=token) as client:
            yield client
    except ServerError as exc:
        fail(describe_failure(str(exc), exc.error.get("script")))
    except httpx.TransportError as exc:
        fail(f"no cluster answers at {url} ({exc}); start one with `tocsin up` or `tocsin cluster`, or give --url")
    except TocsinError as exc:
        fail(exc.pointed() if isinstance(exc, StatementError) else str(exc))


@contextmanager
def coordinating(url: str, token: str) -> Iterator[CoordinatorClient]:
    """A client of the coordinator; prints errors in one line, with exit code 1."""
    try:
        with CoordinatorClient(url, token=token) as client:
            yield client
    except (httpx.TransportError, httpx.InvalidURL) as exc:
        start = "start one with `tocsin up` or `tocsin coordinator`"
        fail(f"no coordinator answers at {url} ({exc}); {start}, or give --url")
    except TocsinError as exc:
        fail(str(exc))


def describe_failure(message: str, script: Mapping[str, Any] | None) -> str:
    """The error and, for a script, which statements were carried out before and which one failed.

    >>> script = {"statement": 2, "statements": 3, "line": 5, "done": ["feed f created"]}
    >>> print(describe_failure("no dataset called x", script))
    statement 1 of 3: feed f created
    statement 2 of 3, at line 5, failed; the statements after it were not carried out:
    no dataset called x
    """
    if not script:
        return message
    count = script["statements"]
    lines = [f"statement {number} of {count}: {text}" for number, text in enumerate(script["done"], 1)]
    if not lines:
        lines = ["nothing was carried out"]
    failed = f"statement {script['statement']} of {count}, at line {script['line']}, failed"
    rest = "; the statements after it were not carried out" if script["done"] and script["statement"] < count else ""
    return "\n".join([*lines, f"{failed}{rest}:", message])
