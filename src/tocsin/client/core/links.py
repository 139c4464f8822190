"""The state of a client's connection to a broker (pure)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from tocsin.protocol import messages

#: The limit from opening a connection to `welcome`; brokers have the same.
HELLO_TIMEOUT_S = 10.0
#: The limit for a candidate to carry everything on: its broker may have to ask coordinator and cluster first.
JOIN_TIMEOUT_S = 30.0
#: Silence after which a broker is pinged, and after which it is given up. Brokers ping at 60 s of silence.
PING_AFTER_S = 30.0
PONG_WITHIN_S = 15.0
#: Brokers take 1,000 messages at once and 50 per second from a connection, unless set otherwise. Half of it is plenty.
_BURST = 500.0
_PER_S = 25.0


class LinkState(Enum):
    OPENING = "opening"
    #: `hello` was sent.
    GREETING = "greeting"
    #: `welcome` has come.
    LIVE = "live"


#: Sessions ask for it with each message, and going through the enumeration takes 0.2 µs.
LIVE = LinkState.LIVE


@dataclass(slots=True)
class Link:
    """Dictionaries stand for sets: most of them stay empty, and an empty set takes three times as much memory.

    `ping_after_s` is infinite while the link's silence means nothing.
    """

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

    def tell_where(self, update: messages.LocationUpdate | messages.CoordinateUpdate) -> None:
        """Send it only once the broker knows who we are. It replaces one of its kind that still waits to be sent."""
        if self.state is LIVE:
            self.outbox = [message for message in self.outbox if type(message) is not type(update)]
            self.outbox.append(update)

    def heard(self, now_s: float) -> None:
        self.heard_s = now_s
        self.pinged_s = 0.0

    def close_text(self, code: int, reason: str) -> str:
        """Why it has ended, for people: the broker's last error says more than a close frame."""
        said = self.complaint.message if self.complaint is not None else reason
        return f"{self.url}: {said or 'the connection ended'}" + (f" (close code {code})" if code else "")

    def wake_at_s(self, now_s: float, ping_after_s: float, *, is_candidate: bool) -> float:
        """When it next needs attention."""
        if self.state is not LIVE:
            return self.opened_s + HELLO_TIMEOUT_S
        at_s = self._pong_due_s(ping_after_s) if self.pinged_s else self.heard_s + ping_after_s
        if is_candidate:
            at_s = min(at_s, self.opened_s + JOIN_TIMEOUT_S)
        if self.outbox:
            at_s = min(at_s, now_s + 0.1)
        return min(at_s, *self.retry_s.values()) if self.retry_s else at_s

    def overdue(self, now_s: float, ping_after_s: float, *, is_candidate: bool) -> str | None:
        """Why it has to be given up, if it has to."""
        age_s = now_s - self.opened_s
        if self.state is not LIVE:
            return f"no welcome within {HELLO_TIMEOUT_S:g} s" if age_s >= HELLO_TIMEOUT_S else None
        if is_candidate and age_s >= JOIN_TIMEOUT_S:
            return f"it did not carry on all subscriptions within {JOIN_TIMEOUT_S:g} s"
        if self.pinged_s and now_s >= self._pong_due_s(ping_after_s):
            return f"no answer within {PONG_WITHIN_S:g} s"
        return None

    def _pong_due_s(self, ping_after_s: float) -> float:
        return self.pinged_s + PONG_WITHIN_S if ping_after_s < math.inf else math.inf

    def ping_if_silent(self, now_s: float, ping_after_s: float) -> None:
        if self.state is LIVE and not self.pinged_s and now_s >= self.heard_s + ping_after_s:
            self.pinged_s = now_s
            self.outbox.append(messages.Ping())

    def sendable(self, now_s: float) -> list[messages.FromSubscriber]:
        """The messages that may be sent now. The rest waits in the outbox, so that the broker's limit is kept."""
        self._budget = min(_BURST, self._budget + _PER_S * max(0.0, now_s - self._refilled_s))
        self._refilled_s = now_s
        if len(self.outbox) <= self._budget:
            sent, self.outbox = self.outbox, []
        else:
            allowed = int(self._budget)
            sent = self.outbox[:allowed]
            del self.outbox[:allowed]
        self._budget -= len(sent)
        return sent
