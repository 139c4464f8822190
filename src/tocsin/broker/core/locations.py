"""Subscribers' locations and network coordinates: the broker passes the latest ones on. Coordinates concern the
coordinator alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tocsin.broker.core.instructions import Instruction, PublishLocations
from tocsin.broker.core.sessions import Session
from tocsin.coordinates.located import Located
from tocsin.model.location import Location
from tocsin.protocol.ports import SubscriberId

#: The papers' prototype updates locations once a second; oftener would only make more commits.
_PUBLISH_EVERY_S = 1.0


class LocationReports:
    """Nothing is stored: a subscriber who comes back tells its location again.

    With `publishes`, the cluster gets all of them in one request at a time; locations of a failed request go with the
    next one.
    """

    def __init__(self, out: list[Instruction], *, publishes: bool) -> None:
        self._out = out
        self._publishes = publishes
        #: By user, since a channel asks where somebody is, not which device.
        self._unpublished: dict[str, Location] = {}
        self._publishing: dict[str, Location] = {}
        self._publish_at_s = 0.0
        self._unreported: dict[SubscriberId, Location] = {}
        self._unreported_located: dict[SubscriberId, Located] = {}

    def tell(self, session: Session, location: Location) -> None:
        self._unreported[session.subscriber] = location
        if self._publishes:
            self._unpublished[session.user] = location

    def locate(self, session: Session, located: Located) -> None:
        self._unreported_located[session.subscriber] = located

    def publish_if_due(self, now_s: float) -> None:
        if self._unpublished and not self._publishing and now_s >= self._publish_at_s:
            self._publish_at_s = now_s + _PUBLISH_EVERY_S
            self._publishing, self._unpublished = self._unpublished, {}
            self._out.append(PublishLocations(self._publishing))

    def published(self, *, is_done: bool) -> None:
        if not is_done:
            self._unpublished = {**self._publishing, **self._unpublished}
        self._publishing = {}

    def unreported(self) -> Mapping[SubscriberId, Location]:
        return self._unreported

    def unreported_located(self) -> Mapping[SubscriberId, Located]:
        return self._unreported_located

    def reported(
        self, locations: Mapping[SubscriberId, Location], located: Mapping[SubscriberId, Located] = MappingProxyType({})
    ) -> None:
        """The coordinator knows of these; what has changed since goes with the next report."""
        for subscriber, one in located.items():
            if self._unreported_located.get(subscriber) == one:
                del self._unreported_located[subscriber]
        for subscriber, location in locations.items():
            if self._unreported.get(subscriber) == location:
                del self._unreported[subscriber]

    def forget_user(self, session: Session) -> None:
        """Tell nobody where this user was."""
        self._unpublished.pop(session.user, None)
        self._publishing = {user: location for user, location in self._publishing.items() if user != session.user}

    def forget(self, session: Session) -> None:
        self._unreported.pop(session.subscriber, None)
        self._unreported_located.pop(session.subscriber, None)
