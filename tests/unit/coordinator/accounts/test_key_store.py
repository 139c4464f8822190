"""Private keys outlive the process that made them, also in another folder if a database keeps them."""

from __future__ import annotations

from pathlib import Path

from databases import Database
from tocsin.coordinator.accounts.key_store import DatabaseKeys, FolderKeys
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.runtime.clock import SystemClock


def test_the_next_leader_signs_with_the_same_key(database: Database, tmp_path: Path) -> None:
    """It has a folder of its own."""
    store = Store(open_tables(database), SystemClock())
    first, second = (DatabaseKeys(store, FolderKeys(tmp_path / name)) for name in ("one", "two"))
    made = first.current().public_key()
    assert second.current().public_key() == made
    assert not second.has_next()
    upcoming = first.next().public_key()
    assert second.has_next()
    second.promote_next()
    assert first.current().public_key() == upcoming
    assert not first.has_next()
    first.next()
    second.drop_next()
    assert not first.has_next()
    store.close()


def test_a_key_that_was_in_a_file_is_taken_over(database: Database, tmp_path: Path) -> None:
    """Tokens from before are valid when the database keeps the key."""
    store = Store(open_tables(database), SystemClock())
    former = FolderKeys(tmp_path)
    known = former.current().public_key()
    assert DatabaseKeys(store, former).current().public_key() == known
    assert DatabaseKeys(store, FolderKeys(tmp_path / "other")).current().public_key() == known
    store.close()
