"""Bugs that drawn histories must be able to find, each in one place, and only for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from histories.checking import Kind

#: Puts something bad in the place of what is there: owner, name, what is bad.
Substitute = Callable[[Any, str, Any], None]


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    plant: Callable[[Substitute], None]
    #: Any of these shows that it was found.
    kinds: frozenset[Kind]

    @contextmanager
    def planted(self) -> Iterator[None]:
        before: list[tuple[Any, str, Any]] = []

        def substitute(owner: Any, name: str, bad: Any) -> None:
            # As it is written there: a static method has to be put back as one.
            before.append((owner, name, vars(owner)[name]))
            setattr(owner, name, bad)

        self.plant(substitute)
        try:
            yield
        finally:
            for owner, name, good in reversed(before):
                setattr(owner, name, good)


def _forget_positions(substitute: Substitute) -> None:
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


def _live_before_caught_up(substitute: Substitute) -> None:
    from tocsin.broker.core.delivery import Delivering

    need_history = Delivering._need_history

    def hasty(self: Any, frontend: Any) -> None:
        need_history(self, frontend)
        if frontend.session.connection is not None:
            frontend.live = True
            frontend.backend.live[frontend.session.connection] = frontend.session

    substitute(Delivering, "_need_history", hasty)


def _trust_every_pull(substitute: Substitute) -> None:
    from tocsin.broker.core.delivery import Delivering

    def open_at_once(self: Any, backend: Any) -> None:
        self._cache.open(backend.id, self.through)

    substitute(Delivering, "open", open_at_once)


def _catch_up_skips_one(substitute: Substitute) -> None:
    from tocsin.broker.core import delivery

    add = delivery._add

    def skipping(frontend: Any, found: Any, wires: list[bytes], room_bytes: int) -> int:
        found = list(found)
        return add(frontend, found[1:] if len(found) > 1 else found, wires, room_bytes)

    substitute(delivery, "_add", skipping)


class _Nothing(dict[Any, Any]):
    """Whatever is put in is gone."""

    def __setitem__(self, _key: Any, _value: Any) -> None:
        pass


def _claim_in_part(substitute: Substitute) -> None:
    from tocsin.broker.core import claiming
    from tocsin.broker.core.instructions import StoreSubscription
    from tocsin.broker.core.sessions import Session
    from tocsin.broker.core.subscribing import Subscribing

    init, subscribe = Session.__init__, Subscribing.subscribe

    def without_what_is_brought(self: Any, *given: Any, **more: Any) -> None:
        init(self, *given, **more)
        self.brought = _Nothing()

    def without_storing_it(self: Any, session: Any, message: Any) -> None:
        waiting = session.waiting
        subscribe(self, session, message)
        if session.waiting > waiting and self._out and isinstance(self._out[-1], StoreSubscription):
            self._out.pop()

    substitute(Session, "__init__", without_what_is_brought)
    substitute(Subscribing, "subscribe", without_storing_it)
    # Else the former broker holds on for so long that most of it comes right.
    substitute(claiming, "_UNTOLD_LINGER_S", claiming._LINGER_S)


def _believe_old_copies(substitute: Substitute) -> None:
    from tocsin.broker.core import arriving

    substitute(arriving, "comes_unasked", lambda _arrival: True)


def _forget_claims(substitute: Substitute) -> None:
    from tocsin.broker.core.claiming import Claims

    claimed = Claims.claimed

    def of_those_who_are_here(self: Any, event: Any) -> None:
        here = {one: generation for one, generation in event.generations.items() if one in self.sessions}
        claimed(self, replace(event, generations=here))

    substitute(Claims, "claimed", of_those_who_are_here)


def _report_too_early(substitute: Substitute) -> None:
    from tocsin.broker.core.claiming import Claims
    from tocsin.broker.core.session_table import SessionFact

    claimed = Claims.claimed

    def without_a_look(self: Any, event: Any) -> None:
        claimed(self, event)
        for subscriber in event.generations:
            if (session := self.sessions.get(subscriber)) is not None:
                session.learn(SessionFact.CONFIRMED)

    substitute(Claims, "claimed", without_a_look)


def _claim_before_holding(substitute: Substitute) -> None:
    from tocsin.broker.core import claiming

    def claim(self: Any, session: Any) -> None:
        if session.state.is_owned:
            self._reports.changed(session)
        else:
            self._reports.claim(session)

    substitute(claiming, "_LINGER_S", 0.0)
    substitute(claiming, "_UNTOLD_LINGER_S", 0.0)
    substitute(claiming.Claims, "claim_when_whole", claim)


def _keep_repeats(substitute: Substitute) -> None:
    from tocsin.client.core.client_subscription import ClientSubscription

    def gullible(self: Any, position: Any, **_more: Any) -> bool:
        last = self.received
        if last is None or position.epoch != last.epoch:
            return False
        self.received = max(position, last, key=lambda one: one.sequence)
        return True

    substitute(ClientSubscription, "take", gullible)


def _ignore_permission(substitute: Substitute) -> None:
    from tocsin.protocol.subscription_keys import SubscriptionKey

    of = SubscriptionKey.of
    substitute(
        SubscriptionKey,
        "of",
        staticmethod(lambda channel, values, _permission, *filled: of(channel, values, "", *filled)),
    )


def _cursor_too_far(substitute: Substitute) -> None:
    from histories import cluster_side
    from tocsin.model.position import ROWS_PER_NUMBER

    pull = cluster_side.ClusterSide.pull

    def hasty(self: Any, broker: str, after: int, limit: int) -> Any:
        pulled = pull(self, broker, after, limit)
        return replace(pulled, through=max(pulled.through, self.results.last_sequence) + 256 * ROWS_PER_NUMBER)

    substitute(cluster_side.ClusterSide, "pull", hasty)


def _forget_bound(substitute: Substitute) -> None:
    from histories import cluster_side

    substitute(cluster_side.ClusterSide, "_bound", lambda self: self._ahead or self.results.bound // 2)


def _forget_unsubscribing(substitute: Substitute) -> None:
    from tocsin.client.core.ledger import Ledger

    def once_confirmed(self: Any, kept: Any) -> int | None:
        request = left_as(self, kept)
        return None if request is None or self._left[request].is_confirmed else request

    left_as = Ledger._left_as
    substitute(Ledger, "_left_as", once_confirmed)


def _forget_filter(substitute: Substitute) -> None:
    from tocsin.broker.core.subscribing import Subscribing
    from tocsin.protocol.ports import Kept

    restore = Subscribing.restore

    def forgetful(self: Any, session: Any, kept: Any, **more: Any) -> None:
        subscriptions = [Kept(one.key, one.position) for one in kept.subscriptions]
        restore(self, session, replace(kept, subscriptions=subscriptions), **more)

    substitute(Subscribing, "restore", forgetful)


def _catch_up_unfiltered(substitute: Substitute) -> None:
    from tocsin.broker.core.matching import FilterGroup

    substitute(FilterGroup, "matches", lambda _self, _delivery: True)


def _pass_over_what_waits(substitute: Substitute) -> None:
    from tocsin.broker.core import machine
    from tocsin.client.core.client_subscription import ClientSubscription

    substitute(ClientSubscription, "is_dealt_with", True)
    substitute(machine, "_PASS_EVERY_S", 0.0)


_LOST = frozenset({Kind.LOST})
_GONE = frozenset({Kind.LOST, Kind.HISTORY_GONE})

BUGS = {
    bug.name: bug
    for bug in (
        Bug("forget-positions", "what was kept goes on from now", _forget_positions, _LOST),
        Bug("live-before-caught-up", "live results before history", _live_before_caught_up, _LOST),
        Bug("trust-every-pull", "a pull that was under way is trusted", _trust_every_pull, _LOST),
        Bug("catch-up-skips-one", "the first missed result is not sent", _catch_up_skips_one, _LOST),
        Bug("claim-in-part", "claims without what the subscriber brought", _claim_in_part, _GONE),
        Bug("believe-old-copies", "nobody is asked whether a copy is current", _believe_old_copies, _LOST),
        Bug("forget-claims", "what is claimed for who has left is kept by nobody", _forget_claims, _GONE),
        Bug("report-too-early", "what the former owner reported last is overwritten", _report_too_early, _GONE),
        Bug("claim-before-holding", "claims what it does not hold yet", _claim_before_holding, _GONE),
        Bug("keep-repeats", "the client drops no repeats", _keep_repeats, frozenset({Kind.DOUBLED})),
        Bug(
            "forget-unsubscribing",
            "the client forgets what it has left once a broker confirms that",
            _forget_unsubscribing,
            frozenset({Kind.KEPT_FOR_NOTHING}),
        ),
        Bug("forget-filter", "a resumed session forgets its filter", _forget_filter, frozenset({Kind.MISDELIVERED})),
        Bug(
            "catch-up-unfiltered",
            "only live results are compared with filters",
            _catch_up_unfiltered,
            frozenset({Kind.MISDELIVERED}),
        ),
        Bug(
            "pass-over-what-waits",
            "what is not acknowledged is passed over like what does not match",
            _pass_over_what_waits,
            _LOST,
        ),
        Bug("ignore-permission", "permission classes share results", _ignore_permission, _LOST | {Kind.MISDELIVERED}),
        Bug("cursor-too-far", "the cluster's cursor passes what is not committed", _cursor_too_far, _LOST),
        Bug("forget-bound", "windows are run twice", _forget_bound, frozenset({Kind.DOUBLED})),
    )
}
