"""Subscriptions: from a wish to a hold at the cluster, and back."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import (
    BackendsAcquired,
    BackendsReleased,
    ConnectionLost,
    SessionFetched,
    SubscribeAsked,
    SubscriberArrived,
    Ticked,
    UnsubscribeAsked,
)
from tocsin.broker.core.instructions import Acquire, Deliver, ForgetSubscription, Release, StoreSubscription
from tocsin.errors import FilledOtherwise, NotFound, Unavailable
from tocsin.model.position import Position
from tocsin.protocol.messages import Error, Subscribe, Subscribed, Unsubscribed, Welcome
from tocsin.protocol.ports import BackendHold, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import FLOOD, Broker


def test_first_and_last() -> None:
    """The first subscriber has the cluster asked, the second does not, and the last one leaving releases."""
    broker = Broker()
    broker.arrive(1, "ann")
    broker.subscribe(1, "flood")
    assert broker.all_of(Acquire) == [Acquire([FLOOD])]
    assert not broker.messages(Subscribed)
    broker.acquired(flood=7)
    (answer,) = broker.messages(Subscribed)
    assert (answer.subscription, answer.position, answer.request) == (7, "7-100", 1)
    assert broker.all_of(StoreSubscription) == [StoreSubscription("ann/d", FLOOD, Position(7, 100))]
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood")
    assert not broker.all_of(Acquire)
    assert broker.messages(Subscribed)
    broker.tell(UnsubscribeAsked(1, 7, 5, 0.0))
    assert broker.messages(Unsubscribed) == [Unsubscribed(7, 5)]
    assert not broker.all_of(Release)
    broker.tell(UnsubscribeAsked(2, 7, 6, 0.0))
    assert broker.all_of(Release) == [Release([7])]


@pytest.mark.parametrize(
    "message",
    [
        Subscribe("OfType", {"x": 10**19}, request=1),
        Subscribe("OfType", {"x": -(10**300)}, "7-100", 1),
        Subscribe("x" * 256, {}, "7-100", 1),
    ],
)
def test_what_could_not_be_reported_is_refused(message: Subscribe) -> None:
    """The coordinator refuses a report as a whole. A whole number beyond 64 bits is a value for a DOUBLE, to the
    cluster: one such subscription would make a broker look dead. Neither is it kept for somebody who leaves early."""
    broker = Broker()
    broker.arrive(1, "ann")
    broker.tell(SubscribeAsked(1, message, 0.0))
    (refusal,) = broker.messages(Error)
    assert (refusal.code, refusal.request) == ("invalid_value", 1)
    assert not broker.all_of(Acquire)
    early = Broker(sessions=[KeptSession("ann/d", 2, [Kept(FLOOD, Position(7, 90))])])
    early.arrive(1, "ann", message)
    early.tell(ConnectionLost(1, 0.0))
    (kept,) = early.state.kept()
    assert [one.key for one in kept.subscriptions] == [FLOOD]


def test_wishes_wait_for_a_release_that_is_under_way() -> None:
    """An acquisition never overtakes a release: it would be undone by it."""
    broker = Broker()
    broker.live("ann")
    broker.tell(UnsubscribeAsked(1, 7, 0, 0.0))
    assert broker.all_of(Release)
    broker.subscribe(1, "flood")
    assert not broker.all_of(Acquire)
    broker.tell(BackendsReleased(0.0))
    assert broker.all_of(Acquire) == [Acquire([FLOOD])]


def test_what_can_not_be_held_for_the_moment_is_tried_again() -> None:
    """While the cluster is away nobody loses what they had; nobody is welcomed to less either."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [Kept(FLOOD, Position(7, 90))])])
    assert broker.all_of(Acquire) == [Acquire([FLOOD])]
    broker.tell(BackendsAcquired([], [(FLOOD, Unavailable("starting", retry_after_s=1))], 1, 0.0))
    assert broker.all_of(Acquire) == [Acquire([FLOOD])]
    broker.arrive(1)
    assert not broker.messages(Welcome)
    broker.acquired(flood=7)
    assert broker.messages(Welcome)


