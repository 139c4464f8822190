"""A broker's ports to a cluster and to a coordinator (pure).

The broker's shell reaches them only through these. Over HTTP they are `ClusterLink` and `CoordinatorLink`; in memory,
`MemoryCluster` of `tocsin.testing`. Brokers rely on the methods' promises, so that no result is lost or doubled.
`tocsin.testing.cluster_conformance` checks the promises of any implementation of `ClusterPort`.

Each call raises Unavailable if nobody answers. It may have taken effect all the same, so every call can be made again.
Superseded, which any of them may raise, ends the broker: another one has its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.model.results import ResultKind
from tocsin.model.schema import ResultColumn
from tocsin.protocol.messages import payload_of
from tocsin.protocol.subscription_keys import SubscriptionKey

if TYPE_CHECKING:
    from tocsin.protocol.coordination import BrokerRegistration, BrokerWelcome, Heartbeat, HeartbeatAnswer

#: USER/DEVICE
SubscriberId = str
Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class BackendHold:
    """A backend subscription that a broker holds at the cluster. Its results come after `sequence`."""

    id: int
    channel: str
    parameters: Parameters
    permission: str
    sequence: int
    #: Why the channel can't be run for it any more, or empty.
    failure: str = ""
    #: The channel's parameters that are filled in, each with its source: USER or CLASS.
    filled: Mapping[str, str] = field(default_factory=dict)
    #: The columns of its results; none if the cluster does not say. All subscriptions of a channel share one tuple.
    columns: tuple[ResultColumn, ...] = ()
    #: Its channel is WITH SNAPSHOT: whoever subscribes is sent a snapshot first.
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """One result, encoded once: `wire` is the text for every socket. `committed_at_us` is by the cluster's clock; 0 if
    nobody needs it."""

    subscription: int
    sequence: int
    wire: bytes
    committed_at_us: int = 0
    #: The reason, if it says that the subscription has failed.
    failure: str = ""
    #: It has failed because its channel was dropped: a new request for the same subscription must go to the cluster.
    is_end: bool = False
    kind: ResultKind = ResultKind.RESULT

    def payload(self) -> msgspec.Raw | bytes | None:
        """What filters decide on; None if it is no result, but says that there are none. Most results are never asked
        for it: their text goes to subscribers as it is."""
        return None if self.failure else payload_of(self.wire)


class ClusterPort(Protocol):
    """One broker's way to the cluster."""

    @property
    def run(self) -> str:
        """The id of the cluster process that answered last. A new process may have been started from older data."""

    async def register(self) -> int:
        """Register the broker. Returns the cursor after which new results come. A broker that is registered already
        keeps its holds."""

    async def held(self) -> list[BackendHold]:
        """All holds of this broker, and none of others."""

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        """Hold all of these, or none: WrongEntries says which are wrong. The answer is in the order of `keys`.

        Equal keys are one backend subscription, at all brokers. Its results after the answer have higher sequences than
        the answer's. A pull that began before the answer may leave them out.
        """

    async def request_snapshots(self, ids: Sequence[int]) -> None:
        """Put a snapshot into the results of each of these, if this broker holds it: after all results that it could
        pull before the call."""

    async def release(self, ids: Sequence[int]) -> None:
        """Hold these no longer: all, or none, with NotFound, if one is not held. A subscription that nobody holds any
        more has ended: the next one with the same key gets another id."""

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        """Results of this broker's holds after a cursor, oldest first, each once, and none left out up to the next
        cursor. Returns them, the next cursor and the number of bytes. The answer may be a part; the next pull goes on
        from there. If there are no results, the call waits up to `wait_s` for some.

        Raises HistoryGone if results of these holds after the cursor have been removed, with a cursor after which none
        is missing; HistoryRewound if the cluster was started from older data and the cursor is of a history that is
        gone.
        """

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        """Results of some subscriptions, each after its own sequence, oldest first, and how far they are complete. The
        answer may be a part. Raises HistoryGone and HistoryRewound as `pull` does."""

    async def publish(self, feed: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Put records into a feed. They are durable when this returns."""

    async def close(self) -> None: ...


class Kept(msgspec.Struct, frozen=True):
    """A frontend subscription as it is stored: acknowledged up to `position`."""

    key: SubscriptionKey
    position: Position
    #: Its filter as the subscriber wrote it; empty: it has none.
    where: str = ""


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A subscriber's stored session. `away_s`: for how long it has been away, as far as a broker's own store knows."""

    subscriber: SubscriberId
    generation: int
    subscriptions: Sequence[Kept]
    away_s: float = 0.0


class CoordinatorPort(Protocol):
    """One broker's way to the coordinator. Changes are on the coordinator's disk before it answers."""

    async def register(self, registration: BrokerRegistration) -> BrokerWelcome:
        """Register the broker; calls of an earlier process of that name count no longer."""

    async def report(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Report changes. The report does not change a session that another broker has claimed since; the answer names
        it as lost, once. Raises NotFound if the broker has to register."""

    async def claim(self, subscribers: Sequence[SubscriberId]) -> tuple[dict[SubscriberId, int], list[KeptSession]]:
        """Become the owner of these subscribers' sessions. Returns their generations, each higher than any before, and
        most of the sessions as they were when they changed owners. From then on no former owner changes them."""

    async def sessions(
        self, subscribers: Sequence[SubscriberId]
    ) -> tuple[dict[SubscriberId, KeptSession | None], list[SubscriberId]]:
        """The sessions of these subscribers, whoever owns them (None: there is none), and the subscribers that the
        broker has to ask about again."""

    async def request_moves(self, subscribers: Sequence[SubscriberId]) -> dict[SubscriberId, tuple[str, str]]:
        """Where these should go: broker and address. Subscribers that no broker can take are left out."""

    async def close(self) -> None: ...
