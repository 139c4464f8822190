"""The filter language: what is read, and how what can't be read is answered."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import StatementError
from tocsin.filters.words import MAX_CHARACTERS, MAX_DEPTH, MAX_PREDICATES, MAX_VALUES_IN_LIST
from unit.filters.quotes import filter_of, row_of


def refusal(text: str) -> StatementError:
    with pytest.raises(StatementError) as refused:
        filter_of(text)
    return refused.value


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("VOLUME>50", "volume > 50"),
        ("not symbol<>'A'", "symbol = 'A'"),
        ('symbol == "say ""hi"""', "symbol = 'say \"hi\"'"),
        (r"symbol = 'it\'s \u0041'", "symbol = 'it''s A'"),
        ("`user` = 5", "`user` = 5"),
        ("halted", "halted = TRUE"),
        ("NOT NOT NOT halted", "halted = FALSE"),
        ("volume in(1,2,2,1)", "volume BETWEEN 1 AND 2"),
        ("volume = 1.0", "volume = 1"),
        ("volume > 2.5", "volume >= 3"),
        ("volume <> 2.5", "volume IS NOT NULL"),
        ("close = 1", "close = 1.0"),
        ("close > -0.0", "close > 0.0"),
        ("at < '2026-01-02 03:04:05+02'", "at < TIMESTAMP '2026-01-02T01:04:05Z'"),
        ("day IN (DATE '2026-01-02')", "day = DATE '2026-01-02'"),
        ("symbol LIKE 'A%' OR FALSE", "symbol LIKE 'A%'"),
        ("(volume > 50\nAND TRUE)", "volume > 50"),
    ],
)
def test_reads(text: str, canonical: str) -> None:
    """Keywords and columns in any case, strings in both quotes, numbers and times in all their forms."""
    assert filter_of(text).text == canonical


def test_one_and_true_are_not_the_same() -> None:
    """1 and 1.0 are the same number; TRUE is none, and 1 is no BOOLEAN."""
    assert filter_of("volume = 1") == filter_of("volume = 1.0") == filter_of("volume = 1e0")
    assert "compare it with a number" in refusal("volume = TRUE").message
    assert "compare it with TRUE or FALSE" in refusal("halted = 1").message
    assert "compare it with a text" in refusal("symbol = 1").message


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected a condition"),
        ("volume", 7, "expected one of"),
        ("volume >", 9, "compare it with a number"),
        ("volume > 5 AND", 15, "expected a column"),
        ("volume > 5 volume < 9", 12, "expected AND, OR"),
        ("(volume > 5", 12, "a ) is missing"),
        ("volume > 5)", 11, "closes nothing"),
        ("volum > 5", 1, "did you mean volume?"),
        ("elsewhere > 5", 1, "there are symbol, name"),
        ("user = 5", 1, "write `user`"),
        ("5 < volume", 1, "write the column first"),
        ("volume > close", 10, "not with another column"),
        ("volume = NULL", 10, "IS NULL"),
        ("volume IN (1, NULL)", 15, "IS NULL"),
        ("volume = '5'", 10, "without quotes"),
        ("symbol = YHOO", 10, "'YHOO'"),
        ("symbol = :name", 10, "not understood"),
        ("lower(symbol) = 'a'", 1, "functions are not allowed"),
        ("symbol IN (SELECT 1)", 12, "compare it with a text"),
        ("(SELECT 1) = 1", 2, "subqueries are not allowed"),
        ("volume > 5 -- mine", 12, "comments are not allowed"),
        ("volume /* mine */ > 5", 8, "comments are not allowed"),
        ("volume > 5; DROP", 11, "not understood"),
        ("symbol <=> 'A'", 8, "use = and IS NULL"),
        ("symbol RLIKE 'A'", 8, "use LIKE"),
        ("symbol LIKE 'A%' ESCAPE '!'", 18, "ESCAPE is not allowed"),
        ("symbol LIKE 'A_'", 13, "_ is not allowed"),
        ("symbol LIKE 'A%B'", 13, "% at its ends only"),
        ("volume LIKE 'A%'", 8, "LIKE is for STRING"),
        ("volume BETWEEN 1, 5", 17, "expected AND"),
        ("volume IN 5", 11, "expected ("),
        ("volume IS 5", 11, "expected NULL"),
        ("volume NOT 5", 8, "expected one of"),
        ("at > '2026-01-02T03:04:05'", 6, "with its offset"),
        ("at > '1026-01-02T03:04:05Z'", 6, "between 1900 and 2200"),
        ("at IN ('2026-01-02T03:04:05Z')", 8, "write the type before"),
        ("at > DATE '2026-01-02'", 6, "at is TIMESTAMP"),
        ("day = '2026-02-30'", 7, "a day that exists"),
        ("close > 1e400", 9, "beyond all numbers"),
        ("close > NaN", 9, "compare it with a number"),
        ("close > Infinity", 9, "compare it with a number"),
        (f"close > {'9' * 39}", 9, "38 digits at most"),
        ("volume < 9223372036854775808", 10, "beyond all whole numbers"),
        ("volume < 0.0000000000000000001", 10, "18 digits after the point"),
        ("symbol = 'A\0'", 12, "control characters"),
        ("symbol = '\ud800'", 11, "control characters"),
        (r"symbol = '\ud800'", 11, "there is no character"),
        (r"symbol = '\x'", 11, "unknown escape"),
        ("symbol = 'A", 10, "the string has no end"),
        ("`symbol = 'A'", 1, "the name in backticks has no end"),
    ],
)
def test_errors_point_at_the_mistake(text: str, column: int, message: str) -> None:
    """And say what is allowed."""
    error = refusal(text)
    assert message in error.message
    assert (error.line, error.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("volume > 5 AND volume < 3", "volume < 3 contradicts volume > 5"),
        ("volume = 2.5", "volume = 2.5 is true for no BIGINT"),
        ("volume BETWEEN 5 AND 3", "volume BETWEEN 5 AND 3 is true for no BIGINT"),
        ("symbol IS NULL", "symbol IS NULL is true for no STRING"),
        ("symbol = 'A' AND (symbol = 'B' AND volume > 5)", "exclude each other"),
        ("volume IN (1, 2) AND volume != 1 AND volume != 2", "the conditions on volume exclude each other"),
        ("symbol LIKE '%a' AND symbol LIKE '%b'", "symbol LIKE '%b' contradicts symbol LIKE '%a'"),
        ("symbol LIKE 'a%' AND symbol < 'a'", "symbol < 'a' contradicts symbol LIKE 'a%'"),
        ("NOT (volume IS NULL OR volume IS NOT NULL)", "contradicts"),
        ("FALSE", "FALSE matches nothing"),
        ("volume > 5 AND volume < 3 OR FALSE", "contradicts"),
    ],
)
def test_what_can_not_match_is_refused_with_the_reason(text: str, message: str) -> None:
    """One alternative that can match is enough."""
    error = refusal(text)
    assert "no record can match this filter" in error.message
    assert message in error.message
    assert error.line == 1
    assert filter_of(f"{text} OR close > 1").text == "close > 1.0"


