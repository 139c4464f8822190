"""Filters on a channel whose columns change."""

from __future__ import annotations

from tocsin.broker.core.events import HistoryPulled, HoldsListed, Started
from tocsin.broker.core.instructions import ForgetSubscription
from tocsin.model.position import Position
from tocsin.model.schema import ResultColumn
from tocsin.protocol.messages import Error, Failed, Subscribe
from tocsin.protocol.ports import BackendHold, Kept, KeptSession
from unit.broker.core.driving import COLUMNS, FLOOD, Broker
from unit.broker.core.test_matching import filtered


def described(broker: Broker, *columns: ResultColumn) -> None:
    broker.tell(HoldsListed([BackendHold(7, "OfType", {"etype": "flood"}, "", 100, columns=columns)]))


def test_filters_that_fit_go_on_and_others_end_with_the_reason() -> None:
    """Nothing is lost or repeated between the two; who has no filter is not concerned."""
    broker = filtered("severity >= 3", "severity = 1", "")
    broker.pull_severities(1, 4)
    described(broker, ResultColumn("severity", "DOUBLE"))
    assert not broker.out
    broker.pull_severities(3, 1)
    assert broker.sequences() == {1: [103], 2: [104], 3: [103, 104]}
    described(broker, ResultColumn("severity", "STRING"))
    failed = broker.messages(Failed)
    assert {one.code for one in failed} == {"statement"}
    assert "severity is STRING: compare it with a text in quotes" in failed[0].reason
    assert failed[0].position == "7-105"
    assert len(broker.all_of(ForgetSubscription)) == 2
    broker.pull_severities(4)
    assert broker.sequences() == {3: [105]}


def test_the_same_columns_change_nothing() -> None:
    """Nor does a cluster that does not say them."""
    broker = filtered("severity >= 3")
    described(broker, *COLUMNS)
    described(broker)
    assert not broker.out
    broker.pull_severities(3)
    assert broker.sequences() == {1: [101]}


def test_kept_filters_wait_for_columns_that_are_not_known_yet() -> None:
    """As after a cluster was restored from an old back-up: everything comes meanwhile, and nothing is forgotten. New
    filters are refused."""
    kept = KeptSession("ann/d", 1, [Kept(FLOOD, Position(7, 90), "severity = 4")])
    broker = Broker()
    broker.tell(Started([kept], [BackendHold(7, "OfType", {"etype": "flood"}, "", 100)], 100, 0.0))
    assert broker.state.kept() == [kept]
    broker.arrive(1)
    broker.subscribe(1, "flood", position="7-100")
    broker.arrive(2, "ann", Subscribe("OfType", {"etype": "flood"}, "", 1, "severity = 5"))
    assert broker.messages(Error)[0].code == "invalid_value"
    broker = Broker()
    broker.tell(Started([kept], [BackendHold(7, "OfType", {"etype": "flood"}, "", 100)], 100, 0.0))
    broker.tell(HistoryPulled({7: 90}, [], 100))
    broker.pull()
    broker.arrive(1)
    broker.tell(HistoryPulled({7: 90}, [], 100))
    broker.pull_severities(1, 4)
    assert broker.sequences() == {1: [101, 102]}
    described(broker, *COLUMNS)
    broker.pull_severities(1, 4)
    assert broker.sequences() == {1: [104]}
