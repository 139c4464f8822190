"""A client's subscriptions: requests, answers, notifications, gaps and acknowledgements."""

from __future__ import annotations

import pytest

from tocsin.client.core import events as ev
from tocsin.client.core.ledger import MAX_HELLO_BYTES, MAX_LEFT
from tocsin.errors import NotFound, NotGranted, StatementError, SubscriptionFailed, TocsinError
from tocsin.model.position import Position
from tocsin.protocol import messages
from unit.client.core.playing import Play, failure, play_at, sent


def test_a_subscription_that_fails_is_told_once_and_left() -> None:
    """Its failure comes after its notifications and ends it; a repeat is dropped. It is let go of when the application
    has taken it."""
    play = play_at()
    failed = messages.Failed(7, "C", "7-12", 0, "no such zone")
    assert [type(one) for one in play.notified(1, 11)] == [ev.Deliver]
    (refused,) = play.hear(1, failed)
    assert isinstance(refused, ev.TellRefused)
    assert isinstance(refused.error, SubscriptionFailed)
    assert refused.error.message == "no such zone"
    assert play.hear(1, failed) == []
    assert sent(play.tell(ev.UnsubscribeAsked(1))) == [messages.Unsubscribe(7, 1)]


@pytest.mark.parametrize("kind", [NotFound, NotGranted])
def test_a_subscription_that_ends_for_good_ends_with_the_error_of_its_code(kind: type[TocsinError]) -> None:
    """Its channel was dropped, or a grant revoked. It is over at once: the session lets go of it by itself, and the
    same can be asked for anew."""
    play = play_at()
    instructions = play.hear(1, messages.Failed(7, "C", "7-12", 0, "channel C is gone for you", kind.code))
    (refused,) = [one for one in instructions if isinstance(one, ev.TellRefused)]
    assert type(refused.error) is kind
    assert refused.error.message == "channel C is gone for you"
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


def _kept(sequence: int = 10, number: int = 7, *, recovered: bool = True) -> messages.Subscribed:
    return messages.Subscribed(number, "C", {}, f"{number}-{sequence}", recovered)


def _left_and_lost() -> Play:
    """It has unsubscribed from all it had, up to 7-12; the broker has confirmed that, and died."""
    play = play_at(has_coordinator=False)
    play.notified(1, 12)
    play.tell(ev.UnsubscribeAsked(1))
    (told,) = play.hear(1, messages.Unsubscribed(7, 1))
    assert told == ev.TellUnsubscribed(1)
    play.tell(ev.Closed(1, 1006))
    play.after(1.0)
    return play


@pytest.mark.parametrize("copy", [_kept(), _kept(12), _kept(40, 8, recovered=False)])
def test_what_was_given_up_is_given_up_again_where_an_older_copy_of_the_session_is_carried_on(
    copy: messages.Subscribed,
) -> None:
    """Told with `welcome`, or later, once the broker has heard of it. It is not among what is kept for the program."""
    play = _left_and_lost()
    assert sent(play.welcome(2, "b2", [copy])) == [messages.Unsubscribe(copy.subscription, 1)]
    assert play.session.kept() == []
    later = _left_and_lost()
    assert sent(later.welcome(2, "b2")) == []
    assert sent(later.hear(2, copy)) == [messages.Unsubscribe(copy.subscription, 1)]


@pytest.mark.parametrize("other", [_kept(13), _kept(3, 8)])
def test_what_another_program_of_the_device_has_subscribed_to_since_is_kept(other: messages.Subscribed) -> None:
    """It is further on, or its history began later."""
    play = _left_and_lost()
    assert sent(play.welcome(2, "b2", [other])) == []
    assert play.session.kept() == [other]


