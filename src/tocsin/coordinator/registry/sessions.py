"""Which broker keeps each session (pure).

A session has one owner. A claim makes another broker its owner, with a higher generation. A broker that reports an
older generation has lost the session, and every former owner is told once, with its next heartbeat. Only its owner's
report, or the removal of its user, ends a session: a broker that is silent, or was removed, ends none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tocsin.coordinates.located import Located
from tocsin.coordinator.load.broker_loads import Loads
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.registry.events import ReportedSession
from tocsin.coordinator.registry.instructions import ForgetSession, StoreSession
from tocsin.coordinator.registry.records import NO_BROKERS, SessionRecord, device_of, names, user_of
from tocsin.model.location import Location
from tocsin.model.story import Story

_Changes = list[StoreSession | ForgetSession]


class Sessions:
    """All sessions, and the loads that follow from them. Methods return the changes, to be stored."""

    def __init__(self, brokers: Iterable[str], records: Iterable[SessionRecord], rates: Rates, story: Story) -> None:
        self._story = story
        self.loads = Loads(rates)
        self._by_subscriber: dict[str, SessionRecord] = {}
        #: The locations that subscribers report. They are not stored: subscribers report them again.
        self._locations: dict[str, Location] = {}
        #: The same for their coordinates in the network.
        self._located: dict[str, Located] = {}
        #: For each broker, the sessions that it has lost and has not been told of.
        self._to_lose: dict[str, set[str]] = {broker: set() for broker in brokers}
        for record in records:
            self._put(replace(record, former=record.former & self._to_lose.keys()))

    def get(self, subscriber: str) -> SessionRecord | None:
        """A subscriber's session, whether its broker is dead or alive."""
        session = self._by_subscriber.get(subscriber)
        return session if session is not None and session.owner else None

    def __iter__(self) -> Iterator[SessionRecord]:
        return (session for session in self._by_subscriber.values() if session.owner)

    def __len__(self) -> int:
        return self.loads.all_subscribers

    def location_of(self, subscriber: str) -> Location | None:
        return self._locations.get(subscriber)

    def moved(self, locations: Mapping[str, Location]) -> None:
        """Take new locations of subscribers. Subscribers without a session are left out."""
        self._locations.update((one, location) for one, location in locations.items() if self.get(one) is not None)

    def located_of(self, subscriber: str) -> Located | None:
        """Where it is in the network, if it has told that."""
        return self._located.get(subscriber)

    def located(self, located: Mapping[str, Located]) -> None:
        """Take new coordinates of subscribers. Subscribers without a session are left out."""
        self._located.update((one, where) for one, where in located.items() if self.get(one) is not None)

    def add_broker(self, broker: str) -> None:
        self._to_lose.setdefault(broker, set())

    def remove_broker(self, broker: str) -> _Changes:
        """Its sessions stay as they are, with their owner gone, except those of nameless devices, which are short-lived
        anyway. The broker need not be told of lost sessions any more."""
        nameless = [one for one in self if one.owner == broker and device_of(one.subscriber).startswith("~")]
        changes = [change for one in self._to_lose.pop(broker) for change in self._lets_go(broker, one)]
        return changes + [change for session in nameless for change in self._end(session, session.former)]

    def reported(
        self, broker: str, changed: Iterable[ReportedSession], ended: Iterable[str]
    ) -> tuple[_Changes, list[str]]:
        """Take a broker's report of its sessions. Returns also those that it has lost."""
        changes: _Changes = []
        # Ended sessions first: one that is in both lists has begun anew.
        for subscriber in ended:
            session = self._by_subscriber.get(subscriber)
            if session is not None and session.owner == broker:
                changes += self._end(session, session.former)
            else:
                changes += self._lets_go(broker, subscriber)
        lost = {one.subscriber for one in changed if not self._take(broker, one, changes)}
        for subscriber in sorted(self._to_lose[broker]):
            lost.add(subscriber)
            changes += self._lets_go(broker, subscriber)
        return changes, sorted(lost)

    def claim(self, broker: str, subscribers: Iterable[str]) -> list[SessionRecord]:
        """`broker` keeps these sessions from now on. Returns them, to be stored."""
        claimed = []
        for subscriber in dict.fromkeys(subscribers):
            known = self._by_subscriber.get(subscriber) or SessionRecord(subscriber, "", 0)
            generation = known.generation + 1
            former = self._former(known, broker)
            session = SessionRecord(subscriber, broker, generation, known.connected, known.subscriptions, former)
            self._put(session)
            claimed.append(session)
        return claimed

    def end_all_of(self, user: str) -> _Changes:
        """End the user's sessions: a later user of the same name must not get their subscriptions."""
        theirs = [session for session in self if user_of(session.subscriber) == user]
        return [change for session in theirs for change in self._end(session, self._former(session, ""))]

    def forget(self, name: str) -> _Changes:
        """Keep nothing that names this person: neither their sessions nor others' subscriptions with the name as a
        value."""
        changes: _Changes = []
        for session in list(self._by_subscriber.values()):
            if user_of(session.subscriber) == name:
                changes += self._end(session, frozenset())
                continue
            left = tuple(held for held in session.subscriptions if not names(held, name))
            if len(left) < len(session.subscriptions):
                changed = replace(session, subscriptions=left)
                self._put(changed)
                changes.append(StoreSession(changed))
        return changes

    def _take(self, broker: str, reported: ReportedSession, changes: _Changes) -> bool:
        """Take over a reported session, unless another broker has claimed it since; returns whether it was taken."""
        known = self._by_subscriber.get(reported.subscriber)
        if known is not None and not self._believes(known, broker, reported):
            return False
        session = SessionRecord(
            reported.subscriber,
            broker,
            reported.generation,
            reported.connected,
            reported.subscriptions,
            self._former(known, broker) if known else NO_BROKERS,
        )
        if session != known:
            self._put(session)
            changes.append(StoreSession(session))
        return True

    def _believes(self, known: SessionRecord, broker: str, reported: ReportedSession) -> bool:
        if reported.generation != known.generation or known.owner == broker:
            return reported.generation >= known.generation
        if not known.owner:
            return False
        # Two brokers let the same subscriber in while the coordinator was away: the one where it is now should own it.
        return known.owner not in self._to_lose or (reported.connected and not known.connected)

    def _former(self, session: SessionRecord, next_owner: str) -> frozenset[str]:
        """The brokers that may keep an older copy of the session once `next_owner` owns it."""
        former = session.former - {next_owner} or NO_BROKERS
        if session.owner == next_owner or session.owner not in self._to_lose:
            return former
        return former | {session.owner}

    def _end(self, session: SessionRecord, former: frozenset[str]) -> _Changes:
        """End the session. Its generation is remembered while `former` may keep older copies."""
        self._locations.pop(session.subscriber, None)
        self._located.pop(session.subscriber, None)
        return self._settle(SessionRecord(session.subscriber, "", session.generation, former=former))

    def _lets_go(self, broker: str, subscriber: str) -> _Changes:
        """`broker` keeps no older copy of the session any more."""
        session = self._by_subscriber.get(subscriber)
        if session is None or broker not in session.former:
            return []
        return self._settle(replace(session, former=session.former - {broker} or NO_BROKERS))

    def _settle(self, session: SessionRecord) -> _Changes:
        self._put(session)
        if session.owner or session.former:
            return [StoreSession(session)]
        del self._by_subscriber[session.subscriber]
        return [ForgetSession(session.subscriber)]

    def violations(self) -> Iterator[tuple[str, str]]:
        for subscriber, session in self._by_subscriber.items():
            if not session.owner and not session.former:
                yield subscriber, "no broker keeps it, and no broker has to learn that it lost it"
            for broker in session.former:
                if subscriber not in self._to_lose.get(broker, ()):
                    yield subscriber, f"{broker} will not learn that it has lost it"
        for broker, subscribers in self._to_lose.items():
            for subscriber in subscribers:
                if subscriber not in self._by_subscriber or broker not in self._by_subscriber[subscriber].former:
                    yield subscriber, f"{broker} will learn that it has lost it, and has not kept it"
        owned = Counter(session.owner for session in self)
        for broker in owned.keys() | self.loads.owners:
            if owned[broker] != self.loads.subscribers(broker):
                yield broker, f"keeps {owned[broker]} sessions, and {self.loads.subscribers(broker)} are its load"

    def _put(self, session: SessionRecord) -> None:
        before = self._by_subscriber.get(session.subscriber)
        if before is None or before.owner != session.owner:
            owner = session.owner or "nobody"
            self._story.note(session.subscriber, "owner {}, generation {}", owner, session.generation)
        self.loads.replace(before, session)
        self._by_subscriber[session.subscriber] = session
        formerly = before.former if before is not None else NO_BROKERS
        if session.former != formerly:
            for broker in session.former - formerly:
                self._to_lose[broker].add(session.subscriber)
            for broker in (formerly - session.former) & self._to_lose.keys():
                self._to_lose[broker].discard(session.subscriber)
