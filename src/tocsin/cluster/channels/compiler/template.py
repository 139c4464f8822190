"""Compiled SQL as text with holes: relations, cell sizes and hints that only a run can fill.

While SQL is being generated, a hole is a mark between two \\x01 characters, which no checked query can contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isinf

from tocsin.cluster.channels.compiler.dialect import quote_name


class RelationRole(StrEnum):
    """NEW holds the rows of the window, FULL all rows, FULL_MARKED all rows with a BOOLEAN `_is_new`.
    SUBSCRIPTIONS holds `_subscription` BIGINT and a column per parameter."""

    NEW = "NEW"
    FULL = "FULL"
    FULL_MARKED = "FULL_MARKED"
    SUBSCRIPTIONS = "SUBSCRIPTIONS"


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A relation that the executor gives a name to. Each holds its dataset's columns and `_seq`."""

    role: RelationRole
    dataset: str = ""


@dataclass(frozen=True, slots=True)
class CellSize:
    """The side of a grid's cells: `cell_size_for` the largest value of this parameter among the subscriptions."""

    parameter: str


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A hint that this relation is small. Without it the query means the same."""

    alias: str


Part = str | Relation | CellSize | Broadcast

SUBSCRIPTIONS = Relation(RelationRole.SUBSCRIPTIONS)

_HOLE = re.compile("\x01([RCB])([^\x01]*)\x01")


def mark(hole: Relation | CellSize | Broadcast) -> str:
    match hole:
        case Relation(role, dataset):
            return f"\x01R{role}:{dataset}\x01"
        case CellSize(parameter):
            return f"\x01C{parameter}\x01"
        case Broadcast(alias):
            return f"\x01B{alias}\x01"


def split(marked: str) -> tuple[Part, ...]:
    """The parts of generated SQL."""
    parts: list[Part] = []
    end = 0
    for hole in _HOLE.finditer(marked):
        parts.append(marked[end : hole.start()])
        parts.append(_hole(hole[1], hole[2]))
        end = hole.end()
    parts.append(marked[end:])
    return tuple(part for part in parts if part != "")


def _hole(sign: str, content: str) -> Part:
    if sign == "R":
        role, _, dataset = content.partition(":")
        return Relation(RelationRole(role), dataset)
    return CellSize(content) if sign == "C" else Broadcast(content)


def relations_of(parts: Iterable[Part]) -> tuple[Relation, ...]:
    return tuple(sorted({part for part in parts if isinstance(part, Relation)}))


def render(
    parts: Iterable[Part], names: Mapping[Relation, str], cell_sizes: Mapping[str, float], *, broadcast: bool
) -> str:
    def text(part: Part) -> str:
        match part:
            case Relation():
                return names[part]
            case CellSize(parameter):
                return number(cell_sizes[parameter])
            case Broadcast(alias):
                return f"/*+ BROADCAST({quote_name(alias)}) */ " if broadcast else ""
            case _:
                return part

    return "".join(text(part) for part in parts)


def number(value: float) -> str:
    """A DOUBLE literal."""
    return "double('Infinity')" if isinf(value) else f"{value!r}D"
