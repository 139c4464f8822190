"""What a broker knows of its subscribers: sessions, their frontend subscriptions, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin.broker.events import Ask, ConnectionId, Kept, KeptSession, Parameters, SubscriberArrived, SubscriberId
from tocsin.model.position import Position
from tocsin.protocol.messages import Subscribed

#: Devices that the broker made up begin with this; their subscriptions are kept for a short while only.
NAMELESS = "~"


@dataclass(slots=True, eq=False)
class Backend:
    """A backend subscription that this broker holds, shared by all its frontend subscriptions."""

    id: int
    ask: Ask
    parameters: Parameters
    #: Its results come after this sequence.
    begin: int
    #: Pulls before this one may not have known that we hold it, so what they lack proves nothing.
    trusted_from_pull: int
    frontends: dict[SubscriberId, Frontend] = field(default_factory=dict)
    #: Those who get each result as it comes.
    live: dict[ConnectionId, Session] = field(default_factory=dict)
    #: Every spelling under which it was asked for.
    spellings: set[Ask] = field(default_factory=set)
    #: When nobody wants it any more: from when on it may be released.
    release_at_s: float | None = None
    #: Not before this: somebody who has gone elsewhere may not be served there yet, or somebody is about to come.
    keep_until_s: float = 0.0
    #: Why its channel can't be run for it any more, or empty.
    failure: str = ""
    #: Its channel was dropped; another one may have its name.
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class Frontend:
    """One subscriber's hold on a backend subscription.

    Either live, and then everything up to the broker's cursor has been sent, or behind, and then everything up to
    `sent` has.
    """

    session: Session
    backend: Backend
    ask: Ask
    acked: int
    sent: int
    live: bool = False
    recovered: bool = True
    #: The cluster has a place such as `sent`: if that lies ahead of our cursor, the pulls will come up with it. Of a
    #: position that was brought, nobody knows before the cluster was asked.
    is_placed: bool = True
    #: The coordinator knows that this session holds it, and so does whoever claims the session.
    is_told: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """What is kept for one subscriber, connected or not."""

    subscriber: SubscriberId
    generation: int = 0
    frontends: dict[int, Frontend] = field(default_factory=dict)
    #: Subscriptions that are being carried on and that the cluster has not answered for yet. Until it has, nothing is
    #: claimed and nobody is welcomed.
    restoring: dict[Ask, Position] = field(default_factory=dict)
    #: Those that the subscriber itself has brought, with how far it had got. It is welcomed, but until the cluster has
    #: answered for them, here or after it has gone again, nothing is claimed: whoever kept them keeps them.
    brought: dict[Ask, Position] = field(default_factory=dict)

    #: From our store, but never claimed: another broker may have carried it on since, and what that one reported has to
    #: be taken in before the session can be ours.
    is_unconfirmed: bool = False

    #: Its subscriber came without positions while the coordinator could not be asked. What we keep for it is served;
    #: something else that it asks for may be kept elsewhere, and must not begin anew.
    is_doubtful: bool = False

    connection: ConnectionId | None = None
    arrival: SubscriberArrived | None = None
    is_welcomed: bool = False
    #: Subscriptions it asked for that the cluster has not answered for yet.
    waiting: int = 0
    left_at_s: float = 0
    #: Since when more is waiting to be sent than may.
    congested_since_s: float | None = None
    #: A part of what was missed is on its way; the next follows when it is out.
    confirming: bool = False
    #: What the current pull brings this connection.
    outbox: list[bytes] = field(default_factory=list)
    #: Goes up with each change that the coordinator should know of.
    version: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that it is known to hold is held here."""
        return not self.restoring and not self.brought

    def lacks(self, ask: Ask) -> bool:
        """Whether it holds this, and we do not hold it yet."""
        return ask in self.restoring or ask in self.brought

    def found(self, ask: Ask) -> Position | None:
        """It lacks this no longer; returns how far it had got, if it did."""
        positions = (self.brought.pop(ask, None), self.restoring.pop(ask, None))
        return next((one for one in positions if one is not None), None)

    @property
    def takes_more(self) -> bool:
        """Whether what it has missed can be sent now."""
        return self.is_welcomed and not self.confirming and self.congested_since_s is None

    @property
    def user(self) -> str:
        return self.subscriber.partition("/")[0]

    @property
    def device(self) -> str:
        return self.subscriber.partition("/")[2]

    @property
    def is_nameless(self) -> bool:
        return self.device.startswith(NAMELESS)

    def away_s(self, now_s: float) -> float | None:
        """For how long nobody has been connected; None if somebody is."""
        return None if self.connection is not None else now_s - self.left_at_s

    def kept(self) -> KeptSession:
        """The session as another broker could carry it on, with what is not held here yet."""
        held = {one.ask: Position(one.backend.id, one.acked) for one in self.frontends.values()}
        positions = {**self.restoring, **self.brought, **held}
        return KeptSession(self.subscriber, self.generation, [Kept(ask, at) for ask, at in positions.items()])

    def described(self) -> list[Subscribed]:
        return [describe(one) for one in self.frontends.values()]


def describe(frontend: Frontend, request: int = 0) -> Subscribed:
    backend = frontend.backend
    return Subscribed(
        subscription=backend.id,
        channel=backend.ask.channel,
        parameters=dict(backend.parameters),
        position=str(Position(backend.id, frontend.acked)),
        recovered=frontend.recovered,
        request=request,
    )


def behind(frontends: Sequence[Frontend]) -> int:
    """How many of these are away or have not been sent everything."""
    return sum(not one.live for one in frontends)
