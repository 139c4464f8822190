"""Reading what people should have been handed, without holding anything for it."""

from __future__ import annotations

import json
from array import array

import httpx
import pytest

from tocsin.lab.experiments.emergency import auditing
from tocsin.lab.experiments.emergency.auditing import read_results
from tocsin.lab.experiments.emergency.tally import Hold, audit
from tocsin.model.position import Position


def cluster(results: dict[int, list[int]], at_once: int = 2) -> tuple[httpx.Client, list[str]]:
    """Answers as the cluster does: results of all that are named, or 410 if one of them has ended."""
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(f"{request.method} {request.url.path}")
        after = {int(one): Position.parse(text).sequence for one, text in json.loads(request.content)["after"].items()}
        if not set(after) <= set(results):
            return httpx.Response(410, json={"error": {"code": "history_gone"}})
        found = sorted((sequence, one) for one in after for sequence in results[one] if sequence > after[one])[:at_once]
        lines = [json.dumps({"position": str(Position(one, sequence))}) for sequence, one in found]
        through = found[-1][0] if found else max(after.values())
        return httpx.Response(200, text="\n".join(lines), headers={"Tocsin-Cursor": str(through)})

    return httpx.Client(base_url="http://cluster", transport=httpx.MockTransport(answer)), paths


def test_all_results_are_read_page_by_page_and_nothing_is_held() -> None:
    http, paths = cluster({7: [3, 5, 8, 9], 9: [4, 6], 11: []})
    read = read_results(http, {7: 3, 9: 0, 11: 2})
    assert read.results == {7: [5, 8, 9], 9: [4, 6], 11: []}
    assert read.ended == set()
    assert set(paths) == {"POST /v1/results"}


def test_subscriptions_that_have_ended_are_told_apart() -> None:
    """Whichever and however many they are; the others are read all the same."""
    http, _ = cluster({one: [one + 1] for one in (1, 2, 4, 7)})
    read = read_results(http, dict.fromkeys(range(1, 9), 0))
    assert set(read.results) == {1, 2, 4, 7}
    assert read.ended == {3, 5, 6, 8}


def test_another_error_is_not_taken_for_an_end() -> None:
    http = httpx.Client(base_url="http://cluster", transport=httpx.MockTransport(lambda _: httpx.Response(500)))
    with pytest.raises(httpx.HTTPStatusError):
        read_results(http, {7: 0})
    assert auditing.read_results(cluster({})[0], {}).results == {}


def test_a_subscription_that_ended_too_early_is_found() -> None:
    """Released while somebody held it, it has no results to compare with; that is the fault, not an excuse."""
    held = Hold("ann", "C", Position(7, 3), array("q", [4]))
    found = audit([held, held], {})
    assert found.ended == 1
    assert not found.is_clean
    held.is_given_up = True
    assert audit([held], {}).is_clean
