"""Whether a broker's store takes changes: known from their outcomes, and from trying now and then."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from tocsin.broker.core.events import Event, StoreChecked
from tocsin.broker.core.storing import Keeper
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import Unavailable

log = structlog.get_logger(__name__)

#: How often the store is tried; every time while it takes nothing.
_CHECK_EVERY_S = 10.0


class StoreWatch:
    """Tells the machine when that changes, so that nothing is begun that can't be stored."""

    def __init__(self, store: SessionStore, keeper: Keeper, happened: Callable[[Event], None]) -> None:
        self._store = store
        self._keeper = keeper
        self._happened = happened
        #: Why the store takes no changes; empty while it does.
        self._reason = ""
        self._checked_at_s = 0.0

    def check_if_due(self, now_s: float) -> None:
        if self._reason or now_s - self._checked_at_s >= _CHECK_EVERY_S:
            self._checked_at_s = now_s
            self.check()

    def check(self) -> None:
        try:
            self._store.check()
            if self._keeper.owes and (unkept := self._keeper.keep([])) is not None:
                raise unkept.refusal
        except Unavailable as exc:
            self.note(exc.message)
        else:
            self.note("")

    def note(self, reason: str) -> None:
        """The store has taken a change, or has not, for this reason."""
        if reason and not self._reason:
            log.error("the store takes no changes; deliveries go on, nothing new is begun", reason=reason)
        elif self._reason and not reason:
            log.info("the store takes changes again")
        if reason != self._reason:
            self._reason = reason
            self._happened(StoreChecked(reason))
