"""The network's checker finds each kind of violation, and nothing in a history without one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.network.history import (
    GRACE_S,
    Got,
    History,
    Kind,
    Life,
    Ownership,
    Position,
    Published,
    Tenure,
    Violation,
    check,
    check_ownership,
    summary,
)
from chaos.network.nodes import environment
from chaos.network.plans import BROKERS, CLUSTER, COORDINATOR, MOVING, plan_kills
from chaos.network.planted import BUGS
from chaos.network.recording import Recorder, replay
from chaos.network.workload import Author, last_of, one_hold, permission_of, topics_of

pytestmark = pytest.mark.shell

EPOCH, DIGESTS = 7, 8


def single(history: History, sequence: int, record: str, at_s: float) -> Got:
    one = history.published[record]
    return Got(at_s, Position(EPOCH, sequence), {"id": one.id, "topic": one.topic, "amount": one.amount})


def digest(history: History, sequence: int, records: list[str], at_s: float) -> Got:
    several = [history.published[record] for record in records]
    total = sum(one.amount for one in several)
    payload = {"topic": several[0].topic, "records": len(several), "total": total, "ids": records}
    return Got(at_s, Position(DIGESTS, sequence), payload)


def clean() -> History:
    """Five records on one topic, of which the fourth's outcome is unknown and it came through, and the fifth's is
    unknown and it did not. Ann holds the topic all the time, over two lives of which the second repeats one; Ben gives
    it up, Eve is switched off, and Dan has it as digests."""
    history = History()
    for number, name in enumerate(("r1", "r2", "r3", "r4", "r5")):
        is_acknowledged = name in ("r1", "r2", "r3")
        history.published[name] = Published(name, "fire", 10 + number, 10.0 + number, is_acknowledged)

    def got(*wanted: tuple[int, str]) -> list[Got]:
        return [single(history, sequence, record, 20.0 + sequence) for sequence, record in wanted]

    begin = Position(EPOCH, 100)
    first = Life(5.0, begin, brought=False, ended_s=122.5, got=got((101, "r1"), (102, "r2")))
    second = Life(125.0, Position(EPOCH, 101), brought=False, got=got((102, "r2"), (103, "r3"), (104, "r4")))
    ben = Life(5.0, begin, brought=False, got=got((101, "r1"), (102, "r2")))
    eve = Life(5.0, begin, brought=False, ended_s=121.5, got=got((101, "r1")))
    digests = [digest(history, 201, ["r1", "r2"], 124.0), digest(history, 202, ["r3", "r4"], 126.0)]
    history.tenures += [
        Tenure("ann/phone", "", "OfTopic", "fire", [first, second]),
        Tenure("ben/phone", "", "OfTopic", "fire", [ben], left_s=123.0, unsubscribed_s=123.1),
        Tenure("eve/phone", "", "OfTopic", "fire", [eve], is_stopped=True),
        Tenure("dan/phone", "", "Digest", "fire", [Life(5.0, Position(DIGESTS, 100), brought=False, got=digests)]),
    ]
    return history


def ann(history: History) -> Tenure:
    return history.tenures[0]


def ben(history: History) -> Tenure:
    return history.tenures[1]


def kinds(history: History) -> set[Kind]:
    return {violation.kind for violation in check(history)}


def test_a_history_without_violations_has_none() -> None:
    """Unknown outcomes, repeats after a return without a position, and what came after one has left are no fault."""
    assert check(clean()) == []


def _nothing_of_the_end(history: History) -> None:
    ann(history).lives[1].got.pop()
    history.tenures[3].lives[0].got[1] = digest(history, 202, ["r3"], 126.0)
    history.published["r3"].begun_s = 4.0


def _lost_though_a_later_one_came(history: History) -> None:
    del ben(history).lives[0].got[0]


def _lost_at_the_end(history: History) -> None:
    ann(history).lives[1].got.pop()
    ben(history).left_s = ben(history).unsubscribed_s = None


def _lost_by_everybody(history: History) -> None:
    history.published["r6"] = Published("r6", "fire", 1, 30.0, is_acknowledged=True)


def _lost_long_before_leaving(history: History) -> None:
    ben(history).left_s = 124.0 + GRACE_S + 0.1
    ben(history).unsubscribed_s = 200.0


def _lost_between_lives(history: History) -> None:
    ann(history).lives[1].position = Position(EPOCH, 103)
    del ann(history).lives[1].got[:2]


def _handed_out_twice(history: History) -> None:
    got = ann(history).lives[0].got
    got.append(got[-1])


def _again_though_it_brought_its_position(history: History) -> None:
    ann(history).lives[1].brought = True


def _a_record_at_two_positions(history: History) -> None:
    ann(history).lives[1].got.append(single(history, 105, "r1", 130.0))


def _in_two_digests(history: History) -> None:
    history.tenures[3].lives[0].got.append(digest(history, 203, ["r4"], 130.0))


def _out_of_order(history: History) -> None:
    got = ben(history).lives[0].got
    got.reverse()


def _before_its_beginning(history: History) -> None:
    history.published["r0"] = Published("r0", "fire", 1, 1.0)
    ann(history).lives[0].got.insert(0, single(history, 99, "r0", 20.0))


def _of_another_topic(history: History) -> None:
    history.published["water"] = Published("water", "flood", 1, 1.0, is_acknowledged=True)
    ann(history).lives[1].got.append(single(history, 105, "water", 130.0))


def _digest_of_another_topics_records(history: History) -> None:
    history.published["water"] = Published("water", "flood", 1, 1.0, is_acknowledged=True)
    got = digest(history, 203, ["water"], 130.0)
    history.tenures[3].lives[0].got.append(Got(got.at_s, got.position, {**got.payload, "topic": "fire"}))


def _of_another_history(history: History) -> None:
    got = ann(history).lives[1].got[-1]
    ann(history).lives[1].got[-1] = Got(got.at_s, Position(99, 104), got.payload)


def _to_another_permission_class(history: History) -> None:
    ben(history).permission = "confidential"


def _after_unsubscribed(history: History) -> None:
    ben(history).lives[0].got.append(single(history, 103, "r3", 123.2))


def _on_a_connection_that_was_not_told(history: History) -> None:
    history.strays.append("ann/phone got 9-1")


def _that_nobody_published(history: History) -> None:
    del history.published["r4"]


def _with_a_wrong_amount(history: History) -> None:
    got = ann(history).lives[0].got
    got[0] = Got(got[0].at_s, got[0].position, {**got[0].payload, "amount": 999})


def _with_a_wrong_count(history: History) -> None:
    got = history.tenures[3].lives[0].got
    got[0] = Got(got[0].at_s, got[0].position, {**got[0].payload, "records": 3})


def _history_gone(history: History) -> None:
    ann(history).gone.append("results before 7-103 are gone")


def _begun_anew_without_a_word(history: History) -> None:
    ann(history).lives[1] = Life(125.0, Position(9, 500), brought=False)


def _seen_while_it_ran(history: History) -> None:
    history.noticed.append(Violation(Kind.NEVER_CALM, "something was missing"))


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (_lost_though_a_later_one_came, Kind.LOST),
        (_lost_at_the_end, Kind.LOST),
        (_lost_by_everybody, Kind.LOST),
        (_lost_long_before_leaving, Kind.LOST),
        (_lost_between_lives, Kind.LOST),
        (_handed_out_twice, Kind.DOUBLED),
        (_again_though_it_brought_its_position, Kind.DOUBLED),
        (_a_record_at_two_positions, Kind.DOUBLED),
        (_in_two_digests, Kind.DOUBLED),
        (_out_of_order, Kind.REORDERED),
        (_before_its_beginning, Kind.REORDERED),
        (_of_another_topic, Kind.MISDELIVERED),
        (_digest_of_another_topics_records, Kind.MISDELIVERED),
        (_of_another_history, Kind.MISDELIVERED),
        (_to_another_permission_class, Kind.MISDELIVERED),
        (_after_unsubscribed, Kind.MISDELIVERED),
        (_on_a_connection_that_was_not_told, Kind.MISDELIVERED),
        (_that_nobody_published, Kind.PHANTOM),
        (_with_a_wrong_amount, Kind.ALTERED),
        (_with_a_wrong_count, Kind.ALTERED),
        (_history_gone, Kind.HISTORY_GONE),
        (_begun_anew_without_a_word, Kind.HISTORY_GONE),
        (_seen_while_it_ran, Kind.NEVER_CALM),
    ],
)
def test_each_violation_is_found(harm: Callable[[History], None], kind: Kind) -> None:
    """One thing goes wrong in a history that was right, and is told by its name."""
    history = clean()
    harm(history)
    assert kind in kinds(history)


def test_whoever_left_shortly_after_need_not_have_it() -> None:
    """What others got just before somebody gave a subscription up may have been under way to him."""
    history = clean()
    ben(history).left_s = 123.0 + GRACE_S - 0.1
    ben(history).unsubscribed_s = 200.0
    assert check(history) == []


def test_a_run_that_was_broken_off_proves_no_loss_at_its_end() -> None:
    """What was under way then is not lost; what is missing in between is."""
    history = clean()
    history.is_complete = False
    ann(history).lives[1].got.pop()
    assert check(history) == []
    _lost_though_a_later_one_came(history)
    assert kinds(history) == {Kind.LOST}


def test_unknown_records_may_be_missing_everywhere() -> None:
    """A publish without an answer may have come to nothing: nobody has to have got its record."""
    history = clean()
    _nothing_of_the_end(history)
    assert check(history) == []


def test_unknown_records_that_came_to_one_must_come_to_all() -> None:
    """Once somebody got it, it was there: everybody who holds the same must have it."""
    history = clean()
    other = Life(5.0, Position(EPOCH, 100), brought=False, got=list(ann(history).got())[:2])
    history.tenures.append(Tenure("fay/phone", "", "OfTopic", "fire", [other]))
    history.published["r3"].begun_s = 4.0
    assert {what.split()[0] for _, what in check(history)} == {"fay/phone"}


def test_everybody_has_one_owner() -> None:
    """The coordinator's word, the brokers' counts and where subscribers are agree."""
    ownership = Ownership(
        {"ann/phone": "b1", "ben/phone": "b2"}, {"ann/phone": "b1", "ben/phone": "b2"}, {"b1": 1, "b2": 1}
    )
    assert check_ownership(ownership) == []


@pytest.mark.parametrize(
    "ownership",
    [
        Ownership({"ann/phone": "b1"}, {"ann/phone": "b2"}, {"b1": 0, "b2": 1}),
        Ownership({"ann/phone": "b1"}, {}, {"b1": 0}),
        Ownership({"ann/phone": "b1"}, {"ann/phone": "b1"}, {"b1": 1, "b2": 1}),
        Ownership({"ann/phone": "b1"}, {"ann/phone": "b1"}, {"b1": 0}),
    ],
    ids=["at another broker", "nobody's", "kept by two", "kept by none"],
)
def test_doubtful_ownership_is_found(ownership: Ownership) -> None:
    """A subscriber that is at one broker and another's, nobody's, or kept twice."""
    assert {violation.kind for violation in check_ownership(ownership)} == {Kind.OWNERSHIP}


def test_what_is_written_down_becomes_a_history(tmp_path: Path) -> None:
    """A subscriber that subscribes, is handed something, goes, comes back and unsubscribes; and another one's end."""
    recorder = Recorder(tmp_path / "history.ndjson")
    what = {"permission": "", "channel": "OfTopic", "topic": "fire", "position": "7-100"}
    recorder.write("subscribed", "ann/phone", 1, **what, brought=False)
    payload = {"id": "r1", "topic": "fire", "amount": 1}
    recorder.write("got", "ann/phone", 1, position="7-101", payload=payload)
    recorder.write("away", "ann/phone", 1)
    recorder.write("subscribed", "ann/phone", 1, **{**what, "position": "7-101"}, brought=True)
    recorder.write("leaving", "ann/phone", 1)
    recorder.write("unsubscribed", "ann/phone", 1)
    recorder.write("subscribed", "ben/phone", 1, **what, brought=False)
    recorder.write("gone", "ben/phone", 1, message="gone")
    recorder.write("stray", "ben/phone", message="got what is not his")
    recorder.write("failed", "ben/phone", message="replaced")
    recorder.write("stopped", "ben/phone")
    recorder.close()
    history = History()
    replay((tmp_path / "history.ndjson").read_text().splitlines(), history)
    first, second = history.tenures
    assert [life.brought for life in first.lives] == [False, True]
    assert [(got.position, got.payload) for got in first.got()] == [(Position(7, 101), payload)]
    assert first.lives[0].ended_s is not None
    assert first.left_s is not None
    assert first.unsubscribed_s is not None
    assert first.left_s <= first.unsubscribed_s
    assert (second.is_stopped, second.gone, second.lasts) == (True, ["gone"], False)
    assert history.strays == ["ben/phone got what is not his"]
    assert summary(history.noticed) == {"misbehaved": 1}


