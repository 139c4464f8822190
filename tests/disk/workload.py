"""A cluster without Spark, a coordinator's and a broker's store: a day of each in a few seconds, and what they must
keep.

`python -m disk.workload DATA_DIR LOG SEED STEPS [BUG]` does a random sequence of accepting, ingesting, running,
pulling, subscribing and upkeep on the real stores, and notes in the recording what anybody was told. `Town` is also
how a run is looked at after a cut.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos.substitution import substitute
from disk.recording import Op, Record, Witness
from tocsin.broker.core.instructions import StorePositions, StoreSession, StoreSubscription
from tocsin.broker.shell.store import SessionStore
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets import store
from tocsin.cluster.datasets.retention import CommitTimes, RetentionClock
from tocsin.cluster.datasets.store import LANDING_APP
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.reader import LandingReader
from tocsin.cluster.maintenance import Maintenance
from tocsin.cluster.results.store import only
from tocsin.coordinator.store.registry_store import Store, UserRecord
from tocsin.coordinator.store.tables import open_tables
from tocsin.model.catalogue import Dataset, DatasetKind, Feed, FeedSource
from tocsin.model.position import Position
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.durable_folders import make_folder
from tocsin.settings import ClusterSettings

CHANNEL, DATASET, BROKER = "Alerts", "Records", "b"
KINDS = 4
_SCHEMA = Schema((Column("id", ColumnType.BIGINT), Column("k", ColumnType.BIGINT)), ())
_FEED = Feed("records", DATASET, FeedSource.HTTP)
_EVERYTHING = 1_000_000


class Town:
    """All stores, opened as after a start."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.cluster = Cluster(ClusterSettings(data_dir=folder / "cluster", scratch_dir=str(scratch)))
        try:
            self._open(folder)
        except BaseException:
            self.cluster.stop()
            raise

    def _open(self, folder: Path) -> None:
        cluster = self.cluster
        if DATASET.lower() not in cluster.catalogue.datasets:
            dataset = Dataset(DATASET, DatasetKind.ACTIVE, _SCHEMA)
            cluster.store.create(dataset, cluster.intake.landing.end)
            cluster.catalogue.add_dataset(dataset)
        if cluster.results.bound(CHANNEL, DATASET) is None:
            cluster.results.set_bounds({(CHANNEL, DATASET): cluster.store[DATASET].sequence})
        cluster.registry.put_broker(BROKER)
        self.position = cluster.intake.landing.read_mark()
        self.maintenance = Maintenance(
            cluster.settings,
            cluster.clock,
            cluster.metrics,
            cluster.store,
            cluster.results,
            cluster.intake,
            CommitTimes(cluster._database),
            RetentionClock(cluster._database, cluster.clock.monotonic_s()),
            ingested_position=lambda: self.position,
            run_over=lambda _dataset: 0,
            once=cluster.catalogue.once,
            ids_of=cluster.registry.ids_of,
            own_retentions=cluster.catalogue.own_retentions,
        )
        make_folder(folder / "coordinator")
        self.coordinator = Store(open_tables(folder / "coordinator" / "coordinator.sqlite"), SystemClock())
        self.broker = SessionStore(folder / "broker")

    def close(self) -> None:
        self.cluster.stop()
        self.coordinator.close()
        self.broker.close()

    def accept(self, ids: Sequence[int]) -> None:
        lines = [json.dumps({"id": one, "k": one % KINDS}).encode() for one in ids]
        self.cluster.intake.accept(_FEED, DecodedBody(b"\n".join(lines), len(lines))).result()

    def ingest(self) -> None:
        """A micro-batch, as `Ingestion` takes one."""
        landing, stored = self.cluster.intake.landing, self.cluster.store[DATASET]
        frames = LandingReader(landing.directory).read_frames(self.position, None, 1 << 20)
        if not frames:
            return
        begin, end = stored.rows.transaction(LANDING_APP) or 0, frames[-1].end
        records = [
            json.loads(line) for frame in frames if frame.position >= begin for line in frame.body.splitlines() if line
        ]
        if records:
            rows = {name: pa.array([one[name] for one in records], pa.int64()) for name in ("id", "k")}
            stored.commit(pa.table(rows), {LANDING_APP: end})
        self.position = end
        self.cluster.intake.ingested(end)

    def run(self) -> None:
        """A run of a continuous channel: each new record to each subscription of its kind."""
        stored, results = self.cluster.store[DATASET], self.cluster.results
        through, bound = stored.sequence, results.bound(CHANNEL, DATASET) or 0
        if through <= bound:
            return
        by_kind: dict[int, list[int]] = {}
        for subscription, kind in self.subscriptions().items():
            by_kind.setdefault(kind, []).append(subscription)
        rows = stored.window(bound, through).to_pylist()
        found = [(subscription, row["id"]) for row in rows for subscription in by_kind.get(row["k"], ())]
        output = pa.table(
            {
                "subscription": pa.array([one for one, _ in found], pa.int64()),
                "payload": pa.array([json.dumps({"id": one}) for _, one in found], pa.string()),
            }
        )
        results.commit([(CHANNEL, output)], {(CHANNEL, DATASET): through}, self.cluster.clock.now_us())

    def pull(self, after: int, limit_rows: int = _EVERYTHING) -> tuple[list[tuple[int, int, int]], int]:
        """Results as (sequence, subscription, record) after a cursor, and the cursor they reach."""
        keep = only(list(self.subscriptions()))
        pulled = self.cluster.results.pull(after, limit_rows=limit_rows, keep=keep)
        rows = pulled.rows.to_pylist()
        return [
            (one["sequence"], one["subscription"], json.loads(one["payload"])["id"]) for one in rows
        ], pulled.through

    def subscribe(self, kind: int, mark: int) -> int:
        """A subscription that no other is equal to."""
        return self.cluster.registry.subscribe(BROKER, CHANNEL, [(kind, mark)]).ids[0]

    def subscriptions(self) -> dict[int, int]:
        """Id and kind of all there are."""
        return {one.id: int(one.values[0]) for one in self.cluster.registry.held_by(BROKER, limit=_EVERYTHING)}

    def records(self) -> list[int]:
        return [int(one) for one in self.cluster.store[DATASET].rows.read().column("id").to_pylist()]


