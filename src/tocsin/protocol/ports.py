"""What a cluster and a coordinator are to a broker (pure).

The broker's shell knows them by these alone. Over HTTP they are `ClusterLink` and `CoordinatorLink`; in memory,
`MemoryCluster` of `tocsin.testing`. Brokers rely on what the methods promise: nothing is lost or doubled by it.
`tocsin.testing.cluster_conformance` checks the promises of whatever takes a cluster's place.

Each call raises Unavailable if nobody answers. What it was to do may have been done all the same, so every call can be
made again. Superseded, which any of them may raise, ends the broker: another one has its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
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
    #: The channel's parameters that are filled in, and with what: USER or CLASS.
    filled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One result, encoded once: `wire` is what goes to every socket. `committed_at_us` is by the cluster's clock; 0 if
    nobody wants to know."""

    subscription: int
    sequence: int
    wire: bytes
    committed_at_us: int = 0
    #: If it says that the subscription has failed, why.
    failure: str = ""
    #: It has failed because its channel was dropped: whoever asks for the same has to ask the cluster.
    is_end: bool = False


class ClusterPort(Protocol):
    """One broker's way to the cluster."""

    @property
    def run(self) -> str:
        """Which process has answered last. Another one may have been started from older data."""
        ...

    async def register(self) -> int:
        """Make the cluster know the broker. Returns the cursor after which results of now come. A broker that is known
        holds what it held."""
        ...

    async def held(self) -> list[BackendHold]:
        """All that this broker holds, and nothing that others hold."""
        ...

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        """Hold all of these, or none: WrongEntries says which are wrong. The answer is in the order of `keys`.

        Equal keys are one backend subscription, at whichever brokers. Whatever comes of it after the answer has a
        higher sequence than the answer's. A pull that began before the answer may not know of it.
        """
        ...

    async def release(self, ids: Sequence[int]) -> None:
        """Hold these no longer: all, or none, with NotFound, if one is not held. What nobody holds any more has ended:
        whoever asks for the same gets another id."""
        ...

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        """Results of what this broker holds, after a cursor: oldest first, each once, and none left out up to the next
        cursor, which is returned with how many bytes came. It may be a part; the next pull goes on from there. If there
        are none, it waits up to `wait_s` for some.

        Raises HistoryGone, with where results begin, if the cursor lies before that; HistoryRewound if the cluster was
        started from older data and the cursor is of a history that is gone.
        """
        ...

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        """Results of some subscriptions, each after its own sequence, oldest first, and up to where they are complete.
        It may be a part. Raises HistoryGone and HistoryRewound as `pull` does."""
        ...

    async def publish(self, feed: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Put records into a feed. They are durable when this returns."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """A frontend subscription as it is stored: acknowledged up to `position`."""

    key: SubscriptionKey
    position: Position


@dataclass(frozen=True, slots=True)
class KeptSession:
    """What is kept for a subscriber. `away_s`: for how long it has been away, as far as a broker's own store knows."""

    subscriber: SubscriberId
    generation: int
    subscriptions: Sequence[Kept]
    away_s: float = 0.0


class CoordinatorPort(Protocol):
    """One broker's way to the coordinator. What is answered is on the coordinator's disk."""

    async def register(self, registration: BrokerRegistration) -> BrokerWelcome:
        """Make the coordinator know the broker; what an earlier process of that name says counts no longer."""
        ...

    async def report(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Tell what changed. A session that another broker has claimed since is not changed by it, and named as lost,
        once. Raises NotFound if the broker has to register."""
        ...

    async def claim(self, subscribers: Sequence[SubscriberId]) -> tuple[dict[SubscriberId, int], list[KeptSession]]:
        """Become the owner of these: returns their generations, each higher than any before, and what was known of
        most of them when they changed owners. From then on no former owner changes them."""
        ...

    async def sessions(
        self, subscribers: Sequence[SubscriberId]
    ) -> tuple[dict[SubscriberId, KeptSession | None], list[SubscriberId]]:
        """What is known of these, whoever owns them (None: nothing is), and those who have to be asked about again."""
        ...

    async def request_moves(self, subscribers: Sequence[SubscriberId]) -> dict[SubscriberId, tuple[str, str]]:
        """Where these should go: broker and address. Those that nobody can take are left out."""
        ...

    async def close(self) -> None: ...
