"""Sessions pass between the wire and the machine without losing anything."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.coordinator.registry.session_wire import (
    fitting_bodies,
    key_of,
    known_people,
    reported,
    session_body,
    traffic,
)
from tocsin.errors import InvalidValue
from tocsin.model.people import fingerprint
from tocsin.protocol.coordination import BrokerRegistration, Heartbeat, ReportedSubscription, Session
from tocsin.protocol.subscription_keys import KeyText


def test_a_session_comes_back_as_it_was_reported() -> None:
    """Values keep their types: 1, 1.0 and true are three."""
    parameters = {"b": 1, "a": 1.0, "c": True, "d": "ünï\n", "e": (1 << 63) - 1, "f": -(1 << 63)}
    held = [ReportedSubscription(channel="C", parameters=parameters, permission="medic", position="7-9", where="n > 1")]
    session = Session(subscriber="ann/phone", generation=3, connected=True, subscriptions=held)
    there = reported(session)
    record = SessionRecord(there.subscriber, "a", there.generation, there.connected, there.subscriptions)
    back = Session.model_validate(session_body(record))
    assert back == session
    assert {name: type(value) for name, value in back.subscriptions[0].parameters.items()} == {
        name: type(value) for name, value in parameters.items()
    }


def test_filters_count_and_name_people() -> None:
    """A session's size has that of its filters; a filter with a person's name is kept no longer than the person."""
    large = tuple(SessionSubscription(KeyText('["C",{},""]'), "1-1", f"n = '{at:01000d}'") for at in range(1000))
    assert len(fitting_bodies([SessionRecord(f"ann/{at}", "a", 1, True, large) for at in range(10)])) == 3
    wheres = ("who = 'zoe'", "who LIKE '%zoe%' OR n > 1", "who = 'zoey'", "")
    held = [ReportedSubscription(channel="C", position="7-9", where=where) for where in wheres]
    session = Session(subscriber="ann/phone", generation=3, subscriptions=held)
    (left,) = known_people([session], {fingerprint("zoe")})
    assert [one.where for one in left.subscriptions] == ["who = 'zoey'", ""]


def test_an_answer_holds_as_many_sessions_as_fit() -> None:
    """The others are asked for one by one; none is cut in the middle."""
    large = tuple(SessionSubscription(KeyText(f'["C",{{"text":"{at:01000d}"}},""]'), "1-1") for at in range(1000))
    sessions = [SessionRecord(f"ann/{at}", "a", 1, True, large) for at in range(10)]
    bodies = fitting_bodies(sessions)
    assert [one["subscriber"] for one in bodies] == ["ann/0", "ann/1", "ann/2"]
    assert all(len(one["subscriptions"]) == 1000 for one in bodies)


def test_the_same_subscription_is_one_key() -> None:
    """Whatever the order of its parameters; another value or type, channel or permission is another."""

    def key(parameters: dict[str, object], channel: str = "C", permission: str = "") -> str:
        held = {"channel": channel, "parameters": parameters, "permission": permission, "position": "1-1"}
        return key_of(ReportedSubscription.model_validate(held))

    assert key({"a": 1, "b": 2}) is key({"b": 2, "a": 1})
    different = [
        key({"a": 1}),
        key({"a": 1.0}),
        key({"a": True}),
        key({"a": "1"}),
        key({"a": 1}, "D"),
        key({"a": 1}, "C", "p"),
    ]
    assert len(set(different)) == 6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 63, -(1 << 64)])
def test_values_that_no_channel_takes_are_refused(value: float) -> None:
    with pytest.raises(InvalidValue, match="parameter x of channel C"):
        key_of(ReportedSubscription(channel="C", parameters={"x": value}, position="1-1"))


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), 1e308, -1.0])
@pytest.mark.parametrize("name", ["bytes_in_per_s", "bytes_out_per_s", "cpu_cores"])
def test_figures_and_sums_of_them_are_finite(name: str, figure: float) -> None:
    """A heartbeat with another one is refused: what brokers carry is added up for ever, and no sum may become
    infinite, or not a number."""
    assert traffic(Heartbeat(connections=3, cpu_cores=0.5)).connections == 3
    with pytest.raises(ValidationError, match=name):
        Heartbeat.model_validate({name: figure})


@pytest.mark.parametrize("capacity", [0.0, 5e-324, float("inf"), float("nan")])
def test_no_capacity_makes_a_score_infinite(capacity: float) -> None:
    """One broker's score that is not finite would make the mean of all so, and end balancing for everybody."""
    assert BrokerRegistration(url="http://b", capacity=1e-6).capacity == 1e-6
    with pytest.raises(ValidationError, match="capacity"):
        BrokerRegistration(url="http://b", capacity=capacity)
