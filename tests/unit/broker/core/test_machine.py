"""The broker's machine, event by event: what it is told, and what it then wants done."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

from tocsin.broker.core.events import (
    Acknowledged,
    Acquire,
    BackendsAcquired,
    BackendsReleased,
    Claimed,
    Close,
    ConnectionCongested,
    ConnectionFlushed,
    ConnectionLost,
    CursorLost,
    Deliver,
    DrainEnded,
    DrainStarted,
    Event,
    FetchHistory,
    FetchSession,
    ForgetSession,
    ForgetSubscription,
    HistoryLost,
    HistoryPulled,
    Instruction,
    MovesPlaced,
    NoteDelivered,
    NoteFailure,
    Release,
    Report,
    ReportDue,
    Reported,
    RequestMoves,
    ResultsPulled,
    Send,
    SessionFetched,
    Started,
    StorePositions,
    StorePresence,
    StoreSubscription,
    SubscribeAsked,
    SubscriberArrived,
    Ticked,
    UnsubscribeAsked,
)
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.errors import NotFound, Unavailable
from tocsin.model.position import Position
from tocsin.protocol.messages import (
    CLOSE_DRAINING,
    CLOSE_EXPIRED,
    CLOSE_MOVED,
    CLOSE_REFUSED,
    CLOSE_SLOW,
    Error,
    HistoryGone,
    Move,
    Subscribe,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from tocsin.protocol.ports import BackendHold, Delivery, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey

_Kind = TypeVar("_Kind")
_FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")


class Broker:
    """The machine, with the chores of a test done."""

    def __init__(
        self,
        limits: Limits | None = None,
        sessions: Sequence[KeptSession] = (),
        cursor: int = 100,
        *,
        publishes_locations: bool = False,
    ) -> None:
        self.state = BrokerState("b", limits or Limits(), random.Random(0), publishes_locations=publishes_locations)
        self.now_s = 0.0
        self.pulls = 0
        self.out: list[Instruction] = []
        self.tell(Started(sessions, [], cursor, 0.0))

    def tell(self, event: Event) -> list[Instruction]:
        self.out = self.state.handle(event)
        for one in self.out:
            if isinstance(one, NoteFailure):
                raise one.error
        return self.out

    def all_of(self, kind: type[_Kind]) -> list[_Kind]:
        return [one for one in self.out if isinstance(one, kind)]

    def messages(self, kind: type[_Kind]) -> list[_Kind]:
        return [one.message for one in self.all_of(Send) if isinstance(one.message, kind)]

    def arrive(self, connection: int, user: str = "ann", *subscriptions: Subscribe, permission: str = "") -> None:
        self.tell(SubscriberArrived(connection, user, "d", permission, 1000, 3600.0, list(subscriptions), self.now_s))
        if self.all_of(FetchSession):
            self.tell(SessionFetched(f"{user}/d", None, is_certain=True, now_s=self.now_s))

    def subscribe(self, connection: int, etype: str, *, request: int = 1, position: str = "") -> None:
        message = Subscribe("OfType", {"etype": etype}, position, request)
        self.tell(SubscribeAsked(connection, message, self.now_s))

    def acquired(self, **ids: int) -> None:
        """The cluster holds these for us; the next pull knows of them."""
        pairs = [
            (
                SubscriptionKey.of("OfType", {"etype": etype}, ""),
                BackendHold(one, "OfType", {"etype": etype}, "", self.state.through),
            )
            for etype, one in ids.items()
        ]
        self.tell(BackendsAcquired(pairs, [], self.pulls + 1, self.now_s))

    def pull(self, *results: tuple[int, int]) -> None:
        self.pulls += 1
        deliveries = [Delivery(one, sequence, f"{one}-{sequence}".encode()) for one, sequence in results]
        through = max([sequence for _, sequence in results], default=self.state.through)
        self.tell(ResultsPulled(self.pulls, deliveries, through, self.now_s))

    def fail(self, one: int, sequence: int, reason: str) -> None:
        """The cluster says that a subscription has failed."""
        self.pulls += 1
        delivery = Delivery(one, sequence, f"{one}-{sequence}".encode(), failure=reason)
        self.tell(ResultsPulled(self.pulls, [delivery], sequence, self.now_s))

    def end(self, one: int, sequence: int) -> None:
        """The cluster says that a subscription has ended with its channel."""
        self.pulls += 1
        delivery = Delivery(one, sequence, f"{one}-{sequence}".encode(), failure="dropped", is_end=True)
        self.tell(ResultsPulled(self.pulls, [delivery], sequence, self.now_s))

    def live(self, *users: str) -> None:
        """Users that are connected, in their order from connection 1, and live in floods, which are subscription 7."""
        for connection, user in enumerate(users, 1):
            self.arrive(connection, user)
            self.subscribe(connection, "flood")
            if self.all_of(Acquire):
                self.acquired(flood=7)
        self.pull()

    def reported(self, lost: Sequence[str] = (), now_s: float = 1.0) -> None:
        """The coordinator has answered a report of all there is to report."""
        self.tell(ReportDue())
        (report,) = self.all_of(Report)
        told = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
        self.tell(Reported(told, [], lost, {}, now_s))

    def wires(self) -> dict[int, list[bytes]]:
        return {one.connection: list(one.wires) for one in self.all_of(Deliver)}


def test_first_and_last() -> None:
    """The first subscriber has the cluster asked, the second does not, and the last one leaving releases."""
    broker = Broker()
    broker.arrive(1, "ann")
    broker.subscribe(1, "flood")
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    assert not broker.messages(Subscribed)
    broker.acquired(flood=7)
    (answer,) = broker.messages(Subscribed)
    assert (answer.subscription, answer.position, answer.request) == (7, "7-100", 1)
    assert broker.all_of(StoreSubscription) == [StoreSubscription("ann/d", _FLOOD, Position(7, 100))]
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood")
    assert not broker.all_of(Acquire)
    assert broker.messages(Subscribed)
    broker.tell(UnsubscribeAsked(1, 7, 5, 0.0))
    assert broker.messages(Unsubscribed) == [Unsubscribed(7, 5)]
    assert not broker.all_of(Release)
    broker.tell(UnsubscribeAsked(2, 7, 6, 0.0))
    assert broker.all_of(Release) == [Release([7])]


def test_wishes_wait_for_a_release_that_is_under_way() -> None:
    """An acquisition never overtakes a release: it would be undone by it."""
    broker = Broker()
    broker.live("ann")
    broker.tell(UnsubscribeAsked(1, 7, 0, 0.0))
    assert broker.all_of(Release)
    broker.subscribe(1, "flood")
    assert not broker.all_of(Acquire)
    broker.tell(BackendsReleased(0.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]


def test_everybody_gets_the_same_bytes_in_one_write() -> None:
    """All results of a pull go to a connection in one instruction, and to all connections as the same objects."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.pull((7, 101), (7, 102))
    first, second = broker.all_of(Deliver)
    assert list(first.wires) == [b"7-101", b"7-102"]
    assert all(one is other for one, other in zip(first.wires, second.wires, strict=True))


