"""The session, event by event: where it goes, what it says, when it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tocsin.client.core import events as ev
from tocsin.client.core.failures import ConnectionEnded, Replaced, TokenRefused
from tocsin.client.core.ledger import MAX_HELLO_BYTES
from tocsin.client.core.session import Session, SessionOptions
from tocsin.errors import InvalidValue, NotFound, SubscriptionFailed, Unauthorised, Unavailable
from tocsin.model.position import Position
from tocsin.protocol import messages


class Play:
    """A session, and a clock that is set by hand."""

    def __init__(self, chance: float = 0.5, **options: Any) -> None:
        self.session = Session(SessionOptions(**{"device": "phone", "token": "t", **options}), lambda: chance)
        self.now_s = 1000.0

    def tell(self, event: ev.Event) -> list[ev.Instruction]:
        return self.session.handle(event, self.now_s)

    def after(self, seconds: float) -> list[ev.Instruction]:
        self.now_s += seconds
        return self.tell(ev.TimePassed())

    def hear(self, link: int, message: messages.FromBroker) -> list[ev.Instruction]:
        return self.tell(ev.Received(link, message))

    def welcome(self, link: int, broker: str = "b1", kept: Sequence[messages.Subscribed] = ()) -> list[ev.Instruction]:
        self.tell(ev.Opened(link))
        return self.hear(link, messages.Welcome("ann/phone", "phone", broker, list(kept)))

    def subscribe(self, request: int, channel: str = "C") -> list[ev.Instruction]:
        return self.tell(ev.SubscribeAsked(request, channel, {}))

    def subscribed(self, link: int, request: int, number: int = 7, sequence: int = 10) -> list[ev.Instruction]:
        position = f"{number}-{sequence}"
        return self.hear(link, messages.Subscribed(number, "C", {}, position, request=request))

    def notified(self, link: int, sequence: int, number: int = 7) -> list[ev.Instruction]:
        facts = (
            f'"subscription":{number},"channel":"C","position":"{number}-{sequence}","committed_at_us":0,"payload":{{}}'
        )
        return self.hear(link, messages.decode_from_broker(f'{{"type":"notification",{facts}}}'))


def play_at(broker: str = "http://b1", **options: Any) -> Play:
    """At a broker, with one subscription."""
    play = Play(brokers=(broker,), **options)
    play.tell(ev.Started())
    play.welcome(1)
    play.subscribe(1)
    play.subscribed(1, 1)
    return play


def sent(instructions: Sequence[ev.Instruction]) -> list[messages.FromSubscriber]:
    return [one.message for one in instructions if isinstance(one, ev.Send)]


def connects(instructions: Sequence[ev.Instruction]) -> list[str]:
    return [one.url for one in instructions if isinstance(one, ev.Connect)]


def failure(instructions: Sequence[ev.Instruction]) -> BaseException | None:
    return next((one.error for one in instructions if isinstance(one, ev.Fail)), None)


def test_a_subscription_that_fails_is_told_once_and_left() -> None:
    """Its failure comes after its notifications and ends it; a repeat is dropped. It is let go of when the application
    has taken it."""
    play = play_at()
    failed = messages.Failed(7, "C", "7-12", 0, "no such zone")
    assert [type(one) for one in play.notified(1, 11)] == [ev.Deliver]
    (refused,) = play.hear(1, failed)
    assert isinstance(refused, ev.TellRefused)
    assert isinstance(refused.error, SubscriptionFailed)
    assert "no such zone" in refused.error.message
    assert play.hear(1, failed) == []
    assert sent(play.tell(ev.UnsubscribeAsked(1))) == [messages.Unsubscribe(7, 1)]


def test_a_subscription_whose_channel_is_dropped_ends_with_not_found() -> None:
    """It is over at once: the session lets go of it by itself, and the same can be asked for anew."""
    play = play_at()
    instructions = play.hear(1, messages.Failed(7, "C", "7-12", 0, "channel C was dropped", "not_found"))
    (refused,) = [one for one in instructions if isinstance(one, ev.TellRefused)]
    assert isinstance(refused.error, NotFound)
    assert refused.error.message == "channel C was dropped"
    assert sent(instructions) == [messages.Unsubscribe(7, 1)]
    assert sent(play.tell(ev.SubscribeAsked(2, "C", {}))) == [messages.Subscribe("C", {}, "", 2)]


def test_what_was_acknowledged_of_a_dropped_channel_holds_nothing_up() -> None:
    """An acknowledgement that has not been sent yet ends with its subscription; closing works as ever."""
    play = play_at()
    play.notified(1, 11)
    play.tell(ev.Acknowledged(1, Position(7, 11)))
    play.hear(1, messages.Failed(7, "C", "7-12", 0, "channel C was dropped", "not_found"))
    assert sent(play.after(10.0)) == []
    assert failure(play.tell(ev.CloseAsked())) is None


# ── Finding a broker ──


def test_from_password_to_broker() -> None:
    """Token, placement, connection, hello: each step follows from the last."""
    play = Play(token="", has_coordinator=True, can_renew=True)
    assert play.tell(ev.Started()) == [ev.RenewToken()]
    assert play.tell(ev.TokenGiven("t1")) == [ev.RequestPlacement("t1", "phone")]
    assert play.tell(ev.Placed("b1", "http://b1")) == [ev.Connect(1, "http://b1")]
    assert sent(play.tell(ev.Opened(1))) == [messages.Hello("t1", "phone")]


def test_a_broker_that_fails_is_avoided() -> None:
    """The coordinator is told who could not be reached, until somebody could."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    assert play.tell(ev.OpenFailed(1, "refused")) == []
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
        play.tell(ev.OpenFailed(link, "refused"))
    assert set(tried) == {"http://b1", "http://b2"}


