"""WITH SNAPSHOT: whatever crashes, parts and upkeep do, each subscriber gets what held at one moment, and then each new
row once.

The results store, the registry, the serving of snapshots and the rule that says who is sent what are the real ones. In
place of Spark, a loop over subscriptions and rows finds what a run finds. The process dies before or after any write.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from property.test_once_per import Death, Died
from tocsin.cluster.channels import snapshots
from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.runs import RunTooLarge, SnapshotPart
from tocsin.cluster.channels.snapshots import Snapshots
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.table_files import TableFiles
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import Committed, ResultStore
from tocsin.errors import HistoryGone
from tocsin.model import position
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, OncePer, Parameter
from tocsin.model.results import ResultKind, next_phase
from tocsin.model.schema import Column, ColumnType, Schema

_ZONES, _ITEMS = 2, 4
_COLUMNS = (Column("item", ColumnType.INT), Column("zone", ColumnType.INT))
_DATASET = Dataset("D", DatasetKind.ACTIVE, Schema(_COLUMNS, ("item",)))
_BODY = "SELECT d.item FROM D d WHERE is_new(d) AND d.zone = :zone"


def _channel(*, is_once: bool) -> Channel:
    once = OncePer("d.item") if is_once else None
    zone = Parameter("zone", ColumnType.INT)
    return Channel("C", ChannelKind.CONTINUOUS, (zone,), _BODY, once=once, snapshot=True)


@contextmanager
def _watched_writes(death: Death) -> Iterator[None]:
    watched = [
        *((delta, name) for name in ("commit", "write_file")),
        (TableFiles, "sync"),
        (Table, "delete"),
        *((SubscriptionRegistry, one) for one in ("subscribe", "request_snapshots", "forget_snapshot_requests")),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in watched:
            patch.setattr(owner, name, death.around(getattr(owner, name)))
        yield


@dataclass(frozen=True, slots=True)
class Row:
    """No two are alike, except in what they are about."""

    number: int
    item: int
    zone: int


@dataclass
class Person:
    """A subscriber, with what a broker keeps of it."""

    zone: int
    subscription: int
    reached: int
    #: Of how many commits the channel had told, when it subscribed.
    told: int
    holding: list[Row] | None = None
    new: list[Row] = field(default_factory=list)


@dataclass
class World:
    folder: Path
    is_once: bool
    most_at_once: int
    death: Death
    now_us: int = 1_000
    commits: list[list[Row]] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    #: The zones of all subscriptions there ever were.
    zones: dict[int, int] = field(default_factory=dict)
    #: Requests that a broker repeats until they are answered.
    unanswered: set[int] = field(default_factory=set)

    def open(self) -> None:
        engine = open_catalogue(self.folder / "catalogue.sqlite")
        self.registry = SubscriptionRegistry(engine)
        self.registry.put_broker("b")
        self.store = ResultStore(self.folder / "results", Removals(engine), Numbering(engine, 0), recent_max_bytes=0)
        if self.store.bound("C", "D") is None:
            self.store.set_bounds({("C", "D"): 0})
        channel = _channel(is_once=self.is_once)
        compiled = compile_channel(channel, {"d": _DATASET})
        self.state = ChannelState(channel, compiled, cast(ChannelSubscriptions, None))
        self.snapshots = Snapshots(
            self.registry,
            threading.Lock(),
            self.store,
            100,
            run=self._run_snapshot,
            set_aside=lambda *_: {},
            commit=self._commit_snapshots,
            now_s=lambda: 0.0,
            patience_s=1.0,
        )

    @property
    def bound(self) -> int:
        return self.store.bound("C", "D") or 0

    # What happens

    def subscribe(self, zone: int) -> None:
        told, reached = self.bound, position.reached(self.store.last_sequence, position.Phase.AHEAD)
        done = self.registry.subscribe("b", "C", [(zone,)], snapshot=True)
        (one,) = done.ids
        self.zones[one] = zone
        self.people.append(Person(zone, one, reached, told))
        if not done.created:
            self.unanswered.add(one)
            self.ask()

    def ask(self) -> None:
        """A broker's requests, until they are answered."""
        held = {one.subscription for one in self.people}
        served = self.store.snapshots_served("C")
        self.registry.request_snapshots(dict.fromkeys(self.unanswered & held, served))
        self.unanswered.clear()

    def leave(self, at: int) -> None:
        if self.people:
            gone = self.people.pop(at % len(self.people))
            if all(one.subscription != gone.subscription for one in self.people):
                self.registry.unsubscribe("b", [gone.subscription])

    def serve(self) -> None:
        """As the executor does: a commit that is begun in parts comes first."""
        if self.store.part_done("C", "D", self.bound + 1):
            self.run(in_parts=True)
        self.snapshots.serve(self.state)

    def run(self, in_parts: bool) -> None:
        """Over everything since the bound; or over one commit in parts, as a recovery does."""
        bound, now = self.bound, len(self.commits)
        if bound == now:
            return
        done = self.store.part_done("C", "D", bound + 1)
        # Whoever came since the parts began is served, too.
        mine = sorted(one.id for chunk in self.registry.of_channel("C") for one in chunk if one.id > done)
        if in_parts or done:
            now = bound + 1
            for one in mine[:-1]:
                rows = self._new([one], self.commits[bound])
                self.store.commit_part("C", rows, ("D", now, one), self.now_us)
            mine = mine[-1:]
        rows = [row for commit in self.commits[bound:now] for row in commit]
        self.store.commit([("C", self._new(mine, rows))], {("C", "D"): now}, self.now_us)

    def upkeep(self) -> None:
        self.store.flush()
        self.store.retain(self.now_us + 1, 0)

    # Parts

    def _run_snapshot(self, _state: ChannelState, through: Mapping[str, int], part: SnapshotPart) -> pa.Table:
        if len(part.subscriptions) > self.most_at_once:
            raise RunTooLarge("too many")
        rows = [row for commit in self.commits[: through["D"]] for row in commit]
        return self._output(part.subscriptions, rows)

    def _commit_snapshots(self, _state: ChannelState, outputs: Sequence[pa.Table], through: int) -> Committed:
        return self.store.commit_snapshots("C", outputs, through, self.now_us)

    def _output(self, ids: Sequence[int], rows: Sequence[Row]) -> pa.Table:
        found = [(one, row) for one in ids for row in rows if row.zone == self.zones[one]]
        columns = {
            "subscription": pa.array([one for one, _ in found], pa.int64()),
            "payload": pa.array([json.dumps([row.number, row.item, row.zone]) for _, row in found], pa.string()),
        }
        if self.is_once:
            columns["key"] = pa.array([str(row.item) for _, row in found], pa.string())
        return pa.table(columns)

    def _new(self, ids: Sequence[int], rows: Sequence[Row]) -> pa.Table:
        return self.snapshots.without_newcomers(self.state, self._output(ids, rows))

    # What people get

    def receive(self) -> None:
        for person in self.people:
            after = position.in_history(person.reached)
            try:
                rows = self.store.pull_subscriptions({person.subscription: after}, limit_rows=10**6).rows.to_pylist()
            except HistoryGone as gone:
                assert position.phase_of(person.reached) is position.Phase.AHEAD, "what is gone had been received"
                person.reached = position.reached(int(gone.earliest or self.store.last_sequence), position.Phase.AHEAD)
                self.unanswered.add(person.subscription)
                continue
            for row in rows:
                self._take(person, ResultKind(row["kind"] or "result"), row)

    def _take(self, person: Person, kind: ResultKind, row: dict[str, Any]) -> None:
        phase, is_sent = next_phase(position.phase_of(person.reached), kind)
        # Only a broker that goes on from a stored position knows no more than this number.
        person.reached = position.reached(row["sequence"], phase)
        if not is_sent:
            return
        match kind:
            case ResultKind.SNAPSHOT_END:
                assert json.loads(row["payload"]) == {"results": len(person.holding or ()), "complete": True}
                person.holding = person.holding or []
            case ResultKind.SNAPSHOT:
                person.holding = [*(person.holding or ()), Row(*json.loads(row["payload"]))]
            case _:
                person.new.append(Row(*json.loads(row["payload"])))

    def check(self) -> None:
        for person in self.people:
            if position.phase_of(person.reached) is position.Phase.AHEAD:
                assert not person.new
                continue
            assert person.holding is not None
            borders = [one for one in range(self.bound + 1) if self._is_split_at(person, one)]
            assert borders, f"{person} after {self.bound} of {self.commits}"
            assert borders[-1] >= min(person.told, self.bound), f"{person} got an old snapshot"

    def _is_split_at(self, person: Person, border: int) -> bool:
        """Whether it got everything before this commit as what holds, and everything after it as new."""
        before, after = (
            [row for commit in commits for row in commit if row.zone == person.zone]
            for commits in (self.commits[:border], self.commits[border : self.bound])
        )
        assert person.holding is not None
        if not self.is_once:
            return Counter(before) == Counter(person.holding) and Counter(after) == Counter(person.new)
        known = {row.item for row in before}
        return _items(person.holding) == sorted(known) and _items(person.new) == sorted(
            {row.item for row in after} - known
        )


