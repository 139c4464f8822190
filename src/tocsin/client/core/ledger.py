"""A client's subscriptions on every link: requests, answers, notifications, gaps and acknowledgements (pure).

A subscription is known by its `request` number; the broker's number for it may differ from link to link. Nothing is
handed on from a link before the `subscribed` that says where that link begins, so each link by itself is without gaps,
and dropping repeats by position is enough to make one history out of several links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.client.core import events as ev
from tocsin.client.core.client_subscription import ClientSubscription
from tocsin.client.core.links import LIVE, Link
from tocsin.errors import AlreadyExists, InvalidValue, NotFound, SubscriptionFailed, error_of
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.protocol import messages
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Acknowledgements are gathered this long before the first is sent, and sent no more often than this.
ACK_GATHER_S = 0.2
ACK_EVERY_S = 1.0
MAX_ACKS_PER_MESSAGE = 1000
#: Brokers refuse messages of more than 64 KiB: subscriptions that do not fit into `hello` are asked for after it.
MAX_HELLO_BYTES = 40 << 10
#: Remembered after a broker has confirmed that they are over: another broker may have an older copy of the session.
MAX_LEFT = 100


@dataclass(slots=True)
class _Left:
    """What the application has unsubscribed from. `position` is how far it was."""

    keys: frozenset[SubscriptionKey]
    position: Position | None
    is_confirmed: bool = False

    def is_as(self, kept: messages.Subscribed) -> bool:
        """Whether `kept` can be an older copy of it. If it is further on, or goes on with a history of its own, another
        program of this device has subscribed to it since."""
        if not self.is_confirmed or self.position is None:
            return True
        position = messages.parse_position(kept.position)
        if position.epoch != self.position.epoch:
            return not kept.recovered
        return position.sequence <= self.position.sequence


class Ledger:
    """Writes messages to brokers into the links' outboxes, and instructions into `out`."""

    __slots__ = ("_acked_s", "_changing", "_held", "_left", "_out", "_unsent_acks", "ack_due_s")

    def __init__(self, out: list[ev.Instruction]) -> None:
        self._held: dict[int, ClientSubscription] = {}
        #: Unsubscribed from, by request, oldest first; brokers must not keep them.
        self._left: dict[int, _Left] = {}
        self._unsent_acks: dict[int, None] = {}
        #: Subscriptions for which another filter was asked for, until all links have answered.
        self._changing: dict[int, None] = {}
        self._acked_s = -ACK_EVERY_S
        self.ack_due_s: float | None = None
        self._out = out

    # ── The application's wishes ────────────────────────────────────────────────────────────────────────────────────

    def subscribe(self, asked: ev.SubscribeAsked, link: Link | None) -> None:
        """`link` is asked now; without one, the next link will be."""
        channel = asked.channel.lower()
        for other in self._held.values():
            if other.channel.lower() == channel and other.is_called(asked.channel, asked.parameters):
                self._out.append(ev.TellRefused(asked.request, _twice(asked.channel)))
                return
        held = ClientSubscription(asked.request, asked.channel, asked.parameters, where=asked.where)
        if asked.position:
            try:
                held.received = held.acked = messages.parse_position(asked.position)
            except InvalidValue as error:
                self._out.append(ev.TellRefused(asked.request, error))
                return
        elif link is not None and link.kept:
            same = [kept for kept in link.kept.values() if held.is_called(kept.channel, kept.parameters)]
            if same:
                latest = max(same, key=lambda kept: kept.subscription)
                held.received = held.acked = messages.parse_position(latest.position)
        self._hold_again(held)
        self._held[asked.request] = held
        if link is not None and link.state is LIVE:
            self._ask(link, held)

    def unsubscribe(self, request: int, links: Sequence[Link]) -> None:
        held = self._end(request)
        if held is None:
            if request not in self._left or self._left[request].is_confirmed:  # It is over already, or was never taken.
                self._out.append(ev.TellUnsubscribed(request))
            return
        self._left[request] = _Left(held.keys, held.received)
        for link in links:
            link.retry_s.pop(request, None)
            if (number := link.unbind(request)) is not None:
                self._unsubscribe_from(link, number, request)

    def change_filter(self, request: int, where: str, links: Sequence[Link]) -> None:
        """Ask all links for another filter. If one refuses it, all are asked for the former one again."""
        held = self._held.get(request)
        if held is None:
            self._out.append(ev.TellFiltered(request, _over()))
            return
        if held.former is None:
            held.former = held.where
        held.where = where
        self._changing[request] = None
        for link in links:
            if link.state is LIVE and link.knows(request):
                link.retry_s.pop(request, None)
                self._ask(link, held)

    def confirm_filters(self, links: Sequence[Link]) -> None:
        """Tell the application of filters that are in force on all links."""
        for request in list(self._changing):
            is_asked = any(request in link.asked or request in link.retry_s for link in links)
            if not is_asked and any(request in link.numbers for link in links):
                del self._changing[request]
                self._held[request].former = None
                self._out.append(ev.TellFiltered(request))

    def acknowledge(self, request: int, position: Position, now_s: float) -> None:
        held = self._held.get(request)
        if held is not None and held.acknowledge(position):
            self._unsent_acks[request] = None
            self.plan_acks(now_s)

    def plan_acks(self, now_s: float) -> None:
        if self._unsent_acks and self.ack_due_s is None:
            self.ack_due_s = max(now_s + ACK_GATHER_S, self._acked_s + ACK_EVERY_S)

    def send_acks(self, link: Link | None, now_s: float) -> None:
        """Without a live link they wait; a new link gets the positions with its `hello` anyway."""
        self.ack_due_s = None
        if link is None or link.state is not LIVE:
            return
        bound = sorted(request for request in self._unsent_acks if request in link.numbers)
        positions = [self._held[request].after for request in bound]
        for request in bound:
            del self._unsent_acks[request]
        self._acked_s = now_s
        for start in range(0, len(positions), MAX_ACKS_PER_MESSAGE):
            link.outbox.append(messages.Ack(positions[start : start + MAX_ACKS_PER_MESSAGE]))

    # ── Links that come and go ──────────────────────────────────────────────────────────────────────────────────────

    def carry_along(self, link: Link, size_bytes: int) -> list[messages.Subscribe]:
        """The subscriptions in the `hello` of a new link, beside `size_bytes` of other things."""
        carried = []
        for held in self._held.values():
            message = _subscribe_message(held)
            size_bytes += len(messages.encode(message)) + 1
            if size_bytes > MAX_HELLO_BYTES:
                break
            link.asked[held.request] = message.position
            carried.append(message)
        return carried

    def welcomed(self, link: Link, kept: Sequence[messages.Subscribed]) -> None:
        """`kept` are the subscriptions that the broker has for this device."""
        for one in kept:
            link.requests.setdefault(one.subscription, 0)
            link.kept[one.subscription] = one
        self._leave_kept(link)
        self.ask_for_all(link)

    def ask_for_all(self, link: Link) -> None:
        """Ask for subscriptions that this link has not been asked for."""
        if link.state is LIVE:
            for held in self._held.values():
                if not link.knows(held.request):
                    self._ask(link, held)

    def has_asked_for_all(self, link: Link) -> bool:
        """Whether a live link has been asked for everything."""
        return link.state is not LIVE or all(link.knows(held) for held in self._held)

    def ask_again(self, link: Link, now_s: float) -> None:
        """Ask again for temporarily refused subscriptions whose time has come."""
        for request in [request for request, at_s in link.retry_s.items() if at_s <= now_s]:
            del link.retry_s[request]
            # It may have ended meanwhile, on the other link.
            if (held := self._held.get(request)) is not None:
                self._ask(link, held)

    def is_carried_by(self, link: Link) -> bool:
        """Whether this link brings everything, so that no other is needed."""
        return link.state is LIVE and not link.asked and all(held in link.numbers for held in self._held)

    def confirm_left(self, links: Sequence[Link]) -> None:
        """Confirm unsubscriptions that no link is busy with. The first link is the current one."""
        if not links or links[0].state is not LIVE:
            return
        for request in [request for request, left in self._left.items() if not left.is_confirmed]:
            if not any(request in link.asked or request in link.leaving for link in links):
                self._confirm(request)

    def kept(self, link: Link | None) -> list[messages.Subscribed]:
        """Subscriptions that the broker kept for this device and nobody has asked for."""
        ours = {key for held in self._held.values() for key in held.keys}
        kept = link.kept.values() if link is not None else ()
        return [one for one in kept if SubscriptionKey.folded(one.channel, one.parameters) not in ours]

    # ── Brokers' messages ───────────────────────────────────────────────────────────────────────────────────────────

    def delivered(self, link: Link, message: messages.Notification, now_s: float) -> None:
        # An unbound notification was kept for this device and not asked for, or came before its `subscribed`. It is not
        # lost: asking for the subscription names the position to begin after.
        held = self._held.get(link.requests.get(message.subscription, 0))
        if held is None:
            return
        position = messages.parse_position(message.position)
        if held.take(position, is_new=message.kind not in (ResultKind.SNAPSHOT, ResultKind.SNAPSHOT_END)):
            self._out.append(ev.Deliver(held.request, position, message))
        elif position == held.acked or (position == held.matched and held.is_dealt_with):
            # A broker ignores acknowledgements of results that it has not sent, so it may have ignored the one that we
            # sent before this repeat.
            self._unsent_acks[held.request] = None
            self.plan_acks(now_s)

    def passed(self, link: Link, message: messages.Passed, now_s: float) -> None:
        held = self._held.get(link.requests.get(message.subscription, 0))
        if held is not None and held.pass_over(messages.parse_position(message.position)):
            self._unsent_acks[held.request] = None
            self.plan_acks(now_s)

    def failed(self, link: Link, message: messages.Failed) -> None:
        """The last message of a subscription. The subscription is held until the application has taken it and
        unsubscribes. One that has ended for good is over at once: the same may be asked for anew."""
        held = self._held.get(link.requests.get(message.subscription, 0))
        if held is None or not held.take(messages.parse_position(message.position)):
            return
        if message.code != SubscriptionFailed.code:
            self._end(held.request)
            self._unsubscribe_from(link, message.subscription, held.request)
        error = error_of({"code": message.code, "message": message.reason})
        self._out.append(ev.TellRefused(held.request, error))

    def history_gone(self, link: Link, message: messages.HistoryGone) -> None:
        held = self._held.get(link.requests.get(message.subscription, 0))
        if held is None:
            return
        position = messages.parse_position(message.position)
        link.bind(position.epoch, held.request)
        if held.carry_on(position, recovered=False, rewound=message.rewound):
            self._out.append(ev.TellGap(held.request, position, message.message))

    def subscribed(self, link: Link, message: messages.Subscribed) -> None:
        request, position = message.request, messages.parse_position(message.position)
        if (asking := self._held.get(request)) is not None and asking.where != message.where:
            return  # It answers an earlier request; the answer to the last one follows.
        asked_after = link.asked.pop(request, None)
        if not link.asked:
            link.asked.clear()  # This frees its memory.
        is_known = message.subscription in link.requests
        bound_to = link.requests.setdefault(message.subscription, 0)
        held = self._held.get(request)
        if held is None:
            if not bound_to:  # Else the same goes on under another request.
                self._not_held(link, message)
            return
        held.answer(message.channel, message.parameters)
        self._hold_again(held)
        if asked_after is None:
            return
        if bound_to not in (0, request):
            self._spelt_twice(link, held, bound_to)
            return
        if link.kept.pop(message.subscription, None) is None and link.kept:
            # What was kept has ended, and another one has its place.
            former = [number for number, kept in link.kept.items() if held.is_called(kept.channel, kept.parameters)]
            for number in former:
                del link.kept[number]
        if not asked_after:
            # Asked for without a position. If the broker had it anyway, some results may have come, and been dropped,
            # before this answer; if there is a position by now, from the other link, that one counts.
            if held.received is None and is_known:
                held.received = held.acked = position
            if held.received is not None:
                self._ask(link, held)
                return
        link.bind(message.subscription, request)
        if held.carry_on(position, recovered=message.recovered):
            self._out.append(
                ev.TellGap(request, position, "results are past retention, or the subscription has a new epoch")
            )
        if not held.is_announced:
            held.is_announced = True
            self._out.append(ev.TellSubscribed(request, position))
            self._leave_kept(link)

    def _spelt_twice(self, link: Link, held: ClientSubscription, request: int) -> None:
        """`held` is another spelling of an earlier subscription, which only the cluster could know. If it has another
        filter, that decides on what comes from now on, until the earlier one has been asked for again."""
        self._end(held.request)
        self._out.append(ev.TellRefused(held.request, _twice(held.channel)))
        if (earlier := self._held.get(request)) is not None and earlier.where != held.where:
            link.unbind(request)
            self._ask(link, earlier)

    def _not_held(self, link: Link, message: messages.Subscribed) -> None:
        """The application left before the answer, or the broker has just heard of an older copy of this session."""
        left = message.request if message.request in self._left else self._left_as(message)
        if left is not None:
            self._unsubscribe_from(link, message.subscription, left)
        elif not message.request:
            link.kept[message.subscription] = message  # As if `welcome` had named it.

    def unsubscribed(self, link: Link, request: int) -> None:
        link.leaving.pop(request, None)
        self._confirm(request)

    def refused(self, link: Link, error: messages.Error, retry_at_s: float, links: Sequence[Link]) -> None:
        """This link refuses a subscription, until `retry_at_s` or for good."""
        link.asked.pop(error.request, None)
        if error.request not in self._held:
            return
        held = self._held[error.request]
        if error.temporary:
            link.retry_s[error.request] = retry_at_s
        elif held.former is not None:
            self._keep_former_filter(held, error, link, links)
        else:
            self._end(error.request)
            self._out.append(ev.TellRefused(error.request, error_of({"code": error.code, "message": error.message})))
            self._leave_kept(link)

    def _keep_former_filter(
        self, held: ClientSubscription, error: messages.Error, link: Link, links: Sequence[Link]
    ) -> None:
        assert held.former is not None
        self.change_filter(held.request, held.former, links)
        if not link.knows(held.request):
            self._ask(link, held)
        held.former = None
        del self._changing[held.request]
        refusal = error_of({"code": error.code, "message": error.message})
        self._out.append(ev.TellFiltered(held.request, refusal))

    def _end(self, request: int) -> ClientSubscription | None:
        """Hold it no longer; there is nothing of it to acknowledge either."""
        self._unsent_acks.pop(request, None)
        if self._changing.pop(request, 0) is None:
            self._out.append(ev.TellFiltered(request, _over()))
        return self._held.pop(request, None)

    def _ask(self, link: Link, held: ClientSubscription) -> None:
        message = _subscribe_message(held)
        link.asked[held.request] = message.position
        link.outbox.append(message)

    def _unsubscribe_from(self, link: Link, number: int, request: int) -> None:
        link.leaving[request] = None
        link.kept.pop(number, None)
        link.outbox.append(messages.Unsubscribe(number, request))

    def _confirm(self, request: int) -> None:
        """It is over, as far as the application is concerned."""
        left = self._left.get(request)
        if left is None or left.is_confirmed:
            return
        left.is_confirmed = True
        self._out.append(ev.TellUnsubscribed(request))
        if len(self._left) > MAX_LEFT:
            oldest = next(one for one, left in self._left.items() if left.is_confirmed)
            del self._left[oldest]

    def _hold_again(self, held: ClientSubscription) -> None:
        """What was left may be held again, under another request."""
        if self._left:
            for request in [request for request, left in self._left.items() if not left.keys.isdisjoint(held.keys)]:
                self._confirm(request)
                self._left.pop(request, None)

    def _leave_kept(self, link: Link) -> None:
        if self._left:
            for one in list(link.kept.values()):
                if (request := self._left_as(one)) is not None:
                    self._unsubscribe_from(link, one.subscription, request)

    def _left_as(self, kept: messages.Subscribed) -> int | None:
        """The request with which the application left what a broker keeps; None if it may be wanted."""
        if not self._left:
            return None
        channel = kept.channel.lower()
        if any(not one.is_announced and one.channel.lower() == channel for one in self._held.values()):
            return None  # What has not been answered yet may be the same in other words: only the broker knows.
        key = SubscriptionKey.folded(kept.channel, kept.parameters)
        return next((one for one, left in self._left.items() if key in left.keys and left.is_as(kept)), None)


def _subscribe_message(held: ClientSubscription) -> messages.Subscribe:
    return messages.Subscribe(held.channel, held.parameters, held.after, held.request, held.where)


def _over() -> NotFound:
    return NotFound("this subscription is over; subscribe anew")


def _twice(channel: str) -> AlreadyExists:
    return AlreadyExists(
        f"this device is subscribed to {channel} with these parameters already; "
        "use the existing subscription, write several filters with OR, or connect with another device name"
    )
