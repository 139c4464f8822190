"""The same cluster with one bug in it: what the harness must be able to find.

`python -m chaos.planted BUG cluster --data-dir …` patches one thing and then is `tocsin`. Nothing in the product
knows of it. Each bug says which kinds of violation show that it was understood, not just noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from chaos.history import Kind
from chaos.substitution import substitute


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    plant: Callable[[], None]
    #: One of these must be found.
    kinds: frozenset[Kind]
    #: Names of the moments (`harness.Moment`) at which a kill is likely to bring it out.
    moments: tuple[str, ...]
    kills: int = 2
    #: Names of what is killed (`process.Target`).
    targets: tuple[str, ...] = ("driver",)


def _ack_before_write() -> None:
    """The landing log's future is resolved, and a little later the data is written."""
    from tocsin.cluster.feeds.landing import LandingLog, Span

    def write_groups(self: Any) -> None:
        while group := self._next_group():
            position = self._end
            for frame, future in group:
                future.set_result(Span(position, position + frame.size))
                position += frame.size
            time.sleep(0.3)
            self._write(group)

    substitute(LandingLog, "_write_groups", write_groups)


def _window_off_by_one() -> None:
    """Each window begins one commit too late: the first commit after the last bound is never seen."""
    from tocsin.cluster.channels.executor import ChannelExecutor, Window

    window = ChannelExecutor.window

    def late(self: Any, state: Any) -> Window:
        right = window(self, state)
        return Window({name: min(one + 1, right.through[name]) for name, one in right.after.items()}, right.through)

    substitute(ChannelExecutor, "window", late)


def _window_closed_at_both_ends() -> None:
    """Each window takes the commit at its lower bound in again."""
    from tocsin.cluster.datasets.views import DatasetViews

    new = DatasetViews.new
    substitute(DatasetViews, "new", lambda self, dataset, after, through: new(self, dataset, after - 1, through))


def _commit_without_transaction() -> None:
    """Rows are committed without the landing position up to which they reach: a replay takes them in again."""
    from tocsin.cluster.datasets.store import StoredDataset

    commit = StoredDataset.commit
    substitute(StoredDataset, "commit", lambda self, rows, transactions=None: commit(self, rows, None))


def _mark_ahead() -> None:
    """The log is let go of up to its end, not up to what is in tables."""
    from tocsin.cluster.maintenance import Maintenance

    def keep_up(self: Any) -> None:
        while not self._stopping.wait(0.2):
            self.intake.release(self.intake.landing.end)

    substitute(Maintenance, "_keep_up", keep_up)


def _results_without_bounds() -> None:
    """Results are committed without the bounds of their windows, which follow with the next commit."""
    from tocsin.cluster.results.store import ResultStore

    commit = ResultStore.commit

    def forgetful(self: Any, outputs: Any, bounds: Any, *more: Any, **options: Any) -> Any:
        done = commit(self, outputs, {}, *more, **options)
        with self._lock:
            self._ahead.update(bounds)
        return done

    substitute(ResultStore, "commit", forgetful)


def _bounds_before_results() -> None:
    """The bounds of a window are made durable first, and its results a little later."""
    from tocsin.cluster.results.store import ResultStore

    commit = ResultStore.commit

    def hasty(self: Any, outputs: Any, bounds: Any, *more: Any, **options: Any) -> Any:
        self.set_bounds(bounds)
        time.sleep(0.2)
        return commit(self, outputs, bounds, *more, **options)

    substitute(ResultStore, "commit", hasty)


def _forget_idempotency() -> None:
    """Idempotency keys are forgotten with the process: neither stored nor read back from the log."""
    from tocsin.cluster.feeds.idempotency import IdempotencyIndex

    substitute(IdempotencyIndex, "_catch_up", lambda self: None)
    substitute(IdempotencyIndex, "_store", lambda self, keys, indexed: None)


def _swallow_dead_letters() -> None:
    """Records that don't fit are dropped without a word."""
    from tocsin.cluster.feeds import ingestion, parsing

    def lenient(*arguments: Any) -> parsing.Parsed:
        parsed = parsing.separate(*arguments)
        return replace(parsed, rejected=parsed.rejected.slice(0, 0))

    substitute(ingestion, "separate", lenient)


