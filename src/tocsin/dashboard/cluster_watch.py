"""The page's data from the cluster. These are the only calls to it: the page can't ask for anything else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import structlog

from tocsin.errors import InvalidValue, NotFound, Overloaded, TocsinError, Unauthorised, Unavailable, error_in, error_of
from tocsin.protocol.paths import path_part
from tocsin.runtime.clock import Clock
from tocsin.runtime.http_transport import AsyncTransport

log = structlog.get_logger(__name__)

_EVERY_S = 2.0
_TIMEOUT_S = 5.0
#: Replaying waits until the records are in tables.
_REPLAY_TIMEOUT_S = 60.0
#: Rates are means over these last seconds.
_RATES_OVER_S = 20.0
_NUMERIC = frozenset({"INT", "BIGINT", "DOUBLE", "FLOAT", "SMALLINT", "TINYINT"})

#: The time, and for each feed how many records were accepted and rejected since the cluster began.
_Counts = tuple[float, dict[str, tuple[int, int]]]


class ClusterWatch:
    def __init__(self, url: str, token: str, clock: Clock) -> None:
        headers = [(b"Authorization", f"Bearer {token}".encode())] if token else []
        transport = AsyncTransport(trust_env=False)
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=_TIMEOUT_S, transport=transport, trust_env=False
        )
        self._clock = clock
        self._status: dict[str, Any] = {}
        self._catalogue: dict[str, Any] = {"datasets": [], "channels": [], "feeds": []}
        self._counts: deque[_Counts] = deque()
        self._trouble = "no answer has come yet"
        self._logged_trouble = ""

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self) -> None:
        """Ask for the cluster's state every now and then, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_EVERY_S)

    async def refresh(self) -> None:
        try:
            self._status = await self._get("/v1/status")
            self._catalogue = await self._get("/v1/catalogue")
        except TocsinError as exc:
            self._trouble = exc.message
            if self._trouble != self._logged_trouble:
                log.warning("the dashboard does not reach the cluster", reason=self._trouble)
        else:
            self._trouble = ""
            self._count()
        self._logged_trouble = self._trouble

    def now(self) -> dict[str, Any]:
        """Channels, feeds and datasets as they were a moment ago; if they are older, `trouble` says why."""
        known = {one["name"]: _of_channel(one) for one in self._catalogue["channels"]}
        publishers = {one["name"]: one.get("publishers", []) for one in self._catalogue["feeds"]}
        status = self._status
        return {
            "trouble": self._trouble,
            "state": status.get("state", "unknown"),
            "pending_bytes": status.get("landing", {}).get("pending_bytes", 0),
            "channels": [
                {**one, **known.get(one["name"], _of_channel({"parameters": []}))}
                for one in sorted(status.get("channels", []), key=lambda one: str(one["name"]))
            ],
            "feeds": [
                {**one, **self._rates(one["name"]), "publishers": publishers.get(one["name"], [])}
                for one in status.get("feeds", [])
            ],
            "datasets": [
                {"name": one["name"], "kind": one["kind"], "on_map": is_on_map(one)}
                for one in self._catalogue["datasets"]
            ],
        }

    # The page's requests

    async def pause(self, channel: str, *, paused: bool) -> str:
        known = self._known("channels", channel, "channel")
        verb = "PAUSE" if paused else "RESUME"
        answer = await self._call("POST", "/v1/statements", json={"sql": f"{verb} CHANNEL {quoted(known['name'])}"})
        await self.refresh()
        return str(answer["results"][0]["message"])

    async def dead_letters(self, dataset: str, limit: int, after: str = "") -> dict[str, Any]:
        return await self._get(self._letters_path(dataset), limit=limit, **({"after": after} if after else {}))

    async def replay(self, dataset: str, letters: Sequence[str] | None) -> dict[str, Any]:
        """Some, or all."""
        body = {} if letters is None else {"letters": list(letters)}
        return await self._call("POST", f"{self._letters_path(dataset)}/replay", json=body, timeout=_REPLAY_TIMEOUT_S)

    async def discard(self, dataset: str, letters: Sequence[str] | None) -> dict[str, Any]:
        """Some, or all."""
        body = {"all": True} if letters is None else {"letters": list(letters)}
        return await self._call("POST", f"{self._letters_path(dataset)}/discard", json=body, timeout=_REPLAY_TIMEOUT_S)

    def _letters_path(self, dataset: str) -> str:
        known = self._known("datasets", dataset, "dataset")
        return f"/v1/datasets/{path_part(known['name'])}/dead-letters"

    async def events(self, dataset: str, after: int, limit: int) -> dict[str, Any]:
        """The newest rows of a dataset that has locations: `rows` of x, y, type and text."""
        known = self._known("datasets", dataset, "dataset")
        if not is_on_map(known):
            raise InvalidValue(
                f"dataset {known['name']} is not on the map: it is not active, or has no numbers x and y"
            )
        path = f"/v1/datasets/{path_part(known['name'])}/recent"
        answer = await self._get(path, after=after, limit=limit)
        return {
            "dataset": known["name"],
            "commit": answer["commit"],
            "rows": _located(answer["columns"], answer["rows"]),
        }

    def _known(self, kind: str, name: str, word: str) -> dict[str, Any]:
        found: dict[str, Any] | None = next(
            (one for one in self._catalogue[kind] if one["name"].lower() == name.lower()), None
        )
        if found is None:
            raise NotFound(f"the cluster has no {word} called {name}")
        return found

    def _count(self) -> None:
        now_s = self._clock.monotonic_s()
        counts = {one["name"]: (one.get("accepted", 0), one.get("rejected", 0)) for one in self._status["feeds"]}
        self._counts.append((now_s, counts))
        while now_s - self._counts[0][0] > _RATES_OVER_S:
            self._counts.popleft()

    def _rates(self, feed: str) -> dict[str, float]:
        rates = {"accepted_per_s": 0.0, "rejected_per_s": 0.0}
        if len(self._counts) > 1:
            (first_s, first), (last_s, last) = self._counts[0], self._counts[-1]
            before, now = first.get(feed, (0, 0)), last.get(feed, (0, 0))
            for name, earlier, later in zip(rates, before, now, strict=True):
                # A cluster that was started again counts from zero.
                rates[name] = max(0, later - earlier) / max(last_s - first_s, 0.1)
        return rates

    async def _get(self, path: str, **params: Any) -> dict[str, Any]:
        return await self._call("GET", path, params=params)

    async def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, path, **request)
            if answer.is_success:
                body: dict[str, Any] = answer.json()
                return body
        except (httpx.HTTPError, ValueError) as exc:
            raise Unavailable(f"the data cluster does not answer: {exc!r}", retry_after_s=1) from exc
        error = error_of(error_in(answer.content, answer.status_code), answer.status_code)
        if isinstance(error, Overloaded):
            raise Unavailable(f"the data cluster: {error.message}", retry_after_s=error.retry_after_s)
        if isinstance(error, Unauthorised):
            raise Unavailable("the data cluster refuses the setting cluster_token", retry_after_s=1)
        raise error