def test_pauses_grow_and_are_reset() -> None:
    """Each failure doubles the bound of the pause, up to ten seconds; a connection that lasted resets it."""
    play = Play(brokers=("http://b1",), chance=0.999)
    play.tell(ev.Started())
    pauses = []
    for link in range(1, 11):
        play.tell(ev.OpenFailed(link, "refused"))
        wake_s = play.session.wake_at_s()
        assert wake_s is not None
        pauses.append(wake_s - play.now_s)
        assert connects(play.after(wake_s - play.now_s))
    assert pauses == pytest.approx([0.0999 * 2**n for n in range(7)] + [9.99] * 3)
    play.welcome(11)
    play.now_s += 6
    play.tell(ev.Closed(11, 1006))
    assert play.session.wake_at_s() == pytest.approx(play.now_s + 0.0999)


def test_a_coordinator_that_refuses_for_good() -> None:
    """What would not get better is raised."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    error = InvalidValue("place: not a number")
    assert failure(play.tell(ev.PlacementFailed("x", error, temporary=False))) is error


def test_no_broker_for_now() -> None:
    """What may get better is tried again, also with those who failed."""
    play = Play(has_coordinator=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    play.tell(ev.OpenFailed(1, "refused"))
    play.after(0.1)
    play.tell(ev.PlacementFailed("none", Unavailable("none", retry_after_s=1)))
    assert play.after(10) == [ev.RequestPlacement("t", "phone")]


# ── Tokens ──


def test_an_expired_token_is_renewed() -> None:
    """With a password, an expired token is nothing to talk about."""
    play = Play(has_coordinator=True, can_renew=True)
    play.tell(ev.Started())
    play.tell(ev.Placed("b1", "http://b1"))
    play.welcome(1)
    play.hear(1, messages.Error("unauthorised", "the token has expired"))
    assert play.tell(ev.Closed(1, messages.CLOSE_EXPIRED)) == [ev.RenewToken()]
    assert play.tell(ev.TokenGiven("t2")) == [ev.RequestPlacement("t2", "phone")]


def test_a_new_token_that_is_refused_is_the_end() -> None:
    """No going round in circles between coordinator and broker."""
    play = Play(token="", has_coordinator=True, can_renew=True)
    play.tell(ev.Started())
    play.tell(ev.TokenGiven("t1"))
    refused = play.tell(ev.PlacementFailed("revoked", Unauthorised("revoked"), temporary=False))
    assert isinstance(failure(refused), TokenRefused)


def test_a_new_token_that_a_broker_does_not_know_yet_is_tried_again() -> None:
    """Brokers hear of a new key after the coordinator signs with it: another one, or the same one later, takes it. If
    none does for long, that is the end."""
    play = Play(token="", has_coordinator=True, can_renew=True)
    play.tell(ev.Started())
    play.tell(ev.TokenGiven("t1"))
    link = 0
    instructions: list[ev.Instruction] = [ev.RequestPlacement("t1", "phone")]
    began_s = play.now_s
    while failure(instructions) is None:
        assert play.now_s < began_s + 60
        match instructions:
            case [ev.RequestPlacement()]:
                link += 1
                play.tell(ev.Placed("b1", "http://b1"))
                play.tell(ev.Opened(link))
                play.hear(link, messages.Error("unauthorised", "the token is not signed by a key that is known"))
                instructions = play.tell(ev.Closed(link, messages.CLOSE_REFUSED))
            case [ev.RenewToken()]:
                instructions = play.tell(ev.TokenGiven("t2"))
            case _:
                instructions = play.after(0.1)
    assert isinstance(failure(instructions), TokenRefused)
    assert play.now_s > began_s + 25
    assert link > 3


def test_a_wrong_password_is_told() -> None:
    """As the coordinator says it."""
    play = Play(token="", has_coordinator=True, can_renew=True)
    play.tell(ev.Started())
    error = Unauthorised("wrong name or password")
    assert failure(play.tell(ev.TokenFailed("wrong", error, temporary=False))) is error


def test_an_expired_token_without_a_password() -> None:
    """The error says what to do."""
    play = play_at()
    play.subscribe(2, "D")
    refused = play.hear(1, messages.Error("unauthorised", "the token has expired", request=2))
    assert "give user and password" in str(failure(refused))


# ── The end, and what is not ──


@pytest.mark.parametrize("code", [0, 1001, 1006, 1009, 4000, 4001, 4002, 4003, 4099])
def test_comes_back(code: int) -> None:
    """Close codes below 4100."""
    play = play_at()
    assert failure(play.tell(ev.Closed(1, code))) is None
    assert connects(play.after(0.1)) == ["http://b1"]


@pytest.mark.parametrize(("code", "error"), [(4100, Replaced), (4101, ConnectionEnded), (4102, ConnectionEnded)])
def test_does_not_come_back(code: int, error: type[Exception]) -> None:
    """Close codes from 4100 on."""
    play = play_at()
    assert isinstance(failure(play.tell(ev.Closed(1, code, "for a reason"))), error)
    assert play.after(100) == []
    assert play.session.wake_at_s() is None


def test_a_hello_that_is_wrong_is_told() -> None:
    """A broker that does not understand our hello waits for a better one; there is none."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.tell(ev.Opened(1))
    refused = play.hear(1, messages.Error("invalid_value", "not a device's name"))
    assert isinstance(failure(refused), InvalidValue)


