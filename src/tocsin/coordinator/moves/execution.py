"""Carrying plans out: many moves at a time, within limits, over any number of crashes (pure).

Moves wait in queues, one for each pair of brokers. For each source and each destination, the number of moves under way
and the number that begin each second are limited. Brokers get orders for moves with the answers to their heartbeats,
and again after a while if nothing came of them: an order that comes twice does no harm. Every step is returned, to be
stored; after a crash, execution goes on from the stored steps.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tocsin.coordinator.moves.table import Fact, MoveRecord, PlanRun, Step, next_step, timeout_s
from tocsin.coordinator.registry.instructions import Audit, Instruction, MoveEnded, Note, StoreMove, StorePlanRun
from tocsin.coordinator.registry.records import SessionRecord, user_of
from tocsin.errors import InUse, NotFound
from tocsin.model.people import FORGOTTEN
from tocsin.model.token_bucket import TokenBucket

_BY_PLAN = "plan"
#: The action of the audit entry that a plan makes for each of its moves; callers can't make entries with it.
MOVE = "move"
#: If nothing came of an order for this long, it is given again.
_REPEAT_AFTER_S = 2.0
#: A hundred brokers have thousands of pairs; looking at all of them with every heartbeat would be most of the work.
_BEGIN_EVERY_S = 0.1
#: After a pause, the moves that could have begun meanwhile may begin at once, up to this many seconds' worth.
_BURST_S = 1.0


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """For each source, and for each destination."""

    in_flight: int = 100
    per_s: float = 50.0


class RegistryFacts(Protocol):
    """The facts of brokers and sessions that moves depend on."""

    def session(self, subscriber: str) -> SessionRecord | None: ...
    def takes(self, broker: str) -> bool:
        """Whether subscribers may be sent to it."""

    def is_current(self, broker: str) -> bool:
        """Whether it has reported since the coordinator began: until then, its sessions may have changed unnoticed."""

    def is_dead(self, broker: str) -> bool:
        """Dead, or not known any more."""


@dataclass(slots=True, eq=False)
class _UnderWay:
    record: MoveRecord
    begun_s: float
    since_s: float
    ordered_s: float = float("-inf")
    is_prepared: bool = False


@dataclass(slots=True)
class _Traffic:
    """The moves of one broker, as a source or as a destination."""

    allowed: TokenBucket
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Changes: moves to be stored, with how long they took if they were under way, and plans that have ended."""

    moves: list[tuple[MoveRecord, float]] = field(default_factory=list)
    ended: list[PlanRun] = field(default_factory=list)

    def instructions(self) -> list[Instruction]:
        """Instructions to store every step, with who wanted it."""
        done: list[Instruction] = []
        for move, took_s in self.moves:
            done.append(StoreMove(move))
            if move.step.is_final:
                details = {
                    "plan": move.plan,
                    "source": move.source,
                    "destination": move.destination,
                    "step": str(move.step),
                    "outcome": move.outcome,
                    "took_s": round(took_s, 3),
                    "reason": move.reason,
                }
                done += [Audit(_BY_PLAN, MOVE, move.subscriber, details), MoveEnded(move.step, took_s)]
        for run in self.ended:
            counts = {"done": run.done, "failed": run.failed, "cancelled": run.cancelled}
            done += [StorePlanRun(run), Audit(run.by, "ended", run.plan, counts)]
            done.append(Note("a plan has ended", {"plan": run.plan, "state": run.state, **counts}))
        return done


