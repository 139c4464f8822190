"""The interpreter knows every statement."""

from __future__ import annotations

from typing import get_args

from tocsin.cluster import interpreter
from tocsin.cluster.channels.compiler.statements import Statement


def test_every_statement_is_carried_out_in_one_way() -> None:
    """A statement that can be parsed is either a change of what exists or something else, never both or neither."""
    known = [*interpreter._CHANGES, *interpreter._OTHERS]
    assert len(known) == len(set(known))
    assert set(known) == set(get_args(Statement))
