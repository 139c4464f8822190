"""SQLite keeps what was deleted, in free pages and in its write-ahead log, until it needs the room. This removes it.

Nothing is overwritten as rows are deleted (`PRAGMA secure_delete`): that makes each deletion write more, does nothing
for rows that were deleted before, and misses what SQLite copied as it moved rows from one page to another.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from tocsin.errors import Unavailable

if TYPE_CHECKING:
    # Brokers do without it.
    import sqlalchemy as sa

#: Whoever holds the database up does so for moments; it was tried for as long as the connection's timeout says.
_RETRY_AFTER_S: Final = 5.0


def erase_free_pages(engine: sa.Engine) -> None:
    """Afterwards no file of an SQLite database holds anything but rows that are there: 0.7 s for a million small ones.
    Who writes meanwhile waits. PostgreSQL is left alone: its files and its logs are its administrator's.

    Raises Unavailable if somebody reads or writes for so long that it can't be done now; rows are as they were."""
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        erase_free_pages_of(driver)


def erase_free_pages_of(connection: sqlite3.Connection) -> None:
    """The same for a connection that is in no transaction."""
    try:
        connection.execute("VACUUM")
        is_held_up, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as exc:
        raise Unavailable(
            f"free pages of a database can't be removed now: {exc}", retry_after_s=_RETRY_AFTER_S
        ) from exc
    if is_held_up:
        raise Unavailable("the log of a database can't be emptied now: somebody reads it", retry_after_s=_RETRY_AFTER_S)
