"""Exit codes that tell a supervisor whether to restart a process (those of sysexits.h)."""

from __future__ import annotations

#: Something went wrong, and a restart is the recovery (EX_SOFTWARE).
FAILED = 70
#: Another broker has this broker's name: a restart would not help (EX_CONFIG).
NAME_LOST = 78
