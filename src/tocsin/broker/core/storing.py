"""Stores the machine's changes, and deals with changes that the store does not take.

A promise to a subscriber is stored first. If that fails, nothing is promised, and the session is set back to the stored
one. A change that promises nothing is owed, and stored before later changes. Positions and presence go back to the
machine, which has newer ones soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tocsin.broker.core import instructions as ins
from tocsin.errors import TocsinError, Unavailable
from tocsin.model.position import Position
from tocsin.protocol.ports import KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey


class Store(Protocol):
    def apply(self, changes: Iterable[ins.Change]) -> None:
        """Carry out all or none; raises Unavailable if nothing can be written, anything else if a change is wrong."""

    def session(self, subscriber: SubscriberId) -> KeptSession | None: ...


@dataclass(slots=True)
class Unkept:
    """Changes that were not stored: whose promises, which positions, and why."""

    error: Exception
    subscribers: dict[SubscriberId, None] = field(default_factory=dict)
    positions: list[tuple[SubscriberId, SubscriptionKey, Position]] = field(default_factory=list)
    presence: list[SubscriberId] = field(default_factory=list)

    @property
    def refusal(self) -> TocsinError:
        """The error that subscribers get."""
        if isinstance(self.error, TocsinError):
            return Unavailable(f"this broker can't store subscriptions now: {self.error.message}", retry_after_s=5)
        return Unavailable("the change could not be stored; nothing was changed", retry_after_s=5)


class Keeper:
    def __init__(self, store: Store) -> None:
        self._store = store
        #: Promised to nobody; stored with the next changes. Bounded: while it is not empty, nothing new is begun.
        self._owed: list[ins.Change] = []

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    def keep(self, changes: Sequence[ins.Change], *, is_asked: bool = False) -> Unkept | None:
        """Store these; returns changes that could not be stored. `is_asked`: a subscriber waits for the answer."""
        try:
            self._store.apply([*self._owed, *changes])
        except Unavailable as exc:
            unkept = Unkept(exc)
            self._set_aside(unkept, changes, is_asked=is_asked)
            return unkept
        except Exception as exc:  # noqa: BLE001 whatever it is, it is told
            # One of them is wrong, and the others need not suffer for it.
            return self._keep_one_by_one(changes, Unkept(exc), is_asked=is_asked)
        self._owed.clear()
        return None

    def recall(self, subscriber: SubscriberId) -> KeptSession | None:
        """The stored session, with the changes that are owed."""
        session = self._store.session(subscriber)
        for change in self._owed:
            match change:
                case ins.ForgetSession(whose) if whose == subscriber:
                    session = None
                case ins.StoreSession(whose, generation) if whose == subscriber and session is not None:
                    session = replace(session, generation=generation)
                case ins.ForgetSubscription(whose, key) if whose == subscriber and session is not None:
                    session = replace(
                        session,
                        subscriptions=[one for one in session.subscriptions if one.key.stored() != key.stored()],
                    )
        return session

    def _keep_one_by_one(self, changes: Sequence[ins.Change], unkept: Unkept, *, is_asked: bool) -> Unkept:
        owed, self._owed = self._owed, []
        for whose, change in _by_session([*owed, *changes]):
            if whose in unkept.subscribers:
                continue  # Its session is set back to the stored one.
            try:
                self._store.apply([change])
            except Unavailable:
                self._set_aside(unkept, [change], is_asked=is_asked)
            except Exception as exc:  # noqa: BLE001 whatever it is, it is told
                unkept.error = exc
                unkept.subscribers[whose] = None
        return unkept

    def _set_aside(self, unkept: Unkept, changes: Sequence[ins.Change], *, is_asked: bool) -> None:
        for change in changes:
            match change:
                case ins.StorePositions(positions):
                    unkept.positions.extend(positions)
                case ins.StorePresence(away_s):
                    unkept.presence.extend(away_s)
                case ins.StoreSubscription(subscriber) | ins.StoreSession(subscriber, 0):
                    unkept.subscribers[subscriber] = None
                case ins.ForgetSubscription(subscriber) if is_asked:
                    unkept.subscribers[subscriber] = None
                case _:
                    self._owed.append(change)


def _by_session(changes: Iterable[ins.Change]) -> Iterator[tuple[SubscriberId, ins.Change]]:
    """The same changes, each about one session, and whose that is."""
    for change in changes:
        match change:
            case ins.StorePositions(positions):
                yield from ((one[0], ins.StorePositions([one])) for one in positions)
            case ins.StorePresence(away_s):
                yield from ((one, ins.StorePresence({one: for_s})) for one, for_s in away_s.items())
            case _:
                yield change.subscriber, change