def test_limits_are_kept_and_named() -> None:
    """What is just within them is read; a million values are refused before they are looked at."""
    nested = f"{'(' * MAX_DEPTH}volume > 5{')' * MAX_DEPTH}"
    listed = ", ".join(str(2 * at) for at in range(MAX_VALUES_IN_LIST))
    many = " OR ".join(f"volume = {2 * at}" for at in range(MAX_PREDICATES))
    for text in (nested, f"volume IN ({listed})", many):
        assert filter_of(filter_of(text).text) == filter_of(text)
    assert "32 levels" in refusal(f"({nested})").message
    assert "1,000 values" in refusal(f"volume IN ({listed}, 1)").message
    assert "256 predicates" in refusal(f"{many} OR volume = 1").message
    million = f"volume IN ({', '.join(map(str, range(1_000_000)))})"
    assert f"{MAX_CHARACTERS:,} characters" in refusal(million).message


_PATTERNS = [f"name NOT LIKE '%{at:04d}%'" for at in range(MAX_PREDICATES - 3)]


@pytest.mark.parametrize(
    "text",
    [
        f"{' ' * (MAX_CHARACTERS - 1)}@",
        f"volume > +{' ' * (MAX_CHARACTERS - 11)}@",
        " AND ".join(_PATTERNS),
        " AND ".join([*_PATTERNS, "volume IN (1, 2)", "volume IN (2, 3)", "volume IN (1, 3)"]),
    ],
    ids=["blanks", "blanks after a sign", "patterns", "patterns beside a contradiction"],
)
def test_no_text_takes_long(text: str) -> None:
    """Whoever writes it: a broker that reads it serves nobody else meanwhile. Ten times as long takes ten times, or at
    most a hundred times, as much."""
    begin_s = time.process_time()
    with suppress(StatementError):
        filter_of(text)
    assert time.process_time() - begin_s < 0.8


def test_a_filter_may_become_too_large_only_in_canonical_form() -> None:
    """Then it is refused, because nobody could read it back."""
    control = "\\u007f" * 2_000
    assert filter_of(f"symbol = '{control}'")
    tilde = "~" * 5_000
    text = f"symbol LIKE 'a{tilde}%' AND symbol > 'a{tilde}b' AND name LIKE 'a{tilde}%' AND name > 'a{tilde}b'"
    assert "canonical form" in refusal(text[: MAX_CHARACTERS - 1]).message if len(text) < MAX_CHARACTERS else True
    spaced = " OR ".join(f"volume={at}and close=0" for at in range(0, 512, 2))
    assert "canonical" in refusal(f"{spaced} or day='2026-01-01'").message or len(spaced) < MAX_CHARACTERS


@given(st.text(st.sampled_from("volumesy 5'%\"\\=<>(),-.eANDORNOTIN`\n\0é"), max_size=40))
def test_nonsense_is_answered_with_an_error_that_points(text: str) -> None:
    with suppress(StatementError):
        found = filter_of(text)
        assert filter_of(found.text) == found
        found.matches(row_of())
