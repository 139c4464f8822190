"""The instructions that the coordinator's state returns: changes to store, answers to give, and notes for the log.

An answer may be given only once all changes are stored.
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
class StoreKeptCov:
    """The cov that was measured after a plan."""

    plan: str
    kept_cov: float


@dataclass(frozen=True, slots=True)
class StoreMove:
    move: MoveRecord


@dataclass(frozen=True, slots=True)
class Audit:
    """An entry of the audit log: who did what to whom or what. `details` say why."""

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
    """For the metrics: how a move ended, and how long it was under way."""

    step: Step
    took_s: float


@dataclass(frozen=True, slots=True)
class AnswerBroker:
    """The answer to a registration."""

    state: BrokerState
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class BrokerOrders:
    """A broker's orders for plans. An order that comes twice does no harm."""

    #: Hold the subscriptions of these subscribers, who may be told to come.
    prepare: Mapping[str, tuple[KeyText, ...]] = field(default_factory=dict)
    #: Claim the sessions of these subscribers, who are away.
    adopt: tuple[str, ...] = ()
    #: Send these subscribers to another broker.
    move: Mapping[str, Placed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerHeartbeat:
    """`lost`: sessions that the broker no longer owns and should drop. Its next heartbeat is due in `next_in_s`.
    `peers`: the brokers that it should measure, with their addresses and a version; None if it knows them."""

    state: BrokerState
    lost: tuple[str, ...]
    orders: BrokerOrders = field(default_factory=BrokerOrders)
    next_in_s: float = 1.0
    peers: tuple[Mapping[str, str], str] | None = None


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """The sessions as their new owner has them: reports of former owners don't count from now on."""

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
    """Subscribers that no broker can take are left out."""

    placements: Mapping[str, Placed]


Storing = (
    StoreBroker
    | ForgetBroker
    | StoreSession
    | ForgetSession
    | StorePolicy
    | StoreStoppedEvacuations
    | StorePlanRun
    | StoreKeptCov
    | StoreMove
    | Audit
)
Answer = AnswerBroker | AnswerHeartbeat | AnswerClaim | AnswerPlacement | AnswerMoves
Instruction = Storing | Answer | Note | MoveEnded
