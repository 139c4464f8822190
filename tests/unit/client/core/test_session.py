"""The session, event by event: where it goes, what it says, when it gives up."""

from __future__ import annotations

import gc
import weakref

import pytest

from tocsin.client.core import events as ev
from tocsin.errors import InvalidValue
from tocsin.model.position import Position
from tocsin.protocol import messages
from unit.client.core.playing import Play, connects, failure, play_at, sent


@pytest.mark.parametrize("code", [0, 1001, 1006, 1009, 4000, 4001, 4002, 4003, 4099])
def test_comes_back(code: int) -> None:
    """Close codes below 4100."""
    play = play_at()
    assert failure(play.tell(ev.Closed(1, code))) is None
    assert connects(play.after(0.1)) == ["http://b1"]


def test_a_hello_that_is_wrong_is_told() -> None:
    """A broker that does not understand our hello waits for a better one; there is none."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.tell(ev.Opened(1))
    refused = play.hear(1, messages.Error("invalid_value", "not a device's name"))
    assert isinstance(failure(refused), InvalidValue)


def test_a_move_overlaps() -> None:
    """The old connection goes on until everything is subscribed at the new broker."""
    play = play_at()
    play.subscribe(2, "D")
    play.subscribed(1, 2, number=8)
    assert play.hear(1, messages.Move("http://b2", "b2", after_ms=2000)) == []
    assert connects(play.after(1)) == ["http://b2"]
    hello = sent(play.tell(ev.Opened(2)))[0]
    assert isinstance(hello, messages.Hello)
    assert [one.position for one in hello.subscriptions] == ["7-10", "8-10"]
    play.hear(2, messages.Welcome("ann/phone", "phone", "b2"))
    assert play.subscribed(2, 1) == []
    assert [one.position for one in play.notified(1, 11) if isinstance(one, ev.Deliver)] == [Position(7, 11)]
    assert play.notified(2, 11) == []
    assert play.subscribed(2, 2, number=8) == [ev.Disconnect(1)]
    assert play.notified(1, 12) == []
    assert len(play.notified(2, 12)) == 1


def test_a_subscription_during_a_move() -> None:
    """Asked for at the broker that it will be at; if that fails, at the one that there is."""
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2"))
    assert play.subscribe(2, "D") == []
    play.tell(ev.Opened(2))
    play.hear(2, messages.Welcome("ann/phone", "phone", "b2"))
    play.subscribed(2, 1)
    back = play.tell(ev.Closed(2, 1006))
    assert back == [ev.Send(1, messages.Subscribe("D", {}, request=2))]


def test_when_the_old_connection_ends_first() -> None:
    """The new one is all there is then, at once."""
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2", after_ms=60_000))
    assert connects(play.tell(ev.Closed(1, messages.CLOSE_DRAINING))) == ["http://b2"]
    play.welcome(2, "b2")
    play.subscribed(2, 1)
    assert failure(play.tell(ev.Closed(2, messages.CLOSE_REPLACED))) is not None


def test_being_replaced_by_oneself_is_no_end() -> None:
    """During a move, the old broker may find out before we have closed."""
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2"))
    play.tell(ev.Opened(2))
    assert play.tell(ev.Closed(1, messages.CLOSE_REPLACED)) == []
    play.hear(2, messages.Welcome("ann/phone", "phone", "b2"))
    play.subscribed(2, 1)
    assert len(play.notified(2, 11)) == 1


def test_a_candidate_that_takes_too_long_is_left() -> None:
    """A move that gets nowhere ends, and the broker that serves goes on serving."""
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2"))
    play.welcome(2, "b2")
    play.hear(1, messages.Pong())
    assert play.after(30)[0] == ev.Disconnect(2)
    assert len(play.notified(1, 11)) == 1


def test_moves_in_circles_end() -> None:
    """After three moves within ten seconds the coordinator is asked."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b0", "http://b0"))
    play.welcome(1, "b0")
    for link in range(1, 4):
        assert connects(play.hear(link, messages.Move(f"http://b{link}", f"b{link}"))) == [f"http://b{link}"]
        play.welcome(link + 1, f"b{link}")
    assert play.hear(4, messages.Move("http://b0", "b0")) == [ev.RequestPlacement("t", "phone")]
    assert play.tell(ev.Placed("b3", "http://b3")) == []
    play.now_s += 10
    assert connects(play.hear(4, messages.Move("http://b0", "b0"))) == ["http://b0"]


def test_no_move_out_of_encryption() -> None:
    """A token that went over TLS never goes without."""
    play = play_at("https://b1")
    assert play.hear(1, messages.Move("http://b2", "b2")) == []
    assert connects(play.hear(1, messages.Move("https://b2", "b2"))) == ["https://b2"]


def test_a_session_that_has_ended_is_freed_at_once() -> None:
    """No garbage collection is needed: simulations have millions of sessions, and none."""
    play = play_at()
    play.subscribe(1)
    play.tell(ev.CloseAsked())
    session = weakref.ref(play.session)
    gc.disable()
    try:
        del play.session
        assert session() is None
    finally:
        gc.enable()