def test_refusals_reach_who_asked() -> None:
    """What the cluster refuses, and what is no position, is told with the request's number; nothing is kept of it."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", request=3)
    broker.tell(BackendsAcquired([], [(FLOOD, NotFound("no such channel"))], 1, 0.0))
    (error,) = broker.messages(Error)
    assert (error.code, error.message, error.request) == ("not_found", "no such channel", 3)
    broker.subscribe(1, "flood", request=4, position="yesterday")
    (error,) = broker.messages(Error)
    assert (error.code, error.request) == ("invalid_value", 4)
    assert broker.state.frontends == 0


def test_another_epoch_is_no_recovery() -> None:
    """A position of a history that has ended is answered with the new one, and with the plain truth."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="3-40")
    broker.acquired(flood=7)
    (answer,) = broker.messages(Subscribed)
    assert (answer.recovered, answer.position) == (False, "7-100")


def test_a_failure_is_delivered_and_the_subscription_refused() -> None:
    """Those who hold it get the failure as they get results; whoever asks for it then is refused with the reason, and
    nobody waits for what will not come. Who held it before is carried on, and so gets the failure."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.fail(7, 120, "no such zone")
    assert {(one.connection, *one.wires) for one in broker.all_of(Deliver)} == {(1, b"7-120"), (2, b"7-120")}
    broker.arrive(3, "cat")
    broker.subscribe(3, "flood", request=5)
    (error,) = broker.messages(Error)
    assert (error.code, error.request, error.temporary) == ("subscription_failed", 5, False)
    assert error.message == "no such zone"
    broker.subscribe(3, "flood", request=6, position="7-110")
    assert broker.messages(Subscribed)
    assert [one.wires for one in broker.all_of(Deliver)] == [[b"7-120"]]


def test_a_dropped_channel_is_told_and_can_be_asked_for_anew() -> None:
    """Those who hold it are told. Whoever asks for the same then gets what the cluster has by that name now, and what
    is given up of the old one takes nothing from the new one."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.end(7, 120)
    assert {(one.connection, *one.wires) for one in broker.all_of(Deliver)} == {(1, b"7-120"), (2, b"7-120")}
    assert broker.state.held() == frozenset()
    broker.subscribe(1, "flood", request=5)
    assert broker.all_of(Acquire)
    broker.acquired(flood=9)
    assert [(one.subscription, one.request) for one in broker.messages(Subscribed)] == [(9, 5)]
    broker.tell(UnsubscribeAsked(1, 7, 6, 0.0))
    assert not broker.all_of(ForgetSubscription)
    broker.pull((9, 130))
    assert broker.wires() == {1: [b"9-130"]}
    broker.tell(UnsubscribeAsked(1, 9, 7, 0.0))
    assert broker.all_of(ForgetSubscription)


def test_what_ended_while_its_subscriber_was_away_is_not_kept_beside_its_successor() -> None:
    """Else every later `welcome` would name both, and the subscriber would be told of a gap each time it comes."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(ConnectionLost(1, 1.0))
    broker.end(7, 120)
    broker.arrive(3, "ann")
    assert [one.subscription for one in broker.messages(Welcome)[0].subscriptions] == [7]
    broker.subscribe(3, "flood", position="7-100")
    broker.acquired(flood=9)
    assert [(one.subscription, one.recovered) for one in broker.messages(Subscribed)] == [(9, False)]
    broker.tell(ConnectionLost(3, 2.0))
    broker.arrive(4, "ann")
    assert [one.subscription for one in broker.messages(Welcome)[0].subscriptions] == [9]


def test_what_has_failed_at_the_cluster_is_refused_here() -> None:
    """A broker that did not hold it hears of the failure when it asks, tells the subscriber, and lets go again."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    held = BackendHold(7, "OfType", {"etype": "flood"}, "", 100, "no such zone")
    broker.tell(BackendsAcquired([(FLOOD, held)], [], 1, 0.0))
    assert [one.code for one in broker.messages(Error)] == ["subscription_failed"]
    broker.tell(Ticked(1.0))
    assert broker.state.frontends == 0
    assert broker.state.backends == 0


