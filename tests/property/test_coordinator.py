"""The coordinator's machine under anything that brokers, subscribers, operators and time may do, in any order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tocsin.coordinator.registry.events import BrokerModeSet, BrokerRemoved, PolicyChosen, ReportedSession, UserRemoved
from tocsin.coordinator.registry.records import user_of
from tocsin.errors import InUse, NotFound, Unavailable
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network, held

BROKERS = st.sampled_from(["a", "b", "c", "d"])
USERS = st.sampled_from(["ann", "bob"])
DEVICES = st.sampled_from(["phone", "~1"])
SUBSCRIBERS = st.builds("{}/{}".format, USERS, DEVICES)
KEYS = st.lists(st.sampled_from(["fire", "flood", "storm"]), unique=True).map(tuple)
MODES = st.sampled_from([BrokerState.ACTIVE, BrokerState.CORDONED, BrokerState.DRAINING])
POLICIES = st.sampled_from(["nearest", "round-robin", "random", "least-resulting-load"])
LOCATIONS = st.none() | st.tuples(st.floats(-9, 9), st.floats(-9, 9))


class CoordinatorMachine(RuleBasedStateMachine):
    """Brokers are modelled with what they keep: a broker drops what it is told it has lost, and keeps all else."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        #: What each broker keeps: subscriber to generation. It survives the broker's silence and removal.
        self.kept: dict[str, dict[str, int]] = {name: {} for name in "abcd"}
        self.registered: set[str] = set()
        #: Who had a session, until its owner ended it or its user was removed.
        self.expected: set[str] = set()
        #: The highest generation ever given out for a session that has not ended since.
        self.highest: dict[str, int] = {}

    @initialize()
    def begin(self) -> None:
        for name in "abc":
            self.register(name, None, 1.0)

    @rule(broker=BROKERS, location=LOCATIONS, capacity=st.sampled_from([0.5, 1.0, 4.0]))
    def register(self, broker: str, location: tuple[float, float] | None, capacity: float) -> None:
        self.network.register(broker, location=location, capacity=capacity)
        self.registered.add(broker)

    @rule(broker=BROKERS, subscriber=SUBSCRIBERS)
    def claim(self, broker: str, subscriber: str) -> None:
        if broker not in self.registered:
            return
        generation = self.network.claim(broker, subscriber)[subscriber]
        assert generation > self.highest.get(subscriber, 0), "a claim wins over all before it"
        self.highest[subscriber] = generation
        self.kept[broker][subscriber] = generation
        self.expected.add(subscriber)
        assert self.network.owner_of(subscriber) == broker

    @rule(first=BROKERS, second=BROKERS, subscriber=SUBSCRIBERS)
    def move(self, first: str, second: str, subscriber: str) -> None:
        """Claimed twice before anybody is heard."""
        self.claim(first, subscriber)
        self.claim(second, subscriber)

    @rule(broker=BROKERS, keys=KEYS, connected=st.booleans(), draining=st.booleans(), all_of_it=st.booleans())
    def heartbeat(self, broker: str, keys: tuple[str, ...], connected: bool, draining: bool, all_of_it: bool) -> None:
        """Tells of everything it keeps, or of nothing: what is not told of has not ended."""
        if broker not in self.registered:
            return
        kept = self.kept[broker]
        changed = [
            ReportedSession(subscriber, generation, connected, held(*keys))
            for subscriber, generation in (kept.items() if all_of_it else ())
        ]
        answer = self.network.heartbeat(broker, *changed, draining=draining)
        for subscriber in answer.lost:
            assert self.network.owner_of(subscriber) != broker, "nobody is told to drop what is theirs"
            kept.pop(subscriber, None)
        if all_of_it:
            for subscriber in kept:
                assert self.network.owner_of(subscriber) == broker, "what was reported and not lost is the broker's"
                # A stale copy may come back to life only if nobody remembers anything newer.
                assert kept[subscriber] >= self.highest.get(subscriber, 0)
                self.highest[subscriber] = kept[subscriber]
                self.expected.add(subscriber)

    @rule(broker=BROKERS, subscriber=SUBSCRIBERS)
    def end(self, broker: str, subscriber: str) -> None:
        if broker not in self.registered:
            return
        was_owner = self.network.owner_of(subscriber) == broker
        self.kept[broker].pop(subscriber, None)
        for lost in self.network.heartbeat(broker, ended=(subscriber,)).lost:
            self.kept[broker].pop(lost, None)
        if was_owner:
            self.expected.discard(subscriber)
            self.highest.pop(subscriber, None)

    @rule(user=USERS)
    def remove_user(self, user: str) -> None:
        self.network.handle(UserRemoved(user))
        gone = {one for one in self.expected if user_of(one) == user}
        self.expected -= gone
        for subscriber in gone:
            self.highest.pop(subscriber)

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0]), heard=st.sets(BROKERS))
    def pass_time(self, seconds: float, heard: set[str]) -> None:
        heard &= self.registered
        # Brokers that die further apart than `dead_after_s` did not die at once.
        while seconds > 0:
            known = self.network.state._brokers
            alive = {name for name in self.registered if self.network.state_of(name) is not BrokerState.DEAD}
            # A broker that was dead when the coordinator stopped is no news when it is found dead again.
            counted = {name for name in alive if not known[name].was_dead}
            self.pass_quietly(min(seconds, 3.0), heard)
            seconds -= 3.0
            died = {name for name in alive if self.network.state_of(name) is BrokerState.DEAD}
            assert not died & heard
            assert len(counted) < 3 or len(died & counted) <= len(counted) / 2, "never most of them at once"

    def pass_quietly(self, seconds: float, heard: set[str]) -> None:
        """Heartbeats that go by in the meantime tell of losses too."""
        for broker in sorted(heard):
            for lost in self.network.heartbeat(broker).lost:
                self.kept[broker].pop(lost, None)
        self.network.pass_time(seconds, heard=tuple(sorted(heard)))

    @rule(user=USERS, device=DEVICES | st.just(""), location=LOCATIONS, avoid=st.frozensets(BROKERS))
    def place(self, user: str, device: str, location: tuple[float, float] | None, avoid: frozenset[str]) -> None:
        subscriber = f"{user}/{device}"
        owner = self.network.owner_of(subscriber) if device else None
        states = {name: self.network.state_of(name) for name in self.registered}
        active = {name for name, state in states.items() if state is BrokerState.ACTIVE}
        sticky = owner not in avoid and states.get(owner or "") in {BrokerState.ACTIVE, BrokerState.CORDONED}
        try:
            placed = self.network.place(user, device, location=location, avoid=avoid)
        except Unavailable:
            assert not active
            assert not sticky
            return
        if sticky:
            assert placed.broker == owner
        else:
            assert placed.broker in (active - avoid or active)
        assert self.network.owner_of(subscriber) == owner or not device, "a placement moves nobody"

    @rule(broker=BROKERS, subscribers=st.lists(SUBSCRIBERS, max_size=4))
    def move_away(self, broker: str, subscribers: list[str]) -> None:
        if broker not in self.registered:
            return
        others = {name for name in self.registered - {broker} if self.network.state_of(name) is BrokerState.ACTIVE}
        placements = self.network.move_away(broker, *subscribers)
        assert set(placements) == (set(subscribers) if others else set())
        assert {placed.broker for placed in placements.values()} <= others

    @rule(broker=BROKERS, mode=MODES)
    def set_mode(self, broker: str, mode: BrokerState) -> None:
        if broker in self.registered:
            self.network.handle(BrokerModeSet(broker, mode))

    @rule(policy=POLICIES)
    def choose_policy(self, policy: str) -> None:
        self.network.handle(PolicyChosen(policy))

    @rule(broker=BROKERS)
    def remove_broker(self, broker: str) -> None:
        try:
            self.network.handle(BrokerRemoved(self.network.now_s, broker))
        except (InUse, NotFound):
            return
        self.registered.discard(broker)
        # A broker that was removed begins anew, if it ever comes back; its short-lived sessions are gone.
        for subscriber in self.kept.pop(broker):
            if subscriber.endswith("/~1") and subscriber in self.expected and self.network.owner_of(subscriber) is None:
                self.expected.discard(subscriber)
                self.highest.pop(subscriber)
        self.kept[broker] = {}

    @rule(away_s=st.sampled_from([0.0, 100.0]))
    def restart(self, away_s: float) -> None:
        before = {name: self.network.state.session(name) for name in self.expected}
        policy = self.network.state.policy
        self.network.now_s += away_s
        self.network.restart()
        assert {name: self.network.state.session(name) for name in self.expected} == before
        assert self.network.state.policy == policy
        assert not any(self.network.state_of(name) is BrokerState.DEAD for name in self.registered)

    @invariant()
    def nobody_is_lost(self) -> None:
        """Silence, death, removal of brokers and restarts end no session."""
        found = {session.subscriber: session for session in self.network.state.sessions()}
        assert set(found) == self.expected
        for subscriber, session in found.items():
            assert session.generation == self.highest[subscriber]

    @invariant()
    def a_subscriber_has_one_owner_at_the_highest_generation(self) -> None:
        for subscriber in self.expected:
            generations = {name: kept[subscriber] for name, kept in self.kept.items() if subscriber in kept}
            at_the_top = [name for name, one in generations.items() if one == self.highest[subscriber]]
            assert len(at_the_top) <= 1
            assert all(one <= self.highest[subscriber] for one in generations.values())
            if at_the_top:
                assert self.network.owner_of(subscriber) == at_the_top[0]

    @invariant()
    def what_is_stored_is_what_is_known(self) -> None:
        stored = {name: one for name, one in self.network.stored_sessions.items() if one.owner}
        assert stored == {session.subscriber: session for session in self.network.state.sessions()}
        assert set(self.network.stored_brokers) == self.registered

    @invariant()
    def loads_add_up(self) -> None:
        for report in self.network.state.brokers(self.network.now_s):
            mine = [one for one in self.network.state.sessions() if one.owner == report.record.name]
            fetched = {subscription.key for one in mine for subscription in one.subscriptions}
            sent = [subscription.key for one in mine if one.connected for subscription in one.subscriptions]
            assert report.subscribers == len(mine)
            assert (report.load.incoming, report.load.outgoing) == (len(fetched), len(sent))


TestCoordinatorMachine = CoordinatorMachine.TestCase
TestCoordinatorMachine.settings = settings(stateful_step_count=30, deadline=None)
