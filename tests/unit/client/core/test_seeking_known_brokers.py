"""Where a client goes when brokers or the coordinator fail, and how long it waits."""

from __future__ import annotations

import pytest

from tocsin.client.core import events as ev
from tocsin.protocol import messages
from unit.client.core.playing import Play, connects


def test_a_broker_that_fails_is_avoided() -> None:
    """The coordinator is told who could not be reached, until somebody could."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    assert play.tell(ev.Closed(1, 0, "refused")) == []
    assert play.after(0.1) == [ev.RequestPlacement("t", "phone", ("b1",))]
    play.tell(ev.Placed("b2", "http://b2"))
    play.welcome(2, "b2")
    play.tell(ev.Closed(2, 1006))
    assert play.after(10) == [ev.RequestPlacement("t", "phone")]


def test_without_the_coordinator_known_brokers_are_tried() -> None:
    """A coordinator that is away does not keep subscribers from their brokers, each in turn."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    play.welcome(1, "b1")
    play.hear(1, messages.Move("http://b2", "b2"))
    play.welcome(2, "b2")
    play.tell(ev.Closed(2, 1006))
    tried = []
    for link in range(3, 7):
        assert play.after(10) == [ev.RequestPlacement("t", "phone", tuple(dict.fromkeys(b[-2:] for b in tried)))]
        tried += connects(play.tell(ev.PlacementFailed("no answer")))
        play.tell(ev.Closed(link, 0, "refused"))
    assert set(tried) == {"http://b1", "http://b2"}


def test_pauses_grow_and_are_reset() -> None:
    """Each failure doubles the bound of the pause, up to ten seconds; a connection that lasted resets it."""
    play = Play(brokers=("http://b1",), chance=0.999)
    play.tell(ev.Started())
    pauses = []
    for link in range(1, 11):
        play.tell(ev.Closed(link, 0, "refused"))
        wake_s = play.session.wake_at_s()
        assert wake_s is not None
        pauses.append(wake_s - play.now_s)
        assert connects(play.after(wake_s - play.now_s))
    assert pauses == pytest.approx([0.0999 * 2**n for n in range(7)] + [9.99] * 3)
    play.welcome(11)
    play.now_s += 6
    play.tell(ev.Closed(11, 1006))
    assert play.session.wake_at_s() == pytest.approx(play.now_s + 0.0999)
