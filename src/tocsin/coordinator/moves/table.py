"""One subscriber's move, step by step: a transition table (pure).

Make before break: the destination holds all of the subscriber's subscriptions before the subscriber is told to move;
the subscriber is at both brokers until the destination serves it; only then does the source lose it. If any step fails,
the subscriber stays where it is: a session changes its owner at one point only, when the destination claims it.

| step | waits until | if that does not happen |
|---|---|---|
| QUEUED | it is the move's turn | the move is cancelled when the plan is stopped |
| PREPARING | the destination holds all of its subscriptions | the subscriber was told nothing, and stays |
| MOVING | the subscriber is at the destination, which claims it | it stays: the client gives the new broker up |
| ADOPTING | the destination claims the session of a subscriber that is away | the session stays with its owner |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    QUEUED = "queued"
    PREPARING = "preparing"
    MOVING = "moving"
    ADOPTING = "adopting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in _FINAL

    @property
    def is_under_way(self) -> bool:
        return self in _TIMEOUTS_S


class Fact(StrEnum):
    """The facts that a move depends on. The first of these that holds counts."""

    #: The destination owns the session.
    ARRIVED = "arrived"
    #: The session has ended, or a third broker owns it.
    GONE = "gone"
    #: The destination takes nobody any more.
    UNUSABLE = "unusable"
    STOPPED = "stopped"
    #: The step has lasted too long.
    TIMED_OUT = "timed out"
    #: The subscriber is not connected, or its broker is dead.
    AWAY = "away"
    #: The destination holds all of the subscriber's subscriptions.
    PREPARED = "prepared"
    #: There is room for one more move.
    TURN = "turn"


#: Going through the class itself takes longer.
_FACTS = tuple(Fact)
_FINAL = frozenset({Step.DONE, Step.FAILED, Step.CANCELLED})
#: A destination has to ask the cluster. A subscriber has to connect; the source closes the connection of a client that
#: does not go by itself, after a while.
_TIMEOUTS_S = {Step.PREPARING: 15.0, Step.MOVING: 40.0, Step.ADOPTING: 20.0}

#: Pairs that are missing change nothing: an order to move can't be taken back; the subscriber arrives, or does not.
TRANSITIONS: dict[tuple[Step, Fact], Step] = {
    (Step.QUEUED, Fact.ARRIVED): Step.DONE,
    (Step.QUEUED, Fact.GONE): Step.CANCELLED,
    (Step.QUEUED, Fact.UNUSABLE): Step.CANCELLED,
    (Step.QUEUED, Fact.STOPPED): Step.CANCELLED,
    (Step.QUEUED, Fact.TURN): Step.PREPARING,
    (Step.PREPARING, Fact.ARRIVED): Step.DONE,
    (Step.PREPARING, Fact.GONE): Step.CANCELLED,
    (Step.PREPARING, Fact.UNUSABLE): Step.FAILED,
    (Step.PREPARING, Fact.STOPPED): Step.CANCELLED,
    (Step.PREPARING, Fact.TIMED_OUT): Step.FAILED,
    (Step.PREPARING, Fact.PREPARED): Step.MOVING,
    (Step.MOVING, Fact.ARRIVED): Step.DONE,
    (Step.MOVING, Fact.GONE): Step.CANCELLED,
    (Step.MOVING, Fact.UNUSABLE): Step.FAILED,
    (Step.MOVING, Fact.TIMED_OUT): Step.FAILED,
    (Step.MOVING, Fact.AWAY): Step.ADOPTING,
    (Step.ADOPTING, Fact.ARRIVED): Step.DONE,
    (Step.ADOPTING, Fact.GONE): Step.CANCELLED,
    (Step.ADOPTING, Fact.UNUSABLE): Step.FAILED,
    (Step.ADOPTING, Fact.TIMED_OUT): Step.FAILED,
}


def next_step(step: Step, facts: set[Fact]) -> tuple[Step, Fact | None]:
    """Where a move goes from `step`, and by which fact; the same step and None if nothing has changed.

    >>> next_step(Step.MOVING, {Fact.AWAY, Fact.STOPPED})
    (<Step.ADOPTING: 'adopting'>, <Fact.AWAY: 'away'>)
    """
    for fact in _FACTS if facts else ():
        if fact in facts and (found := TRANSITIONS.get((step, fact))) is not None:
            return found, fact
    return step, None


def timeout_s(step: Step) -> float:
    """How long a move may stay in a step; for ever in one that is not under way."""
    return _TIMEOUTS_S.get(step, float("inf"))


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move of a plan, as it is stored. `load` is what the subscriber is sent, in bytes per second; `outcome` says
    what ended the move."""

    plan: str
    number: int
    subscriber: str
    source: str
    destination: str
    load: float
    reason: str
    step: Step = Step.QUEUED
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan that is being carried out, or was. `by` is who wanted it, `figures` the expected figures, as JSON."""

    plan: str
    stage: str
    policy: str
    reason: str
    by: str
    moves: int
    figures: str = "{}"
    is_stopped: bool = False
    done: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def left(self) -> int:
        return self.moves - self.done - self.failed - self.cancelled

    @property
    def state(self) -> str:
        if self.left:
            return "stopping" if self.is_stopped else "running"
        return "stopped" if self.is_stopped else "done"
