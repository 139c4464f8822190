"""Results on their way to subscribers: live ones, missed ones, and those that are gone."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import (
    Acknowledged,
    ConnectionFlushed,
    ConnectionLost,
    CursorLost,
    HistoryLost,
    HistoryPulled,
    ResultsPulled,
    Ticked,
)
from tocsin.broker.core.instructions import Deliver, FetchHistory, NoteDelivered, RequestSnapshots, StorePositions
from tocsin.broker.core.limits import Limits
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.protocol.messages import HistoryGone, Subscribe, Subscribed
from tocsin.protocol.ports import Delivery
from unit.broker.core.driving import FLOOD, Broker


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


def test_pull_that_may_not_know_proves_nothing() -> None:
    """Results of a new subscription that a pull under way could not know of are fetched, not assumed away."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    broker.pulls += 1  # under way
    broker.acquired(flood=7)
    broker.tell(ResultsPulled(1, [], 120, 0.0))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 100})]


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
    assert broker.all_of(StorePositions) == [StorePositions([("ann/d", FLOOD, Position(7, 80))])]


def test_live_results_that_are_gone_are_told_to_those_who_miss_them() -> None:
    """A broker that was cut off for longer than some results are kept asks for each subscription: the cluster knows
    which of them has lost any. Those who have lost none get everything, and nobody gets anything twice."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    broker.acquired(flood=7)
    broker.arrive(2, "bob")
    broker.subscribe(2, "fire")
    broker.acquired(fire=8)
    broker.pull()
    broker.pull((7, 101), (8, 102))
    assert set(broker.wires()) == {1, 2}
    broker.tell(CursorLost(500, 1.0))
    assert broker.messages(HistoryGone) == []
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 102, 8: 102})]
    broker.tell(HistoryLost({7: 102}, 500))
    assert [one.position for one in broker.messages(HistoryGone)] == ["7-500"]
    broker.tell(HistoryPulled({8: 102}, [Delivery(8, 400, b"8-400")], 510))
    assert broker.wires() == {2: [b"8-400"]}
    broker.tell(ConnectionFlushed(2))
    broker.pull((7, 511), (8, 512))
    assert broker.wires() == {1: [b"7-511"], 2: [b"8-512"]}


def _snapshot(one: int, begin: int, rows: int) -> list[Delivery]:
    kinds = [ResultKind.SNAPSHOT_BEGIN, *[ResultKind.SNAPSHOT] * rows, ResultKind.SNAPSHOT_END]
    return [Delivery(one, begin + at, f"{kind} {begin + at}".encode(), kind=kind) for at, kind in enumerate(kinds)]


def _pull(broker: Broker, *deliveries: Delivery) -> None:
    broker.pulls += 1
    broker.tell(ResultsPulled(broker.pulls, deliveries, deliveries[-1].sequence, broker.now_s))


def test_one_snapshot_serves_all_who_wait_and_nobody_else() -> None:
    """It is requested once, when the first of them comes; those who came before go on with what is new."""
    broker = Broker(has_snapshot=True)
    broker.live("ann")
    _pull(broker, *_snapshot(7, 101, 1))
    assert broker.wires() == {1: [b"snapshot 102", b"snapshot_end 103"]}
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood")
    assert broker.all_of(RequestSnapshots) == [RequestSnapshots([7])]
    assert [one.position for one in broker.messages(Subscribed)] == ["7*103"]
    broker.arrive(3, "cyd")
    broker.subscribe(3, "flood")
    assert not broker.all_of(RequestSnapshots)
    broker.pull((7, 110))
    assert broker.wires() == {1: [b"7-110"]}
    _pull(broker, *_snapshot(7, 111, 1), Delivery(7, 114, b"7-114"))
    everything = [b"snapshot 112", b"snapshot_end 113", b"7-114"]
    assert broker.wires() == {1: [b"7-114"], 2: everything, 3: everything}


def test_who_comes_in_the_middle_of_a_snapshot_gets_a_whole_one() -> None:
    """A pull may have only a part of it: the rest is for those who got the beginning."""
    broker = Broker(has_snapshot=True)
    broker.live("ann")
    begun = _snapshot(7, 101, 2)
    _pull(broker, *begun[:2])
    assert broker.wires() == {1: [b"snapshot 102"]}
    broker.tell(ConnectionFlushed(1))
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood")
    assert broker.all_of(RequestSnapshots) == [RequestSnapshots([7])]
    _pull(broker, *begun[2:])
    assert broker.wires() == {1: [b"snapshot 103", b"snapshot_end 104"]}
    _pull(broker, *_snapshot(7, 105, 1))
    assert broker.wires() == {2: [b"snapshot 106", b"snapshot_end 107"]}


def test_who_has_lost_history_gets_a_snapshot() -> None:
    """They are told that history is gone, and where the snapshot that makes up for it comes after. Who waits for one
    has lost nothing, and is told nothing."""
    broker = Broker(has_snapshot=True)
    broker.live("ann")
    broker.subscribe(1, "flood", request=2, position="7-40")
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood", position="7*40")
    broker.tell(HistoryLost({7: 40}, 90))
    assert [one.position for one in broker.messages(HistoryGone)] == ["7*90"]
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 90})]
    broker.tell(HistoryPulled({7: 90}, [], 100))
    assert broker.all_of(RequestSnapshots) in ([], [RequestSnapshots([7])])
    _pull(broker, *_snapshot(7, 101, 0))
    assert broker.wires() == {1: [b"snapshot_end 102"], 2: [b"snapshot_end 102"]}


def test_who_waits_hears_that_the_subscription_has_failed() -> None:
    """There will be no snapshot."""
    broker = Broker(has_snapshot=True)
    broker.live("ann")
    broker.fail(7, 101, "no such zone")
    assert broker.wires() == {1: [b"7-101"]}
