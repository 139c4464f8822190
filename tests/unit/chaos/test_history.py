"""The checker finds each kind of violation, and nothing in a history without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.history import (
    Attempt,
    History,
    Kind,
    Outcome,
    ReceiptAnswer,
    RecordSet,
    Result,
    Row,
    Stored,
    Subscription,
    Violation,
    check,
    expected_results,
    summary,
)
from chaos.workload import EVENTS, MEMBERS, PEOPLE, TOPICS, Author, body_of, last_wave, new_history

TOPIC, OTHER = TOPICS[0], TOPICS[1]
MEMBER, TEAM = next(iter(MEMBERS.items()))


def event(name: str, topic: str = TOPIC, amount: int = 5) -> dict[str, object]:
    return {"id": name, "topic": topic, "team": TEAM, "level": 1, "amount": amount}


def member(version: int) -> dict[str, object]:
    return {"member": "restless", "team": "nobody", "version": version}


def of_topic(sequence: int, record: Row, subscription: int = 1) -> Result:
    payload = {"id": record["id"], "topic": record["topic"], "amount": record["amount"]}
    return Result(subscription, "OfTopic", subscription, sequence, payload)


def totals(sequence: int, *records: Row) -> Result:
    total = sum(record["amount"] for record in records)
    payload = {"topic": TOPIC, "records": len(records), "total": total, "ids": [record["id"] for record in records]}
    return Result(3, "TopicTotals", 3, sequence, payload)


A, B, C, LAST = event("a"), event("b", amount=7), event("c", topic=OTHER), event("last")
BAD = '{"id": "bad", '


def clean() -> History:
    """Two acknowledged sets, one of them tried twice; one unknown that came through, one that did not; one refused;
    a keyed row with three versions; two readers."""
    history = new_history()
    published = [
        (RecordSet("first", EVENTS, (A, B), (BAD,)), [Outcome.UNKNOWN, Outcome.OK, Outcome.OK]),
        (RecordSet("second", EVENTS, (C,)), [Outcome.UNKNOWN]),
        (RecordSet("third", EVENTS, (event("never"), event("never-2"))), [Outcome.REFUSED, Outcome.UNKNOWN]),
        (RecordSet("fourth", EVENTS, (event("refused"),), ("[refused",)), [Outcome.REFUSED]),
        (RecordSet("m1", PEOPLE, (member(1),)), [Outcome.OK]),
        (RecordSet("m2", PEOPLE, (member(2),)), [Outcome.OK]),
        (RecordSet("m3", PEOPLE, (member(3),)), [Outcome.UNKNOWN]),
        (RecordSet("wave", EVENTS, (LAST,)), [Outcome.OK]),
    ]
    for one, outcomes in published:
        history.sets[one.name] = one
        for outcome in outcomes:
            ok = outcome is Outcome.OK
            history.attempts.append(
                Attempt(one.name, outcome, f"r-{one.name}" if ok else "", one.count if ok else None)
            )
    history.receipts += [ReceiptAnswer("r-first", 2, 1), ReceiptAnswer("r-m1", 1, 0)]
    history.stored = {
        EVENTS: Stored([A, B, C, LAST], [BAD]),
        PEOPLE: Stored([member(1), member(2)]),
    }
    for held in (
        Subscription(1, "OfTopic", {"topic": TOPIC}, 1),
        Subscription(2, "OfTopic", {"topic": OTHER}, 2),
        Subscription(3, "TopicTotals", {"topic": TOPIC}, 3),
        Subscription(4, "ForMember", {"member": "member-001"}, 4),
    ):
        history.subscriptions[held.id] = held
    results = [
        of_topic(10, A),
        of_topic(11, B),
        of_topic(12, C, 2),
        totals(13, B, A),
        of_topic(20, LAST),
        totals(21, LAST),
    ]
    history.readers = {"away": list(results), "steady": list(results)}
    history.last_wave, history.calm_since = frozenset({"last"}), 13
    return history


def kinds(history: History) -> set[Kind]:
    return {violation.kind for violation in check(history)}


def rows(history: History, *stored: Row) -> None:
    history.stored[EVENTS] = Stored(list(stored), history.stored[EVENTS].dead_letters)


def dead_letters(history: History, *stored: str) -> None:
    history.stored[EVENTS] = Stored(history.stored[EVENTS].rows, list(stored))


def results(history: History, change: Callable[[list[Result]], object]) -> None:
    for read in history.readers.values():
        change(read)


def test_a_clean_history_has_no_violation() -> None:
    """Unknown publishes, retries, refusals and repeats are all in order."""
    assert check(clean()) == []


def test_an_unknown_publish_may_be_there_or_not() -> None:
    """Its results follow what is stored."""
    history = clean()
    rows(history, A, B, LAST)
    results(history, lambda read: read.pop(2))
    assert check(history) == []


def test_a_keyed_row_may_be_an_unknown_later_one() -> None:
    """Acknowledged 2, unknown 3: both are right."""
    history = clean()
    history.stored[PEOPLE] = Stored([member(1), member(2), member(3)])
    assert check(history) == []


RECORDS: dict[str, tuple[Kind, Callable[[History], object]]] = {
    "lost": (Kind.LOST_RECORD, lambda h: rows(h, A, C, LAST)),
    "doubled": (Kind.DOUBLED_RECORD, lambda h: rows(h, A, B, B, C, LAST)),
    "an unknown one doubled": (Kind.DOUBLED_RECORD, lambda h: rows(h, A, B, C, C, LAST)),
    "never published": (Kind.PHANTOM_RECORD, lambda h: rows(h, A, B, C, LAST, event("x", topic="none"))),
    "refused and there": (Kind.PHANTOM_RECORD, lambda h: rows(h, A, B, C, LAST, event("refused"))),
    "other content": (Kind.ALTERED_RECORD, lambda h: rows(h, A | {"amount": 6}, B, C, LAST)),
    "half of a request": (Kind.TORN_REQUEST, lambda h: rows(h, A, B, C, LAST, event("never"))),
    "a keyed row lost": (Kind.LOST_RECORD, lambda h: h.stored.update({PEOPLE: Stored([])})),
    "a keyed row too old": (Kind.STALE_RECORD, lambda h: h.stored.update({PEOPLE: Stored([member(1)])})),
    "a keyed row never published": (Kind.PHANTOM_RECORD, lambda h: h.stored.update({PEOPLE: Stored([member(9)])})),
    "a dead letter lost": (Kind.LOST_DEAD_LETTER, dead_letters),
    "a dead letter doubled": (Kind.DOUBLED_DEAD_LETTER, lambda h: dead_letters(h, BAD, BAD)),
    "a good record as dead letter": (Kind.PHANTOM_DEAD_LETTER, lambda h: dead_letters(h, BAD, '{"id": "a"}')),
    "a dead letter of a refused request": (Kind.PHANTOM_DEAD_LETTER, lambda h: dead_letters(h, BAD, "[refused")),
    "another receipt for a repeat": (
        Kind.CONTRADICTING_RECEIPT,
        lambda h: h.attempts.append(Attempt("first", Outcome.OK, "r-new", 3)),
    ),
    "one receipt for two": (
        Kind.CONTRADICTING_RECEIPT,
        lambda h: h.attempts.append(Attempt("second", Outcome.OK, "r-first", 1)),
    ),
    "a receipt that miscounts": (
        Kind.CONTRADICTING_RECEIPT,
        lambda h: h.attempts.append(Attempt("m1", Outcome.OK, "r-m1", 2)),
    ),
    "an answer that contradicts": (
        Kind.CONTRADICTING_RECEIPT,
        lambda h: h.receipts.append(ReceiptAnswer("r-first", 3, 0)),
    ),
    "an answer for nothing": (
        Kind.CONTRADICTING_RECEIPT,
        lambda h: h.receipts.append(ReceiptAnswer("r-none", 1, 0)),
    ),
}

RESULTS: dict[str, tuple[Kind, Callable[[History], object]]] = {
    "lost": (Kind.LOST_RESULT, lambda h: results(h, lambda read: read.pop(1))),
    "lost by an aggregate": (Kind.LOST_RESULT, lambda h: results(h, lambda read: read.__setitem__(3, totals(13, A)))),
    "doubled": (Kind.DOUBLED_RESULT, lambda h: results(h, lambda read: read.append(of_topic(30, A)))),
    "doubled by an aggregate": (
        Kind.DOUBLED_RESULT,
        lambda h: results(h, lambda read: read.append(totals(30, A))),
    ),
    "of a record that is not there": (
        Kind.PHANTOM_RESULT,
        lambda h: results(h, lambda read: read.append(of_topic(30, event("x")))),
    ),
    "with other content": (
        Kind.ALTERED_RESULT,
        lambda h: results(h, lambda read: read.__setitem__(0, of_topic(10, A | {"amount": 6}))),
    ),
    "a sum that is wrong": (
        Kind.ALTERED_RESULT,
        lambda h: results(h, lambda read: read.__setitem__(3, totals(13, B, A | {"amount": 6}))),
    ),
    "for another subscription": (
        Kind.MISDELIVERED_RESULT,
        lambda h: results(h, lambda read: read.__setitem__(0, of_topic(10, A, 2))),
    ),
    "for nobody": (
        Kind.MISDELIVERED_RESULT,
        lambda h: results(h, lambda read: read.append(of_topic(30, A, 99))),
    ),
    "for a subscription of another channel": (
        Kind.MISDELIVERED_RESULT,
        lambda h: results(h, lambda read: read.append(replace(of_topic(30, A), subscription=3))),
    ),
    "read twice": (Kind.UNORDERED_RESULTS, lambda h: h.readers["steady"].append(h.readers["steady"][-2])),
    "out of order": (Kind.UNORDERED_RESULTS, lambda h: results(h, lambda read: read.reverse())),
    "in another epoch": (
        Kind.MIXED_EPOCHS,
        lambda h: results(h, lambda read: read.__setitem__(4, replace(read[4], epoch=7))),
    ),
    "seen by one reader only": (Kind.DIFFERING_READERS, lambda h: h.readers["steady"].pop()),
    "a channel that stopped": (Kind.STOPPED_CHANNEL, lambda h: results(h, lambda read: read.pop(5))),
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_violation_of_records_is_found(what: str) -> None:
    """Each, put into a clean history, is reported as what it is."""
    kind, plant = RECORDS[what]
    history = clean()
    plant(history)
    assert kind in kinds(history)


@pytest.mark.parametrize("what", RESULTS)
def test_a_violation_of_results_is_found(what: str) -> None:
    """Each, put into a clean history, is reported as what it is."""
    kind, plant = RESULTS[what]
    history = clean()
    plant(history)
    assert kind in kinds(history)


def test_a_doubled_record_may_have_doubled_results() -> None:
    """Results are held against what is stored: one mistake is not told as two."""
    history = clean()
    rows(history, A, B, C, C, LAST)
    results(history, lambda read: read.insert(3, of_topic(12, C, 2)))
    assert Kind.DOUBLED_RESULT not in kinds(history)


def test_what_was_noticed_on_the_way_is_told() -> None:
    """A process that misbehaved fails the run, even if nothing was lost."""
    history = clean()
    history.noticed.append(Violation(Kind.MISBEHAVED_PROCESS, "went on without Java"))
    assert summary(check(history)) == {"misbehaved process": 1}


def test_every_kind_is_planted_here() -> None:
    """No kind of violation goes untried."""
    planted = {kind for kind, _ in (*RECORDS.values(), *RESULTS.values())}
    assert planted == set(Kind) - {Kind.MISBEHAVED_PROCESS}


def test_the_load_is_the_same_for_the_same_seed() -> None:
    """A run can be told again from its seed."""
    first, again = Author("p0", "s"), Author("p0", "s")
    assert [first.next_set() for _ in range(50)] == [again.next_set() for _ in range(50)]


def test_the_last_wave_reaches_every_channel() -> None:
    """Else a channel that stopped could hide."""
    history = clean()
    history.stored[EVENTS] = Stored([record for one in last_wave("s") for record in one.records])
    wanted: dict[str, Row] = {
        "OfTopic": {"topic": TOPIC},
        "ForMember": {"member": MEMBER},
        "OfTeam": {"team": TEAM, "level": 1},
        "TopicTotals": {"topic": TOPIC},
    }
    for channel, parameters in wanted.items():
        history.subscriptions = {1: Subscription(1, channel, parameters, 1)}
        assert expected_results(history)[1].total() > 0


def test_bad_lines_stand_among_good_ones() -> None:
    """Every line of a set is in its body, once."""
    one = RecordSet("s", EVENTS, (A, B, C), (BAD, "[1]"))
    lines = body_of(one).decode().split("\n")
    assert len(lines) == one.count
    assert {BAD, "[1]"} < set(lines)
