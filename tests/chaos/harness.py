"""One run: a cluster under load, killed again and again, and everything counted at the end."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from deltalake import DeltaTable

from chaos.history import (
    Kind,
    Outcome,
    Stored,
    Subscription,
    Violation,
    check,
    expected_results,
    summary,
)
from chaos.load import Publisher, SteadyBroker, pull
from chaos.process import ClusterProcess, Misbehaved, Target
from chaos.workload import (
    EVENTS,
    PEOPLE,
    STATEMENTS,
    WANTED,
    Author,
    last_wave,
    new_history,
    settled_members,
)
from tocsin.client import ClusterClient, ServerError

PUBLISHERS = 4
STEADY, AWAY = "steady", "away"
#: An aimed kill that finds no such moment strikes all the same after this long.
_AIM_WITHIN_S = 20.0
#: How long a patient kill waits for a result: on a busy machine the first batch after a start takes its time, and
#: a cluster that is always killed before it proves nothing.
_PATIENT_FOR_S = 60.0
_SETTLE_WITHIN_S = 60.0
_MAX_LISTED = 20
_MAX_RECEIPTS_ASKED = 300
#: The most one pull may ask for: the broker that was away takes everything in one go.
_EVERYTHING = 1_000_000


class Moment(StrEnum):
    """When a kill strikes."""

    ANY = "any"
    ACKNOWLEDGED = "acknowledged"
    STARTING = "starting"
    LANDING_WRITTEN = "landing written"
    MARK_WRITTEN = "mark written"
    ROWS_WRITTEN = "rows written"
    ROWS_COMMITTED = "rows committed"
    RESULTS_WRITTEN = "results written"
    RESULTS_COMMITTED = "results committed"


#: What changes on disk at a moment. Of a table's log the newest commit is watched, of other things the time of change.
_WATCHED = {
    Moment.LANDING_WRITTEN: "landing/durable",
    Moment.MARK_WRITTEN: "landing/mark",
    Moment.ROWS_WRITTEN: "datasets/events/rows",
    Moment.ROWS_COMMITTED: "datasets/events/rows/_delta_log",
    Moment.RESULTS_WRITTEN: "results",
    Moment.RESULTS_COMMITTED: "results/_delta_log",
}


_HOW_OFTEN = {Target.DRIVER: 65, Target.JAVA: 20, Target.ALL: 15}


@dataclass(frozen=True, slots=True)
class Kill:
    moment: Moment
    target: Target
    #: How long the cluster may work before the moment is waited for.
    after_s: float
    #: How long after the moment the kill comes.
    late_s: float
    #: Whether the cluster may first show that it works again: a new result, read over HTTP.
    patient: bool


@dataclass(slots=True)
class Report:
    seed: str
    bug: str
    kills: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    results_expected: int = 0
    results_found: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    recovery_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "bug": self.bug or None,
            "kills": sum(self.kills.values()),
            "kills_by_kind": dict(sorted(self.kills.items())),
            "records_acknowledged": self.outcomes[Outcome.OK],
            "records_unknown": self.outcomes[Outcome.UNKNOWN],
            "dead_letters": self.outcomes["dead letters"],
            "results_expected": self.results_expected,
            "results_found": self.results_found,
            "violations": len(self.violations),
            "violations_by_kind": summary(self.violations),
            "violations_listed": [f"{one.kind}: {one.what}" for one in first_of_each_kind(self.violations)],
            "recovery_s": {
                "p50": round(statistics.median(self.recovery_s), 2) if self.recovery_s else None,
                "max": round(max(self.recovery_s), 2) if self.recovery_s else None,
            },
            "seconds": round(self.seconds, 1),
        }


def first_of_each_kind(violations: Sequence[Violation], most: int = _MAX_LISTED) -> list[Violation]:
    """Some of each kind, so that a thousand of one don't hide the one of another."""
    kinds = Counter(one.kind for one in violations)
    each = max(1, most // max(1, len(kinds)))
    seen: Counter[Kind] = Counter()
    chosen = []
    for one in violations:
        seen[one.kind] += 1
        if seen[one.kind] <= each:
            chosen.append(one)
    return chosen[:most]


def plan_kills(
    seed: str, count: int, moments: Sequence[Moment] = tuple(Moment), targets: Sequence[Target] = tuple(Target)
) -> list[Kill]:
    """Every moment about as often as any other, in an order that the seed decides."""
    chance = random.Random(f"{seed}/kills")
    chosen: list[Moment] = []
    while len(chosen) < count:
        chosen += chance.sample(list(moments), len(moments))
    hits = chance.choices(targets, [_HOW_OFTEN[target] for target in targets], k=count)
    return [
        Kill(
            moment,
            target,
            after_s=chance.uniform(0.3, 3.0),
            late_s=chance.choice((0.0, 0.0, chance.uniform(0.0, 0.04))),
            patient=chance.random() < 0.6,
        )
        for moment, target in zip(chosen[:count], hits, strict=True)
    ]


class Run:
    """Use `run()`."""

    def __init__(self, folder: Path, seed: str, kills: Sequence[Kill], bug: str) -> None:
        self.history = new_history()
        self.report = Report(seed, bug)
        self.cluster = ClusterProcess(folder, bug)
        self._seed = seed
        self._kills = kills
        self._acknowledged = threading.Event()
        self._publishers = [
            Publisher(self.history, self.cluster, Author(f"p{number}", seed), self._acknowledged.set)
            for number in range(PUBLISHERS)
        ]
        self._cursors: dict[str, int] = {}

    _steady: SteadyBroker

    def carry_out(self) -> None:
        self._set_up()
        self._steady = SteadyBroker(self.history, self.cluster, STEADY, self._cursors[STEADY])
        self._steady.start()
        for publisher in self._publishers:
            publisher.start()
        for number, kill in enumerate(self._kills, 1):
            self._kill(number, kill)
            self.cluster.start()
            following = self._kills[number] if number < len(self._kills) else None
            if following is None or following.moment is not Moment.STARTING:
                self._wait_ready()
        self._calm_down()
        self._read_tables()

    def _set_up(self) -> None:
        self._say("starting")
        self.cluster.start()
        self._wait_ready()
        self.cluster.recovery_s.clear()  # That was no recovery.
        with ClusterClient(self.cluster.url) as client:
            client.sql(STATEMENTS)
            self._publishers[0].deliver(settled_members(), keyed=True, wait_commit=True)
            for broker in (STEADY, AWAY):
                self._cursors[broker] = client.register_broker(broker)
                for one in client.subscribe(broker, WANTED):
                    epoch = int(one["position"].split("-")[0])
                    held = Subscription(one["id"], one["channel"], one["parameters"], epoch)
                    if self.history.subscriptions.setdefault(held.id, held) != held:
                        self._notice(Kind.MIXED_EPOCHS, f"{AWAY} was given {held} for what {STEADY} holds")

    # Killing

    def _kill(self, number: int, kill: Kill) -> None:
        moment = kill.moment
        try:
            if moment is Moment.STARTING and number > 1:
                # Anywhere from the first breath to the moment when all is ready.
                usual_s = statistics.median(self.cluster.recovery_s or [10.0])
                self.cluster.wait_ready(kill.after_s / 3.0 * usual_s)
            else:
                if kill.patient:
                    self._steady.arrived.clear()
                    self._steady.arrived.wait(_PATIENT_FOR_S)
                time.sleep(kill.after_s)  # A random moment is not an event.
                moment = self._await_moment(moment)
                time.sleep(kill.late_s)
            target = self.cluster.kill(kill.target)
        except Misbehaved as exc:
            self._notice(Kind.MISBEHAVED_PROCESS, f"at kill {number} ({moment}, {kill.target}): {exc}")
            target = kill.target
        self.report.kills[f"{moment}, {target}"] += 1
        done = f"{len(self.history.sets)} requests, {len(self.history.readers[STEADY])} results so far"
        self._say(f"kill {number} of {len(self._kills)}: {moment}, {target}; {done}")

    def _await_moment(self, moment: Moment) -> Moment:
        """Wait for the moment; one that does not come in time is any moment."""
        if moment is Moment.ACKNOWLEDGED:
            self._acknowledged.clear()
            return moment if self._acknowledged.wait(_AIM_WITHIN_S) else Moment.ANY
        if moment not in _WATCHED:
            return Moment.ANY
        watched = self.cluster.data_dir / _WATCHED[moment]
        before, deadline_s = _look_of(watched), time.monotonic() + _AIM_WITHIN_S
        while time.monotonic() < deadline_s:
            if _look_of(watched) != before:
                return moment
            time.sleep(0.0005)
        return Moment.ANY

    def _wait_ready(self) -> None:
        try:
            if self.cluster.wait_ready():
                return
            self._notice(Kind.MISBEHAVED_PROCESS, f"not ready in time: {self.cluster.last_words()}")
        except Misbehaved as exc:
            self._notice(Kind.MISBEHAVED_PROCESS, str(exc))
        # Once more: a run that goes on finds more than one that gives up.
        self.cluster.end()
        self.cluster.start()
        if not self.cluster.wait_ready():
            raise Misbehaved(f"not ready a second time: {self.cluster.last_words()}")

    # The end

    def _calm_down(self) -> None:
        self._say("calming down")
        for publisher in self._publishers:
            publisher.stop()
        for publisher in self._publishers:
            publisher.join()
        with ClusterClient(self.cluster.url) as client:
            self.history.calm_since = self._settle(client)
            author = Publisher(self.history, self.cluster, Author("calm", self._seed), lambda: None)
            wave = last_wave(self._seed)
            for one in wave:
                author.deliver(one, keyed=True, wait_commit=True)
            self.history.last_wave = frozenset(record["id"] for one in wave for record in one.records)
            self._settle(client)
            self._steady.finish()
            everything, _ = pull(client, AWAY, self._cursors[AWAY], limit=_EVERYTHING)
            self.history.readers = {AWAY: everything, **self.history.readers}
            for publisher in (*self._publishers, author):
                publisher.ask_everything(_MAX_RECEIPTS_ASKED)
        self.cluster.stop()
        self.cluster.check_nothing_left()

    def _settle(self, client: ClusterClient) -> int:
        """Wait until everything published is in tables and every channel has run over it; the highest sequence of
        results then."""
        hopeless = any(one.kind is Kind.STOPPED_CHANNEL for one in self.history.noticed)
        within_s = 5.0 if hopeless else _SETTLE_WITHIN_S
        deadline_s = time.monotonic() + within_s
        lagging = "it does not answer"
        while time.monotonic() < deadline_s:
            try:
                status = client.status()
            except (httpx.TransportError, ServerError):
                status = {"state": "gone"}
                if (code := self.cluster.process.poll()) is not None:
                    self._notice(Kind.MISBEHAVED_PROCESS, f"exited with {code} in calm: {self.cluster.last_words()}")
                    self.cluster.start()
                    self._wait_ready()
            if status["state"] == "ready":
                lags = {one["name"]: one["window_lag_commits"] for one in status["channels"]}
                lagging = f"{status['landing']['pending_bytes']} bytes wait, and commits: {lags}"
                if not status["landing"]["pending_bytes"] and not any(lags.values()):
                    return int(status["results"]["last_sequence"])
            time.sleep(0.1)
        self._notice(Kind.STOPPED_CHANNEL, f"after {within_s:g} s of calm, {lagging}")
        return int(status.get("results", {}).get("last_sequence", 0))

    def _read_tables(self) -> None:
        folder = self.cluster.data_dir / "datasets"
        for dataset in (EVENTS, PEOPLE):
            rows = _read(folder / dataset.lower() / "rows").sort_by("_seq").drop_columns(["_seq"])
            letters = _read(folder / dataset.lower() / "dead_letters")
            self.history.stored[dataset] = Stored(rows.to_pylist(), letters.column("raw").to_pylist())

    def finish(self) -> Report:
        """Check what happened and say it in figures."""
        report, history = self.report, self.history
        report.recovery_s = list(self.cluster.recovery_s)
        if EVENTS not in history.stored:
            report.violations = list(history.noticed)
            return report
        outcomes = history.outcomes()
        for one in history.sets.values():
            report.outcomes[outcomes[one.name]] += len(one.records)
        report.outcomes["dead letters"] = len(history.stored[EVENTS].dead_letters)
        report.violations = check(history)
        self._say(f"found {summary(report.violations) or 'nothing wrong'}")
        report.results_expected = sum(counts.total() for counts in expected_results(history).values())
        report.results_found = {
            name: sum(len(history.channels[one.channel].records_of(one.payload)) for one in results)
            for name, results in history.readers.items()
        }
        return report

    def _notice(self, kind: Kind, what: str) -> None:
        self._say(f"{kind}: {what}")
        self.history.noticed.append(Violation(kind, what))

    def _say(self, what: str) -> None:
        print(f"chaos[{self.report.bug or 'real'}] {what}", file=sys.stderr, flush=True)


def run(seed: str, kills: Sequence[Kill], bug: str = "", keep: Callable[[Report], bool] | None = None) -> Report:
    """Carry out a run in a folder of its own, which is kept, and named, when `keep` says so of the report."""
    begin_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tocsin-chaos-"))
    this = Run(folder, seed, kills, bug)
    try:
        try:
            this.carry_out()
        except (Misbehaved, httpx.TransportError, ServerError) as exc:
            this._notice(Kind.MISBEHAVED_PROCESS, f"{type(exc).__name__}: {exc}")
        finally:
            for publisher in this._publishers:
                publisher.stop()
            this.cluster.end()
        report = this.finish()
        report.seconds = time.monotonic() - begin_s
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if keep is not None and keep(report):
        print(f"chaos: what is left of it is in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _look_of(path: Path) -> int | str:
    try:
        if path.name == "_delta_log":
            with os.scandir(
                path
            ) as entries:  # Quicker than Path.iterdir, and this is asked two thousand times a second.
                return max(
                    (one.name for one in entries if one.name.endswith(".json") and one.name[0] == "0"), default=""
                )
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _read(path: Path) -> pa.Table:
    return pa.table(DeltaTable(str(path)).to_pyarrow_table())
