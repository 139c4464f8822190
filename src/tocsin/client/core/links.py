"""The state of a client's connection to a broker (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tocsin.protocol import messages

#: Brokers take 1,000 messages at once and 50 per second from a connection, unless set otherwise. Half of it is plenty.
_BURST = 500.0
_PER_S = 25.0


class LinkState(Enum):
    OPENING = "opening"
    #: `hello` was sent.
    GREETING = "greeting"
    #: `welcome` has come.
    LIVE = "live"


@dataclass(slots=True)
class Link:
    """Dictionaries stand for sets: most of them stay empty, and an empty set takes three times as much memory."""

    number: int
    url: str
    broker: str
    opened_s: float
    state: LinkState = LinkState.OPENING
    heard_s: float = 0.0
    #: When an unanswered ping was sent; 0 if none.
    pinged_s: float = 0.0
    #: Asked for here and not answered: request to the position that it named.
    asked: dict[int, str] = field(default_factory=dict)
    #: Temporarily refused: request to the time of the next attempt.
    retry_s: dict[int, float] = field(default_factory=dict)
    #: The broker's numbers of our subscriptions: number to request, and the other way. The request of a number that the
    #: broker has named and that stands for none of ours is 0: its results may have been sent before that.
    requests: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    #: Subscriptions that the broker had kept for this device, by its numbers.
    kept: dict[int, messages.Subscribed] = field(default_factory=dict)
    #: Requests that an `unsubscribe` was sent for.
    leaving: dict[int, None] = field(default_factory=dict)
    #: The broker's last error, reported when it closes.
    complaint: messages.Error | None = None
    outbox: list[messages.FromSubscriber] = field(default_factory=list)
    _budget: float = _BURST
    _refilled_s: float = 0.0

    def knows(self, request: int) -> bool:
        return request in self.asked or request in self.retry_s or request in self.numbers

    def bind(self, number: int, request: int) -> None:
        self.unbind(request)
        self.requests[number] = request
        self.numbers[request] = number

    def unbind(self, request: int) -> int | None:
        """Returns the broker's number for `request`, which it no longer stands for."""
        number = self.numbers.pop(request, None)
        if number is not None:
            self.requests[number] = 0
        return number

    def tell_location(self, x: float, y: float) -> None:
        """Send it only once the broker knows who we are. It replaces a location that still waits to be sent."""
        if self.state is LinkState.LIVE:
            self.outbox = [message for message in self.outbox if not isinstance(message, messages.LocationUpdate)]
            self.outbox.append(messages.LocationUpdate(x, y))

    def heard(self, now_s: float) -> None:
        self.heard_s = now_s
        self.pinged_s = 0.0

    def sendable(self, now_s: float) -> list[messages.FromSubscriber]:
        """The messages that may be sent now. The rest waits in the outbox, so that the broker's limit is kept."""
        self._budget = min(_BURST, self._budget + _PER_S * max(0.0, now_s - self._refilled_s))
        self._refilled_s = now_s
        allowed = int(self._budget)
        sent = self.outbox[:allowed]
        del self.outbox[:allowed]
        self._budget -= len(sent)
        return sent
