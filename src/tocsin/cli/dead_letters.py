"""`tocsin dead-letters`: shows records that did not fit, publishes them again, or discards them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from tocsin.cli.connecting import DEFAULT_URL, Token, Url, connected
from tocsin.cli.terminal import AsJson, fail, out, print_answer, print_json
from tocsin.client import ClusterClient

app = typer.Typer(help="List, show, replay and discard dead letters.", no_args_is_help=True)

#: How much a list shows of a record and of the reason; `show` prints all of it.
_SHOWN_CHARACTERS = 200
#: Names of channels' dead letters begin with a minus sign; they are not options.
_NAMES = {"ignore_unknown_options": True}
#: The most that one call takes.
_LETTERS_PER_CALL = 1_000

Dataset = Annotated[str, typer.Argument(help="The dataset that the records were for.", show_default=False)]
Letters = Annotated[
    list[str] | None, typer.Argument(help="Their names, as `list` shows them: POSITION:LINE.", show_default=False)
]
Everything = Annotated[bool, typer.Option("--all", help="All dead letters of the dataset.")]


@app.command("list")
def list_letters(
    dataset: Dataset,
    limit: Annotated[int, typer.Option(help="The most dead letters to list.", min=1, max=1000)] = 20,
    after: Annotated[
        str, typer.Option(help="Go on after a page: the value in its last line.", show_default=False)
    ] = "",
    raw: Annotated[
        bool, typer.Option("--raw", help="Print only the records, one per line, so that you can mend and publish them.")
    ] = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """List dead letters with the reason, newest first."""
    with connected(url, token) as client:
        page = client.dead_letters(dataset, limit, after)
        if as_json:
            print_json(page)
            return
        for letter in page["dead_letters"]:
            if raw:
                typer.echo(_whole(client, dataset, letter))
            else:
                _print(letter, _SHOWN_CHARACTERS)
    if not raw:
        _print_rest(page, len(page["dead_letters"]), dataset)


@app.command("show", context_settings=_NAMES)
def show(
    dataset: Dataset,
    letter: Annotated[str, typer.Argument(help="Its name: POSITION:LINE.", show_default=False)],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Show one dead letter, whole."""
    with connected(url, token) as client:
        found = client.dead_letter(dataset, letter)
    if as_json:
        print_json(found)
        return
    for one in found:
        _print(one)


@app.command("replay", context_settings=_NAMES)
def replay(
    dataset: Dataset,
    letters: Letters = None,
    everything: Everything = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Publish dead letters again. Records that still do not fit become dead letters again, and the exit code is 1."""
    named = _named(letters, everything)
    with connected(url, token) as client:
        done = client.replay(dataset, letters=named)
    outcome = f"{done['accepted']} accepted, {done['rejected']} rejected"
    print_answer(done, f"{_counted(done['replayed'])} replayed: {outcome}", as_json=as_json)
    if done["rejected"]:
        raise typer.Exit(1)


@app.command("discard", context_settings=_NAMES)
def discard(
    dataset: Dataset,
    letters: Letters = None,
    everything: Everything = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Remove dead letters for good, for example after mending and publishing the records."""
    named = _named(letters, everything)
    with connected(url, token) as client:
        count = client.discard(dataset, letters=named)
    print_answer({"discarded": count}, f"{_counted(count)} discarded", as_json=as_json)


def _named(letters: list[str] | None, everything: bool) -> list[str] | None:
    """None for all."""
    if bool(letters) == everything:
        raise typer.BadParameter("name the dead letters, or give --all")
    if letters and len(letters) > _LETTERS_PER_CALL:
        fail(f"at most {_LETTERS_PER_CALL:,} dead letters at a time, or --all; nothing was done")
    return letters or None


def _whole(client: ClusterClient, dataset: str, letter: dict[str, Any]) -> str:
    """The record as it was sent; lists cut long ones."""
    if not letter["raw"].endswith("…"):
        return str(letter["raw"])
    return str(client.dead_letter(dataset, letter["id"])[0]["raw"])


def _print(letter: dict[str, Any], most_characters: int | None = None) -> None:
    at = datetime.fromisoformat(letter["rejected_at"]).strftime("%Y-%m-%d %H:%M:%S")
    source = f"feed {letter['feed']}" if letter["feed"] else "a channel"
    out.print(f"{letter['id']}  {at}  {source}", style="bold", markup=False, highlight=False, soft_wrap=True)
    for text in (letter["reason"], letter["raw"]):
        is_cut = most_characters is not None and len(text) > most_characters
        out.print(f"  {text[:most_characters]}{'…' if is_cut else ''}", markup=False, highlight=False, soft_wrap=True)


def _print_rest(page: dict[str, Any], shown: int, dataset: str) -> None:
    text = _counted(page["total"])
    if page["next"]:
        text = f"{shown} shown of {text}; the next: tocsin dead-letters list {dataset} --after {page['next']}"
    out.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def _counted(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