def _items(rows: Sequence[Row]) -> list[int]:
    return sorted(row.item for row in rows)


_ROWS = st.lists(st.tuples(st.integers(0, _ITEMS - 1), st.integers(0, _ZONES - 1)), min_size=1, max_size=4)
_STEPS = st.one_of(
    st.tuples(st.just("publish"), _ROWS),
    st.tuples(st.just("publish"), _ROWS),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("subscribe"), st.integers(0, _ZONES - 1)),
    st.tuples(st.just("subscribe"), st.integers(0, _ZONES - 1)),
    st.tuples(st.just("serve"), st.none()),
    st.tuples(st.just("serve"), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 3)),
    st.tuples(st.just("upkeep"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 12)),
)


def _check(folder: Path, steps: list[tuple[str, Any]], *, is_once: bool, most_at_once: int) -> None:
    death = Death()
    world = World(folder, is_once, most_at_once, death)
    numbers = iter(range(10**6))
    at_the_end = [("run", False), ("run", False), ("serve", None), ("ask", None), ("serve", None)]
    with _watched_writes(death):
        world.open()
        for step, value in [*steps, ("survive", None), *at_the_end]:
            try:
                match step:
                    case "publish":
                        world.commits.append([Row(next(numbers), item, zone) for item, zone in value])
                    case "restart":
                        world.open()
                    case "die":
                        death.countdown = value
                    case "survive":
                        death.countdown = None
                    case "serve" | "ask":
                        getattr(world, step)()
                    case "upkeep":
                        world.receive()
                        world.upkeep()
                    case _:
                        getattr(world, step)(value)
            except Died:
                world.open()
            world.receive()
            world.check()
        assert world.bound == len(world.commits)
        assert all(position.phase_of(one.reached) is position.Phase.NEW for one in world.people)


