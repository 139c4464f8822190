"""Filters are written in one way, the shortest that is clear."""

from __future__ import annotations

import pytest

from unit.filters.quotes import filter_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("close > 1 AND symbol = 'A'", "symbol = 'A' AND close > 1.0"),
        ("volume > 300000", "volume > 300000"),
        ("volume >= 300001", "volume > 300000"),
        ("volume > 4", "volume >= 5"),
        ("volume >= 1 AND volume <= 9", "volume BETWEEN 1 AND 9"),
        ("volume != 5", "volume != 5"),
        ("volume < 5 OR volume > 5", "volume != 5"),
        ("volume NOT BETWEEN 5 AND 900", "volume NOT BETWEEN 5 AND 900"),
        ("volume = 1 OR volume = 5", "volume IN (1, 5)"),
        ("volume IN (1, 2, 3, 9)", "volume IN (1, 2, 3, 9)"),
        ("volume IS NULL OR volume = 5", "volume IS NULL OR volume = 5"),
        ("(volume IS NULL OR volume = 5) AND symbol = 'A'", "symbol = 'A' AND (volume IS NULL OR volume = 5)"),
        ("volume > 5 OR symbol = 'A'", "symbol = 'A' OR volume >= 6"),
        ("symbol > 'a' AND symbol <= 'b'", "symbol > 'a' AND symbol <= 'b'"),
        ("symbol >= 'a' AND symbol <= 'b'", "symbol BETWEEN 'a' AND 'b'"),
        ("NOT (symbol >= 'a' AND symbol < 'b')", "symbol NOT LIKE 'a%'"),
        ("NOT (symbol >= 'a' AND symbol < 'c')", "symbol < 'a' OR symbol >= 'c'"),
        ("close > 5 AND close < 7", "close > 5.0 AND close < 7.0"),
        ("close >= 5 AND close <= 7", "close BETWEEN 5.0 AND 7.0"),
        ("volume >= 0 AND volume < 10", "volume BETWEEN 0 AND 9"),
        ("volume >= 0", "volume >= 0"),
        (r"name LIKE '100\\%%'", r"name LIKE '100\\%%'"),
        ("name LIKE '%b' AND name NOT LIKE '%a%'", "name NOT LIKE '%a%' AND name LIKE '%b'"),
        ("symbol LIKE 'a~%' AND symbol > 'a~b'", r"symbol > 'a~b' AND symbol < 'a\u007f'"),
        ("symbol = '${x}'", r"symbol = '$\u007bx}'"),
        ("close > 1.7976931348623157e308", "close > 1.7976931348623157e+308"),
        ("close < -1.7976931348623157e308", "close < -1.7976931348623157e+308"),
        ("day > '2200-12-31'", "day > DATE '2200-12-31'"),
        ("at > '2200-12-31T23:59:59.999999Z'", "at > TIMESTAMP '2200-12-31T23:59:59.999999Z'"),
    ],
)
def test_canonical_texts(text: str, canonical: str) -> None:
    """In the order of the columns; bounds with fewer digits; what is not, where it is shorter than what is."""
    assert filter_of(text).text == canonical
    assert filter_of(canonical) == filter_of(text)


def test_long_lists_are_written_in_lists_that_can_be_read() -> None:
    """Three lists of a thousand values become one set, and are written as three again."""
    lists = [", ".join(str(at) for at in range(first, first + 3_000, 3)) for first in (0, 3_000, 6_000)]
    one = filter_of(" OR ".join(f"volume IN ({some})" for some in lists[:2]))
    assert one.text.count("IN") == 2
    assert filter_of(one.text) == one
