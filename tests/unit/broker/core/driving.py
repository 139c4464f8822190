"""The broker's machine, driven event by event: what it is told, and what it then wants done."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tocsin.broker.core.events import (
    BackendsAcquired,
    Event,
    ReportDue,
    Reported,
    ResultsPulled,
    SessionFetched,
    Started,
    SubscribeAsked,
    SubscriberArrived,
)
from tocsin.broker.core.instructions import Acquire, Deliver, FetchSession, Instruction, NoteFailure, Report, Send
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.model.schema import ResultColumn
from tocsin.protocol.frames import text_frame, text_of
from tocsin.protocol.messages import Notification, Subscribe, decode_from_broker, encode
from tocsin.protocol.ports import BackendHold, Delivery, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey

_Kind = TypeVar("_Kind")
FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")


COLUMNS = (ResultColumn("severity", "INT"), ResultColumn("total", "DECIMAL(10,2)"), ResultColumn("who", "STRING"))


def severe(one: int, sequence: int, severity: int | None) -> Delivery:
    """A result as brokers pull it."""
    payload = msgspec.Raw(msgspec.json.encode({"severity": severity, "total": 0.5, "who": "ann"}))
    message = Notification(one, "OfType", f"{one}-{sequence}", 5000, payload)
    return Delivery(one, sequence, text_frame(encode(message)), 5000)


class Broker:
    """The machine, with the chores of a test done."""

    def __init__(
        self,
        limits: Limits | None = None,
        sessions: Sequence[KeptSession] = (),
        cursor: int = 100,
        *,
        publishes_locations: bool = False,
        has_snapshot: bool = False,
    ) -> None:
        self._has_snapshot = has_snapshot
        self.state = BrokerState("b", limits or Limits(), random.Random(0), publishes_locations=publishes_locations)
        self.now_s = 0.0
        self.pulls = 0
        self.out: list[Instruction] = []
        self.tell(Started(sessions, [], cursor, 0.0))

    def tell(self, event: Event) -> list[Instruction]:
        self.out = self.state.handle(event)
        for one in self.out:
            if isinstance(one, NoteFailure):
                raise one.error
        return self.out

    def all_of(self, kind: type[_Kind]) -> list[_Kind]:
        return [one for one in self.out if isinstance(one, kind)]

    def messages(self, kind: type[_Kind]) -> list[_Kind]:
        return [one.message for one in self.all_of(Send) if isinstance(one.message, kind)]

    def arrive(self, connection: int, user: str = "ann", *subscriptions: Subscribe, permission: str = "") -> None:
        self.tell(SubscriberArrived(connection, user, "d", permission, 1000, 3600.0, list(subscriptions), self.now_s))
        if self.all_of(FetchSession):
            self.tell(SessionFetched(f"{user}/d", None, is_certain=True, now_s=self.now_s))

    def subscribe(self, connection: int, etype: str, *, request: int = 1, position: str = "", where: str = "") -> None:
        message = Subscribe("OfType", {"etype": etype}, position, request, where)
        self.tell(SubscribeAsked(connection, message, self.now_s))

    def acquired(self, **ids: int) -> None:
        """The cluster holds these for us; the next pull knows of them."""
        pairs = [
            (
                SubscriptionKey.of("OfType", {"etype": etype}, ""),
                BackendHold(
                    one,
                    "OfType",
                    {"etype": etype},
                    "",
                    self.state.through,
                    columns=COLUMNS,
                    snapshot=self._has_snapshot,
                ),
            )
            for etype, one in ids.items()
        ]
        self.tell(BackendsAcquired(pairs, [], self.pulls + 1, self.now_s))

    def pull(self, *results: tuple[int, int]) -> None:
        self.pulls += 1
        deliveries = [Delivery(one, sequence, f"{one}-{sequence}".encode()) for one, sequence in results]
        through = max([sequence for _, sequence in results], default=self.state.through)
        self.tell(ResultsPulled(self.pulls, deliveries, through, self.now_s))

    def pull_severities(self, *severities: int | None, one: int = 7) -> None:
        """Results of a subscription with these severities, from the next sequence on."""
        self.pulls += 1
        first = self.state.through + 1
        deliveries = [severe(one, first + at, severity) for at, severity in enumerate(severities)]
        self.tell(ResultsPulled(self.pulls, deliveries, first + len(severities) - 1, self.now_s))

    def sequences(self) -> dict[int, list[int]]:
        """What each connection was sent now."""
        return {
            connection: [int(decode_from_broker(text_of(wire)).position.partition("-")[2]) for wire in wires]  # type: ignore[union-attr] # notifications have one
            for connection, wires in self.wires().items()
        }

    def fail(self, one: int, sequence: int, reason: str) -> None:
        """The cluster says that a subscription has failed."""
        self.pulls += 1
        delivery = Delivery(one, sequence, f"{one}-{sequence}".encode(), failure=reason)
        self.tell(ResultsPulled(self.pulls, [delivery], sequence, self.now_s))

    def end(self, one: int, sequence: int) -> None:
        """The cluster says that a subscription has ended with its channel."""
        self.pulls += 1
        delivery = Delivery(one, sequence, f"{one}-{sequence}".encode(), failure="dropped", is_end=True)
        self.tell(ResultsPulled(self.pulls, [delivery], sequence, self.now_s))

    def live(self, *users: str) -> None:
        """Users that are connected, in their order from connection 1, and live in floods, which are subscription 7."""
        for connection, user in enumerate(users, 1):
            self.arrive(connection, user)
            self.subscribe(connection, "flood")
            if self.all_of(Acquire):
                self.acquired(flood=7)
        self.pull()

    def reported(self, lost: Sequence[str] = (), now_s: float = 1.0) -> None:
        """The coordinator has answered a report of all there is to report."""
        self.tell(ReportDue())
        (report,) = self.all_of(Report)
        told = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
        self.tell(Reported(told, [], lost, {}, now_s))

    def wires(self) -> dict[int, list[bytes]]:
        return {one.connection: list(one.wires) for one in self.all_of(Deliver)}