def test_no_more_is_written_at_once_than_may_be_queued() -> None:
    """Whoever one pull has too much for gets it in parts, each when the one before is out; others get all at once."""
    broker = Broker(Limits(max_queued_bytes=12))
    broker.live("ann", "bob")
    broker.subscribe(2, "fire")
    broker.acquired(fire=8)
    broker.pull()
    broker.pull((7, 101), (8, 102), (8, 103), (8, 104), (8, 105), (8, 106))
    wires = broker.wires()
    assert wires[1] == [b"7-101"]
    parts = [wires[2]]
    while parts[-1]:
        assert len(b"".join(parts[-1])) <= 12 + len(b"8-106")
        broker.tell(ConnectionFlushed(2))
        parts.append(broker.wires().get(2, []))
    assert sorted(wire for part in parts for wire in part) == [
        b"7-101",
        b"8-102",
        b"8-103",
        b"8-104",
        b"8-105",
        b"8-106",
    ]
    assert len(parts) > 2
    broker.pull((8, 107))
    assert broker.wires() == {2: [b"8-107"]}


def test_devices_of_one_user_are_bounded() -> None:
    """What was kept for nobody in particular gives way first, oldest first; then more are refused, with the reason."""
    broker = Broker(Limits(max_sessions_per_user=2))

    def arrive(connection: int, device: str, user: str = "ann") -> None:
        broker.tell(SubscriberArrived(connection, user, device, "", 1000, 3600.0, [], broker.now_s))
        if broker.all_of(FetchSession):
            broker.tell(SessionFetched(f"{user}/{device}", None, is_certain=True, now_s=broker.now_s))

    for connection, device in enumerate(("~1", "~2"), 1):
        arrive(connection, device)
        broker.subscribe(connection, "flood")
        if broker.all_of(Acquire):
            broker.acquired(flood=7)
    for connection in (2, 1):
        broker.now_s += 1
        broker.tell(ConnectionLost(connection, broker.now_s))
    broker.tell(SubscriberArrived(3, "ann", "phone", "", 1000, 3600.0, [], broker.now_s))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/~2")]
    broker.tell(SessionFetched("ann/phone", None, is_certain=True, now_s=broker.now_s))
    arrive(4, "tablet")  # in place of ~1
    arrive(5, "watch")
    (error,) = broker.messages(Error)
    assert (error.code, error.temporary) == ("overloaded", True)
    assert "ann has 2 devices here" in error.message
    arrive(6, "phone", "bob")
    assert broker.messages(Welcome)
    arrive(7, "phone")  # is one of the two
    assert broker.messages(Welcome)


