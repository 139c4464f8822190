"""Makes a plan with every policy, so that their loops are compiled before anybody waits for a plan."""

from __future__ import annotations

from contextlib import suppress

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.evacuation import evacuate
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load.plan import make_plan
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText

#: Uneven enough for every policy to move somebody: the first broker has half of the subscribers.
_BROKERS = ("a", "a", "b", "c")
_SUBSCRIBERS = 100
_KEYS = 20
_GOAL = Goal(cov_at_most=0.02)


def compile_loops() -> None:
    """A loop is compiled for the types of its first call and kept on disk, once for a machine."""
    view = _small_assignment()
    make_plan(view, Stage.EVACUATION, "", evacuate(view))
    for stage, policies in ((Stage.MIGRATION, MIGRATIONS), (Stage.SHUFFLE, SHUFFLES)):
        for name, policy in policies.items():
            with suppress(InvalidValue):  # The policy's extra is not installed.
                make_plan(view, stage, name, policy(view, _GOAL))


def _small_assignment() -> AssignmentView:
    """Made in the same way as the coordinator's own views."""
    sessions = []
    for number in range(_SUBSCRIBERS):
        keys = {number % _KEYS, number * 7 % _KEYS, number**2 % _KEYS}
        holds = tuple(SessionSubscription(KeyText(str(key)), "0-0") for key in keys)
        sessions.append(SessionRecord(f"s{number}", _BROKERS[number % len(_BROKERS)], 1, True, holds))
    return AssignmentView.of(map(AssignedBroker, sorted(set(_BROKERS))), sessions, lambda key: 1.0 + int(key))
