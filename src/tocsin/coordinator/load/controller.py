"""Decides when a stage of balancing is due, and which one (pure).

Rules:

1.  Stage 1 is placement and is not decided here.
2.  Stage 3, shuffle, if the scores' cov is above `gamma` and their mean above `theta`; if that leaves cov above
    `alpha`, migration goes on from there, in the same plan.
3.  Stage 2, migration, if cov is above `alpha` and the mean above `beta`, or if a broker idles. Brokers that take
    nobody neither idle nor call for a stage by having little load: see `balancing.evenness`.
4.  One look is no evidence: a stage is due only if several looks in a row find it so.
5.  After a plan has been carried out, figures need time to settle; nothing is planned until then.
6.  A subscriber that was moved rests: no plan moves it again for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.evenness import Balance
from tocsin.balancing.plugins import policy_named
from tocsin.balancing.proposal import BalancingPolicy, Goal, then
from tocsin.coordinator.load.plan import Plan, make_plan
from tocsin.coordinator.load.stages import Stage, StageSettings

#: The policy that fills an idle broker: the others look for shared subscriptions, and an idle broker shares none.
_FILLS_IDLE = "ldm"
#: Nobody is moved to lower the highest score by less than this share of it.
_NOT_WORTH_MOVING = 0.002


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which stage is due, if one is, and why or why not."""

    stage: Stage | None
    reason: str
    is_idle: bool = False


class StageController:
    """Callers `look` at the brokers' scores, `plan` if a stage is due, and report which plan was `begun`."""

    def __init__(
        self,
        settings: StageSettings,
        migrations: Mapping[str, BalancingPolicy],
        shuffles: Mapping[str, BalancingPolicy],
    ) -> None:
        for kind, name, policies in (
            ("migration", settings.migration, migrations),
            ("shuffle", settings.shuffle, shuffles),
        ):
            if name:
                policy_named(kind, name, policies)
        self.settings = settings
        self._migrations = migrations
        self._shuffles = shuffles
        self._migration_hits = 0
        self._shuffle_hits = 0
        self._settled_at_s = float("-inf")
        #: Until when moved subscribers rest, in the order of time.
        self._resting: dict[str, float] = {}

    def look(self, now_s: float, balance: Balance) -> Verdict:
        """Call it at regular intervals."""
        settings, cov, mean = self.settings, balance.cov, balance.mean
        is_idle = mean > settings.beta and balance.has_idle(settings.idle_below)
        needs_shuffle = bool(settings.shuffle) and cov > settings.gamma and mean > settings.theta
        needs_migration = bool(settings.migration) and ((cov > settings.alpha and mean > settings.beta) or is_idle)
        self._shuffle_hits = self._shuffle_hits + 1 if needs_shuffle else 0
        self._migration_hits = self._migration_hits + 1 if needs_migration else 0
        if not (needs_shuffle or needs_migration):
            return Verdict(None, f"even enough: cov {cov:.3f}")
        if now_s < self._settled_at_s:
            return Verdict(None, f"settling for another {self._settled_at_s - now_s:.0f} s")
        if needs_shuffle and self._shuffle_hits >= settings.shuffle_hits:
            return Verdict(Stage.SHUFFLE, f"cov {cov:.3f} is above {settings.gamma} for {self._shuffle_hits} checks")
        if needs_migration and self._migration_hits >= settings.hits:
            uneven = cov > settings.alpha
            why = f"cov {cov:.3f} is above {settings.alpha}" if uneven else "a broker is idle"
            return Verdict(Stage.MIGRATION, f"{why} for {self._migration_hits} checks", is_idle)
        return Verdict(None, f"cov {cov:.3f}: waiting for another check")

    def resting(self, now_s: float) -> frozenset[str]:
        """The subscribers that were moved too recently to be moved again."""
        for subscriber, until_s in list(self._resting.items()):
            if until_s > now_s:
                break
            del self._resting[subscriber]
        return frozenset(self._resting)

    def plan(self, view: AssignmentView, verdict: Verdict) -> Plan:
        settings = self.settings
        idle_below = settings.idle_below if verdict.is_idle else 0.0
        goal = Goal(settings.alpha, settings.beta, idle_below, settings.max_moves, _NOT_WORTH_MOVING)
        if verdict.stage is Stage.SHUFFLE:
            plan = make_plan(view, Stage.SHUFFLE, settings.shuffle, self._shuffles[settings.shuffle](view, goal))
            if settings.migration and plan.after.cov > settings.alpha and plan.after.mean > settings.beta:
                return self._carried_on(view, plan, goal)
            return plan
        name = _FILLS_IDLE if verdict.is_idle else settings.migration
        return make_plan(view, Stage.MIGRATION, name, self._migrations[name](view, goal))

    def begun(self, now_s: float, plan: Plan) -> None:
        """The plan is being carried out from now on."""
        self._settled_at_s = now_s + self.settings.settle_s
        self._migration_hits = self._shuffle_hits = 0
        if self.settings.rest_s > 0:
            for move in plan.moves():
                self._resting.pop(move.subscriber, None)
                self._resting[move.subscriber] = now_s + self.settings.rest_s

    def ended(self, now_s: float) -> None:
        """The plan has been carried out, or given up."""
        self._settled_at_s = max(self._settled_at_s, now_s + self.settings.settle_s)

    def _carried_on(self, view: AssignmentView, shuffled: Plan, goal: Goal) -> Plan:
        """The net effect of the shuffle and of migration after it."""
        moved = replace(view, owners=shuffled.proposal.owners)
        if goal.max_moves is not None:
            goal = replace(goal, max_moves=max(0, goal.max_moves - shuffled.move_count))
        after = self._migrations[self.settings.migration](moved, goal)
        return make_plan(view, Stage.SHUFFLE, self.settings.shuffle, then(shuffled.proposal, after))
