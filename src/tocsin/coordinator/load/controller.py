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
7.  A plan begins only if it is worth its moves: see `worth`. If a shuffle is due, the better of a shuffle and a
    migration counts. A plan that is not worth it is not made anew until figures could have changed. What fills an idle
    broker is always worth it: operators add brokers to have them used. By the rule `plain`, the paper's, every plan is.
8.  Plans that did not keep what they promised make the next ones less credible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.evenness import Balance
from tocsin.balancing.plugins import policy_named
from tocsin.balancing.proposal import BalancingPolicy, Goal, then
from tocsin.coordinator.load.outlook import Outlook
from tocsin.coordinator.load.plan import Plan, make_plan
from tocsin.coordinator.load.promises import Kept
from tocsin.coordinator.load.stages import Rule, Stage, StageSettings
from tocsin.coordinator.load.worth import worth_of

#: The policy that fills an idle broker: the others look for shared subscriptions, and an idle broker shares none.
_FILLS_IDLE = "ldm"
#: Nobody is moved to lower the highest score by less than this share of it.
_NOT_WORTH_MOVING = 0.002
#: Shares of `alpha` that migration may aim at, if that is worth it: rates that last are worth some more moves at once.
_GOALS = (1.0, 0.5, 0.25)
#: How much the last plan counts in how credible plans are, what is believed at least, and after how long half of what
#: was lost is back: without that, a network that has changed would never get the plan that shows that plans are good
#: again. While people arrive, no plan keeps its promise; ten minutes later that says little.
_TRUST_GAIN = 0.3
_LEAST_TRUST = 0.5
_TRUST_HALF_BACK_S = 600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which stage is due, if one is, and why or why not."""

    stage: Stage | None
    reason: str
    is_idle: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan to begin, or None, and the reason, for people."""

    plan: Plan | None
    reason: str


class StageController:
    """Callers `look` at the brokers' scores, `decide` if a stage is due, and report which plan was `begun`."""

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
        self._refused: tuple[float, str] = (float("-inf"), "")
        #: The part of what plans promise that they were seen to keep, and when it was judged.
        self._trust = (1.0, 0.0)
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
        if now_s < self._refused[0]:
            return Verdict(None, self._refused[1])
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

    def decide(self, now_s: float, view: AssignmentView, verdict: Verdict, outlook: Outlook) -> Decision:
        """The plan for a stage that is due, if it is worth its moves."""
        if self.settings.rule is Rule.PLAIN or verdict.is_idle:
            return Decision(self.plan(view, verdict), verdict.reason)
        least, trust = self.settings.least_worth, self.trust(now_s)
        plan, worth = max(
            ((plan, worth_of(plan, outlook, trust)) for plan in self._candidates(view, verdict)),
            key=lambda pair: pair[1].gain_bytes - least * pair[1].cost_bytes,
        )
        if plan.move_count and worth.ratio >= least:
            return Decision(plan, f"{verdict.reason}; it gains {worth.ratio:.1f} times what its moves cost")
        if not plan.move_count:
            why = f"cov {plan.before.cov:.3f}, but no move would help"
        else:
            chance = f"; chance alone makes {outlook.chance:.3f}" if outlook.chance else ""
            gains = f"{plan.move_count} moves would gain {worth.ratio:.1f} times what they cost, less than {least:g}"
            why = f"cov {plan.before.cov:.3f}, but {gains}{chance}"
        self._refused = (now_s + self.settings.settle_s, why)
        return Decision(None, why)

    def _candidates(self, view: AssignmentView, verdict: Verdict) -> Iterator[Plan]:
        if verdict.stage is Stage.SHUFFLE:
            yield self.plan(view, verdict)
        if self.settings.migration:
            for share in _GOALS:
                yield self.plan(view, replace(verdict, stage=Stage.MIGRATION), share)

    def plan(self, view: AssignmentView, verdict: Verdict, share: float = 1.0) -> Plan:
        """The plan for a stage. Migration aims at this share of `alpha`."""
        settings = self.settings
        idle_below = settings.idle_below if verdict.is_idle else 0.0
        goal = Goal(share * settings.alpha, settings.beta, idle_below, settings.max_moves, _NOT_WORTH_MOVING)
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

    def trust(self, now_s: float) -> float:
        """The part of what plans promise that is to be believed."""
        trust, judged_s = self._trust
        lost: float = (1 - trust) * 0.5 ** ((now_s - judged_s) / _TRUST_HALF_BACK_S)
        return 1 - lost

    def kept(self, now_s: float, kept: Kept) -> None:
        """It is known what came of a plan's promise."""
        if kept.share is not None:
            trust = self.trust(now_s)
            self._trust = (max(_LEAST_TRUST, trust + _TRUST_GAIN * (kept.share - trust)), now_s)

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
