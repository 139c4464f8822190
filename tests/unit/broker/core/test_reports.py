"""Reports to the coordinator: changes at once, positions now and then."""

from __future__ import annotations

from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.session_table import Knowledge, Ownership, Presence, SessionState
from tocsin.broker.core.sessions import Session
from tocsin.model.story import Story


def _session(number: int) -> Session:
    state = SessionState(Presence.READY, Knowledge.CONFIRMED, Ownership.OWNED)
    return Session(f"user{number}/device", Story(), state, generation=1)


def test_more_reports_tell_no_more_positions() -> None:
    """While moves are under way a broker reports ten times as often; the positions it reports stay 200 a second."""
    reporting = Reporting()
    for number in range(1_000):
        reporting.moved_on(_session(number))
    told: list[str] = []
    for tenth in range(30):
        report = reporting.next_report(100 + tenth / 10, {})
        told += report.changed
        reporting.reported({subscriber: 0 for subscriber in report.changed}, [])
    assert len(set(told)) == len(told)
    assert 700 <= len(told) <= 800


def test_changes_go_with_the_next_report_however_many_positions_wait() -> None:
    """A new subscription is reported at once; the limit is for positions alone."""
    reporting = Reporting()
    for number in range(1_000):
        reporting.moved_on(_session(number))
    reporting.next_report(100.0, {})
    newcomer = _session(5_000)
    reporting.changed(newcomer)
    assert list(reporting.next_report(100.0, {}).changed)[-1] == newcomer.subscriber
