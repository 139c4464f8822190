"""A broker's subscribers: their sessions, their frontend subscriptions, and the backend subscriptions they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tocsin.broker.core.events import ConnectionId, SubscriberArrived
from tocsin.broker.core.matching import FilterGroup, RecentRows, SourceFilters
from tocsin.broker.core.session_table import SessionFact, SessionState, next_state
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Phase, Position, in_history, phase_of, position_text
from tocsin.model.schema import ResultColumn
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
    #: The columns of its results; none if they are not known.
    columns: tuple[ResultColumn, ...] = ()
    #: Rows of results, shared by all backend subscriptions of a broker.
    rows: RecentRows = field(default_factory=dict)
    #: The filters on it, once there has been one.
    filters: SourceFilters | None = None
    frontends: dict[SubscriberId, Frontend] = field(default_factory=dict)
    #: Frontend subscriptions without a filter that get each result as it comes.
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
    #: Whoever subscribes is sent a snapshot first.
    has_snapshot: bool = False
    #: Frontend subscriptions that have been sent everything up to now and wait for a snapshot, or for the rest of it.
    awaiting: dict[ConnectionId, Frontend] = field(default_factory=dict)
    #: A snapshot will be among the results that are pulled from now on.
    is_snapshot_requested: bool = False

    def group_of(self, where: str, *, is_kept: bool = False) -> FilterGroup | None:
        """The group of a filter; None if it is empty. Raises StatementError; or InvalidValue for a new filter if the
        columns are not known."""
        if not where:
            return None
        if not self.columns and not is_kept:
            raise InvalidValue(f"where: the cluster does not say which columns {self.key.channel} has; leave it out")
        if self.filters is None:
            self.filters = SourceFilters(self.columns, self.rows)
        return self.filters.parse(where)


class Frontend(msgspec.Struct, eq=False):
    """One subscriber's hold on a backend subscription.

    Either live, and then everything up to the broker's cursor has been sent, or behind, and then everything up to
    `sent` has. `acked` is a position's sequence, with its phase; `sent` is a sequence of the history, and `phase` that
    after it.
    """

    session: Session
    backend: Backend
    key: SubscriptionKey
    acked: int
    sent: int
    phase: Phase = Phase.NEW
    live: bool = False
    recovered: bool = True
    #: `sent` is a position that the cluster has: if it lies ahead of our cursor, the pulls will reach it. Whether a
    #: position that a subscriber brought exists, only the cluster can say.
    is_sent_known: bool = True
    #: The coordinator knows that this session holds it, and so does a broker that claims the session.
    is_told: bool = False
    #: Those of its results that it gets; None: all.
    group: FilterGroup | None = None
    #: The sequence of the last result that it was sent. Of those after it, up to `sent`, none matches its filter.
    last_match: int = 0
    #: The sequence up to which it was told over this connection that nothing else matches.
    passed: int = 0

    @property
    def where(self) -> str:
        return "" if self.group is None else self.group.where

    def put_back(self, sequence: int) -> None:
        """Everything after this is sent again."""
        self.sent = self.last_match = self.passed = sequence

    def set_group(self, group: FilterGroup | None) -> None:
        """Give it another filter. It must not be live."""
        if self.group is not None:
            self.group.source.leave(self.group)
        self.group = None if group is None else group.source.join(group)

    def set_live(self, connection: ConnectionId) -> None:
        self.live = True
        if self.phase is not Phase.NEW:
            self.backend.awaiting[connection] = self
        elif self.group is None:
            self.backend.live[connection] = self.session
        else:
            self.group.source.begin(self.group, connection, self)

    def end_live(self, connection: ConnectionId | None) -> None:
        self.live = False
        if connection is None:
            return
        if self.phase is not Phase.NEW:
            self.backend.awaiting.pop(connection, None)
        elif self.group is None:
            self.backend.live.pop(connection, None)
        else:
            self.group.source.end(self.group, connection)

    def is_live_in(self, connection: ConnectionId | None) -> bool:
        """Whether it gets what comes over this connection."""
        if self.group is not None:
            return self.group.live.get(connection or 0) is self
        return self.backend.live.get(connection or 0) is self.session

    def go_back(self) -> None:
        """Everything that was not acknowledged is sent again. It must not be live."""
        self.phase = phase_of(self.acked)
        self.put_back(in_history(self.acked))


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
    restoring: dict[SubscriptionKey, Kept] = field(default_factory=dict)
    #: Subscriptions that the subscriber itself has brought. It is welcomed, but until the cluster has answered for
    #: them, here or after it has gone again, nothing is claimed: the broker that kept them keeps them.
    brought: dict[SubscriptionKey, Kept] = field(default_factory=dict)
    #: Subscriptions of a copy that is not confirmed, whose history has ended. Another broker may have kept the history
    #: that followed, so they begin anew only when the coordinator has said what it knows.
    ended_here: dict[SubscriptionKey, Kept] = field(default_factory=dict)
    #: What its subscriber has given up here, until the coordinator knows: other brokers' reports may still have it.
    given_up: dict[SubscriptionKey, None] = field(default_factory=dict)

    connection: ConnectionId | None = None
    arrival: SubscriberArrived | None = None
    #: Subscriptions that it asked for and that the cluster has not answered for yet.
    waiting: int = 0
    #: How many of those have a filter.
    waiting_filters: int = 0
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
        return not self.restoring and not self.brought and not self.ended_here

    def lacks(self, key: SubscriptionKey) -> bool:
        """Whether it holds this, and we do not hold it yet."""
        return key in self.restoring or key in self.brought

    def found(self, key: SubscriptionKey) -> Kept | None:
        """It lacks this no longer; returns what was known of it, if anything was."""
        if self.is_whole:
            return None
        known = [one.pop(key, None) for one in (self.brought, self.restoring, self.ended_here)]
        return next((one for one in known if one is not None), None)

    def hear_of(self, theirs: Kept) -> Kept | None:
        """Another broker's copy of a subscription that is being restored. If it is further on than ours, it has the
        later filter, and perhaps a new history; an earlier position in the same history does no harm. Returns what is
        to be stored then."""
        ours = self.restoring.get(theirs.key)
        if ours is None or theirs.position <= ours.position:
            return None
        is_same_history = theirs.position.epoch == ours.position.epoch
        later = Kept(theirs.key, ours.position if is_same_history else theirs.position, theirs.where)
        if later == ours:
            return None
        self.restoring[theirs.key] = later
        return later

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
        kept = {
            one.key: Kept(one.key, Position.at(one.backend.id, one.acked), one.where) for one in self.frontends.values()
        }
        if not self.is_whole:
            kept = {**self.ended_here, **self.restoring, **self.brought, **kept}
        return KeptSession(self.subscriber, self.generation, list(kept.values()))

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
        where=frontend.where,
    )


def behind(frontends: Sequence[Frontend]) -> int:
    """How many of these are away or have not been sent everything."""
    return sum(not one.live for one in frontends)
