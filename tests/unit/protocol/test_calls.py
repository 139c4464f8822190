"""Calls: what people type is read as they meant it, or the error points at the place."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import StatementError
from tocsin.model.catalogue import ParameterValue
from tocsin.protocol.calls import parse_call, write_call

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\r'\"\\"))
VALUES = TEXTS | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
PARAMETERS = st.lists(st.tuples(NAMES, VALUES), unique_by=lambda pair: pair[0].lower(), max_size=5).map(dict)


@given(NAMES, PARAMETERS)
def test_parse_undoes_write(channel: str, values: dict[str, object]) -> None:
    """Any channel and values can be written as a call, and come back with their types."""
    read = parse_call(write_call(channel, values))
    assert read == (channel, values, "")
    assert [type(value) for value in read[1].values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("C", {}),
        (" C ( ) ", {}),
        ("C(a => 'it''s')", {"a": "it's"}),
        ('C(a => "say ""hi"" it\'\'s")', {"a": "say \"hi\" it''s"}),
        (r"C(a => 'tab\t quote\' back\\')", {"a": "tab\t quote' back\\"}),
        ("C(a=>1,b=>- 2.5,c=>1e3,d=>.5)", {"a": 1, "b": -2.5, "c": 1000.0, "d": 0.5}),
        ("C(a => TRUE, b => false)", {"a": True, "b": False}),
        ("C(\n  a => 'x',\n  b => 2\n)", {"a": "x", "b": 2}),
        ("C(a => 'a, b => )')", {"a": "a, b => )"}),
    ],
)
def test_reads(text: str, values: dict[str, object]) -> None:
    """Strings with either quote, numbers, booleans, spaces anywhere."""
    assert parse_call(text) == ("C", values, "")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected the name of a channel"),
        ("  ", 1, "expected the name of a channel"),
        ("'C'()", 1, "expected the name of a channel"),
        ("C(", 3, "expected the name of a parameter"),
        ("C(a => 1", 9, "expected ,"),
        ("C(a = 1)", 5, "expected =>"),
        ("C(a => )", 8, "expected a string in quotes"),
        ("C(a => flood)", 8, "expected a string in quotes"),
        ("C(a => 'x)", 8, "the string has no end"),
        (r"C(a => '\x')", 9, "unknown escape"),
        ("C(a => 1, A => 2)", 11, "given twice"),
        ("C(a => 1,)", 10, "expected the name of a parameter"),
        ("C(a => 1 b => 2)", 10, "expected ,"),
        ("C(a => 1e999)", 8, "finite"),
        ("C(a => 1x)", 8, "not understood"),
        ("C(a => 1); DROP", 10, "not understood"),
        ("C(a => 1) D", 11, "only WHERE and a filter may follow"),
        ("C(a => 'x\0')", 10, "control characters"),
        (f"C(a => {'9' * 5000})", 8, "finite"),
    ],
)
def test_errors_point_at_the_place(text: str, column: int, message: str) -> None:
    """Whoever mistypes a call is shown where."""
    with pytest.raises(StatementError) as caught:
        parse_call(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column)


@given(st.text(st.sampled_from("Ca1'\"\\=>(),-. e\nü\0"), max_size=30))
def test_nonsense_is_refused(text: str) -> None:
    """Nothing but a StatementError comes of any text."""
    with suppress(StatementError):
        found = parse_call(text)
        assert parse_call(write_call(*found)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("C", ("C", {}, "")),
        ("C WHERE a >= 1", ("C", {}, "a >= 1")),
        ("C() where  a<>'it''s' ", ("C", {}, "a<>'it''s'")),
        ("C(where => 1)where `where` = 'x WHERE y'", ("C", {"where": 1}, "`where` = 'x WHERE y'")),
        ("Where(a => 1)", ("Where", {"a": 1}, "")),
    ],
)
def test_a_filter_may_follow(text: str, found: tuple[str, dict[str, ParameterValue], str]) -> None:
    """Behind the word WHERE, in any case; what it means is the broker's business."""
    assert parse_call(text) == found
    assert parse_call(write_call(*found)) == found


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("C(a => 1) WHERE", 11, "expected a condition after WHERE"),
        ("C(a => 1) AND b = 2", 11, "only WHERE and a filter may follow"),
        ("C WHERE a = 'x", 13, "the string has no end"),
        ("C WHERE a = 1; DROP", 14, "not understood"),
        ("WHERE a = 1", 7, "expected ("),
    ],
)
def test_errors_before_and_in_a_filter_point_too(text: str, column: int, message: str) -> None:
    """As far as they can be found without the columns of the channel."""
    with pytest.raises(StatementError) as caught:
        parse_call(text)
    assert message in str(caught.value)
    assert caught.value.column == column