def test_who_comes_last_stays() -> None:
    """A connection that still waits to be let in does not replace the one that was opened after it."""
    broker = Broker()
    broker.live("ann")
    broker.tell(SubscriberArrived(2, "ann", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(
        SubscriberArrived(3, "ann", "d", "", 1000, 3600.0, [Subscribe("OfType", {"etype": "flood"}, "7-90")], 0.0)
    )
    assert {one.connection for one in broker.all_of(Close)} == {1, 2}
    broker.tell(SessionFetched("ann/d", None, is_certain=True, now_s=0.0))
    assert broker.all_of(Close) == []
    assert broker.state.connection_of("ann/d") == 3


def test_those_who_wait_at_the_door_count() -> None:
    """A user who opens connections faster than the coordinator answers gets no more of them than others."""
    broker = Broker(Limits(max_connections_per_user=2, max_connections=3))
    for connection in (1, 2, 3):
        broker.tell(SubscriberArrived(connection, "ann", f"d{connection}", "", 1000, 3600.0, [], 0.0))
    assert broker.messages(Error)
    broker.tell(SubscriberArrived(4, "bob", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(SubscriberArrived(5, "cid", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.messages(Error)
    broker.tell(ConnectionLost(1, 0.0))
    broker.tell(SubscriberArrived(6, "ann", "d6", "", 1000, 3600.0, [], 0.0))
    assert not broker.messages(Error)


def test_retention_goes_on_through_restarts() -> None:
    """Who has been away for nearly as long as is kept has little time left, however often the broker begins again."""
    limits = Limits(device_retention_s=100)
    sessions = [KeptSession("ann/d", 2, [], away_s=90), KeptSession("bob/d", 2, [], away_s=0)]
    broker = Broker(limits, sessions)
    broker.tell(Ticked(5.0))
    assert broker.all_of(StorePresence) == [StorePresence({"ann/d": 95.0, "bob/d": 5.0})]
    assert not broker.all_of(ForgetSession)
    broker.tell(Ticked(11.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.now_s = 12.0
    broker.arrive(1, "bob")
    broker.tell(Ticked(13.0))
    assert broker.all_of(StorePresence) == [StorePresence({"bob/d": None})]


def test_what_was_delivered_is_noted_after_it_is_written() -> None:
    """For latencies: once per pull, how many received what was committed when. Who is not live does not count."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(ConnectionLost(2, 0.0))
    results = [Delivery(7, 101, b"a", 5000), Delivery(7, 102, b"b", 5000), Delivery(7, 103, b"c", 6000)]
    instructions = broker.tell(ResultsPulled(broker.pulls + 1, results, 103, 0.0))
    assert [type(one) for one in instructions] == [Deliver, NoteDelivered]
    assert broker.all_of(NoteDelivered)[0].receivers == {5000: 2, 6000: 1}
    nobodys = ResultsPulled(broker.pulls + 2, [Delivery(8, 104, b"d", 7000)], 104, 0.0)
    assert broker.tell(nobodys) == []


def test_refusals_reach_who_asked() -> None:
    """What the cluster refuses, and what is no position, is told with the request's number; nothing is kept of it."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", request=3)
    broker.tell(BackendsAcquired([], [(_FLOOD, NotFound("no such channel"))], 1, 0.0))
    (error,) = broker.messages(Error)
    assert (error.code, error.message, error.request) == ("not_found", "no such channel", 3)
    broker.subscribe(1, "flood", request=4, position="yesterday")
    (error,) = broker.messages(Error)
    assert (error.code, error.request) == ("invalid_value", 4)
    assert broker.state.frontends == 0


def test_away_and_back() -> None:
    """One who comes back gets what followed its acknowledgement, from memory."""
    broker = Broker()
    broker.live("ann")
    broker.pull((7, 101), (7, 102))
    broker.tell(Acknowledged(1, [Position(7, 101), Position(99, 5)]))
    broker.tell(ConnectionLost(1, 1.0))
    broker.pull((7, 103))
    broker.arrive(2)
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["7-101"]
    assert broker.wires() == {2: [b"7-102", b"7-103"]}
    assert not broker.all_of(FetchHistory)


def test_acknowledging_the_future_skips_nothing() -> None:
    """Nobody can have seen what was not sent, whatever they say."""
    broker = Broker()
    broker.live("ann")
    broker.pull((7, 101))
    broker.tell(Acknowledged(1, [Position(7, 10**15)]))
    broker.tell(Ticked(1.0))
    assert broker.all_of(StorePositions) == [StorePositions([("ann/d", _FLOOD, Position(7, 101))])]


def test_history_comes_from_the_cluster_when_memory_does_not_reach_back() -> None:
    """What is not in the cache is fetched, sent, and then it goes on live."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="7-40")
    broker.acquired(flood=7)
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 40})]
    broker.tell(HistoryPulled({7: 40}, [Delivery(7, 50, b"7-50"), Delivery(7, 60, b"7-60")], 100))
    assert broker.wires() == {1: [b"7-50", b"7-60"]}
    broker.tell(ConnectionFlushed(1))
    broker.pull()
    broker.pull((7, 101))
    assert broker.wires() == {1: [b"7-101"]}


def test_history_that_is_gone_is_told() -> None:
    """The subscriber hears from where it goes on, and it does."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="7-40")
    broker.acquired(flood=7)
    broker.tell(HistoryLost({7: 40}, 80))
    (gone,) = broker.messages(HistoryGone)
    assert (gone.subscription, gone.position) == (7, "7-80")
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 80})]
    broker.tell(CursorLost(500, 1.0))
    assert broker.state.through == 500


@pytest.mark.parametrize("goes_on", [5000, 60])
def test_a_history_that_was_rewound_is_told_and_goes_on(goes_on: int) -> None:
    """Those who are live hear from where it goes on, also if that is an earlier place; what is new comes to them, and
    what they acknowledge from then on is what is stored."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.pull((7, 110))
    broker.tell(CursorLost(goes_on, 1.0, is_rewound=True))
    gaps = broker.messages(HistoryGone)
    assert [(one.position, one.rewound) for one in gaps] == [(f"7-{goes_on}", True)] * 2
    assert broker.state.through == goes_on
    broker.tell(Ticked(2.0))
    (stored,) = broker.all_of(StorePositions)
    assert {position for _, _, position in stored.positions} == {Position(7, goes_on)}
    broker.pull((7, goes_on + 1))
    assert broker.wires() == {1: [b"7-%d" % (goes_on + 1)], 2: [b"7-%d" % (goes_on + 1)]}
    broker.tell(Acknowledged(1, [Position(7, 110)]))
    assert broker.state.kept()[0].subscriptions[0].position.sequence <= goes_on + 1


@pytest.mark.parametrize("goes_on", [5000, 30])
def test_a_position_of_a_history_that_is_gone_is_told(goes_on: int) -> None:
    """Who comes with one goes on from where the cluster says."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="7-40")
    broker.acquired(flood=7)
    broker.tell(HistoryLost({7: 40}, goes_on, is_rewound=True))
    (gone,) = broker.messages(HistoryGone)
    assert (gone.subscription, gone.position, gone.rewound) == (7, f"7-{goes_on}", True)


def test_who_waits_ahead_is_checked_when_history_was_rewound() -> None:
    """Nobody waits for numbers to catch up with a place that was never given out again."""
    broker = Broker()
    broker.live("ann")
    broker.arrive(2, "bob", Subscribe("OfType", {"etype": "flood"}, "7-130", 1))
    broker.tell(HistoryPulled({7: 130}, [], 130))
    assert not broker.all_of(FetchHistory)
    broker.tell(CursorLost(120, 1.0, is_rewound=True))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 130})]
    broker.tell(HistoryLost({7: 130}, 120, is_rewound=True))
    assert [one.position for one in broker.messages(HistoryGone)] == ["7-120"]
    broker.pull()
    broker.pull((7, 121))
    assert set(broker.wires()) == {1, 2}


def test_who_seems_to_be_ahead_is_asked_about_once() -> None:
    """The cluster knows whether there is such a place: if so, what comes after it comes, each once; what was pulled
    meanwhile is not asked for again."""
    broker = Broker()
    broker.live("ann")
    broker.arrive(2, "bob", Subscribe("OfType", {"etype": "flood"}, "7-130", 1))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 130})]
    broker.tell(HistoryPulled({7: 130}, [Delivery(7, 140, b"7-140")], 145))
    assert broker.wires() == {2: [b"7-140"]}
    broker.tell(ConnectionFlushed(2))
    assert not broker.all_of(FetchHistory)
    broker.pull((7, 120), (7, 130), (7, 140))
    assert broker.wires() == {1: [b"7-120", b"7-130", b"7-140"]}
    assert not broker.all_of(FetchHistory)
    broker.pull((7, 150))
    assert broker.wires() == {1: [b"7-150"], 2: [b"7-150"]}


