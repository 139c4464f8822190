"""What the coordinator's state wants done: things to store, answers to give, and news for the operator.

An answer may be given only once everything to store is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.subscription_keys import KeyText


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
class StoreStoppedEvacuations:
    """All brokers that are not to be emptied."""

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorePlanRun:
    run: PlanRun


@dataclass(frozen=True, slots=True)
class StoreMove:
    move: MoveRecord


@dataclass(frozen=True, slots=True)
class Audit:
    """Who did what to whom or what, for good. `details` say why."""

    who: str
    action: str
    subject: str
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator should find in the log."""

    text: str
    details: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MoveEnded:
    """To be counted: how a move ended, and how long it was under way."""

    step: Step
    took_s: float


@dataclass(frozen=True, slots=True)
class AnswerBroker:
    """To one that registered."""

    state: BrokerState
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class BrokerOrders:
    """What a broker is to do for plans. To be told twice does no harm."""

    #: Hold what these subscribers hold: they may be told to come.
    prepare: Mapping[str, tuple[KeyText, ...]] = field(default_factory=dict)
    #: Claim what is kept for these, who are away.
    adopt: tuple[str, ...] = ()
    #: Send these to another broker.
    move: Mapping[str, Placed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerHeartbeat:
    """`lost`: what the broker no longer owns and should drop. It should be heard of again in `next_in_s`."""

    state: BrokerState
    lost: tuple[str, ...]
    orders: BrokerOrders = field(default_factory=BrokerOrders)
    next_in_s: float = 1.0


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """The sessions as their new owner has them: what their former owners report from now on is not believed."""

    sessions: Sequence[SessionRecord]

    @property
    def generations(self) -> dict[str, int]:
        return {one.subscriber: one.generation for one in self.sessions}


@dataclass(frozen=True, slots=True)
class Placed:
    """`reason` is the policy that chose, `sticky`, or `plan`."""

    broker: str
    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerPlacement:
    placed: Placed


@dataclass(frozen=True, slots=True)
class AnswerMoves:
    """Subscribers that nobody can take are left out."""

    placements: Mapping[str, Placed]


Storing = (
    StoreBroker
    | ForgetBroker
    | StoreSession
    | ForgetSession
    | StorePolicy
    | StoreStoppedEvacuations
    | StorePlanRun
    | StoreMove
    | Audit
)
Answer = AnswerBroker | AnswerHeartbeat | AnswerClaim | AnswerPlacement | AnswerMoves
Instruction = Storing | Answer | Note | MoveEnded
