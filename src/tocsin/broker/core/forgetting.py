"""Forgetting people: nothing is kept that names them, in keys, filters or results (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tocsin.broker.core.cache import ResultCache
from tocsin.broker.core.claiming import Claims
from tocsin.broker.core.instructions import ForgetSubscription, Instruction, Send
from tocsin.broker.core.locations import LocationReports
from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.sessions import Session
from tocsin.broker.core.subscribing import Subscribing
from tocsin.errors import NotFound
from tocsin.filters.naming import strings_of
from tocsin.model.people import fingerprint
from tocsin.model.position import Position
from tocsin.protocol.messages import Failed
from tocsin.protocol.ports import Kept

_REASON = "the person whom this subscription names was removed"


@dataclass(frozen=True, slots=True)
class Forgetting:
    _cache: ResultCache
    _claims: Claims
    _subscriptions: Subscribing
    _reports: Reporting
    _locations: LocationReports
    _out: list[Instruction]

    def forget(self, people: Mapping[str, int], now_s: float) -> None:
        """Keep none of the sessions of these people, and no subscription that others made with their names. The people
        are known by the fingerprints of their names.

        All results in memory go too: the broker does not know whom a result names."""
        self._cache.empty()
        for session in list(self._claims.sessions.values()):
            if fingerprint(session.user) not in people:
                self._end_named(session, people, now_s)
            elif session.connection is None:  # Else somebody has taken the name since, with a token of their own.
                self._locations.forget_user(session)
                self._claims.expire(session)

    def _end_named(self, session: Session, people: Collection[str], now_s: float) -> None:
        """End this session's subscriptions that name one of these people, and tell a connected subscriber."""
        for frontend in list(session.frontends.values()):
            backend = frontend.backend
            position = Position(backend.id, frontend.sent + 1)  # After everything sent so far, so that it is no repeat.
            if not _names(Kept(frontend.key, position, frontend.where), people):
                continue
            if not backend.has_ended and session.connection is not None:
                message = Failed(backend.id, backend.key.channel, str(position), 0, _REASON, NotFound.code)
                self._out.append(Send(session.connection, message))
            self._subscriptions.detach(frontend, now_s)
        for lacked in (session.restoring, session.brought, session.ended_here):
            for key in [key for key, kept in lacked.items() if _names(kept, people)]:
                del lacked[key]
                self._out.append(ForgetSubscription(session.subscriber, key))
                self._reports.changed(session)


def _names(kept: Kept, people: Collection[str]) -> bool:
    """Whether a value of a subscription, or of its filter, names one of these people."""
    if kept.key.names_one_of(people):
        return True
    return bool(kept.where) and any(fingerprint(one) in people for one in strings_of(kept.where))
