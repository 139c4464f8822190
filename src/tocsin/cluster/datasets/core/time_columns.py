"""Times and dates out of texts, in Spark's SQL: the same forms and range as `model/times` (pure)."""

from __future__ import annotations

from tocsin.model.schema import ColumnType, Schema
from tocsin.model.times import DATE_FORM, FIRST_YEAR, LAST_YEAR, TIME_FORM

_FORMS = {ColumnType.TIMESTAMP: TIME_FORM, ColumnType.DATE: DATE_FORM}


def is_time(type_: ColumnType) -> bool:
    return type_ in _FORMS


def text_ddl(schema: Schema) -> str:
    """The columns as Spark's DDL, with times and dates as texts, the form in which they arrive.

    >>> from tocsin.model.schema import Column
    >>> text_ddl(Schema((Column("id", ColumnType.INT), Column("at", ColumnType.TIMESTAMP))))
    '`id` INT, `at` STRING'
    """
    return ", ".join(
        f"`{column.name}` {ColumnType.STRING if is_time(column.type) else column.type}" for column in schema
    )


def from_text(text: str, type_: ColumnType) -> str:
    """SQL that makes a time or a date of the SQL expression `text`; NULL if it has none of the allowed forms."""
    # Not `$`, which would let a line break follow.
    return f"CASE WHEN {text} RLIKE '^({_FORMS[type_]})\\\\z' THEN try_cast({text} AS {type_}) END"


def is_outside(value: str, type_: ColumnType) -> str:
    """SQL that says whether a time or a date is NULL, or its year is not allowed."""
    begin = " 00:00:00Z" if type_ is ColumnType.TIMESTAMP else ""
    first, end = (f"{type_} '{year}-01-01{begin}'" for year in (FIRST_YEAR, LAST_YEAR + 1))
    return f"({value} IS NULL OR {value} < {first} OR {value} >= {end})"
