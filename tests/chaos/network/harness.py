"""One run: a whole network under load, its processes killed again and again, and every notification counted."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx

from chaos.network import nodes
from chaos.network.faults import Surroundings
from chaos.network.history import (
    History,
    Kind,
    Ownership,
    Violation,
    check,
    check_ownership,
    summary,
)
from chaos.network.mover import Mover
from chaos.network.nodes import Server, SubscriberProcess
from chaos.network.plans import BROKERS, CLIENT, CLUSTER, COORDINATOR, DESTINATION, SOURCE, How, Kill, Scale
from chaos.network.planted import BUGS, Where
from chaos.network.publishing import Publisher
from chaos.network.recording import replay
from chaos.network.report import Report
from chaos.network.workload import (
    PASSWORD,
    STATEMENTS,
    USERS,
    Author,
    last_of,
    permission_of,
    topics_of,
    user_name,
)
from chaos.process import ClusterProcess, Misbehaved, Target
from tocsin.client import ClusterClient, CoordinatorClient, ServerError

PUBLISHERS = 2
#: How long a patient kill waits until something is delivered again.
_PATIENT_FOR_S = 60.0
_SETTLE_WITHIN_S = 180.0


class Run:
    """Use `run()`."""

    def __init__(
        self,
        folder: Path,
        name: str,
        seed: str,
        scale: Scale,
        kills: Sequence[Kill],
        bug: str,
        cluster: ClusterProcess,
        *,
        is_guest: bool,
        surroundings: Surroundings | None = None,
    ) -> None:
        self.history = History()
        self.report = Report(seed, bug)
        self._name = name
        self._seed = seed
        self._scale = scale
        self._kills = kills
        self._folder = folder
        self._cluster = cluster
        self._is_guest = is_guest
        where = BUGS[bug].where if bug else None
        planted = ["chaos.network.planted", bug]
        tocsin = {one: planted if where is one else ["tocsin"] for one in Where}
        tocsin[Where.CLIENT] = [*planted, "subscribers"] if where is Where.CLIENT else ["chaos.network.subscribers"]
        self._modules = tocsin
        self._surroundings = surroundings
        if surroundings is None:
            self._coordinator = nodes.coordinator(folder, tocsin[Where.COORDINATOR])
            self._brokers = {
                name: nodes.broker(
                    self._known_as(name), folder, tocsin[Where.BROKER], cluster.url, self._coordinator.url
                )
                for name in BROKERS
            }
        else:
            # Away for longer than after a kill.
            self.history.grace_s += max((kill.down_s for kill in kills), default=0.0)
            self._coordinator, self._brokers = self._surround(surroundings)
        self._subscribers: list[SubscriberProcess] = []
        self._mover = Mover(self._coordinator.url, [one.name for one in self._brokers.values()], seed)
        self._publishers = [
            Publisher(
                self.history,
                cluster,
                Author(name, f"p{number}", seed),
                f"{seed}/publisher-{number}",
                scale.publish_every_s,
            )
            for number in range(PUBLISHERS)
        ]

    def _known_as(self, name: str) -> str:
        """What the cluster and the coordinator know a broker by."""
        return f"{self._name}-{name}"

    def _surround(self, surroundings: Surroundings) -> tuple[Server, dict[str, Server]]:
        """A coordinator and brokers that reach each other through links, with clocks that can be shifted."""
        coordinator = nodes.coordinator(self._folder, surroundings.module(COORDINATOR), surroundings.coordinator_port)
        brokers = {
            name: nodes.broker(
                self._known_as(name),
                self._folder,
                surroundings.module(name),
                to_cluster.url,
                to_coordinator.url,
                surroundings.broker_ports[name],
                from_subscribers.url,
            )
            for name, (to_cluster, to_coordinator, from_subscribers) in surroundings.links.items()
        }
        return coordinator, brokers

    def carry_out(self) -> None:
        self._set_up()
        for publisher in self._publishers:
            publisher.start()
        if self._scale.moves:
            self._mover.start()
        for number, kill in enumerate(self._kills, 1):
            self._kill(number, kill)
        if self._scale.moves:
            self._mover.stop()  # First: who is being emptied is not ready.
        self._rest()
        if self._scale.moves:
            self.report.moves = self._mover.moves()
        self._calm_down()

    def _servers(self) -> dict[str, Server]:
        return {COORDINATOR: self._coordinator, **self._brokers}

    def _set_up(self) -> None:
        self._say("starting")
        for server in self._servers().values():
            server.start()
        if not self._is_guest:
            prepare(self._cluster)
        for server in self._servers().values():
            server.wait_ready()
        tokens = {}
        with CoordinatorClient(self._coordinator.url) as client:
            for number in range(USERS):
                user = user_name(number)
                tokens[user] = client.register(user, PASSWORD, permission_of(number))["token"]
        count, processes = self._scale.subscribers, self._scale.processes
        # A tenth of them comes later, each in the place of one who goes for good.
        later = list(range(count, count + count // 10))
        for process in range(processes):
            config = {
                "run": self._name,
                "seed": self._seed,
                "coordinator": self._coordinator.url,
                "tokens": tokens,
                "first": list(range(count))[process::processes],
                "later": later[process::processes],
                "act_every_s": self._scale.act_every_s,
                "away_s": self._scale.away_s,
            }
            module = self._modules[Where.CLIENT]
            self._subscribers.append(SubscriberProcess(process, self._folder, module, config))
        if self._scale.mortals:
            first = count + len(later)
            # They do nothing but what they are made to: what they hold is the same in every life.
            mortal = {"first": list(range(first, first + self._scale.mortals)), "later": [], "act_every_s": 1e9}
            module = self._modules[Where.CLIENT]
            self._subscribers.append(SubscriberProcess(processes, self._folder, module, config | mortal))
            count += self._scale.mortals
        if not self._await(lambda: self._total("settled") >= 0.8 * count, "subscribing", _SETTLE_WITHIN_S):
            raise Misbehaved("the subscribers could not subscribe, with everything up")

    # Killing

    def _kill(self, number: int, kill: Kill) -> None:
        if kill.patient:
            before = self._total("got")
            self._await(lambda: self._total("got") > before, "a delivery", _PATIENT_FOR_S)
        time.sleep(kill.after_s)  # A random moment is not an event.
        if self._surroundings is not None:
            self._inflict(number, kill, self._surroundings)
            return
        targets = {self._which(target): target for target in kill.targets}
        for which, target in targets.items():
            try:
                which.kill()
            except Misbehaved as exc:
                self._notice(Kind.MISBEHAVED, f"at kill {number}: {exc}")
            self.report.kills[target] += 1
        done = f"{len(self.history.published)} records, {self._total('got')} notifications so far"
        self._say(f"kill {number} of {len(self._kills)}: {' and '.join(kill.targets)}; {done}")
        time.sleep(kill.down_s)
        for which in targets:
            which.start()
            if isinstance(which, _Driver) and not self._cluster.wait_ready():
                raise Misbehaved(f"the cluster was not ready in time: {self._cluster.last_words()}")

    def _inflict(self, number: int, fault: Kill, surroundings: Surroundings) -> None:
        try:
            done = surroundings.inflict(fault, {CLUSTER: self._cluster, **self._servers()})
        except Misbehaved as exc:
            self._notice(Kind.MISBEHAVED, f"at fault {number}: {exc}")
            done = f"{fault.how} failed"
        self.report.kills[fault.how] += 1
        self._say(f"fault {number} of {len(self._kills)}: {done}; {self._total('got')} notifications so far")

    def _which(self, target: str) -> Server | SubscriberProcess | _Driver:
        """Two that are one, such as a broker and the destination, are killed once."""
        if target == CLUSTER:
            return _Driver(self._cluster)
        if target == CLIENT:
            return self._subscribers[-1]
        if target in (SOURCE, DESTINATION):
            wanted = self._mover.source if target == SOURCE else self._mover.destination
            return next(one for one in self._brokers.values() if one.name == wanted)
        return self._servers()[target]

    def _rest(self) -> None:
        for server in self._servers().values():
            server.wait_ready()
        time.sleep(self._scale.rest_s)

    # The end

    def _calm_down(self) -> None:
        self._say("calming down")
        begin_s = time.monotonic()
        for process in self._subscribers:
            process.tell("calm")
        for publisher in self._publishers:
            publisher.stop()
        for publisher in self._publishers:
            publisher.join()
        self._await(lambda: self._total("settled") == self._total("subscribers"), "coming back", _SETTLE_WITHIN_S)
        author = Author(self._name, "last", self._seed)
        last = Publisher(self.history, self._cluster, author, f"{self._seed}/last", 1.0)
        last.deliver(f"{self._name}-last", [author.record(last_of(topic), topic) for topic in topics_of(self._name)])
        last.close()
        if self._await_last_records():
            self.report.calm_after_s = time.monotonic() - begin_s
        else:
            self._notice(Kind.NEVER_CALM, f"{self._total('missing')} subscriptions lack their topic's last record")
        self._check_ownership()
        for process in self._subscribers:
            process.finish()

    def _await_last_records(self) -> bool:
        """Whether everybody got them. As long as some more come, it is worth waiting."""
        while missing := self._total("missing"):
            has_moved = partial(self._has_fewer, missing)
            if not self._await(has_moved, "last records", self._scale.stall_s):
                return False
        return True

    def _has_fewer(self, missing: int) -> bool:
        return self._total("missing") < missing

    def _check_ownership(self) -> None:
        """Heartbeats tell the coordinator who is where; until they have, nothing is wrong yet."""
        deadline_s = time.monotonic() + self._scale.stall_s
        while (found := check_ownership(self._ownership())) and time.monotonic() < deadline_s:
            time.sleep(0.3)
        for violation in found:
            self._notice(*violation)

    def _ownership(self) -> Ownership:
        answers = [process.who() for process in self._subscribers]
        connected = {name: broker for answer in answers for name, broker in answer["who"].items()}
        with CoordinatorClient(self._coordinator.url) as client:
            owners = {one["subscriber"]: one["broker"] for one in client.subscribers()}
        sessions, held = {}, set()
        for broker in self._brokers.values():
            sessions[broker.name] = httpx.get(f"{broker.url}/v1/status").json()["sessions"]
            held |= _held(self._cluster.url, broker.name)
        self.report.backends = len(held)
        return Ownership(connected, owners, sessions)

    def finish(self) -> Report:
        """Check what happened and say it in figures."""
        report, history = self.report, self.history
        for process in self._subscribers:
            if process.history.exists():
                replay(process.history.read_text().splitlines(), history)
        report.violations = check(history)
        self._say(f"found {summary(report.violations) or 'nothing wrong'}")
        report.subscribers = len({one.subscriber for one in history.tenures})
        report.records_acknowledged = sum(one.is_acknowledged for one in history.published.values())
        report.records_unknown = len(history.published) - report.records_acknowledged
        report.tenures = len(history.tenures)
        report.lives = sum(len(one.lives) for one in history.tenures)
        report.notifications = sum(1 for one in history.tenures for _ in one.got())
        distinct = sum(len({got.position for got in one.got()}) for one in history.tenures)
        report.repeated_after_return = report.notifications - distinct
        wanted = {(one.channel, one.topic, one.permission) for one in history.tenures if one.lasts}
        report.backends_of_nobody = max(0, report.backends - len(wanted))
        return report

    def end(self) -> None:
        for publisher in self._publishers:
            publisher.stop()
            publisher.close()
        for process in self._subscribers:
            process.end()
        for server in self._servers().values():
            server.end()

    def leave_cluster(self) -> None:
        """Let go of everything there, for a run that comes after."""
        for broker in self._brokers.values() if self._is_guest and self._cluster.up.is_set() else ():
            httpx.delete(f"{self._cluster.url}/v1/brokers/{broker.name}", timeout=30)

    # Parts

    def _total(self, what: str) -> int:
        return sum(process.status.get(what, 0) for process in self._subscribers)

    def _await(self, condition: Callable[[], bool], what: str, within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            if condition():
                return True
            for process in self._subscribers:
                process.check_alive()
            time.sleep(0.1)  # They tell how they are getting on four times a second.
        self._say(f"waited {within_s:g} s for {what}: {[process.status for process in self._subscribers]}")
        return False

    def _notice(self, kind: Kind, what: str) -> None:
        self._say(f"{kind}: {what}")
        self.history.noticed.append(Violation(kind, what))

    def _say(self, what: str) -> None:
        print(f"chaos-network[{self.report.bug or 'real'}] {what}", file=sys.stderr, flush=True)


class _Driver:
    """The cluster's driver, as a process like any other."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster = cluster

    def kill(self) -> None:
        self._cluster.kill(Target.DRIVER)

    def start(self) -> None:
        self._cluster.start()


