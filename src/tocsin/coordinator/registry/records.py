"""What the coordinator remembers of brokers and subscribers (pure values)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tocsin.model.location import Location
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.incarnations import NOBODY, Holder
from tocsin.protocol.subscription_keys import KeyText


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """`mode` is what operators want of it: anything but DEAD. `dead`: it had fallen silent when this was written."""

    name: str
    url: str
    location: Location | None = None
    capacity: float = 1.0
    mode: BrokerState = BrokerState.ACTIVE
    dead: bool = False
    holder: Holder = NOBODY


@dataclass(frozen=True, slots=True)
class SessionSubscription:
    """One subscription of a subscriber, acknowledged up to `position`."""

    key: KeyText
    position: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What is kept for one subscriber, and by whom.

    `owner` is the one broker that keeps it; empty once it has ended while somebody has yet to be told. `former` are
    brokers that may still keep an older copy: they lose it with their next heartbeat.
    """

    subscriber: str
    owner: str
    generation: int
    connected: bool = False
    subscriptions: tuple[SessionSubscription, ...] = ()
    former: frozenset[str] = frozenset()


def names(key: KeyText, person: str) -> bool:
    """Whether a subscription was asked for with this text as one of its values.

    >>> names(KeyText('["Near",{"who":"ann"},""]'), "ann")
    True
    >>> names(KeyText('["ann",{"who":"anna"},""]'), "ann")
    False
    """
    if person not in key and "\\" not in key:
        return False  # As most are: nothing has to be read.
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