@dataclass(slots=True)
class Told:
    """What anybody was told up to some moment."""

    records: set[int] = field(default_factory=set)
    results: dict[int, tuple[int, int]] = field(default_factory=dict)
    cursor: int = 0
    subscriptions: dict[int, int] = field(default_factory=dict)
    #: Records accepted after a subscription was told: each must give it a result.
    due: set[tuple[int, int]] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    positions: dict[str, int] = field(default_factory=dict)

    def hear(self, record: Record) -> None:
        if record.op is not Op.TOLD:
            return
        what = json.loads(record.data)
        match what["kind"]:
            case "records":
                self.records.update(what["ids"])
                self.due.update(
                    (one, number)
                    for one, kind in self.subscriptions.items()
                    for number in what["ids"]
                    if number % KINDS == kind
                )
            case "results":
                self.results.update({sequence: (one, number) for sequence, one, number in what["results"]})
                self.cursor = max(self.cursor, what["cursor"])
            case "subscription":
                self.subscriptions[what["id"]] = what["k"]
            case "user":
                self.users.add(what["name"])
            case "revoked":
                self.revoked.add(what["name"])
            case "position":
                self.positions[what["subscriber"]] = what["sequence"]


def violations(town: Town, heard: Told) -> Iterator[str]:
    """What was promised and is not so, after a start on what a cut has left."""
    landing = town.cluster.intake.landing
    while town.position < landing.end:
        town.ingest()
        town.run()
    town.run()
    records = town.records()
    if lost := heard.records - set(records):
        yield f"acknowledged records lost: {sorted(lost)[:5]}"
    if len(records) > len(set(records)):
        yield "a record is there twice"
    everything, _ = town.pull(0)
    by_sequence = {sequence: (one, number) for sequence, one, number in everything}
    for sequence, result in heard.results.items():
        if by_sequence.get(sequence) != result:
            yield f"sequence {sequence} was told as {result} and now is {by_sequence.get(sequence)}"
    fresh, _ = town.pull(heard.cursor)
    received = [*heard.results.values(), *((one, number) for _, one, number in fresh)]
    if len(received) > len(set(received)):
        yield "a broker that goes on at its cursor gets a result twice"
    if lost_results := heard.due - set(received):
        yield f"a broker that goes on at its cursor never gets {sorted(lost_results)[:5]}"
    yield from _numbers_used_again(town, heard)
    yield from _lost_at_coordinator(town, heard)
    for session in town.broker.sessions():
        for kept_one in session.subscriptions:
            if kept_one.position.sequence > heard.positions.get(session.subscriber, 0):
                yield f"{session.subscriber} is at {kept_one.position}, beyond what it acknowledged"