@contextmanager
def a_cluster(folder: Path, clock: Path | None = None) -> Iterator[ClusterProcess]:
    """A cluster that is starting. With `clock`, its clock is off by what that file says."""
    folder.mkdir(exist_ok=True)
    cluster = ClusterProcess(folder, clock=clock)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def prepare(cluster: ClusterProcess) -> None:
    """Returns when it is ready and has the channels of a run."""
    if not cluster.wait_ready():
        raise Misbehaved(f"the cluster was not ready in time: {cluster.last_words()}")
    with ClusterClient(cluster.url) as client:
        client.sql(STATEMENTS)


def run(
    seed: str,
    kills: Sequence[Kill],
    scale: Scale,
    bug: str = "",
    *,
    cluster: ClusterProcess | None = None,
    keep: Callable[[Report], bool] = lambda _: False,
) -> Report:
    """Carry out a run in a folder of its own, which is kept, and named, when `keep` says so of the report.

    `cluster` has been prepared, or the run has one of its own.
    """
    begin_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tocsin-chaos-network-"))
    is_kept = False
    try:
        with ExitStack() as stack:
            has_faults = any(kill.how is not How.KILL for kill in kills)
            clock = folder / f"{CLUSTER}.clock" if has_faults else None
            here = cluster or stack.enter_context(a_cluster(folder / CLUSTER, clock))
            surroundings = None
            if has_faults:
                surroundings = Surroundings(folder, seed, here.port)
                stack.callback(surroundings.close)
            # Of its own for each run at a cluster: topics, brokers and idempotency keys.
            name = folder.name.rpartition("-")[2]
            this = Run(
                folder,
                name,
                seed,
                scale,
                kills,
                bug,
                here,
                is_guest=cluster is not None,
                surroundings=surroundings,
            )
            try:
                this.carry_out()
            except (Misbehaved, httpx.TransportError, ServerError) as exc:
                this._notice(Kind.MISBEHAVED, f"{type(exc).__name__}: {exc}")
                this.history.is_complete = False
            finally:
                this.end()
                this.leave_cluster()
            report = this.finish()
        report.seconds = time.monotonic() - begin_s
        is_kept = keep(report)
        if is_kept:
            print(f"chaos: what is left of it is in {folder}", file=sys.stderr)
        return report
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _held(cluster_url: str, broker: str) -> set[int]:
    answer = httpx.get(f"{cluster_url}/v1/brokers/{broker}/subscriptions", params={"limit": 10_000}, timeout=30)
    return {one["id"] for one in answer.json()["subscriptions"]}
