"""WITH EXITS: whatever crashes and upkeep do, results and exits are those of a naive evaluation that remembers all.

The tables of datasets and results, the table of keys, the registry and their files are the real ones, and so is the
code that decides what has ended. In place of Spark, a loop over subscriptions and rows finds what a run finds. The
process dies before or after any of its writes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.compiler.exits import ExitPlan
from tocsin.cluster.channels.core.splitting import Window
from tocsin.cluster.channels.exit_checks import ExitChecks
from tocsin.cluster.channels.runs import KEYED_OUTPUT, ChannelRuns, RunFailed
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.table_files import TableFiles
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.core.held_keys import HeldKeys, Touched
from tocsin.cluster.results.core.result_keys import KeyRun, newest
from tocsin.cluster.results.exits import Exits
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.remembered_keys import Kept, RememberedKeys
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore, removals_of
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema

_ZONES, _NAMES = 2, 3
_WITHIN_US = 100
_CHANNEL = "C"
#: A report is on in a zone. A subscription is of a person, and wants the reports of the zone where the person is, once
#: per report.
_SCHEMA = Schema((Column("name", ColumnType.INT, nullable=False), Column("zone", ColumnType.INT)), ("name",))
_DATASETS = {name: Dataset(name, DatasetKind.KEYED, _SCHEMA) for name in ("Reports", "People")}
#: In which ways a change can be dealt with: by the rows that have changed, or by a check of everything.
_PLANS = {
    "by row": ExitPlan(("People", "Reports"), ()),
    "mixed": ExitPlan(("People",), ("Reports",)),
    "by check": ExitPlan((), ("People", "Reports")),
}

Row = tuple[int, int]
#: A subscription, a report, and which of the two it is.
Event = tuple[int, int, str]


class Died(BaseException):
    """The process ends here."""


@dataclass
class Death:
    """Counts the moments before and after each write, and ends the process at one of them."""

    countdown: int | None = None

    def moment(self) -> None:
        if self.countdown is not None:
            self.countdown -= 1
            if self.countdown < 0:
                self.countdown = None
                raise Died

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.moment()
            done = function(*arguments, **options)
            self.moment()
            return done

        return watched


@contextmanager
def _watched_writes(death: Death) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        writes = ((delta, "commit"), (delta, "delete"), (delta, "write_file"), (TableFiles, "sync"))
        for owner, name in writes:
            patch.setattr(owner, name, death.around(getattr(owner, name)))
        yield


@dataclass
class Loops:
    """Finds what Spark would find."""

    world: World

    def holding(self, _state: ChannelState, ids: npt.NDArray[np.int64]) -> pa.Table:
        world = self.world
        if set(ids.tolist()) & world.unclear:
            raise RunFailed("a record can't be read")
        return _table([(one, "", report) for one, report in sorted(world.holding()) if one in ids])

    def run(self, window: Window, ids: list[int]) -> pa.Table:
        """The rows of new reports and new people, and what they touch."""
        world = self.world
        people, reports = world.rows("People"), world.rows("Reports")
        new = {
            name: world.store[name].window(window.after[name], window.through[name]).to_pylist() for name in _DATASETS
        }
        new_people = {row["name"]: row["zone"] for row in new["People"]}
        new_reports = {row["name"]: row["zone"] for row in new["Reports"]}
        found = []
        for one in ids:
            person = world.subscriptions[one]
            for mine, theirs in ((people, new_reports), (new_people, reports)):
                found += [
                    (one, json.dumps(report), report) for report, zone in theirs.items() if mine.get(person) == zone
                ]
        plan = world.plan
        for report in new_reports if "Reports" in plan.by_row else ():
            found.append((None, None, report))
        found += [
            (one, None, None) for one in ids if "People" in plan.by_row and world.subscriptions[one] in new_people
        ]
        return _table(found)


@dataclass
class World:
    folder: Path
    within_us: int | None
    plan: ExitPlan
    death: Death
    now_us: int = 1_000
    #: What the naive evaluation remembers: when a report that is held was last a result; and everything so far.
    held: dict[tuple[int, int], int] = field(default_factory=dict)
    expected: list[Event] = field(default_factory=list)
    received: list[Event] = field(default_factory=list)
    cursor: int = 0
    #: The person of each subscription; and the subscriptions that can't be checked now.
    subscriptions: dict[int, int] = field(default_factory=dict)
    unclear: set[int] = field(default_factory=set)

    def open(self) -> None:
        engine = open_catalogue(self.folder / "catalogue.sqlite")
        self.registry = SubscriptionRegistry(engine)
        self.registry.put_broker("b")
        self.store = DatasetStore(self.folder / "datasets", recent_max_bytes=0)
        for dataset in _DATASETS.values():
            self.store.open(dataset)
        self.results = ResultStore(
            self.folder / "results",
            Removals(engine),
            Numbering(engine, 0),
            recent_max_bytes=0,
            sync_datasets=self.store.sync,
        )
        names = tuple(_DATASETS)
        compiled = CompiledChannel((), (), names, names, names, is_keyed=True, exits=self.plan)
        channel = Channel(_CHANNEL, ChannelKind.CONTINUOUS, (), "")
        self.state = ChannelState(channel, compiled, cast(ChannelSubscriptions, None))
        self.loops = Loops(self)
        self.checks = ExitChecks(cast(ChannelRuns, self.loops), self.store, self.results, self.registry.living_among)
        if self.results.bound(_CHANNEL, "People") is None:
            self.results.set_bounds({(_CHANNEL, name): 0 for name in _DATASETS})

    # What happens

    def subscribe(self, person: int) -> None:
        done = self.registry.subscribe("b", _CHANNEL, [(person,)])
        self.subscriptions |= {one.id: person for one in done.created}

    def unsubscribe(self, at: int) -> None:
        if self.subscriptions:
            one = sorted(self.subscriptions)[at % len(self.subscriptions)]
            self.registry.unsubscribe("b", [one])
            del self.subscriptions[one]

    def publish(self, change: tuple[str, list[Row]]) -> None:
        dataset, rows = change
        self.store[dataset].commit(_rows(rows))
        self.store[dataset].sync()

    def arrive(self, change: tuple[str, list[Row]]) -> None:
        self.publish(change)
        self.run(in_parts=False)

    def delete(self, what: tuple[str, int]) -> None:
        dataset, name = what
        found = [(name, zone) for known, zone in self.rows(dataset).items() if known == name]
        self.store[dataset].delete_keys(_rows(found))

    def unclear_from_now(self, at: int | None) -> None:
        self.unclear = set() if at is None else set(sorted(self.subscriptions)[at : at + 1])

    def upkeep(self, keep_us: int) -> None:
        self.receive()
        self.results.flush()
        self.results.retain(self.now_us - keep_us, 10**9)
        self.results.keys.merge()
        for stored in self.store:
            stored.compact()

        def living() -> Iterator[Kept]:
            yield Kept(np.sort(self.registry.ids_of(_CHANNEL)), None)

        self.results.keys.sweep(living)

    # Runs

    def run(self, *, in_parts: bool) -> None:
        """Over everything since the bounds; or over the first commit, in parts, as a recovery does."""
        bounds = {name: self.results.bound(_CHANNEL, name) or 0 for name in _DATASETS}
        window = Window(bounds, {name: self.store[name].sequence for name in bounds}, self.checks.removed(self.state))
        if window.empty:
            return
        commits = [window.first_commit(name) for name in window.changed]
        begun = [
            commit
            for commit, name in zip(commits, window.changed, strict=True)
            if self.results.part_done(_CHANNEL, name, commit.through[name])
        ]
        if begun or (in_parts and commits):
            self._run_in_parts([*begun, *commits][0])
            return
        ids = sorted(self.subscriptions)
        rows, exits = self.checks.of_run(self.state, window, self.loops.run(window, ids))
        self._commit(window, ids, rows, exits)

    def _run_in_parts(self, window: Window) -> None:
        (dataset,) = window.changed
        commit = window.through[dataset]
        done = self.results.part_done(_CHANNEL, dataset, commit)
        ids = [one for one in sorted(self.subscriptions) if one > done]
        for one in ids[:-1]:
            rows, exits = self.checks.of_part(self.state, self.loops.run(window, [one]), done, one)
            self._commit(window, [one], rows, exits, (dataset, commit, one), done)
            done = self.results.part_done(_CHANNEL, dataset, commit)
        rows, exits = self.checks.of_part(self.state, self.loops.run(window, ids[-1:]), done, None)
        self._commit(window, ids[-1:], rows, exits, None, done)

    def _commit(
        self,
        window: Window,
        ids: list[int],
        rows: pa.Table,
        exits: Exits | None,
        part: tuple[str, int, int] | None = None,
        after: int = 0,
    ) -> None:
        assert exits is not None
        through = part[2] if part is not None else 2**60
        new = self._naive(rows, [one for one in self.subscriptions if after < one <= through], exits)
        within_us = {} if self.within_us is None else {_CHANNEL: self.within_us}
        bounds = {(_CHANNEL, name): number for name, number in window.through.items()}
        if self.state.unchecked is None:
            bounds |= {(_CHANNEL, removals_of(name)): number for name, number in window.removed.items()}
        before = self._written()
        try:
            if part is None:
                self.results.commit(
                    [(_CHANNEL, rows)], bounds, self.now_us, within_us=within_us, exits={_CHANNEL: exits}
                )
            else:
                self.results.commit_part(_CHANNEL, rows, part, self.now_us, within_us, {_CHANNEL: exits})
        except Died:
            self.open()
            if self._written() > before:
                self._expect(new)
            raise
        self._expect(new)

    def _written(self) -> int:
        """Grows with each commit of results that is not lost."""
        return self.results.last_sequence

    def _naive(self, rows: pa.Table, ids: list[int], exits: Exits) -> list[Event]:
        """What each of these subscriptions is to be notified of: it looks at all that it was notified of so far, and at
        all rows."""
        holding = self.holding()
        ended = [
            pair
            for pair in sorted(self.held)
            if pair[0] in ids and pair not in holding and (exits.touched is not None or pair[0] not in self.unclear)
        ]
        found = {(row["subscription"], json.loads(row["payload"])) for row in rows.to_pylist()}
        begun = [
            pair
            for pair in sorted(found)
            if pair not in self.held or (self.within_us is not None and self.held[pair] <= self.now_us - self.within_us)
        ]
        return [(*pair, "exit") for pair in ended] + [(*pair, "result") for pair in begun]

    def _expect(self, new: list[Event]) -> None:
        for one, report, kind in new:
            self.expected.append((one, report, kind))
            self.held.pop((one, report), None)
        # In this order: a result is not there before the exits of its commit.
        self.held |= {(one, report): self.now_us for one, report, kind in new if kind == "result"}

    def rows(self, dataset: str) -> dict[int, int]:
        _, living = self.store[dataset].living()
        return {row["name"]: row["zone"] for row in living.to_pylist()}

    def holding(self) -> set[tuple[int, int]]:
        people, reports = self.rows("People"), self.rows("Reports")
        return {
            (one, report)
            for one, person in self.subscriptions.items()
            for report, zone in reports.items()
            if people.get(person) == zone
        }

    def receive(self) -> None:
        pulled = self.results.pull(self.cursor, limit_rows=10**6, keep=lambda rows: rows)
        self.cursor = pulled.through
        columns = (pulled.rows.column(name).to_pylist() for name in ("subscription", "key", "held"))
        for one, key, held in zip(*columns, strict=True):
            self.received.append((one, _REPORTS[key], "result" if held else "exit"))


def _text(report: int) -> str:
    return json.dumps({"0": report})


_REPORTS = {hashlib.sha256(_text(one).encode()).digest()[:16]: one for one in range(_NAMES)}


def _rows(rows: list[Row]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], pa.int32()) for at in range(2)]
    return pa.table(columns, names=["name", "zone"])


def _table(found: list[Any]) -> pa.Table:
    keyed = [(one, payload, None if report is None else _text(report)) for one, payload, report in found]
    return pa.table([[row[at] for row in keyed] for at in range(3)], schema=KEYED_OUTPUT)


def _in_order(events: list[Event]) -> dict[tuple[int, int], list[str]]:
    """The kinds of each subscription and report, in their order."""
    found: dict[tuple[int, int], list[str]] = {}
    for one, report, kind in events:
        found.setdefault((one, report), []).append(kind)
    return found


_NAME = st.integers(0, _NAMES - 1)
_CHANGE = st.tuples(
    st.sampled_from(list(_DATASETS)), st.lists(st.tuples(_NAME, st.integers(0, _ZONES - 1)), min_size=1, max_size=4)
)
_STEPS = st.one_of(
    st.tuples(st.just("arrive"), _CHANGE),
    st.tuples(st.just("arrive"), _CHANGE),
    st.tuples(st.just("publish"), _CHANGE),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("delete"), st.tuples(st.sampled_from(list(_DATASETS)), _NAME)),
    st.tuples(st.just("time"), st.sampled_from([1, 50, _WITHIN_US, -30])),
    st.tuples(st.just("upkeep"), st.sampled_from([0, 10, 10**6])),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 12)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 3)),
    st.tuples(st.just("subscribe"), _NAME),
    st.tuples(st.just("unclear_from_now"), st.sampled_from([None, 0, 1])),
)


def _check(folder: Path, steps: list[tuple[str, Any]], within_us: int | None, plan: str) -> None:
    death = Death()
    world = World(folder, within_us, _PLANS[plan], death)
    with _watched_writes(death):
        world.open()
        for person in range(2):
            world.subscribe(person)
        # At the end everything is run over and checked.
        end = [("unclear_from_now", None), *[("run", False)] * 3]
        for step, value in [*steps, *end]:
            try:
                match step:
                    case "run":
                        world.run(in_parts=value)
                    case "time":
                        world.now_us += value
                    case "restart":
                        world.open()
                    case "die":
                        death.countdown = value
                    case _:
                        getattr(world, step)(value)
            except Died:
                world.open()
            world.receive()
            assert Counter(world.received) == Counter(world.expected)
            assert _in_order(world.received) == _in_order(world.expected)
        for kinds in _in_order(world.received).values():
            assert kinds[0] == "result"
            assert ("exit", "exit") not in pairwise(kinds)
        # Nobody believes in anything that does not hold, but for subscriptions that have ended.
        assert {pair for pair in world.held if pair[0] in world.subscriptions} <= world.holding()


_CASES = {
    "steps": st.lists(_STEPS, min_size=3, max_size=15),
    "within_us": st.sampled_from([None, _WITHIN_US]),
    "plan": st.sampled_from(list(_PLANS)),
}
_FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(**_CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=_FIXTURES)
def test_results_and_exits_are_those_of_an_evaluation_that_remembers_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], within_us: int | None, plan: str
) -> None:
    """For any rows that come, are replaced and are deleted, in any order with times, parts, restarts, retention, checks
    that fail, subscriptions that begin and end, and deaths at any write."""
    _check(tmp_path_factory.mktemp("exits"), steps, within_us, plan)


def _notices(tmp_path_factory: pytest.TempPathFactory) -> None:
    @given(**_CASES)
    @settings(max_examples=150, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=_FIXTURES)
    def check(steps: list[tuple[str, Any]], within_us: int | None, plan: str) -> None:
        _check(tmp_path_factory.mktemp("exits"), steps, within_us, plan)

    with pytest.raises(AssertionError):
        check()


def test_a_key_that_is_told_twice_after_a_crash_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bug planted that a start reads the table of keys, and not the results since it was last written."""
    load = RememberedKeys.load

    def forgetful(self: RememberedKeys, through: int) -> None:
        if self._index is None:
            load(self, 0)
            self._through = through
        load(self, through)

    monkeypatch.setattr(RememberedKeys, "load", forgetful)
    _notices(tmp_path_factory)


def test_an_exit_without_a_result_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bug planted that whatever was held once counts as held, also after its exit."""

    def careless(self: HeldKeys, touched: Touched) -> KeyRun:
        found = [touched.keys.run(), *(run.where(self._is_touched(run, touched)) for run in self.runs)]
        return newest(found)

    monkeypatch.setattr(HeldKeys, "_touched", careless)
    _notices(tmp_path_factory)
