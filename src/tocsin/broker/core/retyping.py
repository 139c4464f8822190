"""Filters whose channel has other columns now: they are read again, and those that do not fit any more end (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.delivery import Delivering
from tocsin.broker.core.filtering import WRONG, failed_filter
from tocsin.broker.core.instructions import Instruction, Send
from tocsin.broker.core.sessions import Backend, Frontend
from tocsin.broker.core.subscribing import Subscribing
from tocsin.errors import TocsinError
from tocsin.model.position import Position
from tocsin.protocol.ports import BackendHold


@dataclass(frozen=True, slots=True)
class Retyping:
    _holdings: Holdings
    _deliveries: Delivering
    _subscriptions: Subscribing
    _out: list[Instruction]

    def described(self, held: Iterable[BackendHold], now_s: float) -> None:
        """The cluster says what the columns of these are. A cluster that does not say changes nothing."""
        for one in held:
            backend = self._holdings.get(one.id)
            if backend is not None and one.columns and one.columns != backend.columns:
                backend.columns = one.columns
                self._read_again(backend, now_s)

    def _read_again(self, backend: Backend, now_s: float) -> None:
        filtered = [(one, one.where) for one in backend.frontends.values() if one.group is not None]
        for frontend, _ in filtered:
            self._deliveries.leave(frontend)
            frontend.set_group(None)
        backend.filters = None
        for frontend, where in filtered:
            try:
                frontend.set_group(backend.group_of(where))
            except WRONG as exc:
                self._end(frontend, exc, now_s)
            else:
                self._deliveries.bring_forward(frontend.session, frontend)

    def _end(self, frontend: Frontend, error: TocsinError, now_s: float) -> None:
        position = Position(frontend.backend.id, frontend.sent + 1)  # After everything sent so far: it is no repeat.
        if (connection := frontend.session.connection) is not None:
            self._out.append(Send(connection, failed_filter(frontend.backend, position, error)))
        self._subscriptions.detach(frontend, now_s)
