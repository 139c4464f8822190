"""How often somebody may try a password: few failures a minute for each user (pure)."""

from __future__ import annotations

from collections import OrderedDict, deque

from tocsin.errors import Overloaded

_PER_MINUTE = 10
_WINDOW_S = 60.0
#: Names that are remembered, whether there is such a user or not; the ones tried longest ago are forgotten first.
_MAX_NAMES = 10_000


class FailedAttempts:
    def __init__(self) -> None:
        self._failed_s: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, user: str, now_s: float) -> None:
        """Raises Overloaded if there were too many within the last minute."""
        failed = self._failed_s.get(user)
        if failed is not None and len(failed) >= _PER_MINUTE and now_s - failed[0] < _WINDOW_S:
            raise Overloaded(
                "too many failed attempts to log in; wait before the next", retry_after_s=_WINDOW_S - now_s + failed[0]
            )

    def failed(self, user: str, now_s: float) -> None:
        self._failed_s.setdefault(user, deque(maxlen=_PER_MINUTE)).append(now_s)
        self._failed_s.move_to_end(user)
        while len(self._failed_s) > _MAX_NAMES:
            self._failed_s.popitem(last=False)

    def succeeded(self, user: str) -> None:
        self._failed_s.pop(user, None)