def _mix_up_subscriptions() -> None:
    """Now and then a result goes to the neighbour of the subscription it is for."""
    import pyarrow as pa

    from tocsin.cluster.results import store

    labelled = store._labelled

    def careless(channel: str, output: pa.Table) -> pa.Table:
        ids = [one + 1 if at % 50 == 49 else one for at, one in enumerate(output.column("subscription").to_pylist())]
        return labelled(channel, output.set_column(0, "subscription", pa.array(ids, pa.int64())))

    substitute(store, "_labelled", careless)


def _forget_schedule() -> None:
    """Repetitive channels are not put on the schedule again at a start."""
    from tocsin.cluster.cluster import Cluster

    take_up = Cluster._take_up

    def idle(self: Any, channel: Any) -> None:
        self._put_on_schedule = lambda channel: None
        try:
            take_up(self, channel)
        finally:
            del self._put_on_schedule

    substitute(Cluster, "_take_up", idle)


def _forget_keys() -> None:
    """At a start, keys of ONCE PER are read from their table alone: those of results since its last write are gone."""
    from tocsin.cluster.results.remembered_keys import RememberedKeys

    load = RememberedKeys.load

    def forgetful(self: Any, through: int) -> None:
        if self._index is None:
            load(self, 0)
            self._through = through
        load(self, through)

    substitute(RememberedKeys, "load", forgetful)


def _ignore_lost_java() -> None:
    """The process goes on without its Java process: it accepts records and does nothing with them."""
    from tocsin.cluster.cluster import Cluster

    substitute(Cluster, "check_alive", lambda self: None)


_LOST_RECORD = frozenset({Kind.LOST_RECORD, Kind.LOST_DEAD_LETTER, Kind.STALE_RECORD})
_COMMITTED = ("rows committed", "results written", "results committed")

BUGS = {
    bug.name: bug
    for bug in (
        Bug(
            "ack-before-write",
            "acknowledged, then written",
            _ack_before_write,
            _LOST_RECORD,
            ("acknowledged",),
        ),
        Bug(
            "window-off-by-one",
            "a window begins one commit late",
            _window_off_by_one,
            frozenset({Kind.LOST_RESULT}),
            ("any",),
            kills=1,
        ),
        Bug(
            "window-closed-at-both-ends",
            "a window begins one commit early",
            _window_closed_at_both_ends,
            frozenset({Kind.DOUBLED_RESULT}),
            ("any",),
            kills=1,
        ),
        Bug(
            "commit-without-transaction",
            "rows committed without their landing position",
            _commit_without_transaction,
            frozenset({Kind.DOUBLED_RECORD}),
            _COMMITTED,
        ),
        Bug(
            "mark-ahead",
            "the log released beyond what is committed",
            _mark_ahead,
            _LOST_RECORD,
            ("mark written",),
        ),
        Bug(
            "results-without-bounds",
            "results committed without their windows' bounds",
            _results_without_bounds,
            frozenset({Kind.DOUBLED_RESULT}),
            ("results committed",),
        ),
        Bug(
            "bounds-before-results",
            "bounds committed before the results",
            _bounds_before_results,
            frozenset({Kind.LOST_RESULT}),
            ("results committed",),
        ),
        Bug(
            "forget-idempotency",
            "idempotency keys die with the process",
            _forget_idempotency,
            frozenset({Kind.DOUBLED_RECORD}),
            ("landing written", "acknowledged"),
        ),
        Bug(
            "swallow-dead-letters",
            "bad records dropped silently",
            _swallow_dead_letters,
            frozenset({Kind.LOST_DEAD_LETTER}),
            ("any",),
            kills=1,
        ),
        Bug(
            "mix-up-subscriptions",
            "results for the neighbour",
            _mix_up_subscriptions,
            frozenset({Kind.MISDELIVERED_RESULT}),
            ("any",),
            kills=1,
        ),
        Bug(
            "forget-schedule",
            "repetitive channels not resumed",
            _forget_schedule,
            frozenset({Kind.STOPPED_CHANNEL}),
            ("any",),
            kills=1,
        ),
        Bug(
            "forget-keys",
            "told twice after a crash: keys of ONCE PER die with the process",
            _forget_keys,
            frozenset({Kind.DOUBLED_RESULT}),
            ("results committed",),
            kills=1,
        ),
        Bug(
            "ignore-lost-java",
            "goes on without its Java process",
            _ignore_lost_java,
            frozenset({Kind.MISBEHAVED_PROCESS}),
            ("any",),
            kills=1,
            targets=("java",),
        ),
    )
}


def main() -> None:
    BUGS[sys.argv.pop(1)].plant()
    from tocsin.cli.main import app

    app()


if __name__ == "__main__":
    main()
