"""Parameter values are checked against the channel, and equal asks get equal values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.parameters import check_values
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Channel, ChannelKind, Parameter, ParameterValue
from tocsin.model.schema import ColumnType


def takes(*types: ColumnType) -> Channel:
    parameters = tuple(Parameter(f"p{number}", type_) for number, type_ in enumerate(types))
    return Channel("C", ChannelKind.CONTINUOUS, parameters, "SELECT 1")


@pytest.mark.parametrize(
    ("type_", "value", "normal"),
    [
        (ColumnType.STRING, "it's", "it's"),
        (ColumnType.STRING, "", ""),
        (ColumnType.BOOLEAN, False, False),
        (ColumnType.INT, -(2**31), -(2**31)),
        (ColumnType.BIGINT, 2**63 - 1, 2**63 - 1),
        (ColumnType.DOUBLE, 500, 500.0),
        (ColumnType.DOUBLE, -0.0, 0.0),
        (ColumnType.TIMESTAMP, "2026-01-02T05:04:05.000006+02:00", "2026-01-02T03:04:05.000006Z"),
        (ColumnType.TIMESTAMP, "2026-01-02 03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        (ColumnType.DATE, "2024-02-29", "2024-02-29"),
    ],
)
def test_values_come_in_normal_form(type_: ColumnType, value: object, normal: ParameterValue) -> None:
    """Two ways to write one value share one backend subscription."""
    (found,) = check_values(takes(type_), [value])
    assert found == normal
    assert type(found) is type(normal)
    assert str(found) == str(normal)


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        (ColumnType.STRING, 5, "a string"),
        (ColumnType.STRING, "x" * 10_001, "at most 10,000 characters"),
        (ColumnType.STRING, "\ud800", "a string"),
        (ColumnType.STRING, None, "not NULL"),
        (ColumnType.BOOLEAN, 1, "true or false"),
        (ColumnType.INT, True, "a whole number from -2147483648 to 2147483647"),
        (ColumnType.INT, 2**31, "a whole number"),
        (ColumnType.INT, 5.0, "a whole number"),
        (ColumnType.BIGINT, 2**63, "a whole number"),
        (ColumnType.DOUBLE, float("nan"), "a finite number"),
        (ColumnType.DOUBLE, float("inf"), "a finite number"),
        (ColumnType.DOUBLE, 10**400, "a finite number"),
        (ColumnType.DOUBLE, True, "a finite number"),
        (ColumnType.DOUBLE, "5", "a finite number"),
        (ColumnType.TIMESTAMP, "2026-01-02T03:04:05", "with its offset"),
        (ColumnType.TIMESTAMP, "yesterday", "an ISO 8601 time"),
        (ColumnType.TIMESTAMP, 1_700_000_000, "an ISO 8601 time"),
        (ColumnType.TIMESTAMP, "0001-01-01T00:00:00+14:00", "an ISO 8601 time"),
        (ColumnType.DATE, "2026-02-30", "an ISO 8601 date"),
        (ColumnType.DATE, "20260102", "an ISO 8601 date"),
        (ColumnType.DATE, ["2026-01-02"], "an ISO 8601 date"),
    ],
)
def test_wrong_values_are_named(type_: ColumnType, value: object, wanted: str) -> None:
    """The error names the parameter and what it allows."""
    with pytest.raises(InvalidValue, match="p0 must be") as refused:
        check_values(takes(type_), {"p0": value})
    assert wanted in refused.value.message


def test_names_are_matched_whatever_their_case_and_order() -> None:
    """Values come out in declared order."""
    channel = takes(ColumnType.STRING, ColumnType.INT)
    assert check_values(channel, {"P1": 5, "p0": "a"}) == check_values(channel, ("a", 5)) == ("a", 5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"p0": "a"}, "p1 is missing; it takes p0 STRING, p1 INT"),
        ({"p0": "a", "p1": 5, "p2": 6}, "no parameter 'p2'; it takes p0 STRING, p1 INT"),
        ({"p0": "a", "p1": 5, "P0": "b"}, "given twice"),
        (["a"], "2 values, not 1"),
        ("ab", "an object or a list"),
    ],
)
def test_missing_and_unknown_values_are_named(values: object, message: str) -> None:
    """Nothing is guessed and nothing is dropped."""
    with pytest.raises(InvalidValue) as refused:
        check_values(takes(ColumnType.STRING, ColumnType.INT), values)  # type: ignore[arg-type]
    assert message in refused.value.message


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_any_value_is_taken_or_refused_and_taking_is_stable(value: object) -> None:
    """No value crashes the check, and a normal form is its own normal form."""
    for type_ in ColumnType:
        try:
            once = check_values(takes(type_), [value])
        except InvalidValue:
            continue
        assert check_values(takes(type_), once) == once


@pytest.mark.parametrize("value", [50_000.1, 1e300, -0.001, float("nan"), float("inf"), 10**400, "5", None])
def test_a_declared_maximum_bounds_the_values(value: object) -> None:
    """Beyond it, below zero and what is no number is refused, and the error says what is allowed."""
    channel = Channel("C", ChannelKind.CONTINUOUS, (Parameter("radius_m", ColumnType.DOUBLE, 50_000.0),), "SELECT 1")
    with pytest.raises(InvalidValue, match=r"C: radius_m must be a number from 0 to 50000\.0, not"):
        check_values(channel, {"radius_m": value})
    assert check_values(channel, [50_000]) == (50_000.0,)
    assert check_values(channel, [0]) == (0.0,)
    whole = Channel("C", ChannelKind.CONTINUOUS, (Parameter("n", ColumnType.INT, 9),), "SELECT 1")
    with pytest.raises(InvalidValue, match="n must be a whole number from 0 to 9, not 10"):
        check_values(whole, [10])
    with pytest.raises(InvalidValue, match="it takes n INT MAX 9"):
        check_values(whole, {})
