"""People who are forgotten leave nothing behind at a broker."""

from __future__ import annotations

from tocsin.broker.core.events import Reported
from tocsin.broker.core.instructions import ForgetSubscription
from tocsin.model.people import fingerprint
from tocsin.protocol.messages import Failed
from unit.broker.core.driving import Broker
from unit.broker.core.test_matching import filtered


def forget(broker: Broker, *names: str) -> None:
    broker.tell(Reported({}, [], [], {}, 0.0, forgotten={fingerprint(one): 1 for one in names}))


def test_a_filter_that_names_a_person_ends() -> None:
    """As a parameter does; others on the same subscription go on."""
    broker = Broker()
    for connection, etype in enumerate(("flood", "zoe"), 1):
        broker.arrive(connection, f"user{connection}")
        broker.subscribe(connection, etype)
    broker.acquired(flood=7)
    broker.acquired(zoe=8)
    forget(broker, "zoe")
    (failed,) = broker.messages(Failed)
    assert failed.subscription == 8
    assert len(broker.all_of(ForgetSubscription)) == 1


def test_filters_are_looked_through() -> None:
    """By the texts that they compare with."""
    broker = filtered("who = 'zoe' OR who LIKE 'bob%'", "who = 'ann'")
    forget(broker, "eve")
    assert not broker.messages(Failed)
    forget(broker, "zoe")
    assert len(broker.messages(Failed)) == 1
