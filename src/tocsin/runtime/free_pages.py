"""SQLite keeps deleted data, in free pages and in its write-ahead log, until it needs the room. This removes it.

`PRAGMA secure_delete`, which overwrites rows as they are deleted, is not used: it makes each deletion write more, does
nothing for earlier deletions, and misses copies that SQLite made when it moved rows from one page to another.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from tocsin.errors import Unavailable

if TYPE_CHECKING:
    # Brokers don't import it.
    import sqlalchemy as sa

#: Other users hold the database for moments only; the connection's timeout has passed by now.
_RETRY_AFTER_S: Final = 5.0


def erase_free_pages(engine: sa.Engine) -> None:
    """Afterwards the files of an SQLite database hold only existing rows: 0.7 s for a million small ones. Writers wait
    meanwhile. PostgreSQL is left alone: its administrator looks after its files and logs.

    Raises Unavailable if others read or write for so long that it can't be done now; rows are unchanged."""
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        erase_free_pages_of(driver)


def erase_free_pages_of(connection: sqlite3.Connection) -> None:
    """The same for a connection outside a transaction."""
    try:
        connection.execute("VACUUM")
        is_held_up, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as exc:
        raise Unavailable(
            f"free pages of a database can't be removed now: {exc}", retry_after_s=_RETRY_AFTER_S
        ) from exc
    if is_held_up:
        raise Unavailable("the log of a database can't be emptied now: it is being read", retry_after_s=_RETRY_AFTER_S)
