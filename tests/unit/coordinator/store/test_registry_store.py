"""What is stored is there again when the database is opened anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from databases import Database
from tocsin.coordinator.registry.instructions import (
    Audit,
    ForgetBroker,
    ForgetSession,
    StoreBroker,
    StorePolicy,
    StoreSession,
    Storing,
)
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord, SessionSubscription
from tocsin.coordinator.store.group_commit import GroupCommit
from tocsin.coordinator.store.registry_store import Remembered, Store, UserRecord
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import AlreadyExists, ClusterFailure, InvalidValue, NotFound, Unavailable
from tocsin.protocol.coordination import BrokerState
from tocsin.runtime.clock import SystemClock
from unit.coordinator.network import held

BROKER = BrokerRecord("a", "http://a", (1.5, -2.0), 3.0, BrokerState.CORDONED, dead=True)
SESSION = SessionRecord("ann/phone", "a", 4, True, held("fire", "flood", position="7-9"), frozenset({"b", "c"}))


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    store = Store(open_tables(database), SystemClock())
    yield store
    store.close()


def reopened(database: Database) -> Remembered:
    store = Store(open_tables(database), SystemClock())
    try:
        return store.load()
    finally:
        store.close()


def test_brokers_sessions_and_policy_come_back_as_they_were(store: Store, database: Database) -> None:
    nowhere = BrokerRecord("b", "http://b")
    store.apply([StoreBroker(BROKER), StoreBroker(nowhere), StoreSession(SESSION), StorePolicy("random")])
    assert reopened(database) == Remembered((BROKER, nowhere), (SESSION,), "random")
    changed = SessionRecord("ann/phone", "b", 5)
    store.apply([StoreSession(changed), ForgetBroker("a"), StorePolicy("nearest")])
    assert reopened(database) == Remembered((nowhere,), (changed,), "nearest")
    store.apply([ForgetSession("ann/phone"), ForgetSession("nobody/x")])
    assert reopened(database).sessions == ()


def test_filters_come_back_and_older_databases_have_none(store: Store, database: Database) -> None:
    """A subscription without one is stored as it always was."""
    key = held("fire", position="7-9")[0].key
    subscriptions = (SessionSubscription(key, "7-9", "who = 'it''s'"), SessionSubscription(key, "7-8"))
    filtered = SessionRecord("ann/phone", "a", 4, True, subscriptions)
    store.apply([StoreSession(filtered)])
    assert reopened(database).sessions == (filtered,)
    with store._engine.connect() as connection:
        stored = connection.execute(sa.text("SELECT subscriptions FROM coordinator_session")).scalar_one()
    assert json.loads(stored) == [[key, "7-9", "who = 'it''s'"], [key, "7-8"]]


def test_sqlite_syncs_every_commit(tmp_path: Path) -> None:
    """What was answered survives a power cut."""
    with open_tables(tmp_path / "test.sqlite").connect() as connection:
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 2


def test_users_have_a_name_of_their_own(store: Store) -> None:
    ann = UserRecord("ann", "hash", "medic", 5)
    store.add_user(ann)
    with pytest.raises(AlreadyExists):
        store.add_user(UserRecord("ann", "other", "", 6))
    assert store.user("ann") == ann
    assert store.user("Ann") is None
    store.add_user(UserRecord("bob", "hash", "", 6))
    assert [user.name for user in store.users("", 10)] == ["ann", "bob"]
    assert [user.name for user in store.users("ann", 10)] == ["bob"]
    assert [user.name for user in store.users("", 1)] == ["ann"]


def test_revocations_outlive_the_user_and_grow_in_version(store: Store) -> None:
    """They are forgotten when every token that they concern has expired, by the longest lifetime there ever was."""
    store.add_user(UserRecord("ann", "hash", "", 5))
    assert store.revoke("ann", 1000).version == 1
    assert store.remove_user("ann", 2000).version == 2
    with pytest.raises(NotFound):
        store.revoke("ann", 3000)
    with pytest.raises(NotFound):
        store.remove_user("ann", 3000)
    revocations, version = store.revocations(now_us=2500, lifetime_us=1000)
    assert (revocations["ann"].void_before_us, version) == (2000, 2)
    assert store.revocations(now_us=2999, lifetime_us=10)[0] != {}, "tokens were once valid for longer"
    assert store.revocations(now_us=3001, lifetime_us=10) == ({}, 2)


def test_revocations_at_the_same_time_have_versions_of_their_own(store: Store) -> None:
    """A broker asks for what came after the version that it has: a version given twice would hide one from it."""
    names = [f"user-{number}" for number in range(16)]
    for name in names:
        store.add_user(UserRecord(name, "hash", "", 5))
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda name: store.revoke(name, 1000).version, names))
    assert sorted(done) == list(range(1, 17))


def test_a_database_that_cannot_be_opened_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ClusterFailure, match="can't be opened"):
        open_tables(tmp_path / "file" / "x.sqlite")
    for url in ("nonsense", "nosuchdialect://host/name"):
        with pytest.raises(InvalidValue, match="setting database_url: it has to begin with postgresql://"):
            open_tables(url)


class _FragileStore(Store):
    """Fails when told to; says how many transactions there were."""

    fails = False
    commits = 0

    def apply(self, instructions: Iterable[Storing]) -> None:
        if self.fails:
            raise sa.exc.OperationalError("INSERT", {}, OSError("disk full"))
        self.commits += 1
        super().apply(instructions)


async def test_many_share_a_commit(database: Database) -> None:
    """Of a hundred changes at once most share a transaction, and the last about each thing is what is stored."""
    store = _FragileStore(open_tables(database), SystemClock())
    commits = GroupCommit(store)
    changes = [StoreSession(SessionRecord(f"u{n % 10}/x", "a", n)) for n in range(100)]
    await asyncio.gather(*(commits.store([change]) for change in changes))
    assert store.commits <= 2
    assert sorted(one.generation for one in store.load().sessions) == list(range(90, 100))
    await commits.close()
    store.close()


async def test_what_failed_is_told_and_stored_later(database: Database) -> None:
    """Who waited is told to come back; when the database takes changes again, nothing is missing."""
    store = _FragileStore(open_tables(database), SystemClock())
    commits = GroupCommit(store)
    store.fails = True
    with pytest.raises(Unavailable):
        await commits.store([StoreSession(SESSION), StoreBroker(BROKER)])
    with pytest.raises(Unavailable):
        await commits.store([ForgetSession("ann/phone")])
    await commits.retry()
    store.fails = False
    await commits.retry()
    assert store.load() == Remembered((BROKER,), (), "")
    await commits.close()
    store.close()


async def test_a_change_that_cannot_be_stored_holds_up_nobody(database: Database) -> None:
    """Whatever goes wrong with one change, others are stored, also later; who waits for it is told."""
    store = Store(open_tables(database), SystemClock())
    commits = GroupCommit(store)
    too_large = SessionRecord("bob/phone", "a", 1 << 70)
    no_text = StoreSession(SessionRecord("eve/phone", "a", 1, subscriptions=cast(Any, (object(),))))
    outcomes = await asyncio.wait_for(
        asyncio.gather(
            commits.store([StoreSession(SESSION)]),
            commits.store([StoreSession(too_large)]),
            commits.store([StoreBroker(BROKER)]),
            commits.store([no_text]),
            commits.store([Audit("ann", "state", "a")]),
            return_exceptions=True,
        ),
        timeout=20,
    )
    assert [type(one) for one in outcomes] == [type(None), ClusterFailure, type(None), ClusterFailure, type(None)]
    await asyncio.wait_for(commits.store([StorePolicy("nearest")]), timeout=20)
    assert store.load() == Remembered((BROKER,), (SESSION,), "nearest")
    assert len(store.plans.audit(None, 10)) == 1, "what is only added to is added once"
    await commits.close()
    store.close()


async def test_nobody_waits_for_a_committing_task_that_has_ended(database: Database) -> None:
    """If it is cancelled, those who wait are told to come back, and the next change is stored."""
    store = Store(open_tables(database), SystemClock())
    commits = GroupCommit(store)
    waiting = asyncio.ensure_future(commits.store([StoreSession(SESSION)]))
    await asyncio.sleep(0)
    assert commits._task is not None
    commits._task.cancel()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, timeout=20)
    await asyncio.wait_for(commits.store([StoreBroker(BROKER)]), timeout=20)
    assert store.load().brokers == (BROKER,)
    await commits.close()
    store.close()
