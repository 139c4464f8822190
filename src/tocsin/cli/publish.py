"""`tocsin publish`: publishes records from a file or standard input to a feed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import Progress

from tocsin.cli.connecting import DEFAULT_URL, Token, Url, connected
from tocsin.cli.terminal import AsJson, err, fail, print_answer
from tocsin.client import ClusterClient, ServerError

#: Well below the cluster's limit for a body, and large enough that the cost of a request does not count.
_BATCH_BYTES = 1 << 20
STDIN = Path("-")


def run_publish(
    feed: Annotated[str, typer.Argument(help="The feed to publish to.")],
    file: Annotated[Path, typer.Argument(help="NDJSON file, one record per line; `-` reads standard input.")] = STDIN,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the records are in the table, and print rejections.")
    ] = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Publish records. Each batch is acknowledged once it is on disk; when the cluster can't keep up, this waits."""
    if file != STDIN and not file.is_file():
        fail(f"no file {file}")
    total = file.stat().st_size if file != STDIN else None
    summary: dict[str, Any] = {"records": 0, "accepted": 0, "rejected": 0, "last_receipt": ""}
    with (
        _opened(file) as source,
        connected(url, token) as client,
        Progress(console=err, disable=not err.is_terminal, transient=True) as progress,
    ):
        task = progress.add_task(f"publishing to {feed}", total=total)
        for before, batch in _batches(source):
            answer = _publish_patiently(client, feed, batch, wait)
            summary["records"] += answer["records"]
            summary["accepted"] += answer.get("accepted") or 0
            summary["rejected"] += answer.get("rejected") or 0
            summary["last_receipt"] = answer["receipt"]
            for rejection in answer.get("rejections") or []:
                err.print(f"line {before + rejection['line']}: {rejection['reason']}", style="yellow", markup=False)
            progress.update(task, advance=len(batch))
    outcome = f", {summary['accepted']} accepted, {summary['rejected']} rejected" if wait else ""
    text = f"{summary['records']} records published{outcome}; last receipt {summary['last_receipt']}"
    print_answer(summary, text, as_json=as_json)
    if summary["rejected"]:
        raise typer.Exit(1)


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == STDIN else file.open("rb")


def _batches(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The source in pieces of about `_BATCH_BYTES`, cut at line ends, with how many lines came before each."""
    before = 0
    while lines := source.readlines(_BATCH_BYTES):
        batch = b"".join(lines)
        if batch.strip():
            yield before, batch
        before += len(lines)


def _publish_patiently(client: ClusterClient, feed: str, batch: bytes, wait: bool) -> dict[str, Any]:
    while True:
        try:
            return client.publish(feed, batch, wait_commit=wait)
        except ServerError as exc:
            if not exc.temporary:
                raise
            time.sleep(exc.retry_after_s)