_CASES = {
    "steps": st.lists(_STEPS, min_size=3, max_size=18),
    "is_once": st.booleans(),
    "most_at_once": st.sampled_from([100, 1]),
}
_FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(**_CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=_FIXTURES)
def test_everybody_gets_what_held_once_and_then_what_is_new_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], is_once: bool, most_at_once: int
) -> None:
    """For any rows and subscribers, who share subscriptions, come and go; for runs as a whole and in parts, snapshots
    that are too large, restarts, retention, and deaths at any write."""
    _check(tmp_path_factory.mktemp("snapshots"), steps, is_once=is_once, most_at_once=most_at_once)


def _off_by(commits: int) -> Any:
    true_border = snapshots.border

    def border(results: ResultStore, state: ChannelState) -> dict[str, int]:
        return {name: max(0, last + commits) for name, last in true_border(results, state).items()}

    return border


@pytest.mark.parametrize("commits", [-1, 1], ids=["a gap", "an overlap"])
def test_a_wrong_border_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """With the bug planted that a snapshot ends a commit before the first window begins, or after."""
    monkeypatch.setattr(snapshots, "border", _off_by(commits))

    @given(**_CASES)
    @settings(max_examples=60, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=_FIXTURES)
    def check(steps: list[tuple[str, Any]], is_once: bool, most_at_once: int) -> None:
        _check(tmp_path_factory.mktemp("snapshots"), steps, is_once=is_once, most_at_once=most_at_once)

    with pytest.raises(AssertionError):
        check()
