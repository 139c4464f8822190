"""LIKE, ILIKE and levenshtein, in time that one long record can't stretch.

Spark turns a pattern with several % into a regular expression that backtracks: two % take time with the square of a
text's length, three with its cube, and nothing interrupts it, so one long record would stop everybody's feeds. Such a
pattern is spelled out here instead, as a search for each piece after the end of the piece before it. The first
occurrence always suffices, because it leaves the most room for the rest.

A pattern is pieces with % between them. The first piece stands at the text's beginning and the last at its end. A piece
in the middle may stand anywhere, so an _ inside it would need a search that no function of Spark does: it is refused.

levenshtein takes time with the product of two texts' lengths, so for long texts it is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from tocsin.cluster.channels.compiler.dialect import call

#: Each % is one search through the text. People who write patterns need two or three.
MAX_WILDCARDS: Final = 8
#: At worst, a search compares this many characters at each offset of a text.
MAX_PATTERN_LENGTH: Final = 1_000

#: Comparing two texts of this length takes a few milliseconds.
MAX_LEVENSHTEIN_LENGTH: Final = 1_000

#: The end of a piece that was not found: beyond every text, and sums with it stay below 2^31.
_NOWHERE: Final = 2_000_000_000

_string, _number = exp.Literal.string, exp.Literal.number

#: None stands for _, which is any one character.
_Piece = tuple[str | None, ...]


class UnsupportedPattern(ValueError):
    """The message says what is wrong with a pattern, and what would be allowed."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A piece in the middle: `text`, with this many arbitrary characters before and after it."""

    before: int
    text: str
    after: int


def check_pattern(pattern: str) -> None:
    """Raises UnsupportedPattern if the pattern can't be matched in linear time, or would fail in a run."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise UnsupportedPattern(f"a LIKE pattern may have at most {MAX_PATTERN_LENGTH:,} characters")
    pieces = _pieces(pattern)
    if len(pieces) > MAX_WILDCARDS + 1:
        raise UnsupportedPattern(f"a LIKE pattern may hold at most {MAX_WILDCARDS} % signs")
    for piece in pieces[1:-1]:
        _found(piece)


def copies_of_text(node: exp.Like | exp.ILike) -> int:
    """How often the matched text is written at most: once for each piece, for the two ends and for its length."""
    return int(node.expression.this.count("%")) + 2


def spell_out_pattern(node: exp.Like | exp.ILike) -> exp.Expr:
    """The same condition without a regular expression that backtracks. The pattern has been checked."""
    pattern: str = node.expression.this
    if len(_pieces(pattern)) == 1 or _spark_searches_once(pattern):
        return node
    text = node.this
    if isinstance(node, exp.ILike):
        # As Spark does it.
        pattern, text = pattern.lower(), call("lower", text)
    first, *middle, last = _pieces(pattern)
    conditions = [*_at_end("startswith", "left", text, first), *_at_end("endswith", "right", text, last)]
    end: exp.Expr = _number(len(first))
    for piece in middle:
        if (found := _found(piece)) is not None:
            end = _end_of(found, text, end)
    length = call("char_length", text.copy())
    conditions.append(exp.LTE(this=end, expression=exp.Sub(this=length, expression=_number(len(last)))))
    spelled = exp.paren(exp.and_(*conditions, copy=False), copy=False)
    return exp.paren(exp.Not(this=spelled), copy=False) if node.args.get("negate") else spelled


def bounded_levenshtein(node: exp.Expr) -> exp.Expr:
    """The same for texts up to MAX_LEVENSHTEIN_LENGTH; NULL for longer ones. Writes its arguments twice."""
    limit = _number(MAX_LEVENSHTEIN_LENGTH)
    short = [exp.LTE(this=call("char_length", text.copy()), expression=limit.copy()) for text in node.expressions[:2]]
    return call("if", exp.and_(*short, copy=False), node, exp.null())


def _spark_searches_once(pattern: str) -> bool:
    """Whether Spark itself only compares the two ends or searches for one piece."""
    plain = not set("_\\") & set(pattern)
    return plain and (pattern.count("%") == 1 or "%" not in pattern[1:-1])


def _at_end(compare: str, cut: str, text: exp.Expr, piece: _Piece) -> list[exp.Expr]:
    """A condition: a text begins, or ends, with a piece."""
    if not piece:
        return []
    if not _is_open(piece):
        return [call(compare, text.copy(), _string(_plain(piece)))]
    # Without %, so it never backtracks.
    return [exp.Like(this=call(cut, text.copy(), _number(len(piece))), expression=_string(_written(piece)))]


def _end_of(found: _Found, text: exp.Expr, start: exp.Expr) -> exp.Expr:
    """Where the first occurrence after `start` ends, as a number of characters; beyond every text if there is none."""
    if not found.text:
        return exp.Add(this=start, expression=_number(found.before))
    after = exp.Add(this=start, expression=_number(found.before + 1))
    at = call("locate", _string(found.text), text.copy(), after)
    # `locate` counts from 1 and gives 0 for nowhere; pmod turns that into the largest number used here.
    index = call("pmod", exp.Sub(this=at, expression=_number(1)), _number(_NOWHERE))
    return exp.Add(this=index, expression=_number(len(found.text) + found.after))


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            pieces.append([])
        elif character == "_":
            pieces[-1].append(None)
        elif character != "\\":
            pieces[-1].append(character)
        elif (escaped := next(characters, "")) and escaped in "%_\\":
            pieces[-1].append(escaped)
        else:
            raise UnsupportedPattern(r"in a LIKE pattern, a backslash may stand before %, _ and \ only")
    return [tuple(piece) for piece in pieces]


def _found(piece: _Piece) -> _Found | None:
    """A piece in the middle in the form that is searched for; None for an empty one."""
    if not piece:
        return None
    before = next((index for index, character in enumerate(piece) if character is not None), len(piece))
    rest = piece[before:]
    after = next((index for index, character in enumerate(reversed(rest)) if character is not None), 0)
    text = rest[: len(rest) - after]
    if _is_open(text):
        raise UnsupportedPattern(
            "between two % signs, a LIKE pattern may hold _ only next to a %: %_fire_% is allowed, %f_re% is not"
        )
    return _Found(before, _plain(text), after)


def _is_open(piece: _Piece) -> bool:
    return None in piece


def _plain(piece: _Piece) -> str:
    return "".join(character or "" for character in piece)


def _written(piece: Sequence[str | None]) -> str:
    """A piece as a pattern."""
    return "".join(
        "_" if character is None else f"\\{character}" if character in "%_\\" else character for character in piece
    )
