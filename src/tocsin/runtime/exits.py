"""Exit codes that tell whoever restarts processes what to do (those of sysexits.h)."""

from __future__ import annotations

#: Something went wrong, and starting again is the way back (EX_SOFTWARE).
FAILED = 70
#: A broker's name is another's: starting it again would not help (EX_CONFIG).
NAME_LOST = 78
