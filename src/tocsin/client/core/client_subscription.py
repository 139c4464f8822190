"""What a client knows about one of its subscriptions: how far it got, and which notifications are repeats (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.protocol.subscription_keys import SubscriptionKey


@dataclass(slots=True)
class ClientSubscription:
    """`received` is the last notification handed on to the application, `acked` the last it has taken care of.

    A link that is opened later begins after `acked`: whoever answers for the subscription then still has everything
    that would be lost with this process, and what is sent once more is dropped here.
    """

    request: int
    channel: str
    parameters: dict[str, ParameterValue]
    received: Position | None = None
    acked: Position | None = None
    #: Where history goes on that was rewound. Another link, asked before, says the same again.
    rewound_to: Position | None = None
    #: Whether the application knows that it is subscribed.
    is_announced: bool = False
    #: With the parameters that brokers name, if those differ: some are filled in for the subscriber.
    answered: SubscriptionKey | None = None

    @property
    def keys(self) -> frozenset[SubscriptionKey]:
        """As it was asked for, and as brokers speak of it."""
        asked = SubscriptionKey.folded(self.channel, self.parameters)
        return frozenset([asked] if self.answered is None else [asked, self.answered])

    @property
    def after(self) -> str:
        return "" if self.acked is None else str(self.acked)

    def answer(self, channel: str, parameters: Mapping[str, ParameterValue]) -> None:
        """A broker speaks of it with these parameters."""
        is_same = channel == self.channel and parameters == self.parameters
        self.answered = None if is_same else SubscriptionKey.folded(channel, parameters)

    def is_called(self, channel: str, parameters: Mapping[str, ParameterValue]) -> bool:
        """Whether these stand for it, whatever way they are written."""
        if self.channel.lower() != channel.lower():
            return False
        if self.answered is None and parameters != self.parameters and parameters.keys() == self.parameters.keys():
            return False  # Nearly always. What is told below takes some time.
        return SubscriptionKey.folded(channel, parameters) in self.keys

    def take(self, position: Position) -> bool:
        """Whether a notification is new. Of another epoch than agreed on, it is a straggler of an old history."""
        last = self.received
        if last is None or position.epoch != last.epoch or position.sequence <= last.sequence:
            return False
        self.received = position
        return True

    def carry_on(self, position: Position, *, recovered: bool, rewound: bool = False) -> bool:
        """A broker says that what follows comes after `position`. Returns whether the application has missed something.

        It has not if all that is gone is what it got long ago; unless history was `rewound`, so that what it got is
        of no history any more.
        """
        last = self.received
        if rewound:
            if last is not None and position == self.rewound_to:
                return False
            self.received = self.acked = self.rewound_to = position
            return last != position
        if last is not None and position.epoch == last.epoch and (recovered or position.sequence <= last.sequence):
            return False
        self.received = self.acked = position
        return last is not None and not recovered

    def acknowledge(self, position: Position) -> bool:
        """Whether this brings the acknowledged position forward."""
        if self.acked is not None and (position.epoch != self.acked.epoch or position.sequence <= self.acked.sequence):
            return False
        self.acked = position
        return True
