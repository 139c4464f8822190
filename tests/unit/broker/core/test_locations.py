"""Where subscribers are: passed on to the cluster and to the coordinator, the latest word only."""

from __future__ import annotations

from tocsin.broker.core.events import CoordinateTold, LocationsPublished, LocationTold, ReportDue, Reported, Ticked
from tocsin.broker.core.instructions import PublishLocations, Report
from tocsin.coordinates.coordinate import DIMENSIONS, ORIGIN, Coordinate
from tocsin.coordinates.located import Located
from unit.broker.core.driving import Broker


def _reported(broker: Broker) -> dict[str, tuple[float, float]]:
    broker.tell(ReportDue())
    return dict(broker.all_of(Report)[0].locations)


def test_the_cluster_is_told_once_a_second_and_only_the_last_word() -> None:
    broker = Broker(publishes_locations=True)
    broker.live("ann")
    broker.tell(LocationTold(1, (1.0, 2.0)))
    broker.tell(LocationTold(1, (3.0, 4.0)))
    broker.tell(Ticked(10.0))
    assert broker.all_of(PublishLocations) == [PublishLocations({"ann": (3.0, 4.0)})]
    broker.tell(LocationsPublished(is_done=True))
    broker.tell(LocationTold(1, (5.0, 6.0)))
    broker.tell(Ticked(10.9))
    assert not broker.all_of(PublishLocations)
    broker.tell(Ticked(11.0))
    assert broker.all_of(PublishLocations) == [PublishLocations({"ann": (5.0, 6.0)})]


def test_one_request_at_a_time_and_nothing_is_forgotten_when_it_fails() -> None:
    broker = Broker(publishes_locations=True)
    broker.live("ann", "bob")
    broker.tell(LocationTold(1, (1.0, 1.0)))
    broker.tell(LocationTold(2, (2.0, 2.0)))
    broker.tell(Ticked(10.0))
    broker.tell(LocationTold(2, (3.0, 3.0)))
    broker.tell(Ticked(20.0))
    assert not broker.all_of(PublishLocations), "the first has not been answered"
    broker.tell(LocationsPublished(is_done=False))
    broker.tell(Ticked(21.0))
    assert broker.all_of(PublishLocations) == [PublishLocations({"ann": (1.0, 1.0), "bob": (3.0, 3.0)})]


def test_without_a_feed_nothing_is_published() -> None:
    """A broker whose cluster has no feed of locations sends it none."""
    broker = Broker()
    broker.live("ann")
    broker.tell(LocationTold(1, (1.0, 1.0)))
    broker.tell(Ticked(10.0))
    assert not broker.all_of(PublishLocations)


def test_the_coordinator_is_told_until_it_knows() -> None:
    broker = Broker()
    broker.live("ann")
    broker.tell(LocationTold(1, (1.0, 1.0)))
    assert _reported(broker) == {"ann/d": (1.0, 1.0)}
    assert _reported(broker) == {"ann/d": (1.0, 1.0)}, "the first report may not have arrived"
    broker.tell(LocationTold(1, (2.0, 2.0)))
    broker.tell(Reported({}, [], [], {}, 1.0, locations={"ann/d": (1.0, 1.0)}))
    assert _reported(broker) == {"ann/d": (2.0, 2.0)}, "moved on since"
    broker.tell(Reported({}, [], [], {}, 1.0, locations={"ann/d": (2.0, 2.0)}))
    assert not _reported(broker)


def test_a_stranger_has_no_location() -> None:
    """A location from a connection without a session is told to nobody."""
    broker = Broker(publishes_locations=True)
    broker.tell(LocationTold(9, (1.0, 1.0)))
    broker.tell(Ticked(10.0))
    assert not broker.all_of(PublishLocations)
    assert not _reported(broker)


_HERE = Located(Coordinate((30.0, *[0.0] * (DIMENSIONS - 1)), 1.0), {"b": 12.5})


def _located(broker: Broker) -> dict[str, Located]:
    broker.tell(ReportDue())
    return dict(broker.all_of(Report)[0].located)


def test_the_coordinator_is_told_of_a_coordinate_until_it_has_it_and_only_the_last() -> None:
    broker = Broker()
    broker.live("ann")
    subscriber = "ann/d"
    broker.tell(CoordinateTold(1, Located(ORIGIN)))
    broker.tell(CoordinateTold(1, _HERE))
    broker.tell(CoordinateTold(99, _HERE))  # A connection that is gone.
    assert _located(broker) == _located(broker) == {subscriber: _HERE}
    broker.tell(Reported({}, [], [], {}, 11.0, located={subscriber: Located(ORIGIN)}))
    assert _located(broker) == {subscriber: _HERE}, "it has changed since that report"
    broker.tell(Reported({}, [], [], {}, 12.0, located={subscriber: _HERE}))
    assert _located(broker) == {}
