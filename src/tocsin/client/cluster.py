"""A client of the data cluster's HTTP API, for scripts, tools and tests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from tocsin.client.shell.http import HttpClient
from tocsin.protocol.paths import path_part

_TIMEOUT_S = 120.0


class ClusterClient(HttpClient):
    """One connection pool to one cluster.

    >>> client = ClusterClient("http://127.0.0.1:8600")  # doctest: +SKIP
    >>> client.sql("SHOW CHANNELS")  # doctest: +SKIP
    """

    def __init__(self, url: str = "http://127.0.0.1:8600", *, token: str = "", timeout_s: float = _TIMEOUT_S) -> None:
        super().__init__(url, token=token, timeout_s=timeout_s)

    def status(self) -> dict[str, Any]:
        return self._json("GET", "/v1/status")

    def wait_ready(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """Returns the status once the cluster is ready; raises TimeoutError after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        last = "it does not answer"
        while time.monotonic() < deadline:
            try:
                status = self.status()
                if status["state"] == "ready":
                    return status
                last = f"it is {status['state']} {status['failure']}".strip()
            except httpx.TransportError as exc:
                last = f"it does not answer: {exc}"
            time.sleep(0.1)
        raise TimeoutError(f"the cluster was not ready within {timeout_s:g} s: {last}")

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Carry out statements; one answer each, with `message`, `columns` and `rows`."""
        results: list[dict[str, Any]] = self._json("POST", "/v1/statements", json={"sql": text})["results"]
        return results

    def catalogue(self) -> dict[str, Any]:
        """The `datasets`, `channels` and `feeds` that exist."""
        return self._json("GET", "/v1/catalogue")

    def recent(self, dataset: str, after: int = 0, limit: int = 500) -> dict[str, Any]:
        """A dataset's newest rows in memory, of commits after `after`; `commit` is the `after` of the next call."""
        return self._json("GET", f"/v1/datasets/{path_part(dataset)}/recent", params={"after": after, "limit": limit})

    def publish(
        self,
        feed: str,
        records: Iterable[Mapping[str, Any]] | bytes,
        *,
        wait_commit: bool = False,
        key: str | None = None,
        content_type: str = "application/x-ndjson",
    ) -> dict[str, Any]:
        """Publish records (or a body as it is); returns the receipt. Raises ServerError, temporary or not."""
        body = records if isinstance(records, bytes) else b"\n".join(json.dumps(one).encode() for one in records)
        headers = {"Content-Type": content_type} | ({"Idempotency-Key": key} if key else {})
        params = {"wait": "commit"} if wait_commit else {}
        return self._json("POST", f"/v1/feeds/{path_part(feed)}/records", content=body, headers=headers, params=params)

    def receipt(self, feed: str, receipt: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/feeds/{path_part(feed)}/receipts/{path_part(receipt)}")

    def dead_letters(self, dataset: str, limit: int = 100, after: str = "") -> dict[str, Any]:
        """A page of dead letters, newest first: `total`, `dead_letters`, and `next`, the `after` of the next page."""
        params: dict[str, Any] = {"limit": limit} | ({"after": after} if after else {})
        return self._json("GET", _letters_path(dataset), params=params)

    def dead_letter(self, dataset: str, letter: str) -> list[dict[str, Any]]:
        """A whole dead letter by its `id`. If several channels have failed on one record, there is one for each."""
        found = self._json("GET", f"{_letters_path(dataset)}/{path_part(letter)}")
        letters: list[dict[str, Any]] = found["dead_letters"]
        return letters

    def replay(
        self, dataset: str, positions: Sequence[int] | None = None, *, letters: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Publish dead letters again: all, those of some requests, or single ones."""
        return self._json("POST", f"{_letters_path(dataset)}/replay", json=_choice(positions, letters))

    def discard(
        self, dataset: str, positions: Sequence[int] | None = None, *, letters: Sequence[str] | None = None
    ) -> int:
        """Remove dead letters for good: all, those of some requests, or single ones. Returns how many."""
        body = _choice(positions, letters) or {"all": True}
        return int(self._json("POST", f"{_letters_path(dataset)}/discard", json=body)["discarded"])

    def register_broker(self, name: str) -> int:
        """Register a broker; returns the cursor where it may begin to pull."""
        return int(self._json("PUT", f"/v1/brokers/{path_part(name)}", json={})["cursor"])

    def subscribe(self, broker: str, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Hold a backend subscription for each of `wanted` (`channel`, `parameters`)."""
        answer = self._json(
            "POST", f"/v1/brokers/{path_part(broker)}/subscriptions", json={"subscriptions": list(wanted)}
        )
        subscriptions: list[dict[str, Any]] = answer["subscriptions"]
        return subscriptions

    def unsubscribe(self, broker: str, ids: Sequence[int]) -> dict[str, Any]:
        return self._json("POST", f"/v1/brokers/{path_part(broker)}/unsubscribe", json={"ids": list(ids)})

    def pull(
        self, broker: str, after: int, *, limit: int = 10_000, wait_s: float = 0
    ) -> tuple[list[dict[str, Any]], int]:
        """A broker's results after a cursor, and the next cursor."""
        params: dict[str, Any] = {"after": after, "limit": limit, "wait_s": wait_s}
        response = self._send("GET", f"/v1/brokers/{path_part(broker)}/results", params=params)
        return [json.loads(line) for line in response.content.splitlines()], int(response.headers["Tocsin-Cursor"])

    def follow(self, broker: str, after: int) -> Iterator[dict[str, Any]]:
        """A broker's results as they are committed, without end."""
        while True:
            results, after = self.pull(broker, after, wait_s=10)
            yield from results


def _letters_path(dataset: str) -> str:
    return f"/v1/datasets/{path_part(dataset)}/dead-letters"


def _choice(positions: Sequence[int] | None, letters: Sequence[str] | None) -> dict[str, Any]:
    chosen = {"positions": positions, "letters": letters}
    return {name: list(values) for name, values in chosen.items() if values is not None}
