"""Plans that are or were carried out, their moves, and the audit log, in the coordinator's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import sqlalchemy as sa

from tocsin.coordinator.moves.execution import MOVE
from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.instructions import Audit
from tocsin.coordinator.store import tables
from tocsin.errors import NotFound

#: Older plans are forgotten with their moves when another one begins.
_PLANS_KEPT = 200
#: Moves stay in the audit log while they are among this many newest entries, about one plan of a large network.
_NEWEST_KEPT = 1_000_000
#: People's actions are kept beyond that, however many moves follow: a hundred entries a day for more than 25 years.
_OLDER_KEPT = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredRun:
    run: PlanRun
    begun_at_us: int
    changed_at_us: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what to whom or what, and when."""

    number: int
    at_us: int
    who: str
    action: str
    subject: str
    details: dict[str, Any]


class PlanStore:
    """Its methods wait for the disk: they are for threads, not for the event loop."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def runs(self, limit: int) -> list[StoredRun]:
        """The newest first."""
        query = sa.select(tables.plans).order_by(tables.plans.c.begun_at_us.desc()).limit(limit)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
            counts = _counts(connection, [row.plan for row in rows])
        return [_stored(row, counts) for row in rows]

    def run(self, plan: str, shown_moves: int) -> tuple[StoredRun, list[MoveRecord]]:
        """One plan, with the first of its moves."""
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(tables.plans).where(tables.plans.c.plan == plan)).first()
            if row is None:
                raise NotFound(f"{plan} was never carried out, or so long ago that it is forgotten")
            stored = _stored(row, _counts(connection, [plan]))
            chosen = sa.select(tables.moves).where(tables.moves.c.plan == plan).order_by(tables.moves.c.number)
            moves = [_move(one) for one in connection.execute(chosen.limit(shown_moves))]
        return stored, moves

    def audit(self, before: int | None, limit: int) -> list[AuditEntry]:
        """The newest entries first; only those before a number."""
        query = sa.select(tables.audit).order_by(tables.audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(tables.audit.c.number < before)
        with self._engine.connect() as connection:
            rows = connection.execute(query).mappings()
            return [AuditEntry(**{**row, "details": msgspec.json.decode(row["details"])}) for row in rows]

    # Inside the coordinator's transactions

    def unfinished(self, connection: sa.Connection) -> tuple[tuple[PlanRun, ...], tuple[MoveRecord, ...]]:
        """Plans and moves that have begun and not ended."""
        rows = connection.execute(sa.select(tables.plans).where(tables.plans.c.ended.is_(False))).all()
        names = [row.plan for row in rows]
        counts = _counts(connection, names)
        open_steps = [step.value for step in Step if not step.is_final]
        chosen = tables.moves.c.plan.in_(names) & tables.moves.c.step.in_(open_steps)
        query = sa.select(tables.moves).where(chosen).order_by(tables.moves.c.plan, tables.moves.c.number)
        return tuple(_run(row, counts) for row in rows), tuple(_move(row) for row in connection.execute(query))

    def apply(
        self,
        connection: sa.Connection,
        runs: Sequence[PlanRun],
        moves: Sequence[MoveRecord],
        kept_covs: Mapping[str, float],
        audits: Sequence[Audit],
        now_us: int,
    ) -> None:
        if runs:
            self._apply_runs(connection, runs, now_us)
        if moves:
            which = (tables.moves.c.plan == sa.bindparam("key")) & (tables.moves.c.number == sa.bindparam("at"))
            connection.execute(
                tables.moves.delete().where(which), [{"key": one.plan, "at": one.number} for one in moves]
            )
            connection.execute(tables.moves.insert(), [{**asdict(one), "step": one.step.value} for one in moves])
        for plan, kept_cov in kept_covs.items():
            chosen = tables.plans.c.plan == plan
            text = connection.execute(sa.select(tables.plans.c.figures).where(chosen)).scalar()
            if text is not None:
                figures = {**msgspec.json.decode(text), "kept_cov": kept_cov}
                encoded = msgspec.json.encode(figures).decode()
                connection.execute(tables.plans.update().where(chosen).values(figures=encoded))
        if audits:
            rows = [
                {
                    "at_us": now_us,
                    "who": one.who,
                    "action": one.action,
                    "subject": one.subject,
                    "details": msgspec.json.encode(dict(one.details)).decode(),
                }
                for one in audits
            ]
            connection.execute(tables.audit.insert(), rows)

    def _apply_runs(self, connection: sa.Connection, runs: Sequence[PlanRun], now_us: int) -> None:
        for run in runs:
            chosen = tables.plans.c.plan == run.plan
            figures = {"stopped": run.is_stopped, "ended": not run.left, "changed_at_us": now_us}
            if not connection.execute(tables.plans.update().where(chosen).values(figures)).rowcount:
                own = {name: value for name, value in asdict(run).items() if name in tables.plans.c}
                row = {**own, "begun_at_us": now_us, **figures}
                connection.execute(tables.plans.insert().values(row))
                _forget_old(connection)


def _forget_old(connection: sa.Connection) -> None:
    plans, moves, audit = tables.plans, tables.moves, tables.audit
    old = sa.select(plans.c.plan).where(plans.c.ended).order_by(plans.c.begun_at_us.desc()).offset(_PLANS_KEPT)
    names = [row.plan for row in connection.execute(old)]
    if names:
        connection.execute(moves.delete().where(moves.c.plan.in_(names)))
        connection.execute(plans.delete().where(plans.c.plan.in_(names)))
    newest = connection.execute(sa.select(sa.func.max(audit.c.number))).scalar() or 0
    is_older = audit.c.number <= newest - _NEWEST_KEPT
    connection.execute(audit.delete().where(is_older, audit.c.action == MOVE))
    over = connection.execute(sa.select(sa.func.count()).where(is_older)).scalar_one() - _OLDER_KEPT
    if over > 0:
        oldest = sa.select(audit.c.number).order_by(audit.c.number).limit(over)
        connection.execute(audit.delete().where(audit.c.number.in_(oldest)))


def _counts(connection: sa.Connection, plans: Sequence[str]) -> dict[tuple[str, str], int]:
    columns = (tables.moves.c.plan, tables.moves.c.step)
    query = sa.select(*columns, sa.func.count()).where(tables.moves.c.plan.in_(plans)).group_by(*columns)
    return {(plan, step): count for plan, step, count in connection.execute(query)}


def _run(row: Any, counts: dict[tuple[str, str], int]) -> PlanRun:
    ended: dict[str, Any] = {
        step.value: counts.get((row.plan, step), 0) for step in (Step.DONE, Step.FAILED, Step.CANCELLED)
    }
    return replace(msgspec.convert(row, PlanRun, from_attributes=True), is_stopped=row.stopped, **ended)


def _stored(row: Any, counts: dict[tuple[str, str], int]) -> StoredRun:
    return StoredRun(_run(row, counts), row.begun_at_us, row.changed_at_us)


def _move(row: Any) -> MoveRecord:
    return msgspec.convert(row, MoveRecord, from_attributes=True)
