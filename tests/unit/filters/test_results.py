"""Which columns of results can be filtered, and payloads as rows."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue, StatementError
from tocsin.filters.results import PayloadReader, filtered_columns
from tocsin.model.schema import Column, ColumnType, ResultColumn, Schema


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("DECIMAL(10,2)", "cast it to DOUBLE or BIGINT in the channel"),
        ("FLOAT", "cast it to DOUBLE in the channel"),
        ("TIMESTAMP_NTZ", "cast it to TIMESTAMP in the channel"),
        ("ARRAY<INT>", "select what is to be compared as a column of its own in the channel"),
        ("STRUCT<A:INT>", "select what is to be compared"),
        ("VOID", "select what is to be compared"),
        ("BINARY", "select what is to be compared"),
    ],
)
def test_other_types_are_refused_by_name(kind: str, advice: str) -> None:
    """Even IS NULL, whatever the case; other columns of the same source can be filtered."""
    columns = filtered_columns([ResultColumn("Total", kind), ResultColumn("n", "INT")])
    for text in ("TOTAL > 5", "n = 1 OR `total` IS NULL"):
        with pytest.raises(StatementError, match="Total is ") as caught:
            columns.parse(text)
        assert advice in str(caught.value)
        assert caught.value.column == len(text.lower().partition("`total")[0].partition("total")[0]) + 1
    assert columns.parse("n >= 2").text == "n >= 2"


def test_small_numbers_are_compared_as_int() -> None:
    """As Spark does."""
    columns = filtered_columns([ResultColumn("a", "TINYINT"), ResultColumn("b", "SMALLINT")])
    assert [one.type for one in columns.schema] == [ColumnType.INT, ColumnType.INT]


def test_payloads_are_rows_in_the_schemas_order() -> None:
    """Other columns do no harm, whatever they hold."""
    read = PayloadReader(Schema((Column("n", ColumnType.BIGINT), Column("d", ColumnType.DOUBLE))))
    big = b"9" * 40
    assert read(b'{"x":' + big + b',"d":"NaN","n":9007199254740993}')[0] == 9007199254740993
    assert read(b'{"d":null,"n":null}') == [None, None]


@pytest.mark.parametrize(
    "payload", [b"{}", b'{"n":1}', b'{"n":"1","d":1}', b'{"n":1.0,"d":1}', b"[]", b"\xff", b"", b"[" * 5000]
)
def test_a_payload_of_another_definition_is_an_error(payload: bytes) -> None:
    """A column that is not there is not NULL."""
    read = PayloadReader(Schema((Column("n", ColumnType.BIGINT), Column("d", ColumnType.DOUBLE))))
    with pytest.raises(InvalidValue):
        read(payload)


def test_many_columns_do_not_make_long_errors() -> None:
    """An error is a message to a subscriber."""
    columns = filtered_columns([ResultColumn(f"column_{at}", "INT") for at in range(1000)])
    with pytest.raises(StatementError, match="no column nothing") as caught:
        columns.parse("nothing = 1")
    assert len(str(caught.value)) < 700
