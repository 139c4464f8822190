"""Which of a source's results each subscriber gets."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from tocsin.broker.core.events import ConnectionFlushed, ConnectionLost, HistoryPulled, ResultsPulled, Ticked
from tocsin.broker.core.instructions import FetchHistory
from tocsin.broker.core.matching import SourceFilters
from tocsin.errors import StatementError
from tocsin.filters.results import PayloadReader
from tocsin.model.results import ResultKind
from tocsin.protocol.frames import text_frame
from tocsin.protocol.messages import HistoryGone, Passed, Subscribed, encode
from tocsin.protocol.ports import Delivery
from unit.broker.core.driving import COLUMNS, Broker, severe

_EXIT = text_frame(b'{"type":"notification","kind":"exit","key":"5f","payload":{}}')


def filtered(*wheres: str, has_snapshot: bool = False) -> Broker:
    """A subscriber for each filter, from connection 1 on, live."""
    broker = Broker(has_snapshot=has_snapshot)
    for connection, where in enumerate(wheres, 1):
        broker.arrive(connection, f"user{connection}")
        broker.subscribe(connection, "flood", where=where)
        if connection == 1:
            broker.acquired(flood=7)
    broker.pull()
    return broker


def test_each_gets_what_matches_and_all_share_the_subscription() -> None:
    """With equal filters, different ones, and none, in the order of the results."""
    broker = filtered("", "severity >= 3", "severity >= 3", "severity IS NULL")
    assert broker.state.backends == 1
    broker.pull_severities(1, 3, None, 4)
    assert broker.sequences() == {1: [101, 102, 103, 104], 2: [102, 104], 3: [102, 104], 4: [103]}
    assert broker.state.filter_counts == (3, 5, 7)


def test_the_answer_repeats_the_filter_as_it_was_written() -> None:
    """Not its canonical text: its writer compares."""
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood", where="severity>=3 and true")
    broker.acquired(flood=7)
    (answer,) = broker.messages(Subscribed)
    assert answer.where == "severity>=3 and true"


def _snapshot(begin: int, *severities: int) -> list[Delivery]:
    rows = [replace(severe(7, begin + at, one), kind=ResultKind.SNAPSHOT) for at, one in enumerate(severities, 1)]
    end = b'{"type":"notification","kind":"snapshot_end","payload":{"results":9,"complete":true}}'
    last = Delivery(7, begin + len(rows) + 1, text_frame(end), kind=ResultKind.SNAPSHOT_END)
    return [Delivery(7, begin, b"begin", kind=ResultKind.SNAPSHOT_BEGIN), *rows, last]


def test_rows_of_a_snapshot_are_compared_and_its_end_comes_always() -> None:
    """Then what is new. Exits and results before it are for those who have had theirs."""
    broker = filtered("severity >= 3", "severity >= 9", "", has_snapshot=True)
    rows = _snapshot(102, 1, 4, 9)
    exit_of_old = Delivery(7, 107, _EXIT, kind=ResultKind.EXIT)
    everything = [severe(7, 101, 9), *rows, exit_of_old, severe(7, 108, 3)]
    broker.pulls += 1
    broker.tell(ResultsPulled(broker.pulls, everything, 108, broker.now_s))
    by_sequence = {one.wire: one.sequence for one in everything}
    seen = {one: [by_sequence[wire] for wire in wires] for one, wires in broker.wires().items()}
    assert seen == {1: [104, 105, 106, 107, 108], 2: [105, 106, 107], 3: [103, 104, 105, 106, 107, 108]}


def test_who_catches_up_gets_what_matches_of_a_snapshot_and_after_it() -> None:
    """From history, in two parts that end within the snapshot. Who looks through it without a match goes on with the
    next tick, and waits for nobody."""
    broker = filtered("", has_snapshot=True)
    broker.arrive(2, "bob")
    broker.subscribe(2, "flood", position="7*90", where="severity >= 3")
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 90})]
    begin, *rows, end = _snapshot(92, 1, 4)
    broker.tell(HistoryPulled({7: 90}, [severe(7, 91, 9), begin, rows[0]], 93))
    assert not broker.wires()
    broker.now_s += 1
    broker.tell(Ticked(broker.now_s))
    assert broker.all_of(FetchHistory) == [FetchHistory({7: 93})]
    broker.tell(HistoryPulled({7: 93}, [rows[1], end, severe(7, 96, 1), severe(7, 97, 5)], 100))
    assert broker.wires() == {2: [rows[1].wire, end.wire, severe(7, 97, 5).wire]}
    broker.tell(ConnectionFlushed(2))
    broker.pull_severities(1, 3)
    assert broker.sequences()[2] == [102]


def test_a_snapshot_for_somebody_else_is_passed_over() -> None:
    """Who has had theirs gets no row of it, whatever their filter, and acknowledges what is behind it."""
    broker = filtered("severity >= 3", has_snapshot=True)
    broker.pulls += 1
    broker.tell(ResultsPulled(broker.pulls, _snapshot(102), 103, broker.now_s))
    broker.tell(ConnectionFlushed(1))
    broker.pulls += 1
    broker.tell(ResultsPulled(broker.pulls, _snapshot(104, 5), 106, broker.now_s))
    assert not broker.wires()
    broker.now_s += 60
    broker.tell(Ticked(broker.now_s))
    assert [one.position for one in broker.messages(Passed)] == ["7-106"]


def test_a_payload_is_read_once_and_only_if_somebody_filters() -> None:
    """However many filters there are."""
    reads = 0
    read = PayloadReader.__call__

    def counting(self: PayloadReader, payload: bytes) -> object:
        nonlocal reads
        reads += 1
        return read(self, payload)

    with patch.object(PayloadReader, "__call__", counting):
        filtered("", "").pull_severities(1, 2)
        assert reads == 0
        filtered("severity = 1", "severity = 2", "").pull_severities(1, 2)
        assert reads == 2


def test_what_was_missed_is_filtered_too() -> None:
    """From memory, and from the cluster; a long stretch that does not match does not hold anybody up."""
    broker = filtered("severity >= 3", "")
    broker.tell(ConnectionLost(1, 0.0))
    broker.pull_severities(1, 4, 2, 3, 1)
    broker.arrive(3, "user1")
    assert broker.sequences() == {3: [102, 104]}
    broker.tell(ConnectionFlushed(3))
    broker.pull_severities(5)
    assert broker.sequences() == {2: [106], 3: [106]}
    broker.arrive(4, "late")
    broker.subscribe(4, "flood", position="7-90", where="severity = 9")
    assert not broker.wires()
    broker.tell(HistoryPulled({7: 90}, [severe(7, at, 9 if at == 95 else 1) for at in range(91, 98)], 100))
    assert broker.sequences() == {4: [95]}
    broker.tell(ConnectionFlushed(4))
    broker.pull_severities(9)
    assert broker.sequences()[4] == [107]


def test_a_history_that_does_not_match_is_looked_through_slowly() -> None:
    """A part with each tick: it is fetched for nobody's reading."""
    broker = filtered("")
    broker.arrive(2, "late")
    broker.subscribe(2, "flood", position="7-10", where="severity = 9")
    for first in (11, 31, 51):
        assert [dict(one.after) for one in broker.all_of(FetchHistory)] == [{7: first - 1}]
        broker.tell(HistoryPulled({7: first - 1}, [severe(7, at, 1) for at in range(first, first + 20)], first + 19))
        assert not broker.out
        broker.now_s += 0.1
        broker.tell(Ticked(broker.now_s))
    broker.tell(HistoryPulled({7: 70}, [severe(7, 80, 1)], 100))
    broker.tell(Ticked(1.0))
    broker.pull_severities(9, 1)
    assert broker.sequences() == {1: [101, 102], 2: [101]}


