"""When the run's subscribers take the coordinator to know of what they hold."""

from __future__ import annotations

from typing import Any

from chaos.network.subscribers import Hold, _mark_reported


def _listed(topic: str, position: str) -> dict[str, Any]:
    return {"channel": "OfTopic", "parameters": {"topic": topic}, "permission": "", "position": position}


def test_a_subscription_is_reported_when_the_coordinator_lists_it() -> None:
    hold = Hold(1, "OfTopic", "a", first_position="7-100")
    _mark_reported([hold], [_listed("a", "7-100")])
    assert hold.is_reported


def test_another_subscription_that_was_given_up_does_not_count_for_it() -> None:
    hold = Hold(2, "OfTopic", "b", first_position="8-100")
    _mark_reported([hold], [_listed("a", "7-100")])
    assert not hold.is_reported


def test_an_earlier_subscription_to_the_same_does_not_count_for_it() -> None:
    hold = Hold(2, "OfTopic", "a", first_position="7-200")
    _mark_reported([hold], [_listed("a", "7-100")])
    assert not hold.is_reported


def test_a_subscription_that_has_not_been_answered_yet_is_not_reported() -> None:
    hold = Hold(2, "OfTopic", "a")
    _mark_reported([hold], [_listed("a", "7-100")])
    assert not hold.is_reported
