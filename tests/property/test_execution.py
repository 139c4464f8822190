"""Whatever happens to brokers, sessions and the coordinator itself, a plan ends, within its limits, and its journal
says what became of everybody."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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

BROKERS = st.sampled_from(_BROKERS)
SUBSCRIBERS = st.runner().flatmap(lambda plan: st.sampled_from(sorted(plan.network.sessions)))


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


class PlanEnds(RuleBasedStateMachine):
    """One plan, from its beginning until everything works and it has to end."""

    @initialize(sessions=st.lists(st.tuples(BROKERS, st.booleans(), BROKERS), min_size=4, max_size=12))
    def begin(self, sessions: list[tuple[str, bool, str]]) -> None:
        """Of each subscriber: its broker, whether it is connected, and the broker it is to go to."""
        records = [
            SessionRecord(f"s{number}", owner, 1, connected, _HELD)
            for number, (owner, connected, _) in enumerate(sessions)
        ]
        self.network = FakeNetwork.of(_BROKERS, records)
        moves = [
            MoveRecord("p", number, f"s{number}", owner, destination, 1.0, "because")
            for number, (owner, _, destination) in enumerate(sessions)
            if destination != owner
        ]
        run = PlanRun("p", "migration", "ldm", "", "me", len(moves))
        self.journal = _Journal(run, moves)
        self.execution = Execution(0.0, _LIMITS)
        self.execution.begin(run, moves)
        self.now_s = 0.0

    @rule(seconds=st.sampled_from((0.1, 1.0, 10.0)))
    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(broker=BROKERS)
    def report(self, broker: str) -> None:
        """The broker has prepared everything that it was told to prepare."""
        self.network.unheard.discard(broker)
        preparing = self.execution.orders(broker, self.now_s)[Step.PREPARING]
        self.execution.prepared(broker, [move.subscriber for move in preparing])
        self.journal.write(self.execution.advance(self.now_s, self.network, broker))

    @rule()
    def advance(self) -> None:
        self.journal.write(self.execution.advance(self.now_s, self.network))

    @rule(subscriber=SUBSCRIBERS, broker=BROKERS)
    def go(self, subscriber: str, broker: str) -> None:
        """A subscriber that was told to move comes; any other goes somewhere by itself."""
        to = self.execution.destination_of(subscriber) or broker
        session = self.network.sessions[subscriber]
        self.network.sessions[subscriber] = replace(session, owner=to, connected=True)

    @rule(subscriber=SUBSCRIBERS)
    def come_or_leave(self, subscriber: str) -> None:
        session = self.network.sessions[subscriber]
        self.network.sessions[subscriber] = replace(session, connected=not session.connected)

    @rule(broker=BROKERS)
    def die_or_live(self, broker: str) -> None:
        self.network.dead ^= {broker}

    @rule(broker=BROKERS)
    def close_or_open(self, broker: str) -> None:
        self.network.taking ^= {broker}

    @rule()
    def kill(self) -> None:
        """kill -9: only what was written is left."""
        self.network.unheard = set(_BROKERS)
        self.execution = self.journal.restart(self.now_s)

    @invariant()
    def within_limits(self) -> None:
        if not hasattr(self, "journal"):
            return
        under_way = [move for move in self.journal.moves.values() if move.step.is_under_way]
        assert len(under_way) == self.execution.under_way
        for sides in (Counter(move.source for move in under_way), Counter(move.destination for move in under_way)):
            assert all(count <= _LIMITS.in_flight for count in sides.values())

    def teardown(self) -> None:
        """With everything working, the plan ends, and its journal agrees."""
        if not hasattr(self, "journal"):
            return
        self.network.taking, self.network.dead, self.network.unheard = set(_BROKERS), set(), set()
        for _ in range(len(self.journal.moves) + 5):
            self.now_s += _LONG_S
            self.journal.write(self.execution.advance(self.now_s, self.network))
        assert not self.execution.runs
        assert self.execution.under_way == 0
        assert all(self.execution.reserved(broker) == 0 for broker in _BROKERS)
        assert all(move.step.is_final for move in self.journal.moves.values())
        ended = self.journal.ended
        assert not ended or replace(ended[-1], is_stopped=False) == self.journal.counted()


TestPlanEnds = PlanEnds.TestCase
TestPlanEnds.settings = settings(stateful_step_count=60, deadline=None)