def test_what_can_not_be_decided_on_goes_to_everybody() -> None:
    """A failure, a gap in place of a large result, a payload of another definition of the channel, and an exit."""
    broker = filtered("severity = 3", "severity = 4")
    gap = text_frame(encode(HistoryGone(7, "7-101", "too large")))
    mistyped = text_frame(b'{"payload":{"severity":"high"}}')
    for sequence, wire in ((101, gap), (102, mistyped), (103, b"x" * 9), (104, _EXIT)):
        broker.pulls += 1
        broker.tell(ResultsPulled(broker.pulls, [Delivery(7, sequence, wire)], sequence, 0.0))
        assert set(broker.wires()) == {1, 2}
    broker.fail(7, 105, "no such zone")
    assert set(broker.wires()) == {1, 2}


def test_subscribers_are_told_how_far_nothing_matched() -> None:
    """Now and then, if something was passed over since the last notification, and once."""
    broker = filtered("severity = 3", "")
    broker.pull_severities(3, 1, 1)
    broker.tell(Ticked(31.0))
    assert broker.messages(Passed) == [Passed(7, "7-103")]
    broker.tell(Ticked(62.0))
    assert not broker.messages(Passed)
    broker.pull_severities(1, 3)
    broker.tell(Ticked(93.0))
    assert not broker.messages(Passed)


def test_filters_are_forgotten_with_their_last_member() -> None:
    """Groups that nobody is in, and rows that were looked at, take no memory."""
    rows: dict[tuple[SourceFilters, int], object] = {}
    filters = SourceFilters(COLUMNS, rows)
    one, again = filters.join(filters.parse("severity = 1")), filters.join(filters.parse("severity = 1"))
    assert one is again
    assert len(filters) == 2
    filters.leave(one)
    filters.leave(one)
    assert len(filters) == 0
    assert filters.parse("severity = 1") is not one
    for sequence in range(5_000):
        filters.row_of(severe(7, sequence, 1))
        SourceFilters(COLUMNS, rows).row_of(severe(8, sequence, 1))
    assert len(rows) <= 4096


def test_wrong_filters_point() -> None:
    """As the language does; a column that can't be compared says why."""
    filters = SourceFilters(COLUMNS, {})
    with pytest.raises(StatementError, match=r"total is DECIMAL\(10,2\)") as caught:
        filters.parse("total > 5")
    assert (caught.value.line, caught.value.column) == (1, 1)
