"""What the coordinator's state wants done: things to store, answers to give, and news for the operator.

An answer may be given only once everything to store is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.coordinator.records import BrokerRecord, SessionRecord
from tocsin.protocol.coordination import BrokerState


@dataclass(frozen=True, slots=True)
class StoreBroker:
    broker: BrokerRecord


@dataclass(frozen=True, slots=True)
class ForgetBroker:
    broker: str


@dataclass(frozen=True, slots=True)
class StoreSession:
    session: SessionRecord


@dataclass(frozen=True, slots=True)
class ForgetSession:
    subscriber: str


@dataclass(frozen=True, slots=True)
class StorePolicy:
    policy: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator should find in the log."""

    text: str
    details: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AnswerBroker:
    """To one that registered."""

    state: BrokerState


@dataclass(frozen=True, slots=True)
class AnswerHeartbeat:
    """`lost`: what the broker no longer owns and should drop."""

    state: BrokerState
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    generations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Placed:
    """`reason` is the policy that chose, or `sticky`."""

    broker: str
    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerPlacement:
    placed: Placed


@dataclass(frozen=True, slots=True)
class AnswerHandover:
    """Subscribers that nobody can take are left out."""

    placements: Mapping[str, Placed]


Storing = StoreBroker | ForgetBroker | StoreSession | ForgetSession | StorePolicy
Answer = AnswerBroker | AnswerHeartbeat | AnswerClaim | AnswerPlacement | AnswerHandover
Instruction = Storing | Answer | Note
