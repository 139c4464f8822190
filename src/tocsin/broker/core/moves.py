"""Moves of subscribers by plans: holds what arriving subscribers will need, and sends departing ones away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.events import BackendsAcquired
from tocsin.broker.core.filled_parameters import Filling
from tocsin.broker.core.instructions import Instruction, Send
from tocsin.broker.core.sessions import Session
from tocsin.errors import FilledOtherwise, Forbidden
from tocsin.protocol.messages import Move
from tocsin.protocol.ports import SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Prepared subscriptions are held for this long; a subscriber who has not come by then won't come.
_KEPT_FOR_S = 60.0
#: A connection that has not followed a `move` within this time is closed, with the address to go to. Programs that
#: follow moves are gone within a second.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class _Leaving:
    session: Session
    url: str
    close_at_s: float


@dataclass(slots=True, eq=False)
class Moves:
    _holdings: Holdings
    _filling: Filling
    _out: list[Instruction]
    #: By subscriber, the subscriptions that are not held yet.
    _missing: dict[SubscriberId, set[SubscriptionKey]] = field(init=False, default_factory=dict)
    _prepared: dict[SubscriberId, None] = field(init=False, default_factory=dict)
    _leaving: dict[SubscriberId, _Leaving] = field(init=False, default_factory=dict)

    # Arriving subscribers

    def prepare(self, subscriber: SubscriberId, keys: Sequence[SubscriptionKey], now_s: float) -> None:
        missing = {key for one in keys if (key := self._lacking(subscriber, one, now_s)) is not None}
        if missing:
            self._missing[subscriber] = missing
        else:
            self._prepared[subscriber] = None

    def _lacking(self, subscriber: SubscriberId, key: SubscriptionKey, now_s: float) -> SubscriptionKey | None:
        """The key that is missing, and is asked for here; None if it is held, or the subscriber may not have it."""
        try:
            key = self._filling.fill(key, subscriber.partition("/")[0])
        except Forbidden:
            return None
        if self._keep(key, now_s):
            return None
        self._holdings.want_for_later(key)
        return key

    def acquired(self, event: BackendsAcquired) -> None:
        """The cluster has answered. We do not wait for subscriptions that it refused."""
        if not self._missing:
            return
        answered = {key for key, _ in event.acquired} | {key for key, error in event.refused if not error.temporary}
        for key, error in event.refused:
            if error.temporary and any(key in missing for missing in self._missing.values()):
                self._holdings.want_for_later(key)
        otherwise = {key for key, error in event.refused if isinstance(error, FilledOtherwise)}
        for subscriber, missing in list(self._missing.items()):
            for key in missing & answered:
                self._keep(key, event.now_s)
            refilled = {self._lacking(subscriber, key, event.now_s) for key in missing & otherwise}
            missing.difference_update(answered)
            missing.update(key for key in refilled - answered if key is not None)
            if not missing:
                del self._missing[subscriber]
                self._prepared[subscriber] = None

    def prepared(self) -> list[SubscriberId]:
        """Subscribers for whom everything is held, and of whom the coordinator has not been told."""
        return list(self._prepared)

    def reported(self, subscribers: Iterable[SubscriberId]) -> None:
        for subscriber in subscribers:
            self._prepared.pop(subscriber, None)

    def _keep(self, key: SubscriptionKey, now_s: float) -> bool:
        """Hold it for a while, if it is held; whether it is."""
        backend = self._holdings.find(key)
        if backend is None:
            return False
        backend.keep_until_s = max(backend.keep_until_s, now_s + _KEPT_FOR_S)
        if not backend.frontends:
            self._holdings.let_go(backend, now_s)
        return True

    # Departing subscribers

    def send_away(self, session: Session, broker: str, url: str, now_s: float) -> None:
        if session.connection is None or not session.is_welcomed:
            return  # We are told again.
        self._out.append(Send(session.connection, Move(to=url, broker=broker, after_ms=0)))
        if session.subscriber not in self._leaving:
            self._leaving[session.subscriber] = _Leaving(session, url, now_s + _PATIENCE_S)

    @property
    def leaving(self) -> AbstractSet[SubscriberId]:
        return self._leaving.keys()

    def gone(self, session: Session) -> None:
        self._leaving.pop(session.subscriber, None)

    def overdue(self, now_s: float) -> Mapping[Session, str]:
        """Subscribers who were told to move long ago and are still here, with the addresses they should go to."""
        if not self._leaving:
            return {}
        late = [one for one in self._leaving.values() if one.close_at_s <= now_s]
        for one in late:
            del self._leaving[one.session.subscriber]
        return {one.session: one.url for one in late}