def test_silence_is_noticed() -> None:
    """A broker that says nothing is pinged, then given up; while we don't read ourselves, it is not to blame."""
    play = play_at()
    assert sent(play.after(30)) == [messages.Ping()]
    play.hear(1, messages.Pong())
    assert play.after(29) == []
    play.tell(ev.ReadingPaused())
    assert play.after(100) == []
    play.tell(ev.ReadingResumed())
    assert sent(play.after(30)) == [messages.Ping()]
    assert play.after(15) == [ev.Disconnect(1)]
    assert connects(play.after(0.1)) == ["http://b1"]


def test_no_welcome_in_time() -> None:
    """A broker that takes connections and answers nothing is left."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.tell(ev.Opened(1))
    assert play.after(10) == [ev.Disconnect(1)]


# ── Moving ──


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


# ── What is sent ──


def test_acknowledgements_are_gathered() -> None:
    """One message a second at most, each subscription's last position, and the rest on leaving."""
    play = play_at()
    said: list[messages.FromSubscriber] = []
    for sequence in range(11, 111):
        play.notified(1, sequence)
        play.tell(ev.Acknowledged(1, Position(7, sequence)))
        said += sent(play.after(0.04))
    assert 3 <= len(said) <= 5
    assert all(isinstance(one, messages.Ack) and len(one.positions) == 1 for one in said)
    assert sent(play.tell(ev.CloseAsked())) == [messages.Ack(["7-110"])]


