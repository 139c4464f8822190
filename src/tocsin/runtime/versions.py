"""Which versions of a database's tables this code knows. A database says its own: the last migration that it had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tocsin.errors import ClusterFailure

#: Migrations are called 0001_what_it_does.py and so on; this many digits are the version.
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Versions:
    """Of one of Tocsin's databases. Several may share one database server: each has a version table of its own."""

    #: As people know it: "the coordinator's database".
    title: str
    #: The table that says the version, in a column `version_num`: Alembic's way.
    table: str
    #: The folder of its migrations.
    migrations: Path

    def known(self) -> list[str]:
        """All that this code knows, oldest first."""
        return sorted(file.name[:_DIGITS] for file in self.migrations.glob("[0-9]*.py"))

    def newest(self) -> str:
        return self.known()[-1]

    def check_known(self, stored: str) -> None:
        """Raises ClusterFailure for a database that a newer Tocsin has written: what that added would be lost."""
        known = self.known()
        if stored not in known:
            raise ClusterFailure(
                f"{self.title} was written by a newer version of Tocsin: its tables are of version {stored}, and this "
                f"one knows {known[0]} to {known[-1]}. Start that version, or use a copy of the data from before it"
            )
