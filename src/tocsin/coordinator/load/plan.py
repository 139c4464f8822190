"""Plans: which subscribers move where and why, and the loads that result (pure).

`verify` shares no code with the policies: it counts every load anew, in a slow and plain way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Floats, Numbers
from tocsin.balancing.bounds import lower_bound
from tocsin.balancing.evenness import Balance
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.proposal import Proposal
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.moves.table import MoveRecord, PlanRun

#: Loads are sums of many floats, made in different orders.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Move:
    """`load` is what the subscriber is sent, in bytes per second."""

    subscriber: str
    source: str
    destination: str
    load: float
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A value: numbers refer to the view that it was made from. `lower_bound` is a score that no assignment beats."""

    stage: Stage
    policy: str
    before: Balance
    after: Balance
    lower_bound: float
    #: Subscribers to move, ascending, with each one's destination and the load that it is sent.
    movers: NDArray[np.int64]
    destinations: Numbers
    mover_loads: Floats
    view: AssignmentView
    proposal: Proposal
    #: How many subscribers it may not move, because no other broker is within their reach.
    confined: int = 0

    @property
    def brokers(self) -> tuple[str, ...]:
        return self.before.brokers

    @property
    def move_count(self) -> int:
        return len(self.movers)

    @property
    def gap(self) -> float:
        """The highest score over the lower bound: 1 can't be beaten."""
        return self.after.max / self.lower_bound if self.lower_bound > 0 else 1.0

    def moves(self) -> Iterator[Move]:
        """One by one: there may be a million."""
        view = self.view
        for mover, destination, load in zip(self.movers, self.destinations, self.mover_loads, strict=True):
            yield Move(
                view.subscribers[mover],
                self.brokers[view.owners[mover]],
                self.brokers[destination],
                float(load),
                self.proposal.reason(int(mover)),
            )


def make_plan(view: AssignmentView, stage: Stage, policy: str, proposal: Proposal) -> Plan:
    before, after = LoadTable.of(view), LoadTable.of(view, proposal.owners)
    movers = np.flatnonzero(proposal.owners != view.owners)
    return Plan(
        stage,
        policy,
        Balance.of(view.brokers, before.loads.tolist(), view.capacities.tolist(), view.takes.tolist()),
        Balance.of(view.brokers, after.loads.tolist(), view.capacities.tolist(), view.takes.tolist()),
        lower_bound(view),
        movers,
        proposal.owners[movers],
        before.demands[movers],
        view,
        proposal,
        view.confined,
    )


def changed_since(plan: Plan, view: AssignmentView) -> list[str]:
    """The plan's assumptions that no longer hold, in words. Small changes of rates don't count: they always change."""
    old = plan.view
    networks = [dict(zip(one.brokers, zip(one.capacities, one.takes, strict=True), strict=True)) for one in (old, view)]
    if networks[0] != networks[1]:
        return ["brokers have come, gone or changed their states"]
    number_of = {name: number for number, name in enumerate(view.subscribers)}
    changes = []
    for mover in plan.movers:
        name = old.subscribers[mover]
        now = number_of.get(name)
        if now is None:
            changes.append(f"{name} has no session any more")
        elif view.owners[now] != old.owners[mover]:
            changes.append(f"{name} is at {view.brokers[view.owners[now]]} by now")
        elif _held(view, now) != _held(old, int(mover)):
            changes.append(f"{name} has subscribed or unsubscribed since")
        elif not view.may_be_at(now, int(plan.proposal.owners[mover])):
            changes.append(f"{view.brokers[plan.proposal.owners[mover]]} is out of reach of {name} by now")
    return changes


def _held(view: AssignmentView, subscriber: int) -> set[str]:
    return {view.subscriptions[one] for one in view.holds[view.offsets[subscriber] : view.offsets[subscriber + 1]]}