def test_a_position_just_beyond_the_end_is_answered() -> None:
    """Nobody waits for years, without a word, for numbers to come up with a place that was never given out."""
    broker = Broker()
    broker.live("ann")
    broker.arrive(2, "eve", Subscribe("OfType", {"etype": "flood"}, f"7-{1 << 40}", 1))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 1 << 40})]
    broker.tell(HistoryLost({7: 1 << 40}, 100, is_rewound=True))
    assert [(one.position, one.rewound) for one in broker.messages(HistoryGone)] == [("7-100", True)]
    broker.pull((7, 101))
    assert broker.wires() == {1: [b"7-101"], 2: [b"7-101"]}


@pytest.mark.parametrize("is_rewound", [False, True])
def test_a_gap_that_was_told_is_stored(is_rewound: bool) -> None:
    """A broker that is started again, or another one, does not tell it a second time."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="7-40")
    broker.acquired(flood=7)
    broker.tell(HistoryLost({7: 40}, 80, is_rewound))
    broker.tell(Ticked(1.0))
    assert broker.all_of(StorePositions) == [StorePositions([("ann/d", _FLOOD, Position(7, 80))])]


def test_live_results_that_are_gone_are_told() -> None:
    """A broker that was cut off for longer than results are kept says so to everybody."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(CursorLost(500, 1.0))
    assert [one.position for one in broker.messages(HistoryGone)] == ["7-500", "7-500"]
    broker.pull((7, 501))
    assert set(broker.wires()) == {1, 2}


