"""SQL with holes that a run fills."""

from __future__ import annotations

from math import inf

from tocsin.cluster.channels.compiler.template import (
    SUBSCRIPTIONS,
    Broadcast,
    CellSize,
    Relation,
    RelationRole,
    mark,
    relations_of,
    render,
    split,
)

REPORTS = Relation(RelationRole.NEW, "Reports")


def test_holes_are_filled_and_hints_may_be_left_out() -> None:
    """Generated text comes back as it was written, with the run's names, sizes and hints in their places."""
    marked = (
        f"SELECT {mark(Broadcast('r`1'))}* FROM {mark(REPORTS)} JOIN {mark(SUBSCRIPTIONS)} ON {mark(CellSize('r'))}"
    )
    parts = split(marked)
    assert relations_of(parts) == (REPORTS, SUBSCRIPTIONS)
    names = {REPORTS: "t1", SUBSCRIPTIONS: "t2"}
    hinted = render(parts, names, {"r": 0.5}, broadcast=True)
    assert hinted == "SELECT /*+ BROADCAST(`r``1`) */ * FROM t1 JOIN t2 ON 0.5D"
    assert render(parts, names, {"r": inf}, broadcast=False) == "SELECT * FROM t1 JOIN t2 ON double('Infinity')"
