"""The broker's calls to the data cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import msgspec
import structlog

from tocsin.broker.shell.server_links import ServerLink
from tocsin.errors import SubscriptionFailed
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.model.schema import ResultColumn
from tocsin.protocol.frames import text_frame
from tocsin.protocol.messages import (
    MAX_MESSAGE_BYTES,
    decode_result,
    encode,
    failure_of,
    gap_for,
    notification_of,
)
from tocsin.protocol.paths import path_part
from tocsin.protocol.ports import BackendHold, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey

log = structlog.get_logger(__name__)

_TIMEOUT_S = 60.0
#: Results in one pull; a broker sends them on before it pulls again.
_MAX_PULLED = 20_000
_MAX_HISTORY = 2_000
_PAGE = 10_000
#: A later version's cluster may know more.
_KINDS = {kind.value: kind for kind in ResultKind}


class ClusterLink(ServerLink):
    def __init__(self, broker: str, url: str, token: str, identity: str = "", start: str = "") -> None:
        super().__init__("the cluster", broker, url, token, identity, _TIMEOUT_S)
        #: The cluster process that answered last: a new one may have been started from older data.
        self.run = ""
        #: The columns of channels' results. All subscriptions of a channel share a tuple.
        self._columns: dict[str, tuple[ResultColumn, ...]] = {}
        self._registration = {"identity": identity, "start": start}

    async def register(self) -> int:
        """Register this broker at the cluster; returns the cursor where live results begin."""
        answer = (await self._request("PUT", self._path, json=self._registration)).json()
        self._registered(answer["incarnation"])
        return int(answer["cursor"])

    async def held(self) -> list[BackendHold]:
        """All that this broker holds."""
        found: list[BackendHold] = []
        while True:
            after = found[-1].id if found else 0
            answer = await self._request("GET", f"{self._path}/subscriptions", params={"after": after, "limit": _PAGE})
            page = self._holds(answer.json())
            found += page
            if len(page) < _PAGE:
                return found

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        """Hold all of these, or, if one is wrong, none."""
        body = {
            "subscriptions": [
                {
                    "channel": key.channel,
                    "parameters": key.parameter_values(),
                    "permission": key.permission,
                    "filled": key.filled,
                }
                for key in keys
            ]
        }
        answer = await self._request("POST", f"{self._path}/subscriptions", json=body)
        return self._holds(answer.json())

    async def request_snapshots(self, ids: Sequence[int]) -> None:
        await self._request("POST", f"{self._path}/snapshots", json={"ids": list(ids)})

    async def release(self, ids: Sequence[int]) -> None:
        await self._request("POST", f"{self._path}/unsubscribe", json={"ids": list(ids)})

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        """Results after a cursor, the next cursor, and how many bytes came; waits up to `wait_s` for something."""
        params = {"after": after, "limit": _MAX_PULLED, "wait_s": wait_s}
        answer = await self._request("GET", f"{self._path}/results", params=params)
        return _deliveries(answer.content), int(answer.headers["Tocsin-Cursor"]), len(answer.content)

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        """Results of some subscriptions, each after its own sequence, and up to where they are complete."""
        body = {"after": {str(one): str(Position(one, at)) for one, at in after.items()}, "limit": _MAX_HISTORY}
        answer = await self._request("POST", "/v1/results", json=body)
        return _deliveries(answer.content), int(answer.headers["Tocsin-Cursor"])

    async def publish(self, feed: str, records: Sequence[Mapping[str, Any]]) -> None:
        lines = b"\n".join(map(msgspec.json.encode, records))
        headers = {"Content-Type": "application/x-ndjson"}
        await self._request("POST", f"/v1/feeds/{path_part(feed)}/records", content=lines, headers=headers)

    def _holds(self, answer: dict[str, Any]) -> list[BackendHold]:
        for channel, columns in answer.get("columns", {}).items():
            known = tuple(ResultColumn(one["name"], one["type"]) for one in columns)
            if self._columns.get(channel) != known:
                self._columns[channel] = known
        return [_held(one, self._columns.get(one["channel"], ())) for one in answer["subscriptions"]]

    def _answered(self, answer: httpx.Response) -> None:
        self.run = answer.headers.get("Tocsin-Run", self.run)


def _held(one: dict[str, Any], columns: tuple[ResultColumn, ...]) -> BackendHold:
    return BackendHold(
        one["id"],
        one["channel"],
        one["parameters"],
        one["permission"],
        Position.parse(one["position"]).sequence,
        one.get("failure", ""),
        one.get("filled", {}),
        columns,
        one.get("snapshot", False),
    )


def _deliveries(lines: bytes) -> list[Delivery]:
    """Each line as the message that every subscriber gets, framed for their sockets."""
    found = []
    for line in lines.splitlines():
        result = decode_result(line)
        kind = _KINDS.get(result.kind, ResultKind.RESULT)
        # Nearly all are results, and this is done for each.
        is_plain = kind is ResultKind.RESULT or kind is ResultKind.EXIT
        sequence = int(result.position.partition("-")[2]) if is_plain else Position.parse(result.position).in_history
        failed = failure_of(line, result)
        text = notification_of(line) if failed is None else encode(failed)
        if len(text) > MAX_MESSAGE_BYTES:
            text = gap_for(result, len(text))
            log.warning("a result is too large to be sent", position=result.position, size_bytes=len(line))
        failure = "" if failed is None else failed.reason
        is_end = failed is not None and failed.code != SubscriptionFailed.code
        wire = text_frame(text)
        found.append(Delivery(result.subscription, sequence, wire, result.committed_at_us, failure, is_end, kind))
    return found
