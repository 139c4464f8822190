"""Reads the cluster's results of what people hold, to be compared with what they were handed.

Nothing is held for it: a subscription that a broker releases too early ends, as it would in life, and is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx
import msgspec

from tocsin.model.position import Position

_PULLED_AT_ONCE = 20_000


class _Positioned(msgspec.Struct):
    position: str


_position = msgspec.json.Decoder(_Positioned)


@dataclass(frozen=True, slots=True)
class Read:
    """Sequences by subscription, and the subscriptions that have ended: of those there is nothing left to read."""

    results: dict[int, list[int]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)


def read_results(http: httpx.Client, begins: Mapping[int, int]) -> Read:
    """All results of these subscriptions that come after a sequence of each."""
    read = Read()
    _read(http, dict(begins), read)
    return read


def _read(http: httpx.Client, begins: dict[int, int], read: Read) -> None:
    try:
        found = _all_of(http, begins)
    except _EndedError:
        # The cluster names one of those that have ended; halves find all of them.
        if len(begins) == 1:
            read.ended.update(begins)
            return
        some = list(begins.items())
        _read(http, dict(some[: len(some) // 2]), read)
        _read(http, dict(some[len(some) // 2 :]), read)
    else:
        read.results.update(found)


class _EndedError(Exception):
    pass


def _all_of(http: httpx.Client, begins: dict[int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {one: [] for one in begins}
    after = dict(begins)
    while after:
        body = {
            "after": {str(one): str(Position(one, sequence)) for one, sequence in after.items()},
            "limit": _PULLED_AT_ONCE,
        }
        answer = http.post("/v1/results", json=body)
        if answer.status_code == HTTPStatus.GONE:
            raise _EndedError
        answer.raise_for_status()
        lines = answer.content.splitlines()
        if not lines:
            return found
        for line in lines:
            position = Position.parse(_position.decode(line).position)
            found[position.epoch].append(position.sequence)
        through = int(answer.headers["Tocsin-Cursor"])
        after = {one: max(sequence, through) for one, sequence in after.items()}
    return found
