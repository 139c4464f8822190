"""A client's session, played event by event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocsin.client.core import events as ev
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
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