def verify(view: AssignmentView, plan: Plan) -> list[str]:
    """What is wrong with a plan for this view, in words; empty if it may be carried out.

    Moves disturb subscribers, so they must have a use: no plan may raise the highest score. Only if a broker has to be
    emptied, others may end above it.
    """
    faults: list[str] = []
    if plan.brokers != view.brokers:
        return [f"the plan is for brokers {', '.join(plan.brokers)}; there are {', '.join(view.brokers)}"]
    owner_of = dict(zip(view.subscribers, view.owners.tolist(), strict=True))
    may_move = {name for name, movable in zip(view.subscribers, view.movable.tolist(), strict=True) if movable}
    takes = {name for name, flag in zip(view.brokers, view.takes.tolist(), strict=True) if flag}
    number_of = {name: number for number, name in enumerate(view.brokers)}
    row_of = {name: row for row, name in enumerate(view.subscribers)} if view.within_reach.size else {}
    seen: set[str] = set()
    for move in plan.moves():
        if move.subscriber not in owner_of:
            faults.append(f"{move.subscriber} is to move but has no session")
            continue
        if move.subscriber in seen:
            faults.append(f"{move.subscriber} is to move twice")
        seen.add(move.subscriber)
        if view.brokers[owner_of[move.subscriber]] != move.source:
            faults.append(f"{move.subscriber} is not at {move.source}")
        if move.subscriber not in may_move:
            faults.append(f"{move.subscriber} may not be moved")
        if move.destination == move.source:
            faults.append(f"{move.subscriber} is to move to its own broker")
        if move.destination not in takes:
            faults.append(f"{move.destination} takes no subscribers, but {move.subscriber} is to go there")
        elif view.within_reach.size and not view.within_reach[row_of[move.subscriber], number_of[move.destination]]:
            faults.append(f"{move.destination} is out of reach of {move.subscriber}")
        else:
            owner_of[move.subscriber] = number_of[move.destination]
        if not move.reason:
            faults.append(f"{move.subscriber} is to move without a reason")
    if faults:
        return faults
    after = np.fromiter((owner_of[name] for name in view.subscribers), np.int64, len(view.subscribers))
    loads_before, loads_after = _loads(view, view.owners.astype(np.int64)), _loads(view, after)
    faults += _balance_faults("before", plan.before, loads_before)
    faults += _balance_faults("after", plan.after, loads_after)
    highest_before, highest_after = (max(loads / view.capacities, default=0) for loads in (loads_before, loads_after))
    if plan.stage is not Stage.EVACUATION and highest_after > highest_before * (1 + _TOLERANCE):
        faults.append(
            f"it is worse than before: the highest score rises from {highest_before:.6g} to {highest_after:.6g}"
        )
    if plan.lower_bound > plan.after.max * (1 + _TOLERANCE):
        faults.append(f"the lower bound {plan.lower_bound} is above the plan's highest score, {plan.after.max}")
    return faults


def _loads(view: AssignmentView, owners: NDArray[np.int64]) -> Floats:
    """A broker fetches each subscription that one of its subscribers holds, and sends it to all connected holders."""
    holders = np.repeat(np.arange(len(view.subscribers)), np.diff(view.offsets))
    fetched = np.unique(owners[holders] * max(1, len(view.subscriptions)) + view.holds)
    loads = np.zeros(len(view.brokers))
    np.add.at(loads, fetched // max(1, len(view.subscriptions)), view.rates[fetched % max(1, len(view.subscriptions))])
    sent = view.connected[holders]
    np.add.at(loads, owners[holders][sent], view.rates[view.holds[sent]])
    return loads


def _balance_faults(when: str, stated: Balance, loads: Floats) -> list[str]:
    return [
        f"{name}'s load {when} is {true:.6g}, not {said:.6g}"
        for name, true, said in zip(stated.brokers, loads.tolist(), stated.loads, strict=True)
        if abs(true - said) > _TOLERANCE * max(1.0, abs(true))
    ]


def to_run(
    plan: Plan, plan_id: str, reason: str, by: str, promised_cov: float | None = None
) -> tuple[PlanRun, list[MoveRecord]]:
    """The plan as the execution takes it; none of its moves has begun. An evacuation promises nothing."""
    moves = [
        MoveRecord(plan_id, number, move.subscriber, move.source, move.destination, move.load, move.reason)
        for number, move in enumerate(plan.moves())
    ]
    figures = {"before": plan.before.figures(), "after": plan.after.figures(), "lower_bound": plan.lower_bound}
    text = msgspec.json.encode({**figures, "promised_cov": promised_cov}).decode()
    return PlanRun(plan_id, str(plan.stage), plan.policy, reason, by, len(moves), text), moves
