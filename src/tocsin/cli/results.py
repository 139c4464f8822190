"""`tocsin results`: a broker's results, once or as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.cli.connecting import DEFAULT_URL, Token, Url, connected
from tocsin.cli.terminal import AsJson, out, print_json


def run_results(
    broker: Annotated[str, typer.Argument(help="The broker.")],
    after: Annotated[int, typer.Option(help="Begin after this cursor; 0 is the beginning.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep running, and show results as they are committed.")
    ] = False,
    limit: Annotated[int, typer.Option(help="The most results to show, without --follow.")] = 1000,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Show the results for a broker's subscriptions."""
    with connected(url, token) as client:
        source = client.follow(broker, after) if follow else client.pull(broker, after, limit=limit)[0]
        try:
            for result in source:
                if as_json:
                    print_json(result)
                else:
                    out.print(
                        f"[bold]{result['channel']}[/bold] #{result['subscription']} [dim]{result['position']}[/dim] ",
                        end="",
                    )
                    out.print(result["payload"], markup=False, soft_wrap=True)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None
