"""Plans that operators ask for: possible moves, and the loads that result. Making one changes nothing (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.plugins import policy_named
from tocsin.balancing.proposal import BalancingPolicy, Goal
from tocsin.coordinator.load.plan import Plan, make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.errors import InvalidValue, NotFound, TocsinError

#: A plan for a million subscribers takes tens of megabytes, and nobody looks at old ones.
_MAX_KEPT = 20
_USUAL = {Stage.MIGRATION: "group", Stage.SHUFFLE: "sharing"}


@dataclass(frozen=True, slots=True)
class Wish:
    """The kind of plan that is wanted, and why."""

    stage: Stage
    policy: str
    goal: Goal
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class KeptPlan:
    id: str
    made_at_us: int
    wish: Wish
    plan: Plan


class Planning:
    """Makes plans by the policies there are, checks them, and keeps the last few."""

    def __init__(
        self,
        migrations: Mapping[str, BalancingPolicy],
        shuffles: Mapping[str, BalancingPolicy],
        check: Callable[[AssignmentView, Plan], list[str]] = verify,
    ) -> None:
        self._policies = {Stage.MIGRATION: migrations, Stage.SHUFFLE: shuffles}
        self._check = check
        self._kept: dict[str, KeptPlan] = {}

    @property
    def policies(self) -> Mapping[Stage, Mapping[str, BalancingPolicy]]:
        return self._policies

    def wish(self, stage: Stage, policy: str, goal: Goal, reason: str = "") -> Wish:
        """Without a policy, the stage's default is used."""
        name = policy or _USUAL[stage]
        policy_named(stage, name, self._policies[stage])
        return Wish(stage, name, goal, reason)

    def propose(self, view: AssignmentView, wish: Wish) -> Plan:
        """Changes no state, so it may run in a thread for long."""
        try:
            proposal = self._policies[wish.stage][wish.policy](view, wish.goal)
        except TocsinError:
            raise
        except Exception as exc:
            # Most likely a plugin's policy: the operator who asked for the plan should see its error.
            raise InvalidValue(f"policy {wish.policy} failed: {type(exc).__name__}: {exc}") from exc
        plan = make_plan(view, wish.stage, wish.policy, proposal)
        if faults := self._check(view, plan):
            more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
            raise InvalidValue(f"policy {wish.policy} made a plan that can't be carried out: {faults[0]}{more}")
        return plan

    def keep(self, plan_id: str, made_at_us: int, wish: Wish, plan: Plan) -> KeptPlan:
        kept = self._kept[plan_id] = KeptPlan(plan_id, made_at_us, wish, plan)
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept

    def get(self, plan_id: str) -> KeptPlan:
        if (kept := self._kept.get(plan_id)) is None:
            raise NotFound(f"no plan {plan_id}; the last {_MAX_KEPT} are kept, until the coordinator ends")
        return kept

    def all(self) -> list[KeptPlan]:
        """The newest first."""
        return list(reversed(self._kept.values()))
