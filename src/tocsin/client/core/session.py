"""A subscriber's session: decides where to connect, which messages to send and which results to hand on (pure).

`handle(event, now_s)` returns instructions; the shell carries them out and reports their outcomes. Promises:

* Each subscription's notifications are handed on in order and once, over any number of connections.
* A connection that ends is followed by another one, unless that would not help (close codes from 4100).
* A move overlaps: the old link goes on until everything is carried on over the new one. If that fails, it stays.
* A gap is reported at its position among the notifications, never passed over.

There are at most two links: `current`, and during a move the `candidate` beside it. The ledger has the subscriptions;
the seeker finds a broker while there is no link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from tocsin.client.core import events as ev
from tocsin.client.core.failures import ended
from tocsin.client.core.ledger import Ledger
from tocsin.client.core.links import LIVE, Link, LinkState
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.seeking import Seeker
from tocsin.coordinates.located import Located
from tocsin.errors import TocsinError, Unauthorised, error_of
from tocsin.model.story import InvalidState, Story
from tocsin.protocol import messages

#: A connection that lasted this long counts as a success: the next pause is short again.
STEADY_AFTER_S = 5.0
#: More moves than this within the time mean that we are sent in circles.
MAX_MOVES = 3
MOVES_WITHIN_S = 10.0
#: The subject of a session's story.
_NAME = "session"
#: The pause when a broker refuses a subscription temporarily and does not say for how long.
_RETRY_ATTEMPT = 4


@dataclass(frozen=True, slots=True)
class _Target:
    """The broker that a `move` names, and when to go there."""

    url: str
    broker: str
    at_s: float


class Session:
    """`chance` gives numbers from 0 up to, but not including, 1."""

    # A simulation has a million of them.
    __slots__ = (
        "__weakref__",
        "_candidate",
        "_chance",
        "_current",
        "_ended",
        "_ledger",
        "_links_made",
        "_moves_s",
        "_now_s",
        "_options",
        "_out",
        "_ping_after_s",
        "_seeker",
        "_story",
        "_target",
    )

    def __init__(self, options: SessionOptions, chance: Callable[[], float], story: Story | None = None) -> None:
        self._story = story
        self._options = options
        self._chance = chance
        self._out: list[ev.Instruction] = []
        self._seeker = Seeker(options, chance, self._out, self._open_current, self._fail)
        self._ledger = Ledger(self._out)
        self._current: Link | None = None
        self._candidate: Link | None = None
        self._target: _Target | None = None
        #: The times of the last `move` messages.
        self._moves_s: tuple[float, ...] = ()
        #: Infinite while nothing is read: then silence means nothing.
        self._ping_after_s = options.ping_after_s
        self._ended = False
        self._links_made = 0
        self._now_s = 0.0

    @property
    def trouble(self) -> str:
        """The latest reason for not being connected, for people."""
        return self._seeker.trouble

    @property
    def token(self) -> str:
        """The token that brokers were last shown, or will be."""
        return self._seeker.token

    @property
    def located(self) -> Located | None:
        """Where it is in the network, if it has found that."""
        return self._seeker.located

    def url_of(self, broker: str) -> str:
        """The address of a broker that it has a link to; else empty."""
        return next((link.url for link in self._links() if link.broker == broker), "")

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Instruction]:
        if self._ended:
            return []
        self._now_s = now_s
        try:
            self._decide(event)
        except Exception as exc:
            exc.add_note("\n".join((type(event).__name__, *self._remembered())))
            raise
        for link in (self._current, self._candidate):
            if link is not None and link.outbox:
                self._pump(link)
        instructions = self._out[:]
        self._out.clear()
        return instructions

    def validate(self) -> None:
        """Raises InvalidState if the state contradicts itself. It looks at everything: this is for tests."""
        if found := list(self._violations()):
            raise InvalidState("; ".join(found), self._remembered())

    def _violations(self) -> Iterator[str]:
        if self._ended and self._links():
            yield "it has ended, and has a link"
        if self._candidate is not None and self._current is None:
            yield "there is a candidate and no link"
        is_idle = self._current is None and not self._seeker.is_asking and self._seeker.retry_s is None
        if is_idle and self._links_made and not self._ended:
            yield "it has no link, and no step is under way that brings one"
        for link in self._links():
            if {request: number for number, request in link.requests.items() if request} != link.numbers:
                yield f"link {link.number} binds {link.requests}, and {link.numbers}"
            if link is self._next_link() and not self._ledger.has_asked_for_all(link):
                yield f"link {link.number} was not asked for something that is held"

    def _note(self, what: str, *details: object) -> None:
        if self._story is not None:
            self._story.now_s = self._now_s
            self._story.note(_NAME, what, *details)

    def _remembered(self) -> list[str]:
        return [] if self._story is None else self._story.of(_NAME)

    def kept(self) -> list[messages.Subscribed]:
        """Subscriptions that the broker kept for this device and nobody has asked for."""
        return self._ledger.kept(self._current)

    def wake_at_s(self) -> float | None:
        """When the session next needs `TimePassed`; None if it does not."""
        if self._ended:
            return None
        # Shells ask after every event: no list is made of these times.
        at_s = math.inf if self._seeker.retry_s is None else self._seeker.retry_s
        if (ack_due_s := self._ledger.ack_due_s) is not None:
            at_s = min(at_s, ack_due_s)
        if self._target is not None:
            at_s = min(at_s, self._target.at_s)
        if self._current is not None:
            at_s = min(at_s, self._current.wake_at_s(self._now_s, self._ping_after_s, is_candidate=False))
        if self._candidate is not None:
            at_s = min(at_s, self._candidate.wake_at_s(self._now_s, self._ping_after_s, is_candidate=True))
        return None if at_s == math.inf else at_s

    # ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _decide(self, event: ev.Event) -> None:
        match event:
            case ev.Received():
                if (link := self._find(event.link)) is not None:
                    link.heard(self._now_s)
                    self._received(link, event.message)
            case ev.Acknowledged():
                self._ledger.acknowledge(event.request, event.position, self._now_s)
            case ev.SubscribeAsked():
                self._ledger.subscribe(event, self._next_link())
            case ev.Opened() | ev.Closed():
                if (link := self._find(event.link)) is not None:
                    self._greet(link) if isinstance(event, ev.Opened) else self._lost(link, event.code, event.reason)
            case ev.Started():
                self._seek()
            case ev.Placed() | ev.PlacementFailed() | ev.TokenGiven() | ev.TokenFailed():
                self._seeker.is_asking = False
                self._coordinator_said(event)
            case ev.FilterAsked() | ev.UnsubscribeAsked():
                self._changed_mind(event)
            case ev.LocationTold() | ev.CoordinateFound():
                self._tell_where(event)
            case ev.TimePassed():
                self._time_passed()
            case ev.ReadingChanged():
                self._reading_changed(event)
            case ev.CloseAsked():
                self._ledger.send_acks(self._current, self._now_s)
                self._end()
            case _:
                assert_never(event)

    def _changed_mind(self, event: ev.FilterAsked | ev.UnsubscribeAsked) -> None:
        if isinstance(event, ev.FilterAsked):
            self._ledger.change_filter(event.request, event.where, self._links())
        else:
            self._ledger.unsubscribe(event.request, self._links())
            self._ledger.confirm_left(self._links())

    def _received(self, link: Link, message: messages.FromBroker) -> None:
        match message:
            case messages.Notification():
                self._ledger.delivered(link, message, self._now_s)
            case messages.Subscribed():
                self._ledger.subscribed(link, message)
                self._take_over_if_joined()
                self._ledger.confirm_filters(self._links())
            case messages.Passed():
                self._ledger.passed(link, message, self._now_s)
            case messages.Failed():
                self._ledger.failed(link, message)
            case messages.HistoryGone():
                self._ledger.history_gone(link, message)
            case messages.Welcome():
                self._welcomed(link, message)
            case messages.Unsubscribed():
                self._ledger.unsubscribed(link, message.request)
            case messages.Move():
                self._move(link, message)
            case messages.Error():
                self._refused(link, message)
            case messages.Pong():
                pass
            case _:
                assert_never(message)

    def _coordinator_said(self, event: ev.Placed | ev.PlacementFailed | ev.TokenGiven | ev.TokenFailed) -> None:
        match event:
            case ev.Placed(broker, url):
                self._placed(broker, url)
            case ev.PlacementFailed():
                if self._current is None:
                    self._seeker.not_placed(event, self._now_s)
            case ev.TokenGiven(token):
                self._seeker.token_given(token, self._now_s)
                self._seek()
            case ev.TokenFailed():
                self._seeker.token_failed(event, self._now_s)
            case _:
                assert_never(event)

    # ── Links ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _links(self) -> list[Link]:
        return [link for link in (self._current, self._candidate) if link is not None]

    def _find(self, number: int) -> Link | None:
        """The link of this number; None if it was given up. Events of such a link are ignored."""
        for link in (self._current, self._candidate):
            if link is not None and link.number == number:
                return link
        return None

    def _next_link(self) -> Link | None:
        """The link that will be the only one, if all goes well."""
        return self._candidate or self._current

    def _open(self, url: str, broker: str) -> Link:
        self._links_made += 1
        self._seeker.known_brokers.remember(url, broker)
        self._out.append(ev.Connect(self._links_made, url))
        self._note("link {} to {}", self._links_made, url)
        return Link(self._links_made, url, broker, self._now_s)

    def _open_current(self, url: str, broker: str) -> None:
        self._current = self._open(url, broker)

    def _greet(self, link: Link) -> None:
        link.state = LinkState.GREETING
        token, device = self._seeker.token, self._seeker.device
        carried = self._ledger.carry_along(link, len(token))
        self._out.append(ev.Send(link.number, messages.Hello(token, device, carried)))

    def _welcomed(self, link: Link, message: messages.Welcome) -> None:
        link.state = LIVE
        self._note("link {} welcomed by {}", link.number, message.broker)
        link.broker, self._seeker.device = message.broker, message.device
        link.heard(self._now_s)
        self._seeker.connected(link.url, message.broker)
        self._out.append(ev.TellConnected(message.subscriber, message.device, message.broker))
        self._tell_location(self._seeker.location)
        self._tell_coordinate(self._seeker.located)
        self._ledger.welcomed(link, message.subscriptions)
        self._ledger.plan_acks(self._now_s)
        self._ledger.confirm_left(self._links())
        self._take_over_if_joined()

    def _tell_where(self, event: ev.LocationTold | ev.CoordinateFound) -> None:
        if isinstance(event, ev.LocationTold):
            self._tell_location((event.x, event.y))
        else:
            self._tell_coordinate(event.located)

    def _tell_location(self, location: tuple[float, float] | None) -> None:
        self._seeker.location = location
        if location is not None:
            for link in self._links():
                link.tell_where(messages.LocationUpdate(*location))

    def _tell_coordinate(self, located: Located | None) -> None:
        self._seeker.located = located
        if located is not None:
            for link in self._links():
                link.tell_where(messages.CoordinateUpdate(located.coordinate, dict(located.round_trips_ms)))

    def _reading_changed(self, event: ev.ReadingChanged) -> None:
        self._ping_after_s = math.inf if event.is_paused else self._options.ping_after_s
        if not event.is_paused:
            for link in self._links():
                link.heard(self._now_s)

    def _refused(self, link: Link, error: messages.Error) -> None:
        if error.request in link.leaving:
            # There is nothing to unsubscribe from, and that is fine.
            self._ledger.unsubscribed(link, error.request)
        elif error.request not in link.asked:
            link.complaint = error
            if link.state is LinkState.GREETING and not error.temporary and error.code != Unauthorised.code:
                # Our `hello` itself is wrong, and the broker waits for a better one.
                if link is self._candidate:
                    self._lost(link, 0, error.message, disconnect=True)
                else:
                    self._fail(error_of({"code": error.code, "message": error.message}))
        elif error.code == Unauthorised.code:
            link.complaint = error
            self._lost(link, messages.CLOSE_REFUSED, error.message, disconnect=True)
        elif link is self._candidate:
            # The current broker still serves it.
            self._lost(link, 0, error.message, disconnect=True)
        else:
            pause_s = error.retry_after_s or self._options.backoff.delay_s(_RETRY_ATTEMPT, self._chance)
            self._seeker.trouble = error.message
            self._ledger.refused(link, error, self._now_s + pause_s, self._links())

    def _lost(self, link: Link, code: int, reason: str, *, disconnect: bool = False) -> None:
        """A link is gone, or is given up."""
        self._seeker.trouble = reason = link.close_text(code, reason)
        self._note("link {} lost: {} {}", link.number, code, reason)
        if disconnect:
            self._out.append(ev.Disconnect(link.number))
        is_unauthorised = link.complaint is not None and link.complaint.code == Unauthorised.code
        if link.state is not LIVE and not is_unauthorised:
            self._seeker.known_brokers.note_failure(link.broker)
        if link is self._candidate:
            self._candidate = None
        else:
            self._current, self._candidate = self._candidate, None
        if self._current is not None:
            self._ledger.ask_for_all(self._current)
            self._ledger.confirm_left(self._links())
            self._ledger.confirm_filters(self._links())
            return
        if link.state is LIVE and self._now_s - link.opened_s > STEADY_AFTER_S:
            self._seeker.known_brokers.note_steady()
        if self._target is not None:
            target, self._target = self._target, None
            self._open_current(target.url, target.broker)
        elif is_unauthorised:
            self._seeker.token_refused(link.broker, reason, self._now_s)
        elif code >= messages.CLOSE_REPLACED:
            self._fail(ended(code, reason))
        else:
            self._seeker.pause(reason, self._now_s)

    # ── Finding a broker ────────────────────────────────────────────────────────────────────────────────────────────

    def _seek(self) -> None:
        self._seeker.retry_s = None
        if self._current is None:
            self._seeker.seek(self._now_s)

    def _placed(self, broker: str, url: str) -> None:
        if self._current is None:
            self._open_current(url, broker)
        elif self._candidate is None and url != self._current.url:
            self._candidate = self._open(url, broker)

    # ── Moving ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, link: Link, message: messages.Move) -> None:
        if message.to in {other.url for other in self._links()}:
            return
        if link.url.startswith("https:") and not message.to.startswith("https:"):
            self._seeker.trouble = f"not moving to {message.to}: that is not encrypted, and {link.url} is"
            return
        self._seeker.token = message.token or self._seeker.token
        if len(self._moves_s) == MAX_MOVES and self._now_s - self._moves_s[0] < MOVES_WITHIN_S:
            self._seeker.ask_for_placement()
            return
        self._moves_s = (*self._moves_s, self._now_s)[-MAX_MOVES:]
        self._target = _Target(message.to, message.broker, self._now_s + self._chance() * message.after_ms / 1000)
        if self._target.at_s <= self._now_s:
            self._follow()

    def _follow(self) -> None:
        target, self._target = self._target, None
        assert target is not None
        if self._candidate is not None:
            self._out.append(ev.Disconnect(self._candidate.number))
        # The other broker learns our positions from `hello`; until then this one may be asked for them.
        self._ledger.send_acks(self._current, self._now_s)
        self._candidate = self._open(target.url, target.broker)

    def _take_over_if_joined(self) -> None:
        link = self._candidate
        if link is None or not self._ledger.is_carried_by(link):
            return
        assert self._current is not None
        self._out.append(ev.Disconnect(self._current.number))
        self._current, self._candidate = link, None
        self._note("link {} has taken over", link.number)
        self._ledger.confirm_left(self._links())

    # ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _time_passed(self) -> None:
        if self._seeker.retry_s is not None and self._seeker.retry_s <= self._now_s:
            self._seek()
        if self._ledger.ack_due_s is not None and self._ledger.ack_due_s <= self._now_s:
            self._ledger.send_acks(self._current, self._now_s)
        if self._target is not None and self._target.at_s <= self._now_s:
            self._follow()
        for link in self._links():
            is_candidate = link is self._candidate
            if (reason := link.overdue(self._now_s, self._ping_after_s, is_candidate=is_candidate)) is not None:
                self._lost(link, 0, reason, disconnect=True)
                continue
            self._ledger.ask_again(link, self._now_s)
            link.ping_if_silent(self._now_s, self._ping_after_s)

    def _pump(self, link: Link) -> None:
        if link.state is LIVE:
            for message in link.sendable(self._now_s):
                self._out.append(ev.Send(link.number, message))

    def _fail(self, error: TocsinError) -> None:
        self._end()
        self._out.append(ev.Fail(error))

    def _end(self) -> None:
        for link in self._links():
            self._pump(link)
            self._out.append(ev.Disconnect(link.number))
        self._current = self._candidate = None
        self._seeker.end()
        self._ended = True
