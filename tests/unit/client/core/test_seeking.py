"""How a session without a link gets a token and a broker."""

from __future__ import annotations

from tocsin.client.core import events as ev
from tocsin.client.core.failures import TokenRefused
from tocsin.errors import InvalidValue, Unauthorised, Unavailable
from tocsin.protocol import messages
from unit.client.core.playing import Play, failure, play_at, sent


def test_from_password_to_broker() -> None:
    """Token, placement, connection, hello: each step follows from the last."""
    play = Play(token="", has_coordinator=True, can_renew=True)
    assert play.tell(ev.Started()) == [ev.RenewToken()]
    assert play.tell(ev.TokenGiven("t1")) == [ev.RequestPlacement("t1", "phone")]
    assert play.tell(ev.Placed("b1", "http://b1")) == [ev.Connect(1, "http://b1")]
    assert sent(play.tell(ev.Opened(1))) == [messages.Hello("t1", "phone")]


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
    play.tell(ev.Closed(1, 0, "refused"))
    play.after(0.1)
    play.tell(ev.PlacementFailed("none", Unavailable("none", retry_after_s=1)))
    assert play.after(10) == [ev.RequestPlacement("t", "phone")]


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