def test_another_epoch_is_no_recovery() -> None:
    """A position of a history that has ended is answered with the new one, and with the plain truth."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", position="3-40")
    broker.acquired(flood=7)
    (answer,) = broker.messages(Subscribed)
    assert (answer.recovered, answer.position) == (False, "7-100")


def test_slow_reader_is_parked_then_closed() -> None:
    """Nothing more is sent to who does not read; after a while the connection is closed, and others never notice."""
    broker = Broker(Limits(slow_after_s=5))
    broker.live("ann", "bob")
    broker.tell(ConnectionCongested(1, 10.0))
    broker.pull((7, 101))
    assert set(broker.wires()) == {2}
    broker.tell(Ticked(14.0))
    assert not broker.all_of(Close)
    broker.tell(Ticked(15.0))
    (closed,) = broker.all_of(Close)
    assert (closed.connection, closed.code) == (1, CLOSE_SLOW)


def test_parked_reader_that_reads_on_misses_nothing() -> None:
    """Once it has read, it gets what came meanwhile, and is live again."""
    broker = Broker()
    broker.live("ann")
    broker.tell(ConnectionCongested(1, 10.0))
    broker.pull((7, 101))
    broker.tell(ConnectionFlushed(1))
    assert broker.wires() == {1: [b"7-101"]}
    broker.pull((7, 102))
    assert broker.wires() == {1: [b"7-102"]}


def test_pull_that_may_not_know_proves_nothing() -> None:
    """Results of a new subscription that a pull under way could not know of are fetched, not assumed away."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    broker.pulls += 1  # under way
    broker.acquired(flood=7)
    broker.tell(ResultsPulled(1, [], 120, 0.0))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 100})]


