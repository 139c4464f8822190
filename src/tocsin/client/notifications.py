"""The values that an application gets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.client.core import events as ev
from tocsin.model.catalogue import ParameterValue
from tocsin.model.results import ResultKind
from tocsin.protocol import messages

if TYPE_CHECKING:
    from tocsin.client.subscriptions import Subscription

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Snapshot(msgspec.Struct, frozen=True):
    """The end of a snapshot: how many results it has, and whether these are all that hold. `reason` says why there was
    none, or is empty."""

    results: int
    complete: bool
    reason: str = ""


class ChannelResult:
    """One result of a channel, as it arrived for a subscription."""

    def __init__(self, subscription: Subscription, arrived: messages.Notification) -> None:
        self._subscription = subscription
        self._arrived = arrived

    def __repr__(self) -> str:
        kind = "" if self.kind == ResultKind.RESULT else f" {self.kind}"
        return f"<Notification {self.channel} {self.position}{kind} {self.raw_payload.decode()}>"

    @property
    def channel(self) -> str:
        return self._subscription.channel

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self._subscription.parameters

    @property
    def key(self) -> str:
        """Of channels WITH EXITS: the same for a result and its exit, and for no other result that holds. Otherwise
        empty."""
        return self._arrived.key

    @property
    def position(self) -> str:
        """Its position in its subscription's history."""
        return self._arrived.position

    @property
    def kind(self) -> str:
        """`result` if it is new; of a channel WITH SNAPSHOT, `snapshot` if it holds already; of a channel WITH EXITS,
        `exit` if the result with this key no longer holds: its payload is empty then."""
        return self._arrived.kind

    @property
    def committed_at(self) -> datetime:
        """When the cluster committed it, by the cluster's clock."""
        return _EPOCH + timedelta(microseconds=self._arrived.committed_at_us)

    @property
    def raw_payload(self) -> bytes:
        """The payload's JSON."""
        return bytes(self._arrived.payload)

    @cached_property
    def payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = msgspec.json.decode(self._arrived.payload)
        return payload


class Notification(ChannelResult):
    """One result of a channel."""

    def __init__(self, subscription: Subscription, delivered: ev.Deliver) -> None:
        super().__init__(subscription, delivered.notification)
        self.subscription = subscription
        self.parsed_position = delivered.position
        self.arrived = delivered.notification

    async def ack(self) -> None:
        """The application has dealt with this one and all earlier ones of its subscription: they won't come again.

        Acknowledgements are sent together, within about a second and when the connection is closed.
        """
        await self.subscription.ack(self.position)


#: What an application gets, or is told instead.
Item = Notification | ev.TellGap | ev.TellRefused
