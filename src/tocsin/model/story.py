"""What happened to the things that a machine looks after, for when something is wrong with one of them (pure)."""

from __future__ import annotations

from collections import deque

#: Entries take about 100 bytes. A broker to which a thousand subscribers come at once makes four for each of them.
_MOST_ENTRIES = 5_000


class Story:
    """The latest of what happened to anything here, each entry about one name. `now_s` is the time of the next ones.

    >>> story = Story()
    >>> story.now_s = 12.5
    >>> story.note("ann/phone", "connected")
    >>> story.note("ben/tv", "connected")
    >>> story.of("ann/phone")
    ['12.500 s ann/phone: connected']
    """

    def __init__(self, most_entries: int = _MOST_ENTRIES) -> None:
        self.now_s = 0.0
        self._entries: deque[tuple[float, str, str]] = deque(maxlen=most_entries)

    def note(self, name: str, what: str) -> None:
        self._entries.append((self.now_s, name, what))

    def of(self, *names: str) -> list[str]:
        """What is remembered of these, oldest first."""
        return [f"{now_s:.3f} s {name}: {what}" for now_s, name, what in self._entries if name in names]


class InvalidTransition(Exception):
    """A machine was about to do, or has done, what must not be: a mistake of ours. It tells how that came about."""

    def __init__(self, message: str, story: list[str]) -> None:
        super().__init__("\n  ".join((message, *story)))
        self.story = story
