"""Whatever happens in whatever order, every subscriber sees every result of its subscriptions once and in order.

A history is a list of steps. One that fails shrinks to the steps that matter, printed as they are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from histories.planted import BUGS
from tocsin.broker.core import delivery, subscribing
from tocsin.model import position
from tocsin.model.catalogue import ParameterValue
from tocsin.model.results import ResultKind, next_phase
from tocsin.protocol import messages
from worlds.broker_world import OWN_CHANNEL, SNAPSHOT_CHANNEL, BrokerWorld, FakeBroker, FakeClient, Wish
from worlds.steps import Argument, Happenings, Step, histories, step

_CLIENTS = {"client": range(3)}
_CHANNELS = {"channel": ("A", "B", "C", OWN_CHANNEL)}


def _happenings(brokers: int) -> dict[str, tuple[int, Mapping[str, Sequence[Argument]]]]:
    """What happens, how often, and with what."""
    at = {"broker": range(brokers)}
    return {
        "run": (6, {}),
        "connect": (6, _CLIENTS | at),
        "subscribe": (5, _CLIENTS | _CHANNELS),
        "pull": (8, at),
        "answer": (12, at | {"call": range(3), "limit": (1000, 1)}),
        "answer_nothing_certain": (2, at | {"call": range(2)}),
        "report": (3, at),
        "tick": (3, {"seconds": (0.1, 1.0, 10.0)}),
        "flush": (5, _CLIENTS),
        "acknowledge": (3, _CLIENTS),
        "disconnect": (2, _CLIENTS),
        "unsubscribe": (1, _CLIENTS),
        "congest": (1, _CLIENTS),
        "vanish": (1, _CLIENTS),
        "notice": (1, {"line": range(3)}),
    }


_AT = {"broker": range(2)}
_CRASHES: Happenings = {**_happenings(2), "crash": (1, _AT)}
_FULL_DISKS: Happenings = {
    **_CRASHES,
    "fill": (2, _AT),
    "make_room": (2, _AT),
    "look_for_room": (4, _AT),
    "ask_again": (3, _CLIENTS),
}
_SNAPSHOTS: Happenings = {
    **_CRASHES,
    "subscribe": (8, _CLIENTS | {"channel": (SNAPSHOT_CHANNEL,)}),
    "serve_snapshots": (4, {}),
    "pull": (12, _AT | {"limit": (1000, 2)}),
    "ask_again": (2, _CLIENTS),
}
_MISTAKES: Happenings = {**_CRASHES, "make_a_mistake": (4, {"after": range(3)})}
_OWN: Happenings = {
    **{what: often for what, often in _CRASHES.items() if what not in ("subscribe", "unsubscribe")},
    "ask_for_own": (10, _CLIENTS),
    "ask_again": (2, _CLIENTS),
    "forget_channels": (3, _AT),
}


def _live_through(world: BrokerWorld, history: list[Step], **others: Callable[..., None]) -> None:
    """Steps are methods of the world, or one of the `others`."""
    for one in history:
        arguments: dict[str, Any] = dict(one.arguments)
        if "client" in arguments:
            arguments["client"] = world.clients[arguments["client"]]
        if "broker" in arguments:
            arguments["broker"] = world.brokers[arguments["broker"] % len(world.brokers)]
        (others.get(one.what) or getattr(world, one.what))(**arguments)
    world.settle()


def _check(world: BrokerWorld) -> None:
    for client in world.clients:
        assert not client.gone, f"{client.user} was told that history is gone, though somebody always held it"
        assert client.broker is not None
        for wish in client.wishes.values():
            assert wish.begin is not None, f"{client.user} was never answered for {wish.channel}"
            assert wish.seen == _expected(world, wish), f"{client.user} {wish.channel}"
            if wish.channel == OWN_CHANNEL:
                assert world.cluster.keys[wish.subscription].parameter_values() == {"user_id": client.user}


def _expected(world: BrokerWorld, wish: Wish) -> list[int]:
    """The results of its subscription since it began, as somebody would count them who knows the whole history."""
    assert wish.begin is not None
    mine = [sequence for one, sequence in world.cluster.results if one == wish.subscription]
    kinds = world.cluster.kinds
    plain = [sequence for sequence in mine if sequence not in kinds]
    if wish.channel != SNAPSHOT_CHANNEL:
        return [sequence for sequence in plain if sequence > wish.begin]
    assert position.phase_of(wish.begin) is position.Phase.AHEAD
    after = position.in_history(wish.begin)
    begin = next(one for one in mine if one > after and kinds.get(one) is ResultKind.SNAPSHOT_BEGIN)
    end = next(one for one in mine if one > begin and kinds.get(one) is ResultKind.SNAPSHOT_END)
    rows = [position.reached(one, position.Phase.WITHIN) for one in mine if begin < one < end]
    return [*rows, end, *(sequence for sequence in plain if sequence > end)]


@settings(report_multiple_bugs=False)
@given(histories(_happenings(3), 125), st.integers(1, 3), st.sampled_from((100_000, 2_000, 300)))
def test_every_result_once_and_in_order(history: list[Step], brokers: int, cache_max_bytes: int) -> None:
    """With one broker or several, whatever fits into the cache, through disconnections, moves and congestion."""
    world = BrokerWorld(brokers=brokers, clients=3, cache_max_bytes=cache_max_bytes)
    _live_through(world, history)
    _check(world)


@settings(report_multiple_bugs=False)
@given(histories(_CRASHES, 125))
def test_every_result_once_through_crashes(history: list[Step]) -> None:
    """The same, while brokers are killed and begin again from their stores."""
    _crash_and_check(history)


def _crash_and_check(history: list[Step]) -> None:
    world = BrokerWorld(brokers=2, clients=3)
    _live_through(world, history)
    _check(world)


@settings(report_multiple_bugs=False)
@given(histories(_SNAPSHOTS, 150), st.sampled_from((100_000, 300)))
def test_one_snapshot_and_then_everything_new(history: list[Step], cache_max_bytes: int) -> None:
    """For each who shares a subscription, whenever they come: the first snapshot after they have subscribed, whole, no
    other one, and each result after it, through moves, crashes, congestion and pulls of any part of it."""
    world = BrokerWorld(brokers=2, clients=3, cache_max_bytes=cache_max_bytes)
    _live_through(world, history)
    _check(world)


def _shown_to_everybody(phase: position.Phase, kind: ResultKind) -> tuple[position.Phase, bool]:
    after, is_sent = next_phase(phase, kind)
    return after, is_sent or (phase is position.Phase.NEW and kind is ResultKind.SNAPSHOT)


def _also_what_is_new_before(phase: position.Phase, kind: ResultKind) -> tuple[position.Phase, bool]:
    after, is_sent = next_phase(phase, kind)
    return after, is_sent or kind is ResultKind.RESULT


@pytest.mark.parametrize("planted", [_shown_to_everybody, _also_what_is_new_before])
def test_mistakes_with_snapshots_are_found(planted: Callable[..., tuple[position.Phase, bool]]) -> None:
    """Somebody gets another's snapshot, or what is in the snapshot beside it."""
    search = settings(phases=[Phase.generate], max_examples=100)(given(histories(_SNAPSHOTS, 150))(_crash_and_check))
    with patch.object(delivery, "next_phase", planted), pytest.raises(AssertionError, match="user"):
        search()


