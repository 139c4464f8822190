"""Filters as people type them, and what comes of them, letter by letter: the canonical text, or the answer.

After a change that is meant, run `pytest tests/golden --update-golden` and read the difference as somebody who has
typed the filter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tocsin.errors import StatementError
from unit.filters.quotes import filter_of

GOLDEN = Path(__file__).parent / "filters.txt"
TYPED = [
    "symbol='YHOO' and volume>300000",
    "symbol in ('YHOO', 'MSFT') AND close BETWEEN 30 AND 40",
    "NOT (symbol = 'YHOO' OR volume < 1000)",
    "symbol = 'YHOO' AND close < 30 OR symbol = 'MSFT' AND close > 40",
    "name LIKE 'Yahoo%' AND name NOT LIKE '%Japan%'",
    "halted OR at >= '2026-11-16T12:00:00+01:00'",
    "day = '2026-11-16' AND volume IS NOT NULL",
    "volume > 1e6",
    "close <> 5 AND (volume IS NULL OR volume >= 0)",
    "volume > 5 OR volume <= 5 OR volume IS NULL",
    "symbol = YHOO",
    'symbol = "YHOO',
    "symbol = 'O'Hare'",
    "symbols = 'YHOO'",
    "Ticks.symbol = 'YHOO'",
    "symbol = 'YHOO' && volume > 5",
    "symbol = 'YHOO', volume > 5",
    "symbol IS 'YHOO'",
    "symbol LIKE 'Y?'",
    "symbol LIKE 'Y_OO'",
    "symbol ILIKE 'y%'",
    "symbol STARTS WITH 'Y'",
    "upper(symbol) = 'YHOO'",
    "volume > '300000'",
    "volume > 300,000",
    "volume > 300k",
    "volume between 1 and 5 and",
    "300 < volume < 500",
    "close > open",
    "close / 2 > 5",
    "close > 1e400",
    "at > now()",
    "at > '2026-11-16'",
    "at > '2026-11-16T12:00:00'",
    "at IN ('2026-11-16T12:00:00Z')",
    "day > '16.11.2026'",
    "halted = 1",
    "user = 5",
    "volume = NULL",
    "volume > :limit",
    "WHERE volume > 5",
    "volume > 5 ORDER BY volume",
    "volume > 5; DROP DATASET Quotes",
    "volume > 500 AND volume < 300",
    "symbol = 'YHOO' AND symbol = 'MSFT'",
    "volume BETWEEN 500 AND 300",
    "volume = 0.5",
    "symbol IS NULL",
]


def answer_to(text: str) -> str:
    try:
        return filter_of(text).text
    except StatementError as error:
        return error.pointed()


def test_filters_are_understood_or_answered_with_what_to_do(golden: Callable[[Path, str], None]) -> None:
    """Each answer names what is wrong, where, and what is allowed."""
    golden(GOLDEN, "\n".join(f"{typed}\n→ {answer_to(typed)}\n" for typed in TYPED))
