"""Whatever happens to brokers, sessions and the coordinator itself, a plan ends, within its limits, and its journal
says what became of everybody."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tocsin.coordinator.moves.execution import Execution, MoveLimits, Progress
from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.protocol.subscription_keys import KeyText
from worlds.moving import FakeNetwork

_BROKERS = ("a", "b", "c")
_LIMITS = MoveLimits(in_flight=3, per_s=4)
_HELD = (SessionSubscription(KeyText("fire"), "1-0"),)
#: Longer than all steps of a move may last together.
_LONG_S = 200.0


class _Journal:
    """What is on disk."""

    def __init__(self, run: PlanRun, moves: list[MoveRecord]) -> None:
        self.run = run
        self.moves = {move.number: move for move in moves}
        self.ended: list[PlanRun] = []

    def write(self, progress: Progress) -> None:
        for move, _ in progress.moves:
            before = self.moves[move.number]
            assert not before.step.is_final, f"{before} had ended, and became {move}"
            self.moves[move.number] = move
        self.ended += progress.ended

    def counted(self) -> PlanRun:
        steps = Counter(move.step for move in self.moves.values())
        return replace(self.run, done=steps[Step.DONE], failed=steps[Step.FAILED], cancelled=steps[Step.CANCELLED])

    def restart(self, now_s: float) -> Execution:
        left = [move for move in self.moves.values() if not move.step.is_final]
        return Execution(now_s, _LIMITS, [] if self.ended else [self.counted()], left)


@given(st.integers(0, 2**32))
def test_a_plan_ends_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    sessions = [SessionRecord(f"s{number}", rng.choice(_BROKERS), 1, rng.random() < 0.7, _HELD) for number in range(12)]
    world = FakeNetwork.of(_BROKERS, sessions)
    moves = [
        MoveRecord("p", number, session.subscriber, session.owner, destination, 1.0, "because")
        for number, session in enumerate(world.sessions.values())
        if (destination := rng.choice(_BROKERS)) != session.owner
    ]
    run = PlanRun("p", "migration", "ldm", "", "me", len(moves))
    journal = _Journal(run, moves)
    execution = Execution(0.0, _LIMITS)
    execution.begin(run, moves)
    now_s = 0.0
    for _ in range(rng.randrange(60)):
        now_s += rng.choice((0.0, 0.1, 1.0, 10.0))
        execution = _happen(rng, now_s, world, execution, journal)
        _check_limits(journal, execution)
    world.taking, world.dead, world.unheard = set(_BROKERS), set(), set()
    for _ in range(len(moves) + 5):
        now_s += _LONG_S
        journal.write(execution.advance(now_s, world))
    assert not execution.runs
    assert execution.under_way == 0
    assert all(execution.reserved(broker) == 0 for broker in _BROKERS)
    assert all(move.step.is_final for move in journal.moves.values())
    assert not journal.ended or replace(journal.ended[-1], is_stopped=False) == journal.counted()


def _happen(rng: random.Random, now_s: float, world: FakeNetwork, execution: Execution, journal: _Journal) -> Execution:
    broker, subscriber = rng.choice(_BROKERS), rng.choice(sorted(world.sessions))
    session = world.sessions[subscriber]
    match rng.randrange(10):
        case 0 | 1 | 2:
            world.unheard.discard(broker)
            execution.prepared(broker, execution.orders(broker, now_s).prepare)
            journal.write(execution.advance(now_s, world, broker))
        case 3 | 4:
            journal.write(execution.advance(now_s, world))
        case 5:  # Told to move, it comes; or it goes somewhere by itself.
            to = execution.destination_of(subscriber) or broker
            world.sessions[subscriber] = replace(session, owner=to, connected=True)
        case 6:
            world.sessions[subscriber] = replace(session, connected=not session.connected)
        case 7:
            (world.dead.discard if broker in world.dead else world.dead.add)(broker)
        case 8:
            (world.taking.discard if broker in world.taking else world.taking.add)(broker)
        case _:  # kill -9: only what was written is left.
            world.unheard = set(_BROKERS)
            return journal.restart(now_s)
    return execution


def _check_limits(journal: _Journal, execution: Execution) -> None:
    under_way = [move for move in journal.moves.values() if move.step.is_under_way]
    assert len(under_way) == execution.under_way
    for sides in (Counter(move.source for move in under_way), Counter(move.destination for move in under_way)):
        assert all(count <= _LIMITS.in_flight for count in sides.values())
