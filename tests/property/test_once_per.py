"""ONCE PER: whatever crashes and upkeep do, results are those of a naive evaluation that remembers everything.

The results store, the table of keys, the registry and their files are the real ones. In place of Spark, a loop over
subscriptions and rows finds what a run finds. The process dies before or after any of its writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.table_files import TableFiles
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.remembered_keys import Kept, RememberedKeys
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore

_ZONES, _ITEMS = 2, 3
_WITHIN_US = 100


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
        for owner, name in ((delta, "commit"), (delta, "write_file"), (TableFiles, "sync"), (Table, "delete")):
            patch.setattr(owner, name, death.around(getattr(owner, name)))
        yield


@dataclass(frozen=True, slots=True)
class Row:
    item: int
    zone: int
    version: int


@dataclass
class World:
    """A channel whose subscriptions want the rows of a zone, once per item."""

    folder: Path
    within_us: int | None
    death: Death
    now_us: int = 1_000
    #: The dataset: rows of each commit.
    commits: list[list[Row]] = field(default_factory=list)
    #: What the naive evaluation remembers: when an item was last a result of a subscription; and all results.
    last_us: dict[tuple[int, int], int] = field(default_factory=dict)
    expected: list[tuple[int, str]] = field(default_factory=list)
    received: list[tuple[int, str]] = field(default_factory=list)
    cursor: int = 0
    subscriptions: dict[int, int] = field(default_factory=dict)

    def open(self) -> None:
        engine = open_catalogue(self.folder / "catalogue.sqlite")
        self.registry = SubscriptionRegistry(engine)
        self.registry.put_broker("b")
        self.store = ResultStore(self.folder / "results", Removals(engine), Numbering(engine, 0), recent_max_bytes=0)
        self.engine = engine
        if self.store.bound("C", "D") is None:
            self.store.set_bounds({("C", "D"): 0})

    def subscribe(self, zone: int) -> None:
        done = self.registry.subscribe("b", "C", [(zone,)])
        self.subscriptions |= {one.id: zone for one in done.created}

    def unsubscribe(self, at: int) -> None:
        if self.subscriptions:
            one = sorted(self.subscriptions)[at % len(self.subscriptions)]
            self.registry.unsubscribe("b", [one])
            del self.subscriptions[one]

    def run(self, in_parts: bool) -> None:
        """Over everything since the bound, subscription by subscription; or in parts, as a recovery does."""
        bound, now = self.store.bound("C", "D") or 0, len(self.commits)
        if bound == now:
            return
        if in_parts:
            now = bound + 1
        rows = [row for commit in self.commits[bound:now] for row in commit]
        done = self.store.part_done("C", "D", bound + 1)
        mine = [one for one in sorted(self.subscriptions) if one > done]
        if in_parts or done:
            now = bound + 1
            rows = self.commits[bound]
            for one in mine[:-1]:
                self._commit(lambda one=one: self._part(one, rows, now), self._found([one], rows), ("part", now, one))
            mine = mine[-1:]
        found = self._found(mine, rows)
        self._commit(lambda: self._whole(found, now), found, ("bound", now, 0))

    def _part(self, one: int, rows: list[Row], commit: int) -> None:
        found = _output(self._found([one], rows))
        self.store.commit_part("C", found, ("D", commit, one), self.now_us, self._within())

    def _whole(self, found: list[tuple[int, Row]], now: int) -> None:
        self.store.commit([("C", _output(found))], {("C", "D"): now}, self.now_us, within_us=self._within())

    def _within(self) -> dict[str, int]:
        return {} if self.within_us is None else {"C": self.within_us}

    def _commit(self, commit: Callable[[], None], found: list[tuple[int, Row]], what: tuple[str, int, int]) -> None:
        new = self._naive(found)
        try:
            commit()
        except Died:
            self.open()
            kind, number, one = what
            bound = self.store.bound("C", "D") or 0
            happened = bound >= number if kind == "bound" else self.store.part_done("C", "D", number) >= one
            if happened:
                self._expect(new)
            raise
        self._expect(new)

    def _naive(self, found: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
        new: dict[tuple[int, int], tuple[int, Row]] = {}
        for one, row in found:
            last_us = self.last_us.get((one, row.item))
            is_old = last_us is not None and (self.within_us is None or last_us > self.now_us - self.within_us)
            if not is_old:
                new.setdefault((one, row.item), (one, row))
        return list(new.values())

    def _expect(self, new: list[tuple[int, Row]]) -> None:
        for one, row in new:
            self.last_us[one, row.item] = self.now_us
            self.expected.append((one, _payload(row)))

    def _found(self, ids: list[int], rows: list[Row]) -> list[tuple[int, Row]]:
        return [(one, row) for one in ids for row in rows if row.zone == self.subscriptions[one]]

    def upkeep(self, keep_us: int) -> None:
        self.store.flush()
        self.store.retain(self.now_us - keep_us, 10**9)
        self.store.keys.merge()

        def living() -> Iterator[Kept]:
            yield Kept(self.registry.ids_of("C"), None if self.within_us is None else self.now_us - self.within_us)

        self.store.keys.sweep(living)

    def receive(self) -> None:
        pulled = self.store.pull(self.cursor, limit_rows=10**6, keep=lambda rows: rows)
        self.cursor = pulled.through
        rows = pulled.rows
        self.received += list(
            zip(rows.column("subscription").to_pylist(), rows.column("payload").to_pylist(), strict=True)
        )


def _payload(row: Row) -> str:
    return json.dumps([row.item, row.version])


def _output(found: list[tuple[int, Row]]) -> pa.Table:
    return pa.table(
        {
            "subscription": pa.array([one for one, _ in found], pa.int64()),
            "payload": pa.array([_payload(row) for _, row in found], pa.string()),
            "key": pa.array(
                [hashlib.sha256(f"{one} {row.item}".encode()).digest()[:16] for one, row in found], pa.binary()
            ),
        }
    )


_ROWS = st.lists(
    st.builds(Row, st.integers(0, _ITEMS - 1), st.integers(0, _ZONES - 1), st.integers(0, 9)), min_size=1, max_size=6
)
_STEPS = st.one_of(
    st.tuples(st.just("arrive"), _ROWS),
    st.tuples(st.just("arrive"), _ROWS),
    st.tuples(st.just("publish"), _ROWS),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([1, 50, _WITHIN_US])),
    st.tuples(st.just("upkeep"), st.sampled_from([0, 10, 10**6])),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 12)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 3)),
    st.tuples(st.just("subscribe"), st.integers(0, _ZONES - 1)),
)


def _check(folder: Path, steps: list[tuple[str, Any]], within_us: int | None) -> None:
    death = Death()
    world = World(folder, within_us, death)
    with _watched_writes(death):
        world.open()
        for zone in range(_ZONES):
            world.subscribe(zone)
        # At the end everything is run over.
        for step, value in [*steps, ("run", False), ("run", False)]:
            try:
                match step:
                    case "publish":
                        world.commits.append(value)
                    case "arrive":
                        world.commits.append(value)
                        world.run(in_parts=False)
                    case "run":
                        world.run(value)
                    case "time":
                        world.now_us += value
                    case "upkeep":
                        world.receive()
                        world.upkeep(value)
                    case "restart":
                        world.open()
                    case "die":
                        death.countdown = value
                    case _:
                        getattr(world, step)(value)
            except Died:
                world.open()
            world.receive()
            assert world.received == world.expected
        assert (world.store.bound("C", "D") or 0) >= len(world.commits) - 1


_CASES = {"steps": st.lists(_STEPS, min_size=3, max_size=15), "within_us": st.sampled_from([None, _WITHIN_US])}
_FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(**_CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=_FIXTURES)
def test_results_are_those_of_an_evaluation_that_remembers_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], within_us: int | None
) -> None:
    """For any rows, updates, times, parts, restarts, retention, ended subscriptions, and deaths at any write."""
    _check(tmp_path_factory.mktemp("once"), steps, within_us)


def test_a_key_that_is_given_twice_after_a_crash_is_noticed(
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

    @given(**_CASES)
    @settings(max_examples=100, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=_FIXTURES)
    def check(steps: list[tuple[str, Any]], within_us: int | None) -> None:
        _check(tmp_path_factory.mktemp("once"), steps, within_us)

    with pytest.raises(AssertionError):
        check()
