"""Plans, their moves and the audit log outlive the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from databases import Database
from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.instructions import Audit, StoreMove, StorePlanRun
from tocsin.coordinator.store import plan_store
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import NotFound
from tocsin.runtime.clock import SystemClock

_RUN = PlanRun("p", "shuffle", "gsh", "uneven", "me", 3, '{"before": {}}')
_MOVES = [MoveRecord("p", number, f"s{number}/d", "a", "b", 1.5, "because") for number in range(3)]


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    store = Store(open_tables(database), SystemClock())
    store.apply([StorePlanRun(_RUN), *map(StoreMove, _MOVES), Audit("me", "execute", "p", {"moves": 3})])
    yield store
    store.close()


def test_what_has_not_ended_is_gone_on_with(store: Store) -> None:
    store.apply([StoreMove(replace(_MOVES[0], step=Step.DONE, outcome="arrived"))])
    store.apply([StoreMove(replace(_MOVES[1], step=Step.MOVING))])
    remembered = store.load()
    assert remembered.runs == (replace(_RUN, done=1),)
    assert [(move.number, move.step) for move in remembered.moves] == [(1, Step.MOVING), (2, Step.QUEUED)]


def test_what_has_ended_is_kept_to_be_looked_at(store: Store) -> None:
    ended = [replace(move, step=Step.DONE, outcome="arrived") for move in _MOVES]
    store.apply([*map(StoreMove, ended), StorePlanRun(replace(_RUN, done=3))])
    assert store.load().runs == ()
    stored, moves = store.plans.run("p", 2)
    assert (stored.run.state, stored.run.done) == ("done", 3)
    assert moves == ended[:2]
    assert [one.run.plan for one in store.plans.runs(10)] == ["p"]
    with pytest.raises(NotFound, match="q was never carried out"):
        store.plans.run("q", 2)


def test_stopping_is_remembered(store: Store) -> None:
    """A plan that was stopped is stopped after a restart too."""
    store.apply([StorePlanRun(replace(_RUN, is_stopped=True))])
    assert store.load().runs[0].is_stopped


def test_the_audit_log_page_by_page(store: Store) -> None:
    """Newest first, and the next page goes on before the last number of this one."""
    store.apply([Audit("ann", "state", "a", {"state": "cordoned"}), Audit("ann", "state", "a", {"state": "active"})])
    newest, older = store.plans.audit(None, 2)
    assert (newest.who, newest.details) == ("ann", {"state": "active"})
    (first,) = store.plans.audit(older.number, 10)
    assert (first.action, first.subject) == ("execute", "p")


def _audited(store: Store) -> list[tuple[str, str]]:
    return [(one.action, one.subject) for one in store.plans.audit(None, 1000)]


def test_what_people_did_outlives_a_large_plan(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of many moves takes the room of older moves in the audit log, and of nothing else."""
    monkeypatch.setattr(plan_store, "_NEWEST_KEPT", 20)
    store.apply([Audit("ann", "state", "a", {"state": "draining"}), Audit("bob", "remove", "a")])
    for plan in range(5):
        moves = [Audit("plan", "move", f"s{plan}-{number}/d") for number in range(30)]
        store.apply([StorePlanRun(replace(_RUN, plan=f"p{plan}")), *moves])
    store.apply([StorePlanRun(replace(_RUN, plan="last"))])
    found = _audited(store)
    assert [one for one in found if one[0] != "move"] == [("remove", "a"), ("state", "a"), ("execute", "p")]
    assert [subject for action, subject in found if action == "move"] == [f"s4-{n}/d" for n in range(29, 9, -1)]


def test_the_audit_log_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """People's entries too: the oldest go first."""
    monkeypatch.setattr(plan_store, "_NEWEST_KEPT", 20)
    monkeypatch.setattr(plan_store, "_OLDER_KEPT", 10)
    store.apply([Audit("ann", "state", f"b{number}") for number in range(100)])
    store.apply([StorePlanRun(replace(_RUN, plan="last"))])
    assert _audited(store) == [("state", f"b{number}") for number in range(99, 69, -1)]
