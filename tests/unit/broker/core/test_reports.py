"""What the coordinator is told and how much at once: changes with the next report, positions now and then."""

from __future__ import annotations

from collections import Counter

from tocsin.broker.core.events import ReportDue, Reported
from tocsin.broker.core.instructions import Report
from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.session_table import Knowledge, Ownership, Presence, SessionState
from tocsin.broker.core.sessions import Session
from tocsin.model.position import Position
from tocsin.model.story import Story
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import FLOOD, Broker


def _session(number: int) -> Session:
    state = SessionState(Presence.READY, Knowledge.CONFIRMED, Ownership.OWNED)
    return Session(f"user{number}/device", Story(), state, generation=1)


def test_more_reports_tell_no_more_positions() -> None:
    """While moves are under way a broker reports ten times as often; the positions it reports stay 200 a second."""
    reporting = Reporting()
    for number in range(1_000):
        reporting.moved_on(_session(number))
    reported: list[str] = []
    for tenth in range(30):
        report = reporting.next_report(100 + tenth / 10, {})
        reported += report.changed
        reporting.reported(dict.fromkeys(report.changed, 0), [])
    assert len(set(reported)) == len(reported)
    assert 700 <= len(reported) <= 800


def test_changes_go_with_the_next_report_however_many_positions_wait() -> None:
    """A new subscription is reported at once; the limit is for positions alone."""
    reporting = Reporting()
    for number in range(1_000):
        reporting.moved_on(_session(number))
    reporting.next_report(100.0, {})
    newcomer = _session(5_000)
    reporting.changed(newcomer)
    assert list(reporting.next_report(100.0, {}).changed)[-1] == newcomer.subscriber


def test_reports_tell_how_much_has_come_since_the_one_before() -> None:
    broker = Broker()
    broker.arrive(1)
    broker.subscribe(1, "flood")
    broker.acquired(flood=7)
    broker.pull()
    broker.pull((7, 101), (7, 102), (9, 103))
    broker.tell(ReportDue())
    assert broker.all_of(Report)[-1].pulled_bytes == {FLOOD: len(b"7-101") + len(b"7-102")}
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


def test_byte_counts_that_do_not_fit_come_with_the_next_reports() -> None:
    """All bytes that came are reported, each once, however many subscriptions they came for."""
    reporting = Reporting()
    keys = [SubscriptionKey("Near", f'{{"n":{number}}}', "") for number in range(50_000)]
    reported: Counter[SubscriptionKey] = Counter()
    for burst in range(6):
        came = dict.fromkeys(keys, 100) if burst < 2 else {}
        report = reporting.next_report(float(burst), came)
        assert len(report.pulled_bytes) <= 20_000
        reported.update(report.pulled_bytes)
    assert reported == dict.fromkeys(keys, 200)
    assert not reporting.next_report(6.0, {}).pulled_bytes


def test_byte_counts_that_have_waited_longest_go_first() -> None:
    """A busy broker reports every subscription in turn, rather than the same ones each time."""
    reporting = Reporting()
    keys = [SubscriptionKey("Near", f'{{"n":{number}}}', "") for number in range(50_000)]
    heard: set[SubscriptionKey] = set()
    for second in range(3):
        heard |= reporting.next_report(float(second), dict.fromkeys(keys, 1)).pulled_bytes.keys()
    assert heard == set(keys)