def _numbers_used_again(town: Town, heard: Told) -> Iterator[str]:
    kept = town.subscriptions()
    for one, kind in heard.subscriptions.items():
        if kept.get(one) != kind:
            yield f"subscription {one} was told as of kind {kind} and now is {kept.get(one)}"
    if (new := town.subscribe(0, -1)) in heard.subscriptions:
        yield f"the number {new} of a subscription was given out twice"


def _lost_at_coordinator(town: Town, heard: Told) -> Iterator[str]:
    for name in heard.users:
        user = town.coordinator.user(name)
        if user is None or user.password_hash != f"hash of {name}":
            yield f"user {name} is {user}"
    revoked, _ = town.coordinator.revocations(0, 1)
    if missing := heard.revoked - revoked.keys():
        yield f"tokens of {sorted(missing)[:3]} are valid again"


def note(witness: Witness, kind: str, **what: Any) -> None:
    """Somebody was told this; `Told` hears it."""
    witness.note(json.dumps({"kind": kind, **what}).encode())


class Day:
    """The steps of a recorded run."""

    def __init__(self, town: Town, witness: Witness, chance: random.Random) -> None:
        self._town = town
        self._witness = witness
        self._chance = chance
        self._ids = iter(range(1, _EVERYTHING))
        self._cursor = 0
        self._marks = iter(range(1, _EVERYTHING))

    def _note(self, kind: str, **what: Any) -> None:
        note(self._witness, kind, **what)

    def go(self, steps: int) -> None:
        weighted: list[tuple[Callable[[], None], int]] = [
            (self._accept, 20),
            (self._town.ingest, 20),
            (self._town.run, 15),
            (self._pull, 15),
            (self._subscribe, 4),
            (self._register, 4),
            (self._acknowledge, 6),
            (self._town.maintenance.release_log, 3),
            (self._town.cluster.results.flush, 2),
            (self._town.maintenance._compact, 1),
            (self._tidy, 1),
        ]
        self._subscribe()
        for step in self._chance.choices([one for one, _ in weighted], [weight for _, weight in weighted], k=steps):
            step()

    def fill_databases(self, rows: int) -> None:
        """So that much of what is in them says something: else most of a database are its declarations."""
        for _ in range(rows):
            self._register()
            self._subscribe()
            self._acknowledge()

    def _accept(self) -> None:
        ids = [next(self._ids) for _ in range(self._chance.randint(1, 6))]
        self._town.accept(ids)
        self._note("records", ids=ids)

    def _pull(self) -> None:
        results, self._cursor = self._town.pull(self._cursor, self._chance.choice((3, 50)))
        self._note("results", results=results, cursor=self._cursor)

    def _subscribe(self) -> None:
        kind = self._chance.randrange(KINDS)
        self._note("subscription", id=self._town.subscribe(kind, next(self._marks)), k=kind)

    def _register(self) -> None:
        name = f"user{next(self._marks)}"
        self._town.coordinator.add_user(UserRecord(name, f"hash of {name}", "", 1))
        self._note("user", name=name)
        if self._chance.random() < 0.5:
            self._town.coordinator.revoke(name, 1)
            self._note("revoked", name=name)

    def _acknowledge(self) -> None:
        subscriber, key = f"s{self._chance.randrange(100)}", SubscriptionKey(CHANNEL, "{}", "")
        sequence = next(self._marks)
        self._note("position", subscriber=subscriber, sequence=sequence)
        at = Position(1, sequence)
        self._town.broker.apply(
            [
                StoreSession(subscriber, 1),
                StoreSubscription(subscriber, key, at),
                StorePositions([(subscriber, key, at)]),
            ]
        )

    def _tidy(self) -> None:
        for table in self._town.maintenance._tables():
            table.tidy()


class _NoHurry:
    """Datasets are synced ahead of need, in the background. A slow disk may not have begun with it when the power goes,
    so nothing may depend on it."""

    def submit(self, _sync: Callable[[], None]) -> None:
        pass


def main() -> None:
    folder, log, seed, steps, *bug = sys.argv[1:]
    chance = random.Random(seed)
    is_slow = chance.random() < 0.5
    if bug or is_slow:
        substitute(store, "_syncing", _NoHurry())
    if bug:
        from disk.planted import CUT_BUGS

        CUT_BUGS[bug[0]].plant()
    town = Town(Path(folder), Path(log).parent / "scratch")
    Day(town, Witness(Path(log)), chance).go(int(steps))
    town.close()


if __name__ == "__main__":
    main()
