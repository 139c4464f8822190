"""Machines that are looked through after every event: a mistake shows where it is made, not where it hurts."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tocsin.broker.core.machine import BrokerState
from tocsin.client.core.session import Session
from tocsin.coordinator.registry.machine import CoordinatorState

#: To look through a machine takes as long as it is large: where so many events have been handled, only now and then.
_OFTEN = 2_000
_THEN_EVERY = 500


def validate_machines() -> None:
    """From now on, in this process. A second time changes nothing."""
    for kind in (BrokerState, CoordinatorState, Session):
        _validate_each(kind)


def _validate_each(kind: Any) -> None:
    handle = kind.handle
    if hasattr(handle, "validates"):
        return
    handled: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def validating(self: Any, *given: Any) -> Any:
        instructions = handle(self, *given)
        count = handled[self] = handled.get(self, 0) + 1
        if count <= _OFTEN or count % _THEN_EVERY == 0:
            self.validate()
        return instructions

    validating.validates = True  # type: ignore[attr-defined]
    kind.handle = validating
