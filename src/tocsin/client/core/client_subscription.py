"""One subscription at a client: how far it got, and which notifications are repeats (pure)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Phase, Position
from tocsin.protocol.subscription_keys import SubscriptionKey


class ClientSubscription(msgspec.Struct, eq=False):
    """`received` is the last notification handed on to the application, `acked` the last that it has dealt with.

    A link that is opened later begins after `acked`: so the broker still has everything that would be lost with this
    process, and repeats are dropped here.
    """

    request: int
    channel: str
    parameters: dict[str, ParameterValue]
    received: Position | None = None
    acked: Position | None = None
    #: The filter that brokers are asked for.
    where: str = ""
    #: The filter before that, until all links have answered.
    former: str | None = None
    #: The last notification that was handed on. Nothing between it and `received` matches the filter.
    matched: Position | None = None
    #: The position from which a rewound history goes on. Another link, asked before, names the same one again.
    rewound_to: Position | None = None
    #: Whether the application knows that it is subscribed.
    is_announced: bool = False
    #: The key with the parameters that brokers name, if those differ: some are filled in for the subscriber.
    answered: SubscriptionKey | None = None

    @property
    def keys(self) -> frozenset[SubscriptionKey]:
        """Its key as the application wrote it, and as brokers write it."""
        asked = SubscriptionKey.folded(self.channel, self.parameters)
        return frozenset([asked] if self.answered is None else [asked, self.answered])

    @property
    def after(self) -> str:
        return "" if self.acked is None else str(self.acked)

    def answer(self, channel: str, parameters: Mapping[str, ParameterValue]) -> None:
        """A broker names it with these parameters."""
        is_same = channel == self.channel and parameters == self.parameters
        self.answered = None if is_same else SubscriptionKey.folded(channel, parameters)

    def is_called(self, channel: str, parameters: Mapping[str, ParameterValue]) -> bool:
        """Whether these name it, however they are written."""
        if self.channel.lower() != channel.lower():
            return False
        if self.answered is None and parameters != self.parameters and parameters.keys() == self.parameters.keys():
            return False  # Nearly always. The comparison below takes some time.
        return SubscriptionKey.folded(channel, parameters) in self.keys

    def take(self, position: Position, *, is_new: bool = False) -> bool:
        """Whether a notification is to be handed out. With another epoch than agreed on, it is a late one of an old
        history. One that `is_new` is in the snapshot already, if that is to come or not over."""
        last = self.received
        if last is None or position.epoch != last.epoch or position.sequence <= last.sequence:
            return False
        if is_new and last.phase is not Phase.NEW:
            return False
        self.received = self.matched = position
        return True

    def pass_over(self, position: Position) -> bool:
        """Nothing up to `position` matches the filter. Returns whether that is to be acknowledged: not before the
        application has dealt with all that it got."""
        last = self.received
        if last is None or position.epoch != last.epoch or position.sequence <= last.sequence:
            return False
        if last.phase is not Phase.NEW:
            return False  # The snapshot that another link brings is still to come.
        self.received = position
        return self.is_dealt_with and self.acknowledge(position)

    @property
    def is_dealt_with(self) -> bool:
        """Whether the application has acknowledged every notification that was handed on."""
        return self.matched is None or (self.acked is not None and self.matched.sequence <= self.acked.sequence)

    def carry_on(self, position: Position, *, recovered: bool, rewound: bool = False) -> bool:
        """A broker's next results come after `position`. Returns whether the application has missed something.

        It has not if it got all the results that are gone; unless history was `rewound`, so that those results belong
        to no history any more.
        """
        last = self.received
        if last is not None and position.epoch == last.epoch and position.phase is Phase.AHEAD and not recovered:
            if last.phase is not Phase.NEW and position.in_history <= last.in_history:
                return False  # The other link has said so before.
            # A snapshot makes up for what is gone. It replaces all that the other link may have brought.
            self.received = self.acked = position
            self.matched = None
            return True
        if rewound:
            if last is not None and position == self.rewound_to:
                return False
            self.received = self.acked = self.rewound_to = position
            self.matched = None
            return last != position
        if last is not None and position.epoch == last.epoch and (recovered or position.sequence <= last.sequence):
            return False
        self.received = self.acked = position
        self.matched = None
        return last is not None and not recovered

    def acknowledge(self, position: Position) -> bool:
        """Whether this brings the acknowledged position forward."""
        if self.acked is not None and (position.epoch != self.acked.epoch or position.sequence <= self.acked.sequence):
            return False
        self.acked = position
        passed = self.received
        if passed is not None and passed.epoch == position.epoch and self.is_dealt_with:
            self.acked = max(passed, position)
        return True
