"""Whatever happens in whatever order, every subscriber sees every result of its subscriptions once and in order.

Each step of a history is drawn by itself, so a history that fails shrinks to the few steps that matter, which are
printed as calls that can be pasted into a test.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tocsin.broker.core import connecting, delivery, subscribing
from worlds.broker_world import OWN_CHANNEL, BrokerWorld, FakeBroker, FakeClient

#: Steps of a history. With as many, most have gone through several brokers.
_STEPS = 60

CHANNELS = st.sampled_from(("A", "B", "C", OWN_CHANNEL))
BROKERS = st.runner().flatmap(lambda history: st.sampled_from(sorted(history.brokers)))
CLIENTS = st.sampled_from(("user0", "user1", "user2"))
#: Which of those that there are, counted around.
NUMBER = st.integers(0, 3)


class _History(RuleBasedStateMachine):
    """What can happen to brokers and their clients, without subscribing."""

    world: BrokerWorld

    @initialize(brokers=st.integers(1, 3), cache_max_bytes=st.sampled_from((100_000, 2_000, 300)))
    def begin(self, brokers: int, cache_max_bytes: int) -> None:
        self.world = BrokerWorld(brokers=brokers, clients=3, cache_max_bytes=cache_max_bytes)

    @property
    def brokers(self) -> dict[str, FakeBroker]:
        return {one.name: one for one in self.world.brokers}

    @property
    def clients(self) -> dict[str, FakeClient]:
        return {one.user: one for one in self.world.clients}

    @precondition(lambda self: any(one.broker is None for one in self.world.clients))
    @rule(client=CLIENTS, broker=BROKERS)
    def connect(self, client: str, broker: str) -> None:
        self.world.connect(self.clients[client], self.brokers[broker])

    @rule(client=CLIENTS)
    def disconnect(self, client: str) -> None:
        self.world.disconnect(self.clients[client])

    @rule(client=CLIENTS)
    def vanish(self, client: str) -> None:
        self.world.vanish(self.clients[client])

    @precondition(lambda self: self.world.cut_lines)
    @rule(line=NUMBER)
    def notice(self, line: int) -> None:
        self.world.notice(line)

    @rule(client=CLIENTS)
    def acknowledge(self, client: str) -> None:
        self.world.acknowledge(self.clients[client])

    @rule(client=CLIENTS)
    def congest(self, client: str) -> None:
        self.world.congest(self.clients[client])

    @rule(client=CLIENTS)
    def flush(self, client: str) -> None:
        self.world.flush(self.clients[client])

    @rule(broker=BROKERS)
    def pull(self, broker: str) -> None:
        self.world.pull(self.brokers[broker])

    @precondition(lambda self: any(one.calls for one in self.world.brokers))
    @rule(broker=BROKERS, call=NUMBER, limit=st.sampled_from((1000, 3, 1)), is_certain=st.sampled_from((True, False)))
    def answer(self, broker: str, call: int, limit: int, is_certain: bool) -> None:
        self.world.answer(self.brokers[broker], call, limit=limit, is_certain=is_certain)

    @rule(broker=BROKERS)
    def report(self, broker: str) -> None:
        self.world.report(self.brokers[broker])

    @rule(seconds=st.sampled_from((0.1, 1.0, 10.0)))
    def tick(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule()
    def run(self) -> None:
        self.world.cluster.run()

    @rule(seconds=st.sampled_from((0.1, 1.0)))
    def go_on(self, seconds: float) -> None:
        """Everything under way works out: without this, few histories get anywhere."""
        self.world.go_on(seconds)

    def teardown(self) -> None:
        """Left alone, with everything working, all clients have all that there is."""
        if hasattr(self, "world"):
            self.world.settle()
            self.check()

    def check(self) -> None:
        raise NotImplementedError


class ResultsOnce(_History):
    """With one broker or several, whatever fits into the cache, through disconnections, moves and congestion."""

    @rule(client=CLIENTS, channel=CHANNELS)
    def subscribe(self, client: str, channel: str) -> None:
        self.world.subscribe(self.clients[client], channel)

    @rule(client=CLIENTS, channel=CHANNELS)
    def unsubscribe(self, client: str, channel: str) -> None:
        self.world.unsubscribe(self.clients[client], channel)

    def check(self) -> None:
        for client in self.world.clients:
            assert not client.gone, f"{client.user} was told that history is gone, though somebody always held it"
            assert client.broker is not None
            for wish in client.wishes.values():
                assert wish.begin is not None, f"{client.user} was never answered for {wish.channel}"
                expected = [
                    sequence
                    for one, sequence in self.world.cluster.results
                    if one == wish.subscription and sequence > wish.begin
                ]
                assert wish.seen == expected, f"{client.user} {wish.channel}"
                if wish.channel == OWN_CHANNEL:
                    values = self.world.cluster.keys[wish.subscription].parameter_values()
                    assert values == {"user_id": client.user}


class ResultsOnceThroughCrashes(ResultsOnce):
    """The same, while brokers are killed and begin again from their stores."""

    @rule(broker=BROKERS)
    def crash(self, broker: str) -> None:
        self.world.crash(self.brokers[broker])


class ResultsOnceThroughFullDisks(ResultsOnceThroughCrashes):
    """What is told to a subscriber was stored before, so not even a broker that is killed while its disk is full loses
    anything; when there is room again, everything goes on."""

    @rule(broker=BROKERS)
    def fill(self, broker: str) -> None:
        self.world.fill(self.brokers[broker])

    @precondition(lambda self: any(one.store.is_full for one in self.world.brokers))
    @rule(broker=BROKERS)
    def make_room(self, broker: str) -> None:
        self.world.make_room(self.brokers[broker])

    @rule(broker=BROKERS)
    def look_for_room(self, broker: str) -> None:
        self.world.look_for_room(self.brokers[broker])

    @precondition(lambda self: any(one.refused for one in self.world.clients))
    @rule(client=CLIENTS)
    def ask_again(self, client: str) -> None:
        self.world.ask_again(self.clients[client])


class OwnResultsOnly(_History):
    """Who names somebody else is refused, at whatever broker, through moves and crashes, and whatever that broker
    remembers of the channel; who names themselves, or nobody, gets their own."""

    @property
    def named(self) -> dict[str, str]:
        """What each names: user0 names nobody, user1 themselves, user2 another."""
        return {"user0": "", "user1": "user1", "user2": self.victim}

    @initialize(victim=st.sampled_from(("user0", "user1")))
    def choose(self, victim: str) -> None:
        self.victim = victim

    @rule(client=CLIENTS)
    def subscribe(self, client: str) -> None:
        name = self.named[client]
        self.world.subscribe(self.clients[client], OWN_CHANNEL, {"user_id": name} if name else {})

    @precondition(lambda self: any(one.refused for one in self.world.clients))
    @rule(client=CLIENTS)
    def ask_again(self, client: str) -> None:
        self.world.ask_again(self.clients[client])

    @rule(broker=BROKERS)
    def crash(self, broker: str) -> None:
        self.world.crash(self.brokers[broker])

    @rule(broker=BROKERS)
    def forget_channels(self, broker: str) -> None:
        """As if so many channels were in use that these were forgotten."""
        self.brokers[broker].state._filling._channels.clear()

    def check(self) -> None:
        for client in self.world.clients:
            for wish in client.wishes.values():
                if client.user == "user2":
                    assert not wish.subscription
                    assert not client.last
                else:
                    values = self.world.cluster.keys[wish.subscription].parameter_values()
                    assert values == {"user_id": client.user}


class Mistake(Exception):
    """What no handler expects."""


class ResultsOnceThroughMistakes(ResultsOnceThroughCrashes):
    """A mistake with what one connection sent, wherever it is made, ends that connection and harms nobody."""

    def __init__(self) -> None:
        super().__init__()
        #: How many values the machines still make before one fails; None for no mistake.
        self.good: int | None = None
        self._patches = ExitStack()
        for module, name in (
            (subscribing, "StoreSubscription"),
            (subscribing, "describe"),
            (subscribing, "Waiter"),
            (subscribing, "Unsubscribed"),
            (connecting, "Welcome"),
            (delivery, "Deliver"),
        ):
            failing = self._failing(getattr(module, name))
            self._patches.enter_context(patch(f"{module.__name__}.{name}", failing))

    def _failing(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def make_or_fail(*values: Any, **named: Any) -> Any:
            if self.good is not None and self.world.is_from_connection and not self.world.is_calm:
                self.good -= 1
                if self.good < 0:
                    self.good = None
                    raise Mistake
            return make(*values, **named)

        return make_or_fail

    @precondition(lambda self: self.good is None)
    @rule(after=st.integers(0, 4))
    def make_a_mistake(self, after: int) -> None:
        """The next of these values that a broker makes for a connection, or one of those after it."""
        self.world.expected_mistakes = (Mistake,)
        self.good = after

    def teardown(self) -> None:
        with self._patches:
            super().teardown()


for _history in (
    ResultsOnce,
    ResultsOnceThroughCrashes,
    ResultsOnceThroughFullDisks,
    OwnResultsOnly,
    ResultsOnceThroughMistakes,
):
    _history.TestCase.settings = settings(stateful_step_count=_STEPS, deadline=None)

TestResultsOnce = ResultsOnce.TestCase
TestResultsOnceThroughCrashes = ResultsOnceThroughCrashes.TestCase
TestResultsOnceThroughFullDisks = ResultsOnceThroughFullDisks.TestCase
TestOwnResultsOnly = OwnResultsOnly.TestCase
TestResultsOnceThroughMistakes = ResultsOnceThroughMistakes.TestCase
