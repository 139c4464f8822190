"""Records of what happened to a machine's subscribers and brokers, for diagnosing an invalid state (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

#: Entries take about 100 bytes. A broker at which a thousand subscribers arrive at once makes four for each of them.
_MOST_ENTRIES = 5_000


class Story:
    """The latest events, each about one name. `now_s` is the time of the next ones.

    >>> story = Story()
    >>> story.now_s = 12.5
    >>> story.note("ann/phone", "connected")
    >>> story.note("ben/tv", "connected")
    >>> story.note("ann/phone", "moved to {}", "b")
    >>> story.of("ann/phone")
    ['12.500 s ann/phone: connected', '12.500 s ann/phone: moved to b']
    """

    def __init__(self, most_entries: int = _MOST_ENTRIES) -> None:
        self.now_s = 0.0
        self._entries: deque[tuple[float, str, str, tuple[object, ...]]] = deque(maxlen=most_entries)

    def note(self, name: str, what: str, *details: object) -> None:
        """`details` fill the braces in `what`, if anybody reads it: most entries are never read."""
        self._entries.append((self.now_s, name, what, details))

    def of(self, *names: str) -> list[str]:
        """The remembered events of these names, oldest first."""
        return [
            f"{now_s:.3f} s {name}: {what.format(*details) if details else what}"
            for now_s, name, what, details in self._entries
            if name in names
        ]

    def raise_if_any(self, violations: Iterable[tuple[str, str]]) -> None:
        """`violations` are names with what is wrong with them, as the parts of a machine report them."""
        if found := list(violations):
            wrong = "; ".join(f"{name}: {what}" for name, what in found)
            raise InvalidState(wrong, self.of(*(name for name, _ in found)))


class InvalidState(Exception):
    """A machine is in an invalid state: a mistake of ours. The error tells how that came about."""

    def __init__(self, message: str, story: list[str]) -> None:
        super().__init__("\n  ".join((message, *story)))
        self.story = story


class InvalidTransition(InvalidState):
    """The same, but it was noticed before: nothing has changed."""