def test_what_is_held_again_is_not_given_up() -> None:
    """Also if it is named in other words: until the broker has answered, nobody else knows that it is the same."""
    play = _left_and_lost()
    play.subscribe(2)
    assert sent(play.welcome(2, "b2", [_kept()])) == []
    worded = _left_and_lost()
    worded.tell(ev.SubscribeAsked(2, "C", {"me": "ann"}))
    assert sent(worded.welcome(2, "b2", [_kept()])) == []
    answers = [messages.Subscribed(7, "C", {}, "7-10", request=2)] * 2
    said = [message for answer in answers for message in sent(worded.hear(2, answer))]
    assert said == [messages.Subscribe("C", {"me": "ann"}, "7-10", 2)]


def test_what_was_given_up_waits_for_the_answer_to_what_may_be_the_same() -> None:
    play = _left_and_lost()
    play.tell(ev.SubscribeAsked(2, "C", {"x": 1}))
    play.welcome(2, "b2", [_kept()])
    answer = messages.Subscribed(9, "C", {"x": 1}, "9-10", request=2)
    assert sent(play.hear(2, answer)) == [messages.Unsubscribe(7, 1)]


def test_only_the_last_that_were_given_up_are_remembered() -> None:
    play = play_at()
    for number in range(MAX_LEFT + 1):
        play.tell(ev.SubscribeAsked(number + 2, "C", {"x": number}))
        play.hear(1, messages.Subscribed(number + 8, "C", {"x": number}, f"{number + 8}-1", request=number + 2))
        play.tell(ev.UnsubscribeAsked(number + 2))
        play.hear(1, messages.Unsubscribed(number + 8, number + 2))
    first, second = (messages.Subscribed(number + 8, "C", {"x": number}, f"{number + 8}-1") for number in range(2))
    assert sent(play.hear(1, first)) == []
    assert sent(play.hear(1, second)) == [messages.Unsubscribe(9, 3)]


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


def test_leaving_what_is_not_held_is_confirmed_at_once() -> None:
    """It is over already: no broker is asked, and nobody waits for an answer."""
    play = play_at()
    play.hear(1, messages.Failed(7, "C", "7-12", 0, "channel C was dropped", "not_found"))
    assert play.tell(ev.UnsubscribeAsked(1)) == [ev.TellUnsubscribed(1)]
    assert play.tell(ev.UnsubscribeAsked(99)) == [ev.TellUnsubscribed(99)]


