"""The versions of a database's tables that this code knows. A database stores its own: its last migration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tocsin.errors import ClusterFailure

#: Migrations are called 0001_what_it_does.py and so on; the version is this many digits.
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one of Tocsin's databases. Several may share a database server: each has its own version table."""

    #: Its name for people: "the coordinator's database".
    title: str
    #: The table that holds the version, in a column `version_num`, as Alembic does it.
    table: str
    #: The folder of its migrations.
    migrations: Path

    def known(self) -> list[str]:
        """All versions that this code knows, oldest first."""
        return sorted(file.name[:_DIGITS] for file in self.migrations.glob("[0-9]*.py"))

    def newest(self) -> str:
        return self.known()[-1]

    def check_known(self, stored: str) -> None:
        """Raises ClusterFailure for a database that a newer Tocsin has written: its additions would be lost."""
        known = self.known()
        if stored not in known:
            raise ClusterFailure(
                f"{self.title} was written by a newer version of Tocsin: its tables are of version {stored}, and this "
                f"one knows {known[0]} to {known[-1]}. Start that version, or use a copy of the data from before it"
            )
