"""Users: passwords, tokens and their revocation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import Database
from tocsin.coordinator.accounts import passwords
from tocsin.coordinator.accounts.key_store import FolderKeys
from tocsin.coordinator.accounts.keys import Keys
from tocsin.coordinator.accounts.login_attempts import FailedAttempts
from tocsin.coordinator.accounts.users import Users
from tocsin.coordinator.metrics import Metrics
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import AlreadyExists, InvalidValue, NotFound, Overloaded, Unauthorised


class Clock:
    """Both of its times are what they are set to."""

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000

    def now_us(self) -> int:
        return self.us

    def monotonic_s(self) -> float:
        return self.us / 1e6


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing as for real takes a fifth of a second each time."""
    monkeypatch.setattr(passwords, "_N", 16)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: Database, clock: Clock) -> Iterator[Store]:
    store = Store(open_tables(database), clock)
    yield store
    store.close()


@pytest.fixture
def signer(tmp_path: Path, store: Store, clock: Clock) -> Keys:
    return Keys(FolderKeys(tmp_path), store, clock, announce_s=5)


@pytest.fixture
def users(store: Store, clock: Clock, signer: Keys) -> Users:
    return Users(store, signer, clock, Metrics(), token_lifetime_s=60)


def test_a_hash_fits_its_password_only() -> None:
    """And says nothing about it: the same password is another hash each time."""
    hashed = passwords.hash_password("secret-ann ✓")
    assert passwords.is_password("secret-ann ✓", hashed)
    assert not passwords.is_password("secret-bob", hashed)
    assert not passwords.is_password("", passwords.NOBODYS_HASH)
    assert hashed != passwords.hash_password("secret-ann ✓")
    assert "secret" not in hashed


def test_ten_failures_a_minute_and_no_more() -> None:
    """Then one has to wait until the first is a minute ago; others need not, and success ends it."""
    attempts = FailedAttempts()
    for second in range(10):
        attempts.check("ann", "1.1.1.1", second)
        attempts.failed("ann", "1.1.1.1", second)
    with pytest.raises(Overloaded) as caught:
        attempts.check("ann", "1.1.1.1", 10)
    assert caught.value.retry_after_s == 50
    attempts.check("bob", "1.1.1.1", 10)
    attempts.check("ann", "1.1.1.1", 60)
    attempts.succeeded("ann", "1.1.1.1")
    attempts.check("ann", "1.1.1.1", 10)


def test_made_up_names_do_not_fill_the_memory() -> None:
    attempts = FailedAttempts()
    for number in range(20_000):
        attempts.failed(f"user{number}", "1.1.1.1", 0)
    assert len(attempts._failed_s) == 10_000


async def test_who_registers_gets_a_token_that_says_who_they_are(users: Users, clock: Clock) -> None:
    issued = await users.register("ann", "secret-ann", "medic")
    identity = users.check(issued.token)
    assert (identity.user, identity.permission, identity.expires_at_us) == ("ann", "medic", clock.us + 60_000_000)
    assert issued.expires_at_us == identity.expires_at_us
    with pytest.raises(AlreadyExists):
        await users.register("ann", "secret-bob", "")
    with pytest.raises(InvalidValue, match="8 characters"):
        await users.register("bob", "1234567", "")
    clock.us += 60_000_000
    with pytest.raises(Unauthorised, match="expired"):
        users.check(issued.token)


async def test_a_wrong_password_and_an_unknown_user_are_told_alike(users: Users) -> None:
    await users.register("ann", "secret-ann", "")
    assert users.check((await users.log_in("ann", "secret-ann")).token).user == "ann"
    reasons = set()
    for name in ("ann", "nobody"):
        with pytest.raises(Unauthorised) as caught:
            await users.log_in(name, "wrong-password")
        reasons.add(str(caught.value))
    assert len(reasons) == 1


async def test_guessing_is_limited_however_many_guess_at_once(users: Users, clock: Clock) -> None:
    """Of fifty guesses at once ten are looked at; the right password has to wait too."""
    await users.register("ann", "secret-ann", "")
    guesses = [users.log_in("ann", f"guess-{number}") for number in range(50)]
    outcomes = [type(one) for one in await asyncio.gather(*guesses, return_exceptions=True)]
    assert (outcomes.count(Unauthorised), outcomes.count(Overloaded)) == (10, 40)
    with pytest.raises(Overloaded):
        await users.log_in("ann", "secret-ann")
    clock.us += 60_000_000
    await users.log_in("ann", "secret-ann")


async def test_many_devices_of_a_user_may_log_in_at_once(users: Users) -> None:
    await users.register("ann", "secret-ann", "")
    issued = await asyncio.gather(*(users.log_in("ann", "secret-ann") for _ in range(30)))
    assert {users.check(one.token).user for one in issued} == {"ann"}


async def test_revoked_tokens_are_void_and_new_ones_are_not(
    users: Users, clock: Clock, store: Store, signer: Keys
) -> None:
    """Even if the clock is set back; and over a restart. Brokers learn what they do not know yet."""
    old = await users.register("ann", "secret-ann", "")
    assert users.revoked_since(0) == {}
    void_before_us = await users.revoke("ann")
    assert users.revoked_since(0) == {"ann": void_before_us}
    assert users.revoked_since(users.revocations_version) == {}
    assert users.revoked_since(99) == {"ann": void_before_us}, "told by another coordinator"
    clock.us -= 1_000_000
    new = await users.log_in("ann", "secret-ann")
    restarted = Users(store, signer, clock, Metrics(), token_lifetime_s=60)
    for one in (users, restarted):
        with pytest.raises(Unauthorised, match="revoked"):
            one.check(old.token)
        assert one.check(new.token).user == "ann"
    assert restarted.revocations_version == users.revocations_version
    with pytest.raises(NotFound):
        await users.revoke("nobody")


async def test_a_removed_users_token_is_void_for_whoever_takes_the_name(users: Users, clock: Clock) -> None:
    old = await users.register("ann", "secret-ann", "medic")
    await users.remove("ann")
    clock.us += 1
    new = await users.register("ann", "secret-two", "")
    with pytest.raises(Unauthorised):
        users.check(old.token)
    assert users.check(new.token).permission == ""


async def test_somebody_without_a_password_gets_tokens_from_operators_only(users: Users) -> None:
    issued = await users.register("ann", None, "medic")
    assert users.check(issued.token).user == "ann"
    assert users.check((await users.issue("ann")).token).permission == "medic"
    for password in ("", "ann", "correct horse"):
        with pytest.raises(Unauthorised):
            await users.log_in("ann", password)
    with pytest.raises(NotFound, match="no user called bob"):
        await users.issue("bob")


async def test_strangers_failures_keep_nobody_out(users: Users) -> None:
    """However often others try a wrong password elsewhere, the right one is taken; they themselves have to wait."""
    await users.register("ann", "correct horse", "")
    for _ in range(10):
        with pytest.raises(Unauthorised):
            await users.log_in("ann", "wrong", "203.0.113.9")
    with pytest.raises(Overloaded):
        await users.log_in("ann", "correct horse", "203.0.113.9")
    assert (await users.log_in("ann", "correct horse", "198.51.100.7")).user == "ann"
    with pytest.raises(Overloaded):
        await users.log_in("ann", "wrong", "203.0.113.9")