def test_what_was_written_by_nobody_is_refused() -> None:
    """A line about a subscription that never was is a mistake of the run itself, not of the network."""
    line = {"event": "got", "at_s": 1.0, "who": "ann/phone", "tenure": 1, "position": "7-1", "payload": {}}
    with pytest.raises(ValueError, match="never subscribed"):
        replay([json.dumps(line)], History())


def test_the_same_seed_makes_the_same_run() -> None:
    """Kills and records can be had again."""
    assert plan_kills("s", 24) == plan_kills("s", 24)
    assert plan_kills("s", 24) != plan_kills("t", 24)
    one, other = Author("run", "p0", "s"), Author("run", "p0", "s")
    assert [one.next_records() for _ in range(20)] == [other.next_records() for _ in range(20)]


def test_every_part_is_killed_in_its_turn() -> None:
    """Twenty-four kills hit each broker, the coordinator and the cluster several times."""
    hit = [target for kill in plan_kills("s", 24) for target in kill.targets]
    assert all(hit.count(target) >= 3 for target in (*BROKERS, COORDINATOR, CLUSTER))


def test_everything_held_is_published_to() -> None:
    """Whatever topic a subscriber may choose has a last record; records keep to the run's own topics."""
    topics = set(topics_of("run"))
    assert {one_hold("run", random.Random(number))[1] for number in range(500)} <= topics
    _, records = Author("run", "p0", "s").next_records()
    assert {record["topic"] for record in records} <= topics
    assert len({last_of(topic) for topic in topics}) == len(topics)
    assert {permission_of(number) for number in range(10)} == {"", "confidential"}


def test_planted_bugs_can_be_planted() -> None:
    """Each finds what it spoils, and names what would show that it was found. In a process of its own: it stays bad."""
    program = "from chaos.network.planted import BUGS\nfor bug in BUGS.values(): bug.plant()"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment())
    assert len(BUGS) >= 6
    for bug in BUGS.values():
        assert bug.kinds
        assert set(bug.targets) <= {*BROKERS, COORDINATOR, CLUSTER, *MOVING}