class Execution:
    def __init__(
        self, now_s: float, limits: MoveLimits, runs: Iterable[PlanRun] = (), moves: Iterable[MoveRecord] = ()
    ) -> None:
        """`runs` and `moves` are the stored ones that had not ended."""
        self._limits = limits
        self._runs = {run.plan: run for run in runs}
        self._queues: dict[tuple[str, str], deque[MoveRecord]] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._at: dict[str, dict[str, _UnderWay]] = {}
        self._sources: dict[str, _Traffic] = {}
        self._destinations: dict[str, _Traffic] = {}
        self._reserved: dict[str, float] = {}
        self._begin_at_s = float("-inf")
        for move in moves:
            if move.step is Step.QUEUED:
                self._queue(move)
            else:
                self._put(_UnderWay(move, now_s, now_s))

    # Reading

    @property
    def runs(self) -> list[PlanRun]:
        """The plans that have not ended."""
        return list(self._runs.values())

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def is_busy(self, broker: str) -> bool:
        """Whether it takes part in a move that is under way."""
        return bool(self._at.get(broker))

    def reserved(self, broker: str) -> float:
        """The load that is on its way to a broker."""
        return self._reserved.get(broker, 0.0)

    def destination_of(self, subscriber: str) -> str | None:
        """The broker that a subscriber has been told to go to."""
        move = self._under_way.get(subscriber)
        if move is None or move.record.step is Step.PREPARING:
            return None
        return move.record.destination

    def sources_of(self, plan: str) -> set[str]:
        """Brokers that a plan has still to take subscribers from."""
        queued = {move.source for queue in self._queues.values() for move in queue if move.plan == plan}
        return queued | {one.record.source for one in self._under_way.values() if one.record.plan == plan}

    # Beginning and stopping

    def begin(self, run: PlanRun, moves: Sequence[MoveRecord]) -> list[Instruction]:
        running = [one.plan for one in self._runs.values() if not one.is_stopped]
        if running:
            raise InUse(f"{running[0]} is being carried out; stop it first, or wait for its end")
        self._runs[run.plan] = run
        for move in moves:
            self._queue(move)
        details = {"stage": run.stage, "policy": run.policy, "reason": run.reason, "moves": run.moves}
        return [
            StorePlanRun(run),
            *map(StoreMove, moves),
            Audit(run.by, "execute", run.plan, details),
            Note("a plan is being carried out", {"plan": run.plan, "by": run.by, **details}),
        ]

    def stop(self, plan: str) -> Progress:
        """Begin no more moves. Subscribers that have been told to move still do."""
        run = self._runs.get(plan)
        if run is None:
            raise NotFound(f"{plan} is not being carried out")
        self._runs[plan] = replace(run, is_stopped=True)
        progress = Progress()
        for move in self._unqueue(lambda one: one.plan == plan):
            self._end(replace(move, step=Step.CANCELLED, outcome=Fact.STOPPED), progress)
        self._end_runs(progress)
        return progress

    def forget(self, user: str) -> Progress:
        """End the moves of a user whose name must not be kept: stored moves and audit entries don't have it."""
        progress = Progress()
        for under_way in [one for one in self._under_way.values() if user_of(one.record.subscriber) == user]:
            self._remove(under_way)
            self._end(_nameless(under_way.record), progress)
        for move in self._unqueue(lambda one: user_of(one.subscriber) == user):
            self._end(_nameless(move), progress)
        self._end_runs(progress)
        return progress

    # Steps

    def prepared(self, broker: str, subscribers: Iterable[str]) -> None:
        for subscriber in subscribers:
            move = self._under_way.get(subscriber)
            if move is not None and move.record.destination == broker:
                move.is_prepared = True

    def advance(self, now_s: float, network: RegistryFacts, broker: str | None = None) -> Progress:
        """Let moves of one broker, or of all, take their next steps, and let others begin."""
        progress = Progress()
        moves = self._under_way if broker is None else self._at.get(broker, {})
        for move in list(moves.values()):
            self._step(move, now_s, network, progress)
        if self._queues and now_s >= self._begin_at_s:
            self._begin_at_s = now_s + _BEGIN_EVERY_S
            self._begin_more(now_s, network, progress)
        self._end_runs(progress)
        return progress

    def orders(self, broker: str, now_s: float) -> dict[Step, list[MoveRecord]]:
        """The moves for which a broker should get an order now, by their step."""
        by_step: dict[Step, list[MoveRecord]] = {Step.PREPARING: [], Step.ADOPTING: [], Step.MOVING: []}
        for move in self._at.get(broker, {}).values():
            record = move.record
            whose = record.source if record.step is Step.MOVING else record.destination
            if whose == broker and now_s - move.ordered_s >= _REPEAT_AFTER_S:
                move.ordered_s = now_s
                by_step[record.step].append(record)
        return by_step

    def violations(self) -> Iterator[tuple[str, str]]:
        left: Counter[str] = Counter(move.plan for queue in self._queues.values() for move in queue)
        leaving: Counter[str] = Counter()
        arriving: Counter[str] = Counter()
        for subscriber, move in self._under_way.items():
            record = move.record
            left[record.plan] += 1
            leaving[record.source] += 1
            arriving[record.destination] += 1
            if not record.step.is_under_way:
                yield subscriber, f"its move is under way, and {record.step}"
            for broker in (record.source, record.destination):
                if self._at.get(broker, {}).get(subscriber) is not move:
                    yield subscriber, f"{broker} does not know of its move"
        for counted, traffic in ((leaving, self._sources), (arriving, self._destinations)):
            for broker, one in traffic.items():
                if one.in_flight != counted[broker]:
                    yield broker, f"{counted[broker]} moves are under way, and {one.in_flight} count"
        for run in self._runs.values():
            if run.left != left[run.plan]:
                yield run.plan, f"{run.left} moves are left, and {left[run.plan]} are known"

    # Parts

    def _step(self, move: _UnderWay, now_s: float, network: RegistryFacts, progress: Progress) -> None:
        record = move.record
        facts = _facts(record, self._runs.get(record.plan), network)
        if now_s - move.since_s > timeout_s(record.step):
            facts.add(Fact.TIMED_OUT)
        if move.is_prepared:
            facts.add(Fact.PREPARED)
        step, fact = next_step(record.step, facts)
        if fact is None:
            return
        if step.is_final:
            self._remove(move)
            self._end(replace(record, step=step, outcome=fact), progress, now_s - move.begun_s)
        else:
            move.record = replace(record, step=step)
            move.since_s, move.ordered_s = now_s, float("-inf")
            progress.moves.append((move.record, 0.0))

    def _begin_more(self, now_s: float, network: RegistryFacts, progress: Progress) -> None:
        for pair in list(self._queues):
            # The pair goes to the end, so that no pair waits for another.
            queue = self._queues.pop(pair)
            source, destination = pair
            leaving = self._traffic(self._sources, source)
            arriving = self._traffic(self._destinations, destination)
            waiting: list[MoveRecord] = []
            while queue and self._has_room(leaving, now_s) and self._has_room(arriving, now_s):
                move = queue.popleft()
                if move.subscriber in self._under_way:
                    waiting.append(move)
                    continue
                step, fact = next_step(Step.QUEUED, _facts(move, self._runs.get(move.plan), network) | {Fact.TURN})
                if step is Step.PREPARING:
                    leaving.allowed.take(now_s)
                    arriving.allowed.take(now_s)
                    begun = replace(move, step=step)
                    self._put(_UnderWay(begun, now_s, now_s))
                    progress.moves.append((begun, 0.0))
                else:
                    self._end(replace(move, step=step, outcome=fact or ""), progress)
            queue.extendleft(reversed(waiting))
            if queue:
                self._queues[pair] = queue

    def _has_room(self, traffic: _Traffic, now_s: float) -> bool:
        return traffic.in_flight < self._limits.in_flight and traffic.allowed.has_one(now_s)

    def _traffic(self, known: dict[str, _Traffic], broker: str) -> _Traffic:
        if (traffic := known.get(broker)) is None:
            per_s = self._limits.per_s
            traffic = known[broker] = _Traffic(TokenBucket(per_s, max(1.0, _BURST_S * per_s)))
        return traffic

    def _queue(self, move: MoveRecord) -> None:
        self._queues.setdefault((move.source, move.destination), deque()).append(move)

    def _unqueue(self, is_meant: Callable[[MoveRecord], bool]) -> list[MoveRecord]:
        """Take some moves out of the queues; the others keep their order."""
        queued = [move for queue in self._queues.values() for move in queue]
        self._queues.clear()
        for move in queued:
            if not is_meant(move):
                self._queue(move)
        return [move for move in queued if is_meant(move)]

    def _put(self, move: _UnderWay) -> None:
        record = move.record
        self._under_way[record.subscriber] = move
        for broker in (record.source, record.destination):
            self._at.setdefault(broker, {})[record.subscriber] = move
        self._traffic(self._sources, record.source).in_flight += 1
        self._traffic(self._destinations, record.destination).in_flight += 1
        self._reserved[record.destination] = self.reserved(record.destination) + record.load

    def _remove(self, move: _UnderWay) -> None:
        record = move.record
        del self._under_way[record.subscriber]
        for broker in (record.source, record.destination):
            del self._at[broker][record.subscriber]
            if not self._at[broker]:
                del self._at[broker]
        self._sources[record.source].in_flight -= 1
        self._destinations[record.destination].in_flight -= 1
        self._reserved[record.destination] -= record.load
        if record.destination not in self._at:
            del self._reserved[record.destination]  # The sum starts again at zero, without rounding errors.

    def _end(self, move: MoveRecord, progress: Progress, took_s: float = 0.0) -> None:
        progress.moves.append((move, took_s))
        run = self._runs[move.plan]
        counted = {Step.DONE: "done", Step.FAILED: "failed", Step.CANCELLED: "cancelled"}[move.step]
        self._runs[move.plan] = replace(run, **{counted: getattr(run, counted) + 1})

    def _end_runs(self, progress: Progress) -> None:
        for run in [one for one in self._runs.values() if not one.left]:
            del self._runs[run.plan]
            progress.ended.append(run)


def _nameless(move: MoveRecord) -> MoveRecord:
    return replace(move, subscriber=FORGOTTEN, step=Step.CANCELLED, outcome=Fact.GONE)


def _facts(move: MoveRecord, run: PlanRun | None, network: RegistryFacts) -> set[Fact]:
    session = network.session(move.subscriber)
    if session is None:
        return {Fact.GONE}
    if session.owner == move.destination:
        return {Fact.ARRIVED}
    if session.owner != move.source:
        return {Fact.GONE}
    facts = set()
    if not network.takes(move.destination):
        facts.add(Fact.UNUSABLE)
    if run is None or run.is_stopped:
        facts.add(Fact.STOPPED)
    if network.is_dead(move.source) or (not session.connected and network.is_current(move.source)):
        facts.add(Fact.AWAY)
        if not session.subscriptions:
            facts.add(Fact.GONE)  # There is nothing to carry on.
    return facts
