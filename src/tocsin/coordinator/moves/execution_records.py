"""What is written down of plans that are carried out: every step, and who wanted it (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.coordinator.moves.execution import PlanRun, Progress
from tocsin.coordinator.moves.table import MoveRecord
from tocsin.coordinator.registry.instructions import Audit, Instruction, MoveEnded, Note, StoreMove, StorePlanRun

_BY_PLAN = "plan"
#: The action of an audit entry that a plan made for each who was to move; no caller can have it in an entry of theirs.
MOVE = "move"


def begun(run: PlanRun, moves: Sequence[MoveRecord]) -> list[Instruction]:
    details = {"stage": run.stage, "policy": run.policy, "reason": run.reason, "moves": run.moves}
    return [
        StorePlanRun(run),
        *map(StoreMove, moves),
        Audit(run.by, "execute", run.plan, details),
        Note("a plan is being carried out", {"plan": run.plan, "by": run.by, **details}),
    ]


def written(progress: Progress) -> list[Instruction]:
    done: list[Instruction] = []
    for move, took_s in progress.moves:
        done.append(StoreMove(move))
        if move.step.is_final:
            details = {
                "plan": move.plan,
                "source": move.source,
                "destination": move.destination,
                "step": str(move.step),
                "outcome": move.outcome,
                "took_s": round(took_s, 3),
                "reason": move.reason,
            }
            done += [Audit(_BY_PLAN, MOVE, move.subscriber, details), MoveEnded(move.step, took_s)]
    for run in progress.ended:
        counts = {"done": run.done, "failed": run.failed, "cancelled": run.cancelled}
        done += [StorePlanRun(run), Audit(run.by, "ended", run.plan, counts)]
        done.append(Note("a plan has ended", {"plan": run.plan, "state": run.state, **counts}))
    return done
