"""State diagrams, made of the transition tables that the machines go by. `test_diagrams.py` holds the docs to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tocsin.broker.core import session_table
from tocsin.coordinator.moves import table as move_table


def session_diagram() -> str:
    """A session's three regions, side by side."""
    first = [
        session_table.first_state(is_owned=owned, is_confirmed=confirmed)
        for owned in (False, True)
        for confirmed in (True, False)
    ]
    lines = []
    for at, region in enumerate((session_table.Presence, session_table.Knowledge, session_table.Ownership)):
        edges = {key: to for key, to in session_table.TRANSITIONS.items() if isinstance(to, region)}
        begins = dict.fromkeys(str(state[at]) for state in first)
        lines += [f"state {region.__name__} {{", *_indented(_edges(begins, edges)), "}"]
    return _diagram(lines)


def move_diagram() -> str:
    return _diagram(_edges([str(move_table.Step.QUEUED)], move_table.TRANSITIONS))


def _edges(begins: Iterable[str], transitions: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Facts that lead the same way are one arrow. What changes nothing is left out."""
    yield from (f"[*] --> {one}" for one in begins)
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, fact), to in transitions.items():
        if state != to:
            arrows.setdefault((str(state), str(to)), []).append(str(fact))
    for (state, to), facts in arrows.items():
        yield f"{state} --> {to}: {', '.join(facts)}"
    left = {state for state, _ in arrows}
    yield from (f"{one} --> [*]" for one in dict.fromkeys(to for _, to in arrows) if one not in left)


def _diagram(lines: Iterable[str]) -> str:
    return "\n".join(["stateDiagram-v2", *_indented(lines)]) + "\n"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
