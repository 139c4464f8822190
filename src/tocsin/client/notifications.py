"""The values that an application gets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.client.core import events as ev
from tocsin.model.catalogue import ParameterValue
from tocsin.protocol import messages

if TYPE_CHECKING:
    from tocsin.client.subscriptions import Subscription

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ChannelResult:
    """One result of a channel, as it arrived for a subscription."""

    def __init__(self, subscription: Subscription, arrived: messages.Notification) -> None:
        self._subscription = subscription
        self._arrived = arrived

    def __repr__(self) -> str:
        return f"<Notification {self.channel} {self.position} {self.raw_payload.decode()}>"

    @property
    def channel(self) -> str:
        return self._subscription.channel

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self._subscription.parameters

    @property
    def position(self) -> str:
        """Its position in its subscription's history."""
        return self._arrived.position

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