def test_reports_tell_how_much_has_come_since_the_one_before() -> None:
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    broker.acquired(flood=7)
    broker.pull()
    broker.pull((7, 101), (7, 102), (9, 103))
    broker.tell(ReportDue())
    assert broker.all_of(Report)[-1].pulled_bytes == {_FLOOD: len(b"7-101") + len(b"7-102")}
    broker.tell(ReportDue())
    assert broker.all_of(Report)[-1].pulled_bytes == {}


def test_a_report_is_no_larger_than_the_coordinator_takes() -> None:
    """Long values in many sessions are told in several reports: one that is refused would be made again for ever."""
    text = "x" * 60_000
    kept = [
        KeptSession(
            f"user{number}/d",
            1,
            [Kept(SubscriptionKey.of("C", {"text": text}, str(at)), Position(at, 1)) for at in range(10)],
        )
        for number in range(20)
    ]
    broker = Broker(sessions=kept)
    reported: list[str] = []
    for _ in range(20):
        broker.tell(ReportDue())
        (report,) = broker.all_of(Report)
        assert (
            sum(len(held.key.parameters) for _, _, one in report.changed.values() for held in one.subscriptions) < 8e6
        )
        reported += report.changed
        versions = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
        broker.tell(Reported(versions, [], [], {}, 1.0))
    assert sorted(reported) == sorted(one.subscriber for one in kept)


