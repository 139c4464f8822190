"""Machines that are looked through after their events: a mistake shows where it is made, not where it hurts."""

from __future__ import annotations

from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from tocsin.broker.core.machine import BrokerState
from tocsin.client.core.session import Session
from tocsin.coordinator.registry.machine import CoordinatorState

#: Each of a machine's first events. To look through a machine takes as long as it is large, and it has grown by then:
#: from then on, up to so many events are drawn to pass between two looks.
_EACH_OF_FIRST = 200
_MOST_BETWEEN = 40
#: A machine that has handled thousands of events is large: up to this part of them may pass before the next look.
_PART_BETWEEN = 50


class _Looks:
    """When one machine is looked through. What is drawn depends on nothing: the same test looks at the same events."""

    __slots__ = ("_chance", "_handled", "_next")

    def __init__(self) -> None:
        self._handled = 0
        self._next = 1
        self._chance: Random | None = None

    def is_due(self) -> bool:
        self._handled += 1
        if self._handled < self._next:
            return False
        if self._handled < _EACH_OF_FIRST:
            self._next += 1
        else:
            self._chance = self._chance or Random(0)
            self._next += self._chance.randint(1, max(_MOST_BETWEEN, self._handled // _PART_BETWEEN))
        return True


def validate_machines() -> None:
    """From now on, in this process. A second time changes nothing."""
    for kind in (BrokerState, CoordinatorState, Session):
        _validate_each(kind)


def _validate_each(kind: Any) -> None:
    handle = kind.handle
    if hasattr(handle, "validates"):
        return
    looks: WeakKeyDictionary[Any, _Looks] = WeakKeyDictionary()

    def validating(self: Any, *given: Any) -> Any:
        instructions = handle(self, *given)
        known = looks.get(self)
        if known is None:
            known = looks[self] = _Looks()
        if known.is_due():
            self.validate()
        return instructions

    validating.validates = True  # type: ignore[attr-defined]
    kind.handle = validating