@pytest.mark.parametrize("name", ["live-before-caught-up", "trust-every-pull", "catch-up-skips-one"])
def test_planted_bugs_are_found(name: str) -> None:
    """Histories go deep enough that each of these loses something in one of a hundred; it is not shrunk here."""
    search = settings(phases=[Phase.generate], max_examples=100)(given(histories(_CRASHES, 125))(_crash_and_check))
    with BUGS[name].planted(), pytest.raises(AssertionError, match="user"):
        search()


@settings(report_multiple_bugs=False)
@given(histories(_FULL_DISKS, 150))
def test_every_result_once_through_full_disks(history: list[Step]) -> None:
    """What is told to a subscriber was stored before, so not even a broker that is killed while its disk is full loses
    anything; when there is room again, everything goes on."""
    world = BrokerWorld(brokers=2, clients=3)
    _live_through(world, history)
    _check(world)


@settings(report_multiple_bugs=False)
@given(histories(_OWN, 150), st.integers(0, 1))
def test_nobody_gets_what_is_filled_in_for_another(history: list[Step], victim: int) -> None:
    """Who names somebody else is refused, at whatever broker, through moves and crashes, and whatever that broker
    remembers of the channel; who names themselves, or nobody, gets their own."""
    world = BrokerWorld(brokers=2, clients=3)
    own, named, eve = world.clients
    names: dict[str, dict[str, ParameterValue]] = {
        own.user: {},
        named.user: {"user_id": named.user},
        eve.user: {"user_id": world.clients[victim].user},
    }

    def ask_for_own(client: FakeClient) -> None:
        world.subscribe(client, OWN_CHANNEL, names[client.user])

    def forget_channels(broker: FakeBroker) -> None:
        """As if so many channels were in use that these were forgotten."""
        broker.state._filling._channels.clear()

    _live_through(world, history, ask_for_own=ask_for_own, forget_channels=forget_channels)
    for client in world.clients:
        ask_for_own(client)
    world.settle()
    for client in (own, named):
        (wish,) = client.wishes.values()
        assert world.cluster.keys[wish.subscription].parameter_values() == {"user_id": client.user}
    assert not any(wish.subscription for wish in eve.wishes.values())
    assert not eve.last