def test_stranger_is_claimed_once_all_is_held() -> None:
    """A session from elsewhere is taken over whole: first everything is acquired, then welcome, then the claim."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    kept = KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    assert not broker.messages(Welcome)
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.acquired(flood=7)
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["7-90"]
    broker.tell(ReportDue())
    (report,) = broker.all_of(Report)
    assert report.claims == ["ann/d"]
    assert report.changed == {}
    broker.tell(Claimed({"ann/d": 5}))
    broker.tell(SessionFetched("ann/d", KeptSession("ann/d", 5, []), is_certain=True, now_s=broker.now_s))
    broker.tell(ReportDue())
    (report,) = broker.all_of(Report)
    (_, connected, session) = report.changed["ann/d"]
    assert connected
    assert session.generation == 5


def test_what_can_not_be_held_for_the_moment_is_tried_again() -> None:
    """While the cluster is away nobody loses what they had; nobody is welcomed to less either."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [Kept(_FLOOD, Position(7, 90))])])
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    broker.tell(BackendsAcquired([], [(_FLOOD, Unavailable("starting", retry_after_s=1))], 1, 0.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    broker.arrive(1)
    assert not broker.messages(Welcome)
    broker.acquired(flood=7)
    assert broker.messages(Welcome)


def test_nobody_is_let_in_to_less_than_was_kept() -> None:
    """While the coordinator can't be asked, a device that brings no positions has to come again; one that does, or that
    has no name, is let in, and claimed only when the coordinator has answered."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 0, 1e9, [], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    assert broker.messages(Error)[0].temporary
    assert broker.all_of(Close)
    broker.tell(SubscriberArrived(2, "bob", "~x", "", 0, 1e9, [], 0.0))
    broker.tell(SessionFetched("bob/~x", None, is_certain=False, now_s=0.0))
    assert broker.messages(Welcome)
    broker.tell(ReportDue())
    assert broker.all_of(FetchSession) == [FetchSession("bob/~x")]
    assert broker.all_of(Report)[0].claims == []
    broker.tell(SessionFetched("bob/~x", None, is_certain=True, now_s=0.0))
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == ["bob/~x"]


def test_what_was_never_claimed_is_claimed_with_what_others_added() -> None:
    """A session from our store that we had not claimed may have gone on elsewhere: that is taken in first."""
    fire = SubscriptionKey.of("OfType", {"etype": "fire"}, "")
    broker = Broker(sessions=[KeptSession("ann/d", 0, [Kept(fire, Position(6, 90))])])
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    assert broker.all_of(Acquire) == [Acquire([fire])]
    broker.acquired(fire=6)
    kept = KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.acquired(flood=7)
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == ["ann/d"]


def test_nothing_comes_unannounced() -> None:
    """What is found to have been kept after the welcome is told before it is delivered; not what one may not see."""
    broker = Broker()
    message = Subscribe("OfType", {"etype": "fire"}, "8-50", 1)
    broker.tell(SubscriberArrived(1, "ann", "d", "", 0, 1e9, [message], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    broker.acquired(fire=8)
    secret = SubscriptionKey.of("OfType", {"etype": "secret"}, "staff")
    kept = KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 90)), Kept(secret, Position(9, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    pairs = [
        (_FLOOD, BackendHold(7, "OfType", {"etype": "flood"}, "", 100)),
        (secret, BackendHold(9, "OfType", {"etype": "secret"}, "staff", 100)),
    ]
    broker.tell(BackendsAcquired(pairs, [], 1, 0.0))
    assert [(one.subscription, one.position, one.request) for one in broker.messages(Subscribed)] == [(7, "7-90", 0)]


def test_lost_session() -> None:
    """Another broker has it: the connection is closed, all is forgotten, and the hold is kept a while longer."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [])])
    broker.live("ann")
    broker.reported()
    broker.tell(Reported({}, [], ["ann/d"], {}, 50.0))
    (closed,) = broker.all_of(Close)
    assert closed.code == CLOSE_MOVED
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    assert not broker.all_of(Release)
    broker.tell(Ticked(60.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(81.0))
    assert broker.all_of(Release) == [Release([7])]


@pytest.mark.parametrize("is_refused", [False, True], ids=["not reported", "report refused"])
def test_what_nobody_else_knows_of_is_held_longer(is_refused: bool) -> None:
    """Another broker has claimed the session before the coordinator heard of its last subscription: only the subscriber
    can bring that one there, and it may be away for a while. What was reported is let go of as usual."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [])])
    broker.live("ann")
    broker.reported()
    broker.subscribe(1, "fire")
    broker.acquired(fire=8)
    if is_refused:
        broker.reported(lost=["ann/d"], now_s=50.0)
    else:
        broker.tell(Reported({}, [], ["ann/d"], {}, 50.0))
    broker.tell(Ticked(81.0))
    assert broker.all_of(Release) == [Release([7])]
    broker.tell(BackendsReleased(81.0))
    broker.tell(Ticked(500.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(651.0))
    assert broker.all_of(Release) == [Release([8])]


def test_revoked_and_expired_tokens_end_connections() -> None:
    """Those whose token was issued before the revocation are closed; so are those whose token has run out."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(Reported({}, [], [], {"ann": 999}, 1.0))
    assert not broker.all_of(Close)
    broker.tell(Reported({}, [], [], {"ann": 1001}, 1.0))
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(1, CLOSE_REFUSED)]
    broker.tell(Ticked(3600.0))
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(2, CLOSE_EXPIRED)]


def test_what_was_never_claimed_and_holds_nothing_is_forgotten() -> None:
    broker = Broker(sessions=[KeptSession("ann/d", 0, [])])
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []


def test_what_lingers_is_not_cut_short_by_others_who_leave() -> None:
    """Ann is served elsewhere from now on, perhaps not yet; that bob unsubscribes must not end what she held."""
    broker = Broker(sessions=[KeptSession("ann/d", 1, []), KeptSession("bob/d", 1, [])])
    broker.live("ann", "bob")
    broker.reported()
    broker.tell(Reported({}, [], ["ann/d"], {}, 10.0))
    broker.tell(UnsubscribeAsked(2, 7, 1, 11.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(39.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(40.0))
    assert broker.all_of(Release) == [Release([7])]


def test_who_only_passed_by_is_not_claimed_later() -> None:
    """They may have subscribed elsewhere by then, and that must not be replaced by nothing."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=True, now_s=0.0))
    broker.tell(ConnectionLost(1, 1.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.tell(SubscriberArrived(2, "ann", "d", "", 1000, 3600.0, [], 2.0))
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")], "as a stranger"


def test_nameless_devices_are_kept_for_a_short_while() -> None:
    """A device without a name is forgotten after a minute, one with a name after a week."""
    broker = Broker()
    flood = Subscribe("OfType", {"etype": "flood"}, "", 1)
    broker.tell(SubscriberArrived(1, "ann", "~x", "", 0, 1e9, [flood], 0.0))
    broker.tell(SessionFetched("ann/~x", None, is_certain=True, now_s=0.0))
    broker.arrive(2, "bob", flood)
    broker.acquired(flood=7)
    broker.tell(ConnectionLost(1, 0.0))
    broker.tell(ConnectionLost(2, 0.0))
    broker.tell(Ticked(61.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/~x")]
    broker.tell(Ticked(8 * 24 * 3600.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("bob/d")]


def test_other_permission_class() -> None:
    """What was kept under another permission class is not handed out any more."""
    broker = Broker()
    broker.live("ann")
    broker.tell(ConnectionLost(1, 0.0))
    broker.pull((7, 101))
    broker.arrive(2, "ann", permission="staff")
    (welcome,) = broker.messages(Welcome)
    assert welcome.subscriptions == []
    assert not broker.all_of(Deliver)


def test_draining() -> None:
    """Those with a place to go are sent there, the rest is closed, and nobody new is taken."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(DrainStarted(is_ending=True, now_s=1.0))
    assert broker.all_of(RequestMoves) == [RequestMoves(["ann/d", "bob/d"])]
    broker.tell(MovesPlaced({"ann/d": ("other", "http://other")}))
    (move,) = broker.messages(Move)
    assert (move.to, move.broker) == ("http://other", "other")
    assert 0 <= move.after_ms <= 10_000
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(2, CLOSE_DRAINING)]
    broker.arrive(3, "carol")
    (error,) = broker.messages(Error)
    assert error.temporary


def test_draining_for_an_operator() -> None:
    """Those who have nowhere to go stay; when the operator has changed their mind, newcomers are taken again."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(DrainStarted(is_ending=False, now_s=1.0))
    broker.tell(MovesPlaced({"ann/d": ("other", "http://other")}))
    assert broker.messages(Move)
    assert not broker.all_of(Close)
    broker.arrive(3, "carol")
    assert broker.messages(Error)
    broker.tell(DrainEnded())
    broker.arrive(4, "carol")
    assert broker.messages(Welcome)


@pytest.mark.parametrize("count", [1, 3])
def test_limits(count: int) -> None:
    """A user has so many connections and subscriptions, those being asked for included, and no more."""
    broker = Broker(Limits(max_connections_per_user=1, max_subscriptions_per_user=count))
    broker.arrive(1)
    for at in range(count + 1):
        broker.subscribe(1, f"type-{at}", request=at + 1)
    (error,) = broker.messages(Error)
    assert (error.code, error.request) == ("overloaded", count + 1)
    broker.tell(SubscriberArrived(2, "ann", "other", "", 0, 1e9, [], 0.0))
    assert "1 connections" in broker.messages(Error)[0].message


@pytest.mark.parametrize(
    "early",
    [
        SubscribeAsked(1, Subscribe("OfType", {"etype": "flood"}, request=7), 0.0),
        UnsubscribeAsked(1, 81, 7, 0.0),
    ],
    ids=["subscribe", "unsubscribe"],
)
def test_whoever_asks_before_welcome_is_told_to_wait(early: Event) -> None:
    """Nothing is dropped in silence: while the coordinator is asked for a session, asking for more is an error."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.all_of(FetchSession)
    broker.tell(early)
    assert [(one.request, "welcome" in one.message) for one in broker.messages(Error)] == [(7, True)]


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
    assert "no such zone" in error.message
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


def test_what_has_failed_at_the_cluster_is_refused_here() -> None:
    """A broker that did not hold it hears of the failure when it asks, tells the subscriber, and lets go again."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    held = BackendHold(7, "OfType", {"etype": "flood"}, "", 100, "no such zone")
    broker.tell(BackendsAcquired([(_FLOOD, held)], [], 1, 0.0))
    assert [one.code for one in broker.messages(Error)] == ["subscription_failed"]
    broker.tell(Ticked(1.0))
    assert broker.state.frontends == 0
    assert broker.state.backends == 0
