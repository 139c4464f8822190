"""WITH EXITS in a run: what it finds out about results that were there before.

Mostly the run's own rows tell: they have what changed rows touch, and what holds through them. If anything may have
ended, because rows were removed or a relation changed that touches all results, one more query finds what holds now,
among the subscriptions that have results without an exit. A subscription for which that fails keeps its results: nobody
knows whether they hold, and they are checked again when something has changed.

Both judge by the current rows, of which some may be newer than the window. What changes there is in the next window,
and touches its results again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from tocsin.cluster.channels.core.splitting import Window
from tocsin.cluster.channels.runs import KEYED_OUTPUT, ChannelRuns, RunFailed, RunTooLarge
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.results.exits import Exits
from tocsin.cluster.results.store import ResultStore, removals_of

log = structlog.get_logger(__name__)

_Ids = npt.NDArray[np.int64]
#: Of (subscription, key).
_PAIR = ["subscription", "key"]
#: Attempts to find the subscriptions for which a check fails: enough to find five among a million.
_MOST_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class ExitChecks:
    """`living` tells which ids are of subscriptions of a channel that have not ended."""

    runs: ChannelRuns
    store: DatasetStore
    results: ResultStore
    living: Callable[[str, _Ids], _Ids]

    def removed(self, state: ChannelState) -> dict[str, int]:
        """The datasets that rows were removed from since all results were last checked."""
        if state.compiled.exits is None:
            return {}
        now = {name: self.store[name].rows.removals for name in state.compiled.datasets}
        bounds = {name: self.results.bound(state.channel.name, removals_of(name)) for name in now}
        due = {name: number for name, number in now.items() if bounds[name] != number}
        return {} if due and state.unchecked == self._condition(state) else due

    def of_run(self, state: ChannelState, window: Window, rows: pa.Table) -> tuple[pa.Table, Exits | None]:
        """The rows of a whole run that may be results, and what it has found out."""
        plan = state.compiled.exits
        if plan is None:
            return rows, None
        is_row = rows.column("payload").is_valid()
        found = rows.filter(is_row)
        if window.removed or not set(window.changed).isdisjoint(plan.by_check):
            return found, self.all_of(state)
        touched = rows.filter(pc.invert(is_row)).select(_PAIR)
        return found, Exits(touched, found.select(_PAIR), lambda ids: self._are_at_work(state, ids))

    def of_part(
        self, state: ChannelState, rows: pa.Table, after: int, through: int | None
    ) -> tuple[pa.Table, Exits | None]:
        """The same for a part of a commit, for the subscriptions from `after` on. Some rows may have been set aside, so
        the rows that are left do not tell everything."""
        if state.compiled.exits is None:
            return rows, None
        return rows.filter(rows.column("payload").is_valid()), self.all_of(state, after, through)

    def all_of(self, state: ChannelState, after: int = 0, through: int | None = None) -> Exits:
        """Check all results of the subscriptions with ids in `(after, through]`."""
        state.unchecked = None
        condition = self._condition(state)
        ids = self.living(state.channel.name, self.results.subscriptions_that_hold(state.channel.name))
        ids = ids[(ids > after) & (ids <= (ids.max(initial=0) if through is None else through))]
        holding, unclear = self._holding(state, ids[~np.isin(ids, list(state.failed))])
        if len(unclear):
            log.warning("results can't be checked", channel=state.channel.name, subscriptions=len(unclear))
            state.unchecked = condition
            # All are due again, also for a process that knows nothing of this.
            self.results.set_bounds({(state.channel.name, removals_of(one)): 0 for one in state.compiled.datasets})
        checked = np.setdiff1d(ids, unclear)
        return Exits(None, holding, lambda found: np.isin(found, checked) & self._are_at_work(state, found))

    def _holding(self, state: ChannelState, ids: _Ids) -> tuple[pa.Table, _Ids]:
        """What holds, and the subscriptions for which that can't be found out."""
        found = [KEYED_OUTPUT.empty_table()]
        unclear = [np.empty(0, np.int64)]
        todo = [ids] if len(ids) else []
        attempts = 0
        while todo:
            block = todo.pop()
            attempts += 1
            if attempts > _MOST_ATTEMPTS:
                unclear.append(block)
                continue
            try:
                found.append(self.runs.holding(state, block))
            except (RunFailed, RunTooLarge) as exc:
                state.last_error = str(exc)
                middle = len(block) // 2
                if middle:
                    todo += [block[middle:], block[:middle]]
                else:
                    unclear.append(block)
        return pa.concat_tables(found).select(_PAIR), np.concatenate(unclear)

    def _are_at_work(self, state: ChannelState, ids: _Ids) -> npt.NDArray[np.bool_]:
        at_work = self.living(state.channel.name, np.unique(ids))
        return np.isin(ids, at_work) & ~np.isin(ids, list(state.failed))

    def _condition(self, state: ChannelState) -> dict[str, tuple[int, int]]:
        """Changes when a dataset does."""
        names = state.compiled.datasets
        return {name: (self.store[name].sequence, self.store[name].rows.removals) for name in names}
