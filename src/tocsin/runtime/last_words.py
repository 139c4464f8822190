"""Why a process ended, from its last output (pure)."""

from __future__ import annotations

import json

#: The longest reason that still reads as one line.
_MAX_CHARS = 300
#: Fields of log lines that say more than `event`, the most informative first.
_DETAILS = ("reason", "error", "exception")


def last_words(text: str) -> str:
    """The last error in a log, or otherwise its last line.

    >>> last_words('{"event": "ready", "level": "info"}\\nport 8500 is in use\\n')
    'port 8500 is in use'
    >>> last_words('{"event": "it ends", "reason": "full", "level": "error"}\\n{"event": "Finished", "level": "info"}')
    'it ends: full'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    entries = [_entry(line) for line in lines]
    if entries[-1] is None:
        return lines[-1][:_MAX_CHARS]
    for entry in reversed(entries):
        if entry is not None and entry.get("level") in {"error", "critical"}:
            return _summary(entry)[:_MAX_CHARS]
    return _summary(entries[-1])[:_MAX_CHARS]


def _entry(line: str) -> dict[str, object] | None:
    """A log line that is one JSON object, as processes write it when their output is not a terminal."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "event" in entry else None


def _summary(entry: dict[str, object]) -> str:
    details = [str(entry[name]).strip().splitlines()[-1] for name in _DETAILS if entry.get(name)]
    return ": ".join([str(entry["event"]), *details[:1]])
