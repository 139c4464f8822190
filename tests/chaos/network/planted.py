"""The same network with one bug in it: what the run must be able to find.

`python -m chaos.network.planted BUG broker …` patches one thing and then is `tocsin`; with `subscribers` it is the
process of subscribers. Nothing in the product knows of it. Each bug says which kinds of violation show that it was
understood, not just noticed.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos.network.history import Kind
from chaos.substitution import substitute


class Where(StrEnum):
    BROKER = "broker"
    COORDINATOR = "coordinator"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    where: Where
    plant: Callable[[], None]
    #: One of these must be found.
    kinds: frozenset[Kind]
    #: What is killed (`plans.BROKERS` and so on), one after the other.
    targets: tuple[str, ...] = ("broker-1", "broker-2", "broker-3")
    kills: int = 3
    #: It is in how people are moved.
    moves: bool = False


def _forget_positions() -> None:
    """A broker that is started again carries its sessions on from now, not from where they were acknowledged."""
    from tocsin.broker.core.subscribing import Subscribing
    from tocsin.model.position import Position
    from tocsin.protocol.ports import Kept

    restore = Subscribing.restore

    def forgetful(self: Any, session: Any, kept: Any, **more: Any) -> None:
        now = self._deliveries.through
        subscriptions = [
            Kept(one.key, Position(one.position.epoch, max(one.position.sequence, now))) for one in kept.subscriptions
        ]
        restore(self, session, replace(kept, subscriptions=subscriptions), **more)

    substitute(Subscribing, "restore", forgetful)


def _live_before_caught_up() -> None:
    """Who has to be given history gets what is new at once, and the history after it; that takes its time."""
    from tocsin.broker.core.delivery import Delivering
    from tocsin.broker.shell.cluster_link import ClusterLink

    need_history = Delivering._need_history

    def hasty(self: Any, frontend: Any) -> None:
        need_history(self, frontend)
        if frontend.session.connection is not None:
            frontend.live = True
            frontend.backend.live[frontend.session.connection] = frontend.session

    history = ClusterLink.history

    async def slow(self: Any, after: Any) -> Any:
        await asyncio.sleep(1)
        return await history(self, after)

    substitute(Delivering, "_need_history", hasty)
    substitute(ClusterLink, "history", slow)


def _trust_every_pull() -> None:
    """Results that a pull lacks count as not there, even if it was under way when they began to be held; and pulls are
    slow, as on a bad line."""
    from tocsin.broker.core.delivery import Delivering
    from tocsin.broker.shell.cluster_link import ClusterLink

    def open_at_once(self: Any, backend: Any) -> None:
        self._cache.open(backend.id, self.through)

    pull = ClusterLink.pull

    async def slow(self: Any, after: int, wait_s: float) -> Any:
        answer = await pull(self, after, wait_s)
        await asyncio.sleep(4)
        return answer

    substitute(Delivering, "open", open_at_once)
    substitute(ClusterLink, "pull", slow)


def _catch_up_skips_one() -> None:
    """The first of what somebody missed is not sent."""
    from tocsin.broker.core import delivery

    add = delivery._add

    def skipping(frontend: Any, found: Any, wires: list[bytes], room_bytes: int) -> int:
        found = list(found)
        return add(frontend, found[1:] if len(found) > 1 else found, wires, room_bytes)

    substitute(delivery, "_add", skipping)


def _forget_the_absent() -> None:
    """Devices with a name are kept no longer than those without one, and those not at all."""
    from tocsin.broker.core.limits import Limits

    make = Limits.__init__

    def stingy(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        object.__setattr__(self, "device_retention_s", 0.0)

    substitute(Limits, "__init__", stingy)


def _claim_before_holding() -> None:
    """A newcomer's session is claimed before its subscriptions are held here, and who loses it lets go at once."""
    from tocsin.broker.core import claiming
    from tocsin.broker.core.arriving import Arrivals
    from tocsin.broker.shell.cluster_link import ClusterLink

    substitute(claiming, "_LINGER_S", 0.0)
    substitute(claiming, "_UNTOLD_LINGER_S", 0.0)

    def claim(self: Any, session: Any) -> None:
        if session.state.is_owned:
            self._reports.changed(session)
        else:
            self._reports.claim(session)

    fetched = Arrivals.session_fetched

    def hasty(self: Any, event: Any) -> None:
        fetched(self, event)
        if (session := self._claims.sessions.get(event.subscriber)) is not None:
            claim(self._claims, session)

    acquire = ClusterLink.acquire

    async def slow(self: Any, keys: Any) -> Any:
        await asyncio.sleep(2)
        return await acquire(self, keys)

    substitute(claiming.Claims, "claim_when_whole", claim)
    substitute(Arrivals, "session_fetched", hasty)
    substitute(ClusterLink, "acquire", slow)


