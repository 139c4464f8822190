"""The rows of the scorecard, in order."""

from __future__ import annotations

from scorecard.row import Row
from scorecard.rows import chaos, commits, disk, faults, full_disk, fuzz, histories, hostile_sql, hygiene, load, tokens

ROWS: tuple[Row, ...] = (
    histories.HISTORIES,
    chaos.PLANTED,
    chaos.KILLS,
    disk.CUTS,
    disk.FLIPS,
    faults.FAULTS,
    full_disk.FULL_DISK,
    commits.COMMITS,
    chaos.MOVES,
    load.SUSTAINED,
    load.STORM,
    load.SLOW,
    tokens.TOKENS,
    hostile_sql.HOSTILE_SQL,
    fuzz.FUZZ,
    hygiene.HYGIENE,
)
