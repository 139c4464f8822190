"""Lets subscribers in, and holds those who have said hello until they have a session here."""

from __future__ import annotations

from tocsin.broker.core.events import ConnectionId, SubscriberArrived
from tocsin.broker.core.instructions import Close, FetchSession, Instruction, Send
from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.sessions import NAMELESS
from tocsin.errors import TocsinError, Unavailable
from tocsin.protocol.messages import CLOSE_DRAINING, CLOSE_REPLACED, error_message
from tocsin.protocol.ports import SubscriberId


class Admission:
    """Closed until the broker has started, while it drains, and when it ends."""

    def __init__(self, quotas: Quotas, out: list[Instruction]) -> None:
        self._quotas = quotas
        self._out = out
        #: They have said hello, and the coordinator is being asked for their sessions.
        self._waiting: dict[SubscriberId, SubscriberArrived] = {}
        self.is_started = False
        self.is_draining = False
        self.is_ending = False

    def admits(self, arrival: SubscriberArrived, connections: int, *, replaces: bool) -> bool:
        """Whether there is room for one more. If not, the subscriber gets the reason, and is sent away."""
        refusal = self._refusal(arrival.user, connections + len(self._waiting), replaces=replaces)
        if refusal is None:
            return True
        self.send_away(arrival, refusal)
        return False

    def keep_waiting(self, subscriber: SubscriberId, arrival: SubscriberArrived) -> None:
        """Ask for the session that is kept for it, here or elsewhere."""
        if subscriber not in self._waiting:
            self._out.append(FetchSession(subscriber))
        self.turn_away_earlier(subscriber)
        self._quotas.count_connection(arrival.user, 1)
        self._waiting[subscriber] = arrival

    def turn_away_earlier(self, subscriber: SubscriberId) -> None:
        """The same subscriber has come over another connection: the waiting one must not replace it later."""
        if (earlier := self._pop(subscriber)) is not None:
            self._out.append(Close(earlier.connection, CLOSE_REPLACED, "connected again elsewhere"))

    def take(self, subscriber: SubscriberId, *, is_certain: bool) -> SubscriberArrived | None:
        """The arrival that waited and is let in now; None if it has gone again, or has to come again later.

        While the coordinator can't be asked for a device's session, a subscriber is let in if it brings positions, or
        if nothing can have been kept for it. Any other subscriber might lose the results that it missed.
        """
        arrival = self._pop(subscriber)
        if arrival is None or is_certain or comes_unasked(arrival):
            return arrival
        self.send_away(arrival, Unavailable("this broker can't look up your session now", retry_after_s=1))
        return None

    def lose(self, connection: ConnectionId) -> None:
        for subscriber, arrival in list(self._waiting.items()):
            if arrival.connection == connection:
                self._pop(subscriber)

    def drain(self, *, is_ending: bool) -> None:
        """Let nobody in any more, not even those who wait."""
        self.is_draining = True
        self.is_ending = self.is_ending or is_ending
        for subscriber, arrival in list(self._waiting.items()):
            self._out.append(Close(arrival.connection, CLOSE_DRAINING, "this broker is shutting down"))
            self._pop(subscriber)

    def stop_draining(self) -> None:
        self.is_draining = self.is_ending

    def _pop(self, subscriber: SubscriberId) -> SubscriberArrived | None:
        arrival = self._waiting.pop(subscriber, None)
        if arrival is not None:
            self._quotas.count_connection(arrival.user, -1)
        return arrival

    def send_away(self, arrival: SubscriberArrived, refusal: TocsinError) -> None:
        self._out.append(Send(arrival.connection, error_message(refusal)))
        self._out.append(Close(arrival.connection, CLOSE_DRAINING, refusal.message))

    def _refusal(self, user: str, connections: int, *, replaces: bool) -> TocsinError | None:
        if not self.is_started:
            return Unavailable("this broker is starting", retry_after_s=1)
        if self.is_draining:
            return Unavailable("this broker is shutting down; ask the coordinator for another", retry_after_s=0.1)
        return None if replaces else self._quotas.refuse_connection(user, connections)


def has_positions(arrival: SubscriberArrived) -> bool:
    """Whether it brings subscriptions, all with positions. It may have others that it has not asked for yet."""
    return bool(arrival.subscriptions) and all(one.position for one in arrival.subscriptions)


def comes_unasked(arrival: SubscriberArrived) -> bool:
    """Whether it can be let in before the coordinator has been asked for its session."""
    return arrival.device.startswith(NAMELESS) or has_positions(arrival)