def test_an_acknowledgement_is_told_again_after_a_repeat() -> None:
    """A broker believes no acknowledgement of what it has not sent; it hears it again when it has."""
    play = play_at()
    play.notified(1, 11)
    play.tell(ev.Closed(1, 1006))
    play.after(0.1)
    play.welcome(2)
    play.subscribed(2, 1)
    play.tell(ev.Acknowledged(1, Position(7, 11)))
    assert sent(play.after(1)) == [messages.Ack(["7-11"])]
    assert play.notified(2, 11) == []
    assert sent(play.after(1)) == [messages.Ack(["7-11"])]


def test_a_hello_stays_within_bounds() -> None:
    """What does not fit is asked for after the welcome, at a pace that the broker takes."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    for request in range(1, 2001):
        play.tell(ev.SubscribeAsked(request, "SomeChannelWithAName", {"number": request}))
    hello = sent(play.tell(ev.Opened(1)))[0]
    assert isinstance(hello, messages.Hello)
    assert MAX_HELLO_BYTES - 1000 < len(messages.encode(hello)) < 64 << 10
    asked = len(hello.subscriptions)
    asked += len(sent(play.hear(1, messages.Welcome("ann/phone", "phone", "b1"))))
    assert asked < 1000
    seconds = 0
    while asked < 2000:
        seconds += 1
        more = len(sent(play.after(1)))
        assert more <= 50
        asked += more
    assert seconds > 20


def test_two_ways_to_write_the_same() -> None:
    """Only the cluster knows that they are the same; the second is refused then."""
    play = play_at()
    play.tell(ev.SubscribeAsked(2, "C", {"x": "2025-01-01T00:00:00Z"}))
    (refused,) = play.subscribed(1, 2, number=7)
    assert isinstance(refused, ev.TellRefused)
    assert len(play.notified(1, 11)) == 1


def test_what_was_kept_is_not_handed_on_before_it_is_asked_for() -> None:
    """Then it begins where it was acknowledged, not where the broker happens to be."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    kept = messages.Subscribed(7, "C", {"Etype": "x"}, "7-10")
    play.welcome(1, kept=[kept])
    assert play.session.kept() == [kept]
    assert play.notified(1, 11) == []
    asked = sent(play.tell(ev.SubscribeAsked(1, "C", {"etype": "x"})))
    assert asked == [messages.Subscribe("C", {"etype": "x"}, "7-10", 1)]
    play.subscribed(1, 1)
    assert len(play.notified(1, 11)) == 1
    assert play.session.kept() == []


# ── Places ──


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


def test_places_that_wait_to_be_sent_are_not_piled_up() -> None:
    play = play_at()
    updates = [message for number in range(2000) for message in sent(play.tell(ev.LocationTold(float(number), 0.0)))]
    assert len(updates) < 1000, "no more than the broker allows"
    assert sent(play.after(1.0)) == [messages.LocationUpdate(1999.0, 0.0)]


def test_what_was_left_before_its_answer_came_begins_anew_when_it_is_asked_for_again() -> None:
    """The broker named it in `welcome`, but what it kept then has ended since: there is no gap to tell of."""
    play = play_at()
    play.tell(ev.Closed(1, 0))
    play.after(1)
    play.welcome(2, kept=[messages.Subscribed(7, "C", {}, "7-10")])
    play.tell(ev.UnsubscribeAsked(1))
    play.subscribed(2, 1)
    play.hear(2, messages.Unsubscribed(7, 1))
    assert play.subscribe(2) == [ev.Send(2, messages.Subscribe("C", {}, "", 2))]
