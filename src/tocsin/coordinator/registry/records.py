"""The coordinator's records of brokers and subscribers (pure values)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec

from tocsin.filters.naming import strings_of
from tocsin.model.location import Location
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.incarnations import NOBODY, Holder
from tocsin.protocol.subscription_keys import KeyText


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """`mode` is the state that operators want: anything but DEAD. `dead`: it was dead when the record was written."""

    name: str
    url: str
    location: Location | None = None
    capacity: float = 1.0
    mode: BrokerState = BrokerState.ACTIVE
    dead: bool = False
    holder: Holder = NOBODY


class SessionSubscription(msgspec.Struct, frozen=True, gc=False):
    """One subscription of a subscriber, acknowledged up to `position`.

    A struct: millions of them are compared with reports, and none can be part of a cycle.
    """

    key: KeyText
    position: str
    #: Its filter as the subscriber wrote it; empty: it has none.
    where: str = ""


#: Nearly all sessions share this: an empty set takes more memory than the rest of a record.
NO_BROKERS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One subscriber's session, and the broker that keeps it.

    `owner` is the one broker that keeps it; it is empty if the session has ended and a broker has yet to be told.
    `former` are brokers that may still keep an older copy: they lose it with their next heartbeat.
    """

    subscriber: str
    owner: str
    generation: int
    connected: bool = False
    subscriptions: tuple[SessionSubscription, ...] = ()
    former: frozenset[str] = NO_BROKERS


def names(held: SessionSubscription, person: str) -> bool:
    """Whether this text is one of the values of a subscription, or of its filter.

    >>> names(SessionSubscription(KeyText('["Near",{"who":"ann"},""]'), "7-1"), "ann")
    True
    >>> names(SessionSubscription(KeyText('["ann",{"who":"anna"},""]'), "7-1"), "ann")
    False
    """
    key = held.key
    if held.where and person in strings_of(held.where):
        return True
    if person not in key and "\\" not in key:
        return False  # The usual case, without parsing.
    _, parameters, _ = json.loads(key)
    return person in parameters.values()


def user_of(subscriber: str) -> str:
    """
    >>> user_of("ann/phone")
    'ann'
    """
    return subscriber.partition("/")[0]


def device_of(subscriber: str) -> str:
    """
    >>> device_of("ann/phone")
    'phone'
    """
    return subscriber.partition("/")[2]
