"""Who may have which filter: limits, and filters that do not fit their channel any more (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.sessions import Backend, Session
from tocsin.errors import InvalidValue, StatementError, TocsinError
from tocsin.model.position import Position
from tocsin.protocol import messages

#: Why a filter is refused: it is wrong, or its channel can't take any.
WRONG = (StatementError, InvalidValue)


@dataclass(frozen=True, slots=True)
class Filtering:
    _quotas: Quotas

    def admit(self, session: Session, backend: Backend | None, where: str) -> None:
        """Raises TooLarge or Overloaded if a session can't have this filter on `backend`, whatever it says."""
        held = None if backend is None else session.frontends.get(backend.id)
        if not where or (held is not None and held.where == where):
            return  # Nothing has to be read.
        if held is None or held.group is None:
            others = sum(one.group is not None for one in session.frontends.values())
            self._quotas.check_filters(others + session.waiting_filters)
        self._quotas.spend_on_filter(session.user, where, session.story.now_s)


def failed_filter(backend: Backend, position: Position, error: TocsinError) -> messages.Failed:
    """The last message of a subscription whose filter does not fit its channel any more."""
    reason = f"its filter does not fit channel {backend.key.channel} any more: {error.message}"
    return messages.Failed(backend.id, backend.key.channel, str(position), 0, reason, error.code)
