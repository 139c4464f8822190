"""Many rows at once, in both databases."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from databases import Database
from tocsin.runtime.schema import open_engine
from tocsin.runtime.sql_rows import among, in_chunks, insert_many, without_nul

_metadata = sa.MetaData()
_things = sa.Table(
    "thing",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("note", sa.Text),
    sa.Column("load", sa.Float),
)


def test_rows_come_back_as_they_went_in(database: Database) -> None:
    """Numbers of 64 bits, texts of any language and length, nothing, and values that look like SQL."""
    rows = [
        (2**63 - 1, "ä€𝄞", None, 0.1),
        (-(2**63), "'; DROP TABLE thing; --", "%s :x {}", 1e308),
        (0, "\\x00\\N", "x" * 100_000, None),
    ]
    engine = open_engine(database)
    with engine.begin() as connection:
        _metadata.create_all(connection)
        insert_many(connection, _things, rows)
        insert_many(connection, _things, [])
        found = connection.execute(sa.select(_things).order_by(_things.c.number.desc())).all()
        assert [tuple(row) for row in found] == [rows[0], rows[2], rows[1]]
    engine.dispose()


@pytest.mark.parametrize("count", [0, 1, 5_000, 5_001])
def test_rows_are_found_by_chunks_of_values(database: Database, count: int) -> None:
    """As many as one statement takes, and one more."""
    engine = open_engine(database)
    with engine.begin() as connection:
        _metadata.create_all(connection)
        insert_many(connection, _things, [(number, str(number), None, None) for number in range(count)])
        for column, values in ((_things.c.number, range(count)), (_things.c.name, [str(one) for one in range(count)])):
            found = [
                number
                for chunk in in_chunks(list(values))  # type: ignore[type-var]  # of one type each time
                for number in connection.scalars(sa.select(_things.c.number).where(among(connection, column, chunk)))
            ]
            assert sorted(found) == list(range(count))
        assert not connection.execute(sa.select(_things).where(among(connection, _things.c.number, [-1]))).all()
    engine.dispose()


def test_a_reason_of_somebody_elses_program_can_always_be_stored() -> None:
    assert without_nul("cannot cast 'a\0b'") == "cannot cast 'a␀b'"
