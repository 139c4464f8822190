"""Small assignments by hand, for tests of balancing policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.protocol.subscription_keys import KeyText


def assignment(
    who: Mapping[str, tuple[str, str]],
    rates: Mapping[str, float],
    brokers: Collection[str | AssignedBroker] = (),
    *,
    away: Collection[str] = (),
    resting: Collection[str] = (),
) -> AssignmentView:
    """`who` has each subscriber's broker and its subscriptions, separated by spaces. The view's brokers are those
    in `who` and `brokers`.

    >>> assignment({"ann": ("a", "fire flood")}, {"fire": 2, "flood": 3}, ["b"]).brokers
    ('a', 'b')
    """
    given = [one if isinstance(one, AssignedBroker) else AssignedBroker(one) for one in brokers]
    names = {one.name for one in given}
    candidates = given + [AssignedBroker(name) for name in sorted({broker for broker, _ in who.values()} - names)]
    sessions = [
        SessionRecord(
            name, broker, 1, name not in away, tuple(SessionSubscription(KeyText(key), "0-0") for key in holds.split())
        )
        for name, (broker, holds) in who.items()
    ]
    return AssignmentView.of(candidates, sessions, lambda key: float(rates[key]), resting)
