"""One key follows another without anybody's token being refused, unless that is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import Database
from tocsin.coordinator.accounts.key_store import DatabaseKeys, FolderKeys, KeyStore
from tocsin.coordinator.accounts.keys import Keys
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import InUse, Unauthorised
from tocsin.runtime.tokens import Identity, TokenChecker

_LIFETIME_US = 60_000_000


class Clock:
    def __init__(self) -> None:
        self.at_us = 1_000_000_000

    def now_us(self) -> int:
        return self.at_us

    def monotonic_s(self) -> float:
        return self.at_us / 1e6


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: Database, clock: Clock) -> Iterator[Store]:
    store = Store(open_tables(database), clock)
    store.revocations(clock.now_us(), _LIFETIME_US)
    yield store
    store.close()


@pytest.fixture(params=["folder", "database"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, store: Store) -> KeyStore:
    folder = FolderKeys(tmp_path)
    return folder if request.param == "folder" else DatabaseKeys(store, folder)


@pytest.fixture
def keys(kept: KeyStore, store: Store, clock: Clock) -> Keys:
    return Keys(kept, store, clock, announce_s=5)


def _token(keys: Keys, clock: Clock) -> str:
    return keys.sign(Identity("ann", "", clock.at_us, clock.at_us + _LIFETIME_US))


def test_a_new_key_is_announced_before_it_signs_and_the_old_one_believed_for_a_lifetime(
    keys: Keys, kept: KeyStore, store: Store, clock: Clock
) -> None:
    """Brokers that heard of the keys within the last five seconds take every token, old and new; restarts or not."""
    first = keys.public_keys()
    keys.rotate()
    announced = keys.public_keys()
    assert announced[:1] == first
    assert len(announced) == 2
    clock.at_us += 4_900_000
    keys.advance()
    last_of_old = _token(keys, clock)
    TokenChecker(*first).check(last_of_old, clock.at_us)
    clock.at_us += 100_000
    keys.advance()
    TokenChecker(*announced).check(_token(keys, clock), clock.at_us)
    with pytest.raises(Unauthorised):
        TokenChecker(*first).check(_token(keys, clock), clock.at_us)
    again = Keys(kept, store, clock, announce_s=5)
    assert again.public_keys() == keys.public_keys() == announced[::-1]
    clock.at_us += _LIFETIME_US - 200_000
    again.advance()
    TokenChecker(*again.public_keys()).check(last_of_old, clock.at_us)
    clock.at_us += 200_000
    again.advance()
    assert again.public_keys() == announced[1:]


def test_a_key_that_was_announced_signs_after_a_restart(keys: Keys, kept: KeyStore, store: Store, clock: Clock) -> None:
    """It is announced anew, for nobody knows who has heard of it."""
    keys.rotate()
    clock.at_us += 60_000_000
    again = Keys(kept, store, clock, announce_s=5)
    again.advance()
    assert again.public_keys() == keys.public_keys()
    clock.at_us += 5_000_000
    again.advance()
    assert again.public_keys() == keys.public_keys()[::-1]


def test_a_key_that_has_leaked_is_believed_no_more(keys: Keys, kept: KeyStore, store: Store, clock: Clock) -> None:
    """Nor are those before it; what signs now is good at once."""
    keys.rotate()
    leaked = _token(keys, clock)
    keys.drop_old()
    for one in (keys, Keys(kept, store, clock, announce_s=5)):
        (only,) = one.public_keys()
        with pytest.raises(Unauthorised):
            TokenChecker(only).check(leaked, clock.at_us)
        TokenChecker(only).check(_token(one, clock), clock.at_us)


def test_keys_are_few(keys: Keys, clock: Clock) -> None:
    """A check tries each of them: one on its way, three that are past."""
    for _ in range(3):
        keys.rotate()
        with pytest.raises(InUse, match="announced already"):
            keys.rotate()
        clock.at_us += 5_000_000
        keys.advance()
    with pytest.raises(InUse, match="3 earlier keys are still trusted"):
        keys.rotate()
    clock.at_us += _LIFETIME_US
    keys.rotate()
    assert len(keys.public_keys()) == 2
