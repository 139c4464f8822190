"""Steps of histories, as values that Hypothesis draws: a history that fails shrinks to the steps that matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from hypothesis import strategies as st

Argument = str | int | float | bool
#: What may happen: about how often, and the values of each argument, the simplest first.
Happenings = Mapping[str, tuple[int, Mapping[str, Sequence[Argument]]]]


@dataclass(frozen=True, slots=True)
class Step:
    what: str
    arguments: tuple[tuple[str, Argument], ...] = ()

    def __repr__(self) -> str:
        """As it is written in a test."""
        return f"step({', '.join([repr(self.what), *(f'{name}={value!r}' for name, value in self.arguments)])})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Hypothesis would print the fields otherwise."""
        printer.text(repr(self))


def step(what: str, **arguments: Argument) -> Step:
    """
    >>> step("connect", client=0, broker=1)
    step('connect', client=0, broker=1)
    """
    return Step(what, tuple(arguments.items()))


def histories(happenings: Happenings, steps: int) -> st.SearchStrategy[list[Step]]:
    """Histories of so many steps on average."""
    table: list[Step] = []
    for what, (weight, values) in happenings.items():
        variants = [step(what, **dict(zip(values, one, strict=True))) for one in product(*values.values())]
        # Each as often as its share of the weight, about, and at least once: a short table shrinks fast.
        table += [one for one in variants for _ in range(max(1, round(2 * weight / len(variants))))]
    # Hypothesis's lists have five elements on average, and short histories meet little. So a history is many lists; the
    # shrinker empties each of them at once.
    part = st.lists(st.sampled_from(table), max_size=20)
    parts = st.lists(part, min_size=steps // 5, max_size=steps // 5)
    return parts.map(lambda drawn: list(chain.from_iterable(drawn)))