def _mix_up_shelves() -> None:
    """Now and then the cache gives out what it keeps of another subscription."""
    from tocsin.broker.core.cache import ResultCache

    after, chance = ResultCache.after, random.Random(7)

    def careless(self: Any, subscription: int, sequence: int) -> Any:
        found = after(self, subscription, sequence)
        if found and chance.random() < 0.3:
            other = chance.choice(list(self._shelves.values())).deliveries
            return [one for one in other if one.sequence > sequence] or found
        return found

    substitute(ResultCache, "after", careless)


def _ignore_permission() -> None:
    """All who ask the same share it, whatever they may see."""
    from tocsin.protocol.subscription_keys import SubscriptionKey

    of = SubscriptionKey.of
    substitute(
        SubscriptionKey,
        "of",
        staticmethod(lambda channel, values, _permission, *filled: of(channel, values, "", *filled)),
    )


def _unsubscribe_says_so_only() -> None:
    """Unsubscribing is confirmed, and things go on as before."""
    from tocsin.broker.core.subscribing import Subscribing
    from tocsin.protocol.messages import Unsubscribed

    def lazy(self: Any, session: Any, subscription: int, request: int, now_s: float) -> None:
        self._tell(session, Unsubscribed(subscription, request))

    substitute(Subscribing, "unsubscribe", lazy)


def _believe_everybody() -> None:
    """The coordinator never tells a former owner that a session is not its any more."""
    from tocsin.coordinator.registry.sessions import Sessions

    reported = Sessions.reported

    def meek(self: Any, *arguments: Any) -> Any:
        changes, _ = reported(self, *arguments)
        return changes, []

    substitute(Sessions, "reported", meek)


def _keep_repeats() -> None:
    """The client hands on what comes a second time."""
    from tocsin.client.core.client_subscription import ClientSubscription

    def gullible(self: Any, position: Any) -> bool:
        last = self.received
        if last is None or position.epoch != last.epoch:
            return False
        self.received = max(position, last, key=lambda one: one.sequence)
        return True

    substitute(ClientSubscription, "take", gullible)


def _acknowledge_on_arrival() -> None:
    """The client acknowledges what it has put into its inbox, and empties that when it connects again."""
    from tocsin.client.core import events as ev
    from tocsin.client.shell.driver import Driver

    report = Driver._report

    def eager(self: Any, event: Any) -> None:
        report(self, event)
        if isinstance(event, ev.Closed):
            for lane in self.inbox._lanes.values():
                while lane.items:
                    self.inbox._pop(lane)

    tell_application = Driver._tell_application

    def acknowledging(self: Any, instruction: Any) -> None:
        tell_application(self, instruction)
        if isinstance(instruction, ev.Deliver):
            self._loop.call_soon(self.tell, ev.Acknowledged(instruction.request, instruction.position))

    substitute(Driver, "_report", eager)
    substitute(Driver, "_tell_application", acknowledging)


def _adopt_from_now() -> None:
    """Who is adopted while away goes on from now, not from where it had acknowledged."""
    from tocsin.broker.core.arriving import Arrivals
    from tocsin.model.position import Position
    from tocsin.protocol.ports import Kept

    fetched = Arrivals.session_fetched

    def hasty(self: Any, event: Any) -> None:
        if event.subscriber in self._claims._adopting and event.session is not None:
            now = self._claims._deliveries.through
            subscriptions = [
                Kept(one.key, Position(one.position.epoch, max(one.position.sequence, now)))
                for one in event.session.subscriptions
            ]
            event = replace(event, session=replace(event.session, subscriptions=subscriptions))
        fetched(self, event)

    substitute(Arrivals, "session_fetched", hasty)


