"""People who are moved by plans: holding what those will need who are to come, and sending those away who are to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.events import Ask, BackendsAcquired, Instruction, Send, SubscriberId
from tocsin.broker.core.filled_parameters import Filling
from tocsin.broker.core.sessions import Session
from tocsin.errors import FilledOtherwise, Forbidden
from tocsin.protocol.messages import Move

#: What was prepared is held for this long; if nobody has come by then, nobody will.
_KEPT_FOR_S = 60.0
#: Whoever has not followed a `move` by itself within this time is closed, with the address to go to. Programs that
#: follow moves are gone within a second.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class _Leaving:
    session: Session
    url: str
    close_at_s: float


class RelocationDesk:
    def __init__(self, holdings: Holdings, filling: Filling, out: list[Instruction]) -> None:
        self._holdings = holdings
        self._filling = filling
        self._out = out
        #: For whom what is not held yet.
        self._missing: dict[SubscriberId, set[Ask]] = {}
        self._prepared: dict[SubscriberId, None] = {}
        self._leaving: dict[SubscriberId, _Leaving] = {}

    # Those who are to come

    def prepare(self, subscriber: SubscriberId, asks: Sequence[Ask], now_s: float) -> None:
        missing = {ask for one in asks if (ask := self._lacking(subscriber, one, now_s)) is not None}
        if missing:
            self._missing[subscriber] = missing
        else:
            self._prepared[subscriber] = None

    def _lacking(self, subscriber: SubscriberId, ask: Ask, now_s: float) -> Ask | None:
        """What has to be asked for, and is; None if it is held, or not theirs to have."""
        try:
            ask = self._filling.fill(ask, subscriber.partition("/")[0])
        except Forbidden:
            return None
        if self._keep(ask, now_s):
            return None
        self._holdings.want_for_later(ask)
        return ask

    def acquired(self, event: BackendsAcquired) -> None:
        """The cluster has answered. What it will not have held can't be waited for."""
        if not self._missing:
            return
        answered = {ask for ask, _ in event.acquired} | {ask for ask, error in event.refused if not error.temporary}
        for ask, error in event.refused:
            if error.temporary and any(ask in missing for missing in self._missing.values()):
                self._holdings.want_for_later(ask)
        otherwise = {ask for ask, error in event.refused if isinstance(error, FilledOtherwise)}
        for subscriber, missing in list(self._missing.items()):
            for ask in missing & answered:
                self._keep(ask, event.now_s)
            refilled = {self._lacking(subscriber, ask, event.now_s) for ask in missing & otherwise}
            missing.difference_update(answered)
            missing.update(ask for ask in refilled - answered if ask is not None)
            if not missing:
                del self._missing[subscriber]
                self._prepared[subscriber] = None

    def prepared(self) -> list[SubscriberId]:
        """For whom everything is held, and the coordinator has not been told."""
        return list(self._prepared)

    def told(self, subscribers: Iterable[SubscriberId]) -> None:
        for subscriber in subscribers:
            self._prepared.pop(subscriber, None)

    def _keep(self, ask: Ask, now_s: float) -> bool:
        """Hold it for a while, if it is held; whether it is."""
        backend = self._holdings.find(ask)
        if backend is None:
            return False
        backend.keep_until_s = max(backend.keep_until_s, now_s + _KEPT_FOR_S)
        if not backend.frontends:
            self._holdings.let_go(backend, now_s)
        return True

    # Those who are to go

    def send_away(self, session: Session, broker: str, url: str, now_s: float) -> None:
        if session.connection is None or not session.is_welcomed:
            return  # We are told again.
        self._out.append(Send(session.connection, Move(to=url, broker=broker, after_ms=0)))
        if session.subscriber not in self._leaving:
            self._leaving[session.subscriber] = _Leaving(session, url, now_s + _PATIENCE_S)

    def gone(self, session: Session) -> None:
        self._leaving.pop(session.subscriber, None)

    def overdue(self, now_s: float) -> Mapping[Session, str]:
        """Those who have been told long ago and are still here, with the addresses they should go to."""
        if not self._leaving:
            return {}
        late = [one for one in self._leaving.values() if one.close_at_s <= now_s]
        for one in late:
            del self._leaving[one.session.subscriber]
        return {one.session: one.url for one in late}