class Mistake(Exception):
    """What no handler expects."""


#: What machines make while they handle what a connection has sent.
_MADE = (
    (subscribing, "StoreSubscription"),
    (subscribing, "describe"),
    (subscribing, "Waiter"),
    (messages, "Unsubscribed"),
    (messages, "Welcome"),
    (delivery, "Deliver"),
)


#: Its subscriber brings B to a broker that is still carrying on A, and leaves: there is a mistake with keeping B.
_MISTAKE_WHILE_LEAVING = [
    step("connect", client=0, broker=0),
    step("answer", broker=0),
    step("subscribe", client=0, channel="A"),
    step("report", broker=0),
    step("answer", broker=0),
    step("answer", broker=0),
    step("report", broker=0),
    step("answer", broker=0),
    step("subscribe", client=0, channel="B"),
    step("answer", broker=0),
    step("disconnect", client=0),
    step("connect", client=0, broker=1),
    step("answer", broker=1),
    step("make_a_mistake", after=0),
    step("disconnect", client=0),
    step("connect", client=0, broker=1),
    step("run"),
]


@settings(report_multiple_bugs=False)
@example(_MISTAKE_WHILE_LEAVING).via("a mistake while a connection was being given up")
@given(histories(_MISTAKES, 150))
def test_every_result_once_through_mistakes_of_the_machine(history: list[Step]) -> None:
    """A mistake with what one connection sent, wherever it is made, ends that connection and harms nobody."""
    world = BrokerWorld(brokers=2, clients=3)
    world.expected_mistakes = (Mistake,)
    #: After how many good ones the next are mistakes.
    due: list[int] = []

    def make_a_mistake(after: int) -> None:
        due.append(after)

    def failing(make: Callable[..., Any]) -> Callable[..., Any]:
        def make_or_fail(*values: Any, **named: Any) -> Any:
            if due and world.is_from_connection and not world.is_calm:
                if due[0] == 0:
                    due.pop(0)
                    raise Mistake
                due[0] -= 1
            return make(*values, **named)

        return make_or_fail

    with ExitStack() as patches:
        for module, name in _MADE:
            patches.enter_context(patch.object(module, name, failing(getattr(module, name))))
        _live_through(world, history, make_a_mistake=make_a_mistake)
    _check(world)