def _asked_for(broker: Broker) -> SubscriptionKey:
    (acquiring,) = broker.all_of(Acquire)
    (key,) = acquiring.keys
    return key


def _taken(broker: Broker, one: int, filled: dict[str, str]) -> None:
    """The cluster holds what was asked for, and says what is filled in."""
    key = _asked_for(broker)
    held = BackendHold(one, "Mine", key.parameter_values(), key.permission, broker.state.through, filled=filled)
    broker.tell(BackendsAcquired([(key, held)], [], broker.pulls + 1, broker.now_s))


def _refused(broker: Broker, filled: dict[str, str]) -> None:
    error = FilledOtherwise("", filled)
    broker.tell(BackendsAcquired([], [(_asked_for(broker), error)], broker.pulls + 1, broker.now_s))


@pytest.fixture
def of_class_bob() -> Broker:
    """A broker that has learned that `whose` is the class, from somebody of class bob who has left."""
    broker = Broker()
    broker.arrive(1, "ann", permission="bob")
    broker.tell(SubscribeAsked(1, Subscribe("Mine", {}, "", 1), broker.now_s))
    _refused(broker, {"whose": "CLASS"})
    _taken(broker, 7, {"whose": "CLASS"})
    assert [one.subscription for one in broker.messages(Subscribed)] == [7]
    broker.end(7, 101)
    return broker


def test_nobody_gets_what_belongs_to_a_user_with_the_name_of_their_class(of_class_bob: Broker) -> None:
    """A parameter of a channel was `IS CLASS` when the broker last heard of it, and is `IS USER` now. The cluster can't
    tell from its name which of them was filled in, but says what it is: nobody is served before that is filled in."""
    broker = of_class_bob
    broker.arrive(2, "eve", permission="bob")
    broker.tell(SubscribeAsked(2, Subscribe("Mine", {}, "", 1), broker.now_s))
    _taken(broker, 8, {"whose": "USER"})
    assert not broker.messages(Subscribed)
    assert _asked_for(broker).parameter_values() == {"whose": "eve"}
    _taken(broker, 9, {"whose": "USER"})
    assert [one.subscription for one in broker.messages(Subscribed)] == [9]


@pytest.mark.parametrize("is_plain", [True, False])
def test_the_cluster_decides_whose_values_somebody_may_give(of_class_bob: Broker, is_plain: bool) -> None:
    """What the broker remembers may be of a channel that was replaced. It asks, and refuses only then."""
    broker = of_class_bob
    broker.arrive(2, "eve", permission="bob")
    broker.tell(SubscribeAsked(2, Subscribe("Mine", {"whose": "dan"}, "", 1), broker.now_s))
    if is_plain:
        _taken(broker, 8, {})
        assert [one.subscription for one in broker.messages(Subscribed)] == [8]
    else:
        _refused(broker, {"whose": "USER"})
        assert [one.code for one in broker.messages(Error)] == ["forbidden"]


def test_what_another_broker_took_is_not_lost_by_what_this_one_remembers(of_class_bob: Broker) -> None:
    """The other one knew that the channel was replaced."""
    broker, mine = of_class_bob, SubscriptionKey.of("Mine", {"whose": "eve"}, "bob")
    kept = KeptSession("eve/d", 2, [Kept(mine, Position(9, 90))])
    broker.tell(SubscriberArrived(2, "eve", "d", "bob", 1000, 3600.0, [], broker.now_s))
    broker.tell(SessionFetched("eve/d", kept, is_certain=True, now_s=broker.now_s))
    assert not broker.all_of(ForgetSubscription)
    _refused(broker, {"whose": "USER"})
    _taken(broker, 9, {"whose": "USER"})
    assert not broker.all_of(ForgetSubscription)
    (session,) = [one for one in broker.state.kept() if one.subscriber == "eve/d"]
    assert [one.key.parameter_values() for one in session.subscriptions] == [{"whose": "eve"}]
