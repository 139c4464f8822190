"""One connection to a broker, as the session sees it."""

from __future__ import annotations

from tocsin.client.core import events as ev
from tocsin.coordinates.coordinate import ORIGIN
from tocsin.coordinates.located import Located
from tocsin.protocol import messages
from unit.client.core.playing import Play, connects, play_at, sent


def test_silence_is_noticed() -> None:
    """A broker that says nothing is pinged, then given up; while we don't read ourselves, it is not to blame."""
    play = play_at()
    assert sent(play.after(30)) == [messages.Ping()]
    play.hear(1, messages.Pong())
    assert play.after(29) == []
    play.tell(ev.ReadingChanged(is_paused=True))
    assert play.after(100) == []
    play.tell(ev.ReadingChanged(is_paused=False))
    assert sent(play.after(30)) == [messages.Ping()]
    assert play.after(15) == [ev.Disconnect(1)]
    assert connects(play.after(0.1)) == ["http://b1"]


def test_no_welcome_in_time() -> None:
    """A broker that takes connections and answers nothing is left."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.tell(ev.Opened(1))
    assert play.after(10) == [ev.Disconnect(1)]


def test_a_place_is_told_now_and_after_coming_back() -> None:
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    play.welcome(1)
    assert sent(play.tell(ev.LocationTold(1.0, 2.0))) == [messages.LocationUpdate(1.0, 2.0)]
    play.tell(ev.Closed(1, 1006))
    assert sent(play.tell(ev.LocationTold(3.0, 4.0))) == []
    assert play.after(10) == [ev.RequestPlacement("t", "phone", (), (3.0, 4.0))], "somebody near is wanted now"
    play.tell(ev.Placed("b2", "http://b2"))
    assert sent(play.welcome(2, "b2")) == [messages.LocationUpdate(3.0, 4.0)]


def test_a_coordinate_is_told_now_and_after_coming_back() -> None:
    """And to the coordinator that is asked for a broker meanwhile. It does not push out a location that waits."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    play.welcome(1)
    here, there = Located(ORIGIN, {"b1": 5.0}), Located(ORIGIN, {"b1": 9.0})
    assert sent(play.tell(ev.CoordinateFound(here))) == [messages.CoordinateUpdate(ORIGIN, {"b1": 5.0})]
    assert play.session.url_of("b1") == "http://b1"
    play.tell(ev.Closed(1, 1006))
    play.tell(ev.LocationTold(3.0, 4.0))
    assert sent(play.tell(ev.CoordinateFound(there))) == []
    assert (play.session.located, play.session.url_of("b1")) == (there, "")
    assert play.after(10) == [ev.RequestPlacement("t", "phone", (), (3.0, 4.0), there)]
    play.tell(ev.Placed("b2", "http://b2"))
    assert sent(play.welcome(2, "b2")) == [
        messages.LocationUpdate(3.0, 4.0),
        messages.CoordinateUpdate(ORIGIN, {"b1": 9.0}),
    ]


def test_places_that_wait_to_be_sent_are_not_piled_up() -> None:
    play = play_at()
    updates = [message for number in range(2000) for message in sent(play.tell(ev.LocationTold(float(number), 0.0)))]
    assert len(updates) < 1000, "no more than the broker allows"
    assert sent(play.after(1.0)) == [messages.LocationUpdate(1999.0, 0.0)]
