"""Where subscribers are: what they tell is passed on to the cluster and to the coordinator, the latest word only."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.broker.events import Instruction, Point, PublishPlaces, SubscriberId
from tocsin.broker.sessions import Session

#: The papers' prototype updates places once a second; oftener would only make more commits.
_PUBLISH_EVERY_S = 1.0


class PlaceDesk:
    """Nothing is stored: who comes back tells its place again.

    With `publishes`, the cluster is told, all in one request at a time; what could not be told is told with the next.
    """

    def __init__(self, out: list[Instruction], *, publishes: bool) -> None:
        self._out = out
        self._publishes = publishes
        #: By user, since a channel asks where somebody is, not which device.
        self._unpublished: dict[str, Point] = {}
        self._publishing: dict[str, Point] = {}
        self._publish_at_s = 0.0
        self._unreported: dict[SubscriberId, Point] = {}

    def tell(self, session: Session, place: Point) -> None:
        self._unreported[session.subscriber] = place
        if self._publishes:
            self._unpublished[session.user] = place

    def publish_if_due(self, now_s: float) -> None:
        if self._unpublished and not self._publishing and now_s >= self._publish_at_s:
            self._publish_at_s = now_s + _PUBLISH_EVERY_S
            self._publishing, self._unpublished = self._unpublished, {}
            self._out.append(PublishPlaces(self._publishing))

    def published(self, *, is_done: bool) -> None:
        if not is_done:
            self._unpublished = {**self._publishing, **self._unpublished}
        self._publishing = {}

    def unreported(self) -> Mapping[SubscriberId, Point]:
        return self._unreported

    def reported(self, places: Mapping[SubscriberId, Point]) -> None:
        """The coordinator knows of these; who has moved on since stays to be told."""
        for subscriber, place in places.items():
            if self._unreported.get(subscriber) == place:
                del self._unreported[subscriber]

    def forget_user(self, session: Session) -> None:
        """Nobody is to be told where this user was."""
        self._unpublished.pop(session.user, None)
        self._publishing = {user: place for user, place in self._publishing.items() if user != session.user}

    def forget(self, session: Session) -> None:
        self._unreported.pop(session.subscriber, None)
