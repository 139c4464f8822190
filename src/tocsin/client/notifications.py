"""The values that an application gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.client.core import events as ev
from tocsin.errors import TocsinError
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position

if TYPE_CHECKING:
    from tocsin.client.subscriptions import Subscription

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Notification:
    """One result of a channel."""

    def __init__(self, subscription: Subscription, arrived: ev.Deliver) -> None:
        self.subscription = subscription
        self.parsed_position = arrived.position
        self._arrived = arrived.notification

    def __repr__(self) -> str:
        return f"<Notification {self.channel} {self.position} {self.raw_payload.decode()}>"

    @property
    def channel(self) -> str:
        return self.subscription.channel

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        return self.subscription.parameters

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

    async def ack(self) -> None:
        """The application has dealt with this one and all earlier ones of its subscription: they won't come again.

        Acknowledgements are sent together, within about a second and when the connection is closed.
        """
        await self.subscription.ack(self.position)


@dataclass(frozen=True, slots=True)
class Gap:
    """Results before `position` are gone for good."""

    subscription: Subscription
    position: Position
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The subscription could not be carried on."""

    subscription: Subscription
    error: TocsinError


Item = Notification | Gap | Ended
