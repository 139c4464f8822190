"""Nothing that a subscriber holds is lost while it goes from one broker to another, however that is interrupted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from tocsin.broker.core.events import (
    BackendsAcquired,
    Claimed,
    ConnectionLost,
    Event,
    ReportDue,
    SessionFetched,
    Started,
    SubscribeAsked,
    SubscriberArrived,
    UnsubscribeAsked,
)
from tocsin.broker.core.instructions import (
    Acquire,
    FetchSession,
    ForgetSubscription,
    Instruction,
    Report,
    Send,
    StoreSession,
    StoreSubscription,
)
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.errors import NotFound, Unavailable
from tocsin.model.position import Position
from tocsin.protocol.messages import Error, Subscribe, Subscribed, Unsubscribed, Welcome
from tocsin.protocol.ports import BackendHold, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey

_Kind = TypeVar("_Kind")
_FIRE, _FLOOD, _STORM = (SubscriptionKey.of("OfType", {"etype": etype}, "") for etype in ("fire", "flood", "storm"))
_AWAY = Unavailable("starting", retry_after_s=1)


class _Broker:
    """Holds fires, which are subscription 6, since the start."""

    def __init__(self, sessions: Sequence[KeptSession] = ()) -> None:
        self._state = BrokerState("b", Limits(), random.Random(0))
        self.out: list[Instruction] = []
        self.tell(Started(sessions, [BackendHold(6, "OfType", {"etype": "fire"}, "", 100)], 100, 0.0))

    def tell(self, event: Event) -> None:
        self.out = self._state.handle(event)

    def all_of(self, kind: type[_Kind]) -> list[_Kind]:
        return [one for one in self.out if isinstance(one, kind)]

    def messages(self, kind: type[_Kind]) -> list[_Kind]:
        return [one.message for one in self.all_of(Send) if isinstance(one.message, kind)]

    def arrive(self, connection: int, *subscriptions: Subscribe) -> None:
        self.tell(SubscriberArrived(connection, "ann", "d", "", 0, 1e9, list(subscriptions), 0.0))

    def fetched(self, session: KeptSession | None) -> None:
        self.tell(SessionFetched("ann/d", session, is_certain=True, now_s=0.0))

    def acquire_floods(self) -> None:
        self.tell(BackendsAcquired([(_FLOOD, BackendHold(7, "OfType", {"etype": "flood"}, "", 100))], [], 1, 0.0))

    def report(self) -> Report:
        self.tell(ReportDue())
        (report,) = self.all_of(Report)
        return report


def _asked(etype: str, position: str, request: int) -> Subscribe:
    return Subscribe("OfType", {"etype": etype}, position, request)


def _with_both_brought() -> _Broker:
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1), _asked("flood", "7-90", 2))
    broker.fetched(None)
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    return broker


def test_a_session_is_not_claimed_without_what_its_subscriber_brought() -> None:
    """As long as the cluster does not answer for something that was brought, it is asked again, and whoever kept the
    session keeps it: claimed without, it would be let go of there and be known nowhere."""
    broker = _with_both_brought()
    broker.tell(BackendsAcquired([], [(_FLOOD, _AWAY)], 1, 0.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    assert not broker.messages(Error)
    assert broker.report().claims == []
    broker.acquire_floods()
    assert broker.report().claims == ["ann/d"]


def test_what_was_brought_is_carried_on_though_its_subscriber_has_gone_again() -> None:
    """Who leaves before the cluster has answered finds everything here when it comes back without positions."""
    broker = _with_both_brought()
    broker.tell(ConnectionLost(1, 1.0))
    assert broker.report().claims == []
    broker.tell(BackendsAcquired([], [(_FLOOD, _AWAY)], 1, 0.0))
    broker.acquire_floods()
    assert broker.report().claims == ["ann/d"]
    broker.tell(Claimed({"ann/d": 5}))
    broker.fetched(KeptSession("ann/d", 5, []))
    (_, _, session) = broker.report().changed["ann/d"]
    assert set(session.subscriptions) == {Kept(_FIRE, Position(6, 90)), Kept(_FLOOD, Position(7, 90))}
    broker.arrive(2)
    broker.fetched(session)
    (welcome,) = broker.messages(Welcome)
    assert {one.position for one in welcome.subscriptions} == {"6-90", "7-90"}


def test_what_was_brought_is_carried_on_though_its_subscriber_was_not_welcomed() -> None:
    """Who leaves while what was kept for it is still asked for has brought the rest all the same."""
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1), _asked("flood", "7-90", 2), _asked("storm", "8-90", 3))
    broker.fetched(KeptSession("ann/d", 2, [Kept(_FLOOD, Position(7, 90))]))
    assert not broker.messages(Welcome)
    broker.tell(ConnectionLost(1, 1.0))
    broker.acquire_floods()
    assert broker.all_of(Acquire) == [Acquire([_STORM])]
    assert broker.report().claims == []
    broker.tell(BackendsAcquired([(_STORM, BackendHold(8, "OfType", {"etype": "storm"}, "", 100))], [], 1, 0.0))
    assert broker.report().claims == ["ann/d"]
    broker.tell(Claimed({"ann/d": 3}))
    broker.fetched(KeptSession("ann/d", 3, []))
    (_, _, session) = broker.report().changed["ann/d"]
    assert {str(one.position) for one in session.subscriptions} == {"6-90", "7-90", "8-90"}


def test_what_was_brought_is_known_from_then_on() -> None:
    """It is stored when it is brought, and a session that is ours is reported with it, whatever the cluster says."""
    broker = _Broker([KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))])])
    broker.arrive(1, _asked("flood", "7-90", 1))
    assert StoreSubscription("ann/d", _FLOOD, Position(7, 90)) in broker.all_of(StoreSubscription)
    (_, _, session) = broker.report().changed["ann/d"]
    assert set(session.subscriptions) == {Kept(_FIRE, Position(6, 90)), Kept(_FLOOD, Position(7, 90))}


def test_what_was_brought_goes_on_from_there_for_who_asks_without_a_position() -> None:
    """The next program of the device may ask before the cluster has answered: it gets what was missed all the same."""
    broker = _with_both_brought()
    broker.tell(ConnectionLost(1, 1.0))
    broker.arrive(2)
    broker.fetched(None)
    broker.tell(SubscribeAsked(2, _asked("flood", "", 5), 1.0))
    broker.acquire_floods()
    assert {one.position for one in broker.messages(Subscribed)} == {"7-90"}


def test_what_the_cluster_refuses_for_good_holds_up_nothing() -> None:
    """A channel that was dropped is told, forgotten, and not waited for."""
    broker = _with_both_brought()
    broker.tell(BackendsAcquired([], [(_FLOOD, NotFound("no such channel"))], 1, 0.0))
    assert [one.request for one in broker.messages(Error)] == [2]
    assert broker.all_of(ForgetSubscription) == [ForgetSubscription("ann/d", _FLOOD)]
    assert broker.report().claims == ["ann/d"]


def test_an_old_copy_is_not_taken_for_what_a_subscriber_holds() -> None:
    """A broker that was away may keep what another has carried on since: who brings no positions is served what that
    one reported, from where it was there, and not from now."""
    broker = _Broker([KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))])])
    broker.arrive(1)
    assert not broker.messages(Welcome)
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    broker.fetched(KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 95))]))
    broker.acquire_floods()
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["7-95"]
    assert broker.report().claims == ["ann/d"]


def test_a_copy_that_is_current_is_served_as_it_is() -> None:
    """If nobody has claimed it since, what is kept here is newer than what was reported."""
    broker = _Broker([KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 95))])])
    broker.arrive(1)
    broker.fetched(KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))]))
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["6-95"]
    assert broker.report().claims == []


def test_who_brings_its_positions_waits_for_nobody() -> None:
    """A program that comes back after a cut is served at once, also while the coordinator is away."""
    broker = _Broker([KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))])])
    broker.arrive(1, _asked("fire", "6-95", 1))
    assert broker.messages(Welcome)
    assert not broker.all_of(FetchSession)


def test_nothing_begins_anew_while_it_may_be_kept_elsewhere() -> None:
    """While the coordinator is away, who brings no positions is served what is kept here. Anything else may have been
    kept by another broker: it waits until that is known, and goes on from there."""
    broker = _Broker([KeptSession("ann/d", 0, [Kept(_FIRE, Position(6, 90))])])
    broker.arrive(1)
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    assert [one.position for one in broker.messages(Welcome)[0].subscriptions] == ["6-90"]
    broker.tell(SubscribeAsked(1, _asked("flood", "", 1), 0.0))
    assert [one.temporary for one in broker.messages(Error)] == [True]
    assert not broker.all_of(Acquire)
    broker.tell(ReportDue())
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    broker.fetched(KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 95))]))
    broker.acquire_floods()
    assert [one.position for one in broker.messages(Subscribed)] == ["7-95"]
    broker.tell(SubscribeAsked(1, _asked("storm", "", 2), 0.0))
    assert len(broker.all_of(Acquire)) == 1


def _with_a_copy_whose_history_has_ended() -> _Broker:
    """Floods were subscription 5 when it was stored, and are 7 now. The coordinator is away."""
    broker = _Broker([KeptSession("ann/d", 0, [Kept(_FIRE, Position(6, 90)), Kept(_FLOOD, Position(5, 80))])])
    broker.arrive(1)
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    broker.acquire_floods()
    return broker


def test_a_history_that_ended_here_goes_on_where_another_broker_kept_the_next_one() -> None:
    """Who brings no positions gets the rest at once; that subscription comes when the coordinator has answered."""
    broker = _with_a_copy_whose_history_has_ended()
    assert [one.position for one in broker.messages(Welcome)[0].subscriptions] == ["6-90"]
    broker.tell(SubscribeAsked(1, _asked("flood", "", 1), 0.0))
    assert [one.temporary for one in broker.messages(Error)] == [True]
    broker.fetched(KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 95))]))
    assert [(one.position, one.recovered) for one in broker.messages(Subscribed)] == [("7-95", True)]


def test_a_history_that_ended_here_and_is_kept_nowhere_begins_anew() -> None:
    """And its subscriber is told that the former one is gone."""
    broker = _with_a_copy_whose_history_has_ended()
    assert not broker.report().claims
    broker.fetched(None)
    broker.acquire_floods()
    assert [(one.position, one.recovered) for one in broker.messages(Subscribed)] == [("7-100", False)]
    assert broker.report().claims == ["ann/d"]


def test_who_brings_a_position_of_a_history_that_ended_here_need_not_wait() -> None:
    """Its own position is the truth, whether the coordinator answers or not."""
    broker = _with_a_copy_whose_history_has_ended()
    broker.tell(SubscribeAsked(1, _asked("flood", "7-97", 1), 0.0))
    assert [(one.position, one.recovered) for one in broker.messages(Subscribed)] == [("7-97", True)]
    broker.fetched(None)
    assert not broker.messages(Subscribed)


def test_a_program_that_was_cut_off_half_way_loses_nothing_that_another_broker_keeps() -> None:
    """It had learned one of its positions when its broker died, and brings that one to us while the coordinator is
    away. The rest, which it asks for next, waits until it is known where it goes on."""
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    assert broker.messages(Welcome)
    broker.tell(SubscribeAsked(1, _asked("flood", "", 2), 0.0))
    assert [(one.request, one.temporary) for one in broker.messages(Error)] == [(2, True)]
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")], "asked now, not with the next report"
    broker.fetched(KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 95))]))
    broker.acquire_floods()
    assert [one.position for one in broker.messages(Subscribed)] == ["7-95"]


def test_a_copy_that_may_be_old_does_not_decide_what_begins_anew() -> None:
    """A program brings some of its positions to a broker that kept its session once, and is served at once. For what it
    asks for next the coordinator is asked: by then another broker may have kept more."""
    broker = _Broker([KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))])])
    broker.arrive(1, _asked("fire", "6-95", 1))
    assert broker.messages(Welcome)
    assert not broker.all_of(FetchSession)
    broker.tell(SubscribeAsked(1, _asked("flood", "", 2), 0.0))
    assert [(one.request, one.temporary) for one in broker.messages(Error)] == [(2, True)]
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    broker.fetched(KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))]))
    broker.tell(SubscribeAsked(1, _asked("flood", "", 3), 0.0))
    assert not broker.messages(Error)
    assert len(broker.all_of(Acquire)) == 1, "nothing is kept elsewhere: it begins"


def test_a_claim_that_outlives_its_session_is_made_good() -> None:
    """Who only passed by may have been claimed all the same, and the former broker lets go then: so what was kept is
    fetched, until the coordinator answers, and carried on here."""
    broker = _Broker()
    broker.arrive(1)
    broker.fetched(KeptSession("ann/d", 2, []))
    assert broker.report().claims == ["ann/d"]
    broker.tell(ConnectionLost(1, 1.0))
    broker.tell(Claimed({"ann/d": 3}))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=2.0))
    broker.tell(ReportDue())
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    broker.fetched(KeptSession("ann/d", 3, [Kept(_FLOOD, Position(7, 90))]))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    broker.acquire_floods()
    (_, _, session) = broker.report().changed["ann/d"]
    assert session == KeptSession("ann/d", 3, [Kept(_FLOOD, Position(7, 90))])


def test_a_late_claim_takes_nothing_away() -> None:
    """What the former broker reported after we had asked, and before we claimed, is taken in before we report."""
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1))
    broker.fetched(KeptSession("ann/d", 2, []))
    assert broker.report().claims == ["ann/d"]
    broker.tell(Claimed({"ann/d": 3}))
    assert broker.report().changed == {}
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")], "unless the answer to the claim says it"
    broker.fetched(KeptSession("ann/d", 3, [Kept(_FLOOD, Position(7, 90))]))
    broker.acquire_floods()
    (_, _, session) = broker.report().changed["ann/d"]
    assert set(session.subscriptions) == {Kept(_FIRE, Position(6, 90)), Kept(_FLOOD, Position(7, 90))}


def test_what_is_given_up_while_a_claim_is_on_its_way_does_not_come_back() -> None:
    """Its former owner's report still has it. From the next report on the coordinator knows."""
    broker = _Broker()
    broker.arrive(1)
    broker.fetched(KeptSession("ann/d", 2, [Kept(_FIRE, Position(6, 90))]))
    assert broker.report().claims == ["ann/d"]
    broker.tell(UnsubscribeAsked(1, 6, 1, 0.0))
    assert broker.messages(Unsubscribed)
    broker.tell(Claimed({"ann/d": 3}))
    broker.fetched(KeptSession("ann/d", 3, [Kept(_FIRE, Position(6, 90))]))
    assert not broker.messages(Subscribed)
    (_, _, session) = broker.report().changed["ann/d"]
    assert session == KeptSession("ann/d", 3, [])


def test_a_claim_is_stored_with_what_came_late() -> None:
    """A broker that is killed before it has seen that claims anew when it starts, and overwrites nothing."""
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1))
    broker.fetched(KeptSession("ann/d", 2, []))
    assert broker.report().claims == ["ann/d"]
    broker.all_of(StoreSession)
    broker.tell(Claimed({"ann/d": 3}))
    assert not broker.all_of(StoreSession)
    broker.fetched(KeptSession("ann/d", 3, [Kept(_FLOOD, Position(7, 90))]))
    assert broker.all_of(StoreSession) == [StoreSession("ann/d", 3)]


def test_what_came_late_is_stored_before_the_cluster_answers() -> None:
    """A broker that is killed while the cluster is away must not report less than it had been given."""
    broker = _Broker()
    broker.arrive(1, _asked("fire", "6-90", 1))
    broker.fetched(KeptSession("ann/d", 2, []))
    broker.tell(Claimed({"ann/d": 3}))
    broker.all_of(StoreSubscription)
    broker.fetched(KeptSession("ann/d", 3, [Kept(_FLOOD, Position(7, 90))]))
    assert StoreSubscription("ann/d", _FLOOD, Position(7, 90)) in broker.all_of(StoreSubscription)