def test_what_took_the_place_of_something_kept_has_no_gap_when_it_is_asked_for_again() -> None:
    """What was kept has ended: that is told once. Its old position is of no use any more."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.welcome(1, kept=[messages.Subscribed(5, "C", {}, "5-10"), messages.Subscribed(6, "C", {}, "6-12")])
    asked = sent(play.tell(ev.SubscribeAsked(1, "C", {})))
    assert asked == [messages.Subscribe("C", {}, "6-12", 1)]
    told = play.hear(1, messages.Subscribed(7, "C", {}, "7-20", recovered=False, request=1))
    assert [type(one) for one in told] == [ev.TellGap, ev.TellSubscribed]
    play.tell(ev.UnsubscribeAsked(1))
    play.hear(1, messages.Unsubscribed(7, 1))
    assert sent(play.tell(ev.SubscribeAsked(2, "C", {}))) == [messages.Subscribe("C", {}, "", 2)]


def _filtered(where: str, request: int = 1, number: int = 7, sequence: int = 10) -> messages.Subscribed:
    return messages.Subscribed(number, "C", {}, f"{number}-{sequence}", request=request, where=where)


def test_a_filter_is_asked_for_and_goes_along() -> None:
    """In `subscribe`, and in `hello` at whatever broker comes next."""
    play = Play(brokers=("http://b1",))
    play.tell(ev.Started())
    play.welcome(1)
    (asked,) = sent(play.tell(ev.SubscribeAsked(1, "C", {}, where="n > 1")))
    assert asked == messages.Subscribe("C", {}, "", 1, "n > 1")
    assert [type(one) for one in play.hear(1, _filtered("n > 1"))] == [ev.TellSubscribed]
    play.tell(ev.Closed(1, 0))
    play.after(60.0)
    (hello,) = sent(play.tell(ev.Opened(2)))
    assert isinstance(hello, messages.Hello)
    assert hello.subscriptions == [messages.Subscribe("C", {}, "7-10", 1, "n > 1")]


def test_a_changed_filter_is_in_force_when_the_broker_says_so() -> None:
    """Answers to earlier requests count for nothing."""
    play = play_at()
    assert sent(play.tell(ev.FilterAsked(1, "n > 1"))) == [messages.Subscribe("C", {}, "7-10", 1, "n > 1")]
    assert play.hear(1, _filtered("")) == []
    assert play.hear(1, _filtered("n > 1")) == [ev.TellFiltered(1)]
    assert [type(one) for one in play.notified(1, 11)] == [ev.Deliver]
    assert play.tell(ev.FilterAsked(2, "n > 1"))[0].error is not None  # type: ignore[union-attr] # TellFiltered


def test_a_refused_filter_leaves_the_one_before() -> None:
    """The subscription goes on; the former filter is asked for again, in case some broker has taken the other."""
    play = play_at()
    play.tell(ev.FilterAsked(1, "wrong"))
    instructions = play.hear(1, messages.Error("statement", "no column wrong", request=1))
    (told,) = [one for one in instructions if isinstance(one, ev.TellFiltered)]
    assert isinstance(told.error, StatementError)
    assert sent(instructions) == [messages.Subscribe("C", {}, "7-10", 1)]
    assert play.hear(1, _filtered("")) == []
    assert [type(one) for one in play.notified(1, 11)] == [ev.Deliver]


def test_a_filter_is_in_force_on_both_links_of_a_move() -> None:
    """Not before: what one link passes over must not be what the other one brings."""
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2"))
    play.after(1.0)
    play.welcome(2, "b2")
    play.hear(2, _filtered(""))
    play = play_at()
    play.hear(1, messages.Move("http://b2", "b2"))
    play.after(1.0)
    play.tell(ev.FilterAsked(1, "n > 1"))
    (hello,) = sent(play.tell(ev.Opened(2)))
    assert isinstance(hello, messages.Hello)
    assert hello.subscriptions[0].where == "n > 1"
    assert play.hear(1, _filtered("n > 1")) == []
    assert ev.TellFiltered(1) in [
        *play.hear(2, messages.Welcome("ann/phone", "phone", "b2", [])),
        *play.hear(2, _filtered("n > 1")),
    ]


def test_another_spelling_with_another_filter_does_no_harm() -> None:
    """Only the cluster knows that two are one. The second is refused, the first one's filter is asked for again, and
    what the other one has let through is not handed on."""
    play = play_at()
    play.tell(ev.SubscribeAsked(2, "c2", {}, where="n > 1"))
    instructions = play.hear(1, _filtered("n > 1", request=2))
    assert [one.request for one in instructions if isinstance(one, ev.TellRefused)] == [2]
    assert sent(instructions) == [messages.Subscribe("C", {}, "7-10", 1)]
    assert play.notified(1, 12) == []
    play.hear(1, _filtered(""))
    assert [type(one) for one in play.notified(1, 11)] == [ev.Deliver]


def test_what_was_passed_over_is_acknowledged_after_what_was_handed_on() -> None:
    """It would be lost if the program died in between."""
    play = play_at()
    play.hear(1, messages.Passed(7, "7-20"))
    assert sent(play.after(5.0)) == [messages.Ack(["7-20"])]
    play.notified(1, 21)
    play.hear(1, messages.Passed(7, "7-30"))
    assert sent(play.after(5.0)) == []
    play.tell(ev.Acknowledged(1, Position(7, 21)))
    assert sent(play.after(5.0)) == [messages.Ack(["7-30"])]
    assert play.notified(1, 25) == []
    play.hear(1, messages.Passed(7, "7-28"))
    play.hear(1, messages.Passed(8, "8-90"))
    assert sent(play.after(5.0)) == []
