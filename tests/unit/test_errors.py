"""The error tree: every error has a code, a status and one shape on the wire."""

from __future__ import annotations

import json

import pytest

from tocsin import errors
from tocsin.errors import HistoryGone, NotFound, Overloaded, StatementError, TocsinError, Unavailable


def tree(root: type[TocsinError] = TocsinError) -> list[type[TocsinError]]:
    children = [one for one in root.__subclasses__() if one.__module__ == errors.__name__]
    return [root, *(found for child in children for found in tree(child))]


def test_the_tree_is_as_drawn() -> None:
    """The docstring draws every class of the tree."""
    drawn = errors.__doc__ or ""
    assert [one.__name__ for one in tree() if one.__name__ not in drawn] == []


def test_codes_and_statuses_tell_what_to_do() -> None:
    """Codes are unique; what is temporary can be tried again, and only our own failure is a 500."""
    codes = [one.code for one in tree() if "code" in vars(one)]
    assert len(set(codes)) == len(codes)
    assert {one.http_status for one in tree(Overloaded)} == {429, 503}
    assert all(one.temporary for one in tree(Overloaded))
    assert all(400 <= one.http_status < 500 and not one.temporary for one in tree(errors.RequestError))


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (NotFound("x"), {}),
        (Overloaded("x", retry_after_s=0.5), {"retry_after_s": 0.5}),
        (Unavailable("x", retry_after_s=2), {"retry_after_s": 2}),
        (HistoryGone("x", earliest="7-1"), {"earliest": "7-1"}),
    ],
)
def test_every_error_travels_in_one_shape(error: TocsinError, more: dict[str, object]) -> None:
    """Code, message, temporary, and what belongs to the kind."""
    wire = json.loads(json.dumps(error.to_wire()))["error"]
    assert wire == {"code": error.code, "message": "x", "temporary": error.temporary, **more}


def test_a_statement_error_points_at_its_place() -> None:
    """The line is shown with a mark below the column; without a place there is only the message."""
    error = StatementError("no such thing", text="SELECT a\nFROM b", line=2, column=6)
    pointed = error.to_wire()["error"]["pointed"].splitlines()
    assert "FROM b" in pointed[-2]
    assert pointed[-1].index("^") == pointed[-2].index("b")
    assert "pointed" not in StatementError("x").to_wire()["error"] or StatementError("x").pointed() == "x"
