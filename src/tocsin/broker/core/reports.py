"""Changes of sessions that the coordinator does not know yet.

Arrivals, departures and subscriptions go with the next report. Positions alone change all the time and are reported now
and then: a subscriber that comes back to another broker usually brings its own, newer ones.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from types import MappingProxyType

from tocsin.broker.core.instructions import Report
from tocsin.broker.core.session_table import SessionFact
from tocsin.broker.core.sessions import Session
from tocsin.coordinates.located import Located
from tocsin.model.location import Location
from tocsin.model.token_bucket import TokenBucket
from tocsin.protocol.ports import KeptSession, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Sessions in one report.
_MAX_PER_REPORT = 5_000
#: Sessions of which only positions changed. While moves are under way there are many reports in a second, and these
#: sessions would be most of their cost.
_MAX_POSITIONS_PER_S = 200
#: The coordinator takes 64 MiB: 16 million characters, if each takes four bytes. Sessions beyond this limit wait for
#: the next report; a single session, which may exceed it by itself, has up to ten million.
_MAX_CHARACTERS_PER_REPORT = 4 << 20
#: The size of a subscription beside its channel and parameters: names of fields, its position.
_CHARACTERS_BESIDE = 120
#: Byte counts in one report; the others wait for the next ones. Brokers that hold the same subscription should report
#: its results within three heartbeats: beyond that, the coordinator may count them twice.
_MAX_PULLED_PER_REPORT = 20_000


class Reporting:
    def __init__(self) -> None:
        self._changed: dict[SubscriberId, Session] = {}
        self._moved_on: dict[SubscriberId, Session] = {}
        self._claims: dict[SubscriberId, Session] = {}
        self._ended: dict[SubscriberId, None] = {}
        #: Bytes that have come and are in no report yet, longest waiting first.
        self._pulled_bytes: dict[SubscriptionKey, int] = {}
        self._positions_allowed = TokenBucket(_MAX_POSITIONS_PER_S, _MAX_POSITIONS_PER_S)

    @property
    def claims(self) -> AbstractSet[SubscriberId]:
        return self._claims.keys()

    def changed(self, session: Session) -> None:
        session.version += 1
        self._changed[session.subscriber] = session

    def moved_on(self, session: Session) -> None:
        """Only its positions changed."""
        if session.subscriber not in self._changed:
            self._moved_on[session.subscriber] = session

    def claim(self, session: Session) -> None:
        """All of it is held here: it can be ours."""
        session.learn(SessionFact.COMPLETED)
        self._claims[session.subscriber] = session
        self._ended.pop(session.subscriber, None)

    def claimed(self, session: Session, generation: int) -> None:
        session.learn(SessionFact.CLAIMED)
        session.generation = generation
        self._claims.pop(session.subscriber, None)
        self.changed(session)

    def ended(self, session: Session) -> None:
        self.forget(session)
        if session.state.is_owned:
            self._ended[session.subscriber] = None

    def forget(self, session: Session) -> None:
        for known in (self._changed, self._moved_on, self._claims):
            known.pop(session.subscriber, None)

    def next_report(
        self,
        now_s: float,
        pulled_bytes: Mapping[SubscriptionKey, int],
        prepared: Sequence[SubscriberId] = (),
        locations: Mapping[SubscriberId, Location] = MappingProxyType({}),
        located: Mapping[SubscriberId, Located] = MappingProxyType({}),
    ) -> Report:
        """`pulled_bytes` are those since the last report."""
        for key, size_bytes in pulled_bytes.items():
            self._pulled_bytes[key] = self._pulled_bytes.get(key, 0) + size_bytes
        ours = [one for one in self._changed.values() if _can_report(one)][:_MAX_PER_REPORT]
        for session in list(islice(self._moved_on.values(), _MAX_POSITIONS_PER_S)):
            if not self._positions_allowed.take(now_s):
                break
            del self._moved_on[session.subscriber]
            if _can_report(session) and session.subscriber not in self._changed:
                self._changed[session.subscriber] = session
                ours.append(session)
        changed: dict[SubscriberId, tuple[int, bool, KeptSession]] = {}
        left = _MAX_CHARACTERS_PER_REPORT
        for session in ours:
            if left <= 0:
                break
            kept = session.kept()
            changed[session.subscriber] = (session.version, session.connection is not None, kept)
            left -= sum(_characters(one.key) + len(one.where) for one in kept.subscriptions)
        return Report(
            claims=list(self._claims)[:_MAX_PER_REPORT],
            changed=changed,
            ended=list(self._ended)[:_MAX_PER_REPORT],
            pulled_bytes=self._take_pulled_bytes(),
            prepared=prepared[:_MAX_PER_REPORT],
            locations=dict(islice(locations.items(), _MAX_PER_REPORT)),
            located=dict(islice(located.items(), _MAX_PER_REPORT)),
        )

    def reported(
        self, subscribers: Mapping[SubscriberId, int], ended: Sequence[SubscriberId], lost: Container[SubscriberId] = ()
    ) -> None:
        """The coordinator knows these versions, except the `lost` ones, of which it takes no report from us. Changes
        since then go with the next report."""
        for subscriber, version in subscribers.items():
            session = self._changed.get(subscriber)
            if session is not None and session.version == version:
                del self._changed[subscriber]
                if subscriber not in lost:
                    for frontend in session.frontends.values():
                        frontend.is_told = True
        for subscriber in ended:
            self._ended.pop(subscriber, None)

    def _take_pulled_bytes(self) -> dict[SubscriptionKey, int]:
        """As many as fit in a report."""
        fitting: dict[SubscriptionKey, int] = {}
        left = _MAX_CHARACTERS_PER_REPORT
        for key, size_bytes in islice(self._pulled_bytes.items(), _MAX_PULLED_PER_REPORT):
            if left <= 0:
                break
            fitting[key] = size_bytes
            left -= _characters(key)
        for key in fitting:
            del self._pulled_bytes[key]
        return fitting


def _can_report(session: Session) -> bool:
    """We do not report a session that is not claimed yet, or may lack something that another broker reported."""
    return session.state.is_owned and session.state.is_confirmed


def _characters(key: SubscriptionKey) -> int:
    return len(key.channel) + len(key.parameters) + len(key.permission) + _CHARACTERS_BESIDE
