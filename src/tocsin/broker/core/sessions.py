"""A broker's subscribers: their sessions, their frontend subscriptions, and the backend subscriptions they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tocsin.broker.core.events import ConnectionId, SubscriberArrived
from tocsin.broker.core.session_table import SessionFact, SessionState, next_state
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position, position_text
from tocsin.model.story import InvalidTransition, Story
from tocsin.protocol.messages import Subscribed
from tocsin.protocol.ports import Kept, KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Names of devices that the broker made up begin with this; their subscriptions are kept for a short while only.
NAMELESS = "~"


@dataclass(slots=True, eq=False)
class Backend:
    """A backend subscription that this broker holds, shared by all its frontend subscriptions."""

    id: int
    key: SubscriptionKey
    parameters: dict[str, ParameterValue]
    #: Its results come after this sequence.
    begin: int
    #: Earlier pulls may not have covered it, so results that they lack may exist.
    trusted_from_pull: int
    frontends: dict[SubscriberId, Frontend] = field(default_factory=dict)
    #: Frontend subscriptions that get each result as it comes.
    live: dict[ConnectionId, Session] = field(default_factory=dict)
    #: Every spelling under which it was asked for.
    spellings: set[SubscriptionKey] = field(default_factory=set)
    #: The time from which it may be released, when nobody wants it any more.
    release_at_s: float | None = None
    #: Not before this: a subscriber who has gone elsewhere may not be served there yet, or one is about to come.
    keep_until_s: float = 0.0
    #: The sentence that says why it has no more results, or empty.
    failure: str = ""
    #: Its channel was dropped; another one may have its name.
    has_ended: bool = False


class Frontend(msgspec.Struct, eq=False):
    """One subscriber's hold on a backend subscription.

    Either live, and then everything up to the broker's cursor has been sent, or behind, and then everything up to
    `sent` has.
    """

    session: Session
    backend: Backend
    key: SubscriptionKey
    acked: int
    sent: int
    live: bool = False
    recovered: bool = True
    #: `sent` is a position that the cluster has: if it lies ahead of our cursor, the pulls will reach it. Whether a
    #: position that a subscriber brought exists, only the cluster can say.
    is_sent_known: bool = True
    #: The coordinator knows that this session holds it, and so does a broker that claims the session.
    is_told: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """One subscriber's session, connected or not."""

    subscriber: SubscriberId
    user: str = field(init=False)
    story: Story
    #: Its state in session_table. `learn` changes it.
    state: SessionState
    #: The generation with which we own it; 0 if we do not.
    generation: int = 0
    frontends: dict[int, Frontend] = field(default_factory=dict)
    #: Subscriptions that are being carried on and that the cluster has not answered for yet. Until it has, nothing is
    #: claimed and nobody is welcomed.
    restoring: dict[SubscriptionKey, Position] = field(default_factory=dict)
    #: Subscriptions that the subscriber itself has brought, with their positions. It is welcomed, but until the cluster
    #: has answered for them, here or after it has gone again, nothing is claimed: the broker that kept them keeps them.
    brought: dict[SubscriptionKey, Position] = field(default_factory=dict)

    connection: ConnectionId | None = None
    arrival: SubscriberArrived | None = None
    #: Subscriptions that it asked for and that the cluster has not answered for yet.
    waiting: int = 0
    left_at_s: float = 0
    #: The current pull's results for this connection.
    outbox: list[bytes] = field(default_factory=list)
    #: Goes up with each change that the coordinator should know of.
    version: int = 0

    def __post_init__(self) -> None:
        self.user = self.subscriber.partition("/")[0]

    def learn(self, fact: SessionFact) -> None:
        """The only way to another state."""
        state = next_state(self.state, fact)
        if state is None:
            about = f"session {self.subscriber} is {self.state} and can't be {fact}; its last events:"
            raise InvalidTransition(about, self.story.of(self.subscriber))
        if state != self.state:
            self.story.note(self.subscriber, "{}: {}", fact, state)
            self.state = state

    @property
    def is_welcomed(self) -> bool:
        return self.state.is_welcomed

    @property
    def is_whole(self) -> bool:
        """Whether we hold all its known subscriptions."""
        return not self.restoring and not self.brought

    def lacks(self, key: SubscriptionKey) -> bool:
        """Whether it holds this, and we do not hold it yet."""
        return key in self.restoring or key in self.brought

    def found(self, key: SubscriptionKey) -> Position | None:
        """It lacks this no longer; returns its position, if it has one."""
        if self.is_whole:
            return None
        positions = (self.brought.pop(key, None), self.restoring.pop(key, None))
        return next((one for one in positions if one is not None), None)

    @property
    def takes_more(self) -> bool:
        """Whether missed results can be sent now."""
        return self.state.is_ready

    @property
    def device(self) -> str:
        return self.subscriber.partition("/")[2]

    @property
    def is_nameless(self) -> bool:
        return self.device.startswith(NAMELESS)

    def away_s(self, now_s: float) -> float | None:
        """For how long its subscriber has not been connected; None if it is."""
        return None if self.connection is not None else now_s - self.left_at_s

    def kept(self) -> KeptSession:
        """The session as another broker could carry it on, including subscriptions that are not held here yet."""
        positions = {one.key: Position.at(one.backend.id, one.acked) for one in self.frontends.values()}
        if not self.is_whole:
            positions = {**self.restoring, **self.brought, **positions}
        return KeptSession(self.subscriber, self.generation, [Kept(key, at) for key, at in positions.items()])

    def described(self) -> list[Subscribed]:
        return [describe(one) for one in self.frontends.values()]


def describe(frontend: Frontend, request: int = 0) -> Subscribed:
    backend = frontend.backend
    return Subscribed(
        subscription=backend.id,
        channel=backend.key.channel,
        parameters=backend.parameters,
        position=position_text(backend.id, frontend.acked),
        recovered=frontend.recovered,
        request=request,
    )


def behind(frontends: Sequence[Frontend]) -> int:
    """How many of these are away or have not been sent everything."""
    return sum(not one.live for one in frontends)