def _let_go_when_told() -> None:
    """Break before make: a destination says that it is prepared and holds nothing, and a source drops those whom it
    sends off, with all that it held for them."""
    from tocsin.broker.core.machine import BrokerState
    from tocsin.protocol.messages import CLOSE_MOVED

    ordered = BrokerState._ordered

    def hasty(self: Any, event: Any) -> None:
        self._moves._prepared.update(dict.fromkeys(event.prepare))
        ordered(self, replace(event, prepare={}))
        for subscriber in event.move:
            session = self._claims.sessions.get(subscriber)
            if session is not None and session.connection is not None and session.state.is_owned:
                self._connections.close(session, CLOSE_MOVED, "off you go")
                self._claims.expire(session)

    substitute(BrokerState, "_ordered", hasty)


_LOST = frozenset({Kind.LOST})

BUGS = {
    bug.name: bug
    for bug in (
        Bug("forget-positions", "sessions go on from now after a start", Where.BROKER, _forget_positions, _LOST),
        Bug("live-before-caught-up", "live results before history", Where.BROKER, _live_before_caught_up, _LOST),
        Bug("trust-every-pull", "a pull that was under way is trusted", Where.BROKER, _trust_every_pull, _LOST),
        Bug("catch-up-skips-one", "the first missed result is not sent", Where.BROKER, _catch_up_skips_one, _LOST),
        Bug(
            "forget-the-absent",
            "nothing is kept for who is away",
            Where.BROKER,
            _forget_the_absent,
            frozenset({Kind.LOST, Kind.HISTORY_GONE}),
            kills=1,
        ),
        Bug(
            "claim-before-holding",
            "claims what it does not hold yet",
            Where.BROKER,
            _claim_before_holding,
            frozenset({Kind.LOST, Kind.HISTORY_GONE}),
            kills=4,
        ),
        Bug(
            "mix-up-shelves",
            "the cache gives out another's results",
            Where.BROKER,
            _mix_up_shelves,
            frozenset({Kind.LOST, Kind.MISDELIVERED}),
            kills=1,
        ),
        Bug(
            "ignore-permission",
            "permission classes share results",
            Where.BROKER,
            _ignore_permission,
            frozenset({Kind.MISDELIVERED}),
            kills=1,
        ),
        Bug(
            "unsubscribe-says-so-only",
            "confirms, and goes on sending",
            Where.BROKER,
            _unsubscribe_says_so_only,
            frozenset({Kind.MISDELIVERED}),
            kills=1,
        ),
        Bug(
            "believe-everybody",
            "former owners are never told",
            Where.COORDINATOR,
            _believe_everybody,
            frozenset({Kind.OWNERSHIP}),
        ),
        Bug("keep-repeats", "the client drops no repeats", Where.CLIENT, _keep_repeats, frozenset({Kind.DOUBLED})),
        Bug(
            "acknowledge-on-arrival",
            "acknowledged before it is handed on",
            Where.CLIENT,
            _acknowledge_on_arrival,
            _LOST,
        ),
        Bug(
            "adopt-from-now",
            "who is moved while away misses what came meanwhile",
            Where.BROKER,
            _adopt_from_now,
            _LOST,
            targets=("client", "source"),
            kills=6,
            moves=True,
        ),
        Bug(
            "let-go-when-told",
            "who is moved is dropped before it has arrived",
            Where.BROKER,
            _let_go_when_told,
            frozenset({Kind.LOST, Kind.HISTORY_GONE}),
            targets=("client", "coordinator"),
            kills=4,
            moves=True,
        ),
    )
}


def main() -> None:
    BUGS[sys.argv.pop(1)].plant()
    if sys.argv[1] == "subscribers":
        from chaos.network import subscribers

        asyncio.run(subscribers.main(subscribers.Config(**json.loads(Path(sys.argv[2]).read_text()))))
        return
    from tocsin.cli.main import app

    app()


if __name__ == "__main__":
    main()