def is_on_map(dataset: dict[str, Any]) -> bool:
    """Whether its rows are events at locations."""
    types = {column["name"].lower(): str(column["type"]).upper() for column in dataset["columns"]}
    return dataset["kind"] == "ACTIVE" and types.get("x") in _NUMERIC and types.get("y") in _NUMERIC


def quoted(name: str) -> str:
    """A name in quotes for statements, whatever it contains.

    >>> quoted("Fires`")
    '`Fires```'
    """
    return "`" + name.replace("`", "``") + "`"


def _located(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """x, y, a type if there is a column for it, and a text for people."""
    names = [name.lower() for name in columns]
    x, y = names.index("x"), names.index("y")
    kind = next((names.index(name) for name in ("type", "etype", "kind", "category") if name in names), None)
    text_column = next(
        (names.index(name) for name in ("message", "text", "title", "name", "id") if name in names), None
    )
    return [
        [
            row[x],
            row[y],
            str(row[kind])[:40] if kind is not None and row[kind] is not None else "",
            str(row[text_column])[:200] if text_column is not None and row[text_column] is not None else "",
        ]
        for row in rows
        if isinstance(row[x], int | float) and isinstance(row[y], int | float)
    ]


def _of_channel(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The page's data of a channel beside its figures. Parameters that the broker fills in are listed apart: nobody has
    to give them in a trial."""
    filled = [one for one in entry["parameters"] if one.get("filled_by") is not None]
    return {
        "parameters": [one for one in entry["parameters"] if one not in filled],
        "filled": [{"name": one["name"], "filled_by": one["filled_by"]} for one in filled],
        "granted_to": entry.get("granted_to"),
    }
